/* One subcommand of `muster`: what the dispatch table, --help, `muster help` and main know of it.
 */
#ifndef MUSTER_CLI_CMD_H
#define MUSTER_CLI_CMD_H

#include <stdbool.h>

#include "cli/opt.h"
#include "config/settings.h"

/* Exit statuses of the command itself. */
enum {
    MUSTER_STATUS_OK = 0,
    MUSTER_STATUS_FINDING = 1, /* the answer is bad news */
    MUSTER_STATUS_USAGE = 2,   /* called wrongly, or input or output failed */
};

struct muster_cmd {
    const char *name;
    const char *summary;              /* one line, lower case, no full stop */
    const char *usage;                /* what follows the name: "[RUN...] [options]" */
    const char *about;                /* text below the options, lines ending in \n; may be NULL */
    const char *examples;             /* lines of "  command  # comment"; NULL: none */
    const struct muster_opt *options; /* ended by a NULL name; may be NULL */
    bool stop_at_operand; /* options after the first operand belong to that operand (run, env) */
    const struct muster_cmd *const *subs; /* its own commands, named "COMMAND WORD", ended by NULL;
                                             may be NULL. Then `run` is muster_cmd_run_sub */
    /* argv[0] is the command's name. Returns the exit status. Results go to stdout, which main
     * flushes and checks; all else to stderr as "muster NAME: text". */
    int (*run)(const struct muster_cmd *self, int argc, char **argv);
};

extern const struct muster_cmd muster_cmd_run;
extern const struct muster_cmd muster_cmd_replay;
extern const struct muster_cmd muster_cmd_demo;
extern const struct muster_cmd muster_cmd_report;
extern const struct muster_cmd muster_cmd_diagnose;
extern const struct muster_cmd muster_cmd_top;
extern const struct muster_cmd muster_cmd_compare;
extern const struct muster_cmd muster_cmd_topo;
extern const struct muster_cmd muster_cmd_policy;
extern const struct muster_cmd muster_cmd_tune;
extern const struct muster_cmd muster_cmd_doctor;
extern const struct muster_cmd muster_cmd_agent;
extern const struct muster_cmd muster_cmd_fleet;
extern const struct muster_cmd muster_cmd_env;
extern const struct muster_cmd muster_cmd_version;
extern const struct muster_cmd muster_cmd_help;

/* All commands in the order of `muster help`, ended by NULL. */
extern const struct muster_cmd *const muster_commands[];

/* NULL if there is none of this name. */
const struct muster_cmd *muster_cmd_find(const char *name);
/* Runs the one of self->subs that argv[1] names. */
int muster_cmd_run_sub(const struct muster_cmd *self, int argc, char **argv);
/* The word that a command is called by: "check" of "policy check". */
const char *muster_cmd_name(const struct muster_cmd *cmd);
/* The user's settings; what is wrong with them is printed on stderr, and the defaults are taken. */
void muster_cmd_settings(const struct muster_cmd *self, struct muster_settings *settings);
/* "muster: unknown command X, did you mean Y?" on stderr. Returns MUSTER_STATUS_USAGE. */
int muster_cmd_unknown(const char *name);

#endif
