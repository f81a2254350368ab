/* nccl.conf as NCCL reads it: lines NAME=VALUE, '#' first makes a comment, no quotes, no blanks
 * cut; a name that is set already stays as it is. */
#ifndef MUSTER_DOCTOR_RULES_CONF_FILE_H
#define MUSTER_DOCTOR_RULES_CONF_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { MUSTER_CONF_LINES = 128 };

struct muster_conf {
    struct {
        char name[128], value[256];
        unsigned line;
    } at[MUSTER_CONF_LINES];
    int n;
    int dropped; /* lines beyond the table */
};

/* Parses text; cannot fail. */
void muster_conf_parse(struct muster_conf *conf, const char *text, size_t size);

/* The files that NCCL reads, in its order: NCCL_CONF_FILE instead of ~/.nccl.conf, then
 * /etc/nccl.conf below `root`. Returns how many `path` has. */
enum { MUSTER_CONF_FILES = 2, MUSTER_CONF_PATH = 4096 };
int muster_conf_paths(const char *root, char path[MUSTER_CONF_FILES][MUSTER_CONF_PATH]);

/* Parses a file's first 64 KiB. false: it cannot be read or is empty, and conf has no lines. */
bool muster_conf_load(struct muster_conf *conf, const char *path);

#endif
