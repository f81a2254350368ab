/* nccl.conf as NCCL reads it: lines NAME=VALUE, '#' first makes a comment, no quotes, no blanks
 * cut; a name that is set already stays as it is. */
#ifndef MUSTER_DOCTOR_RULES_CONF_FILE_H
#define MUSTER_DOCTOR_RULES_CONF_FILE_H

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

#endif
