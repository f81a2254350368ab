/*
 * Typed option tables over getopt_long: one table parses the call and prints its --help, and is
 * all that a man page or a completion needs.
 */
#ifndef MUSTER_CLI_OPT_H
#define MUSTER_CLI_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct muster_cmd;

enum muster_opt_type {
    MUSTER_OPT_FLAG,   /* bool */
    MUSTER_OPT_TEXT,   /* const char *, into argv */
    MUSTER_OPT_CHOICE, /* int: index into `choices` */
    MUSTER_OPT_U64,    /* uint64_t within [min, max] */
    MUSTER_OPT_SIZE,   /* uint64_t bytes: "256MiB" */
};

struct muster_opt {
    const char *name; /* long name without dashes */
    char letter;      /* 0: no short form */
    enum muster_opt_type type;
    size_t offset;              /* of the value in the command's struct of options */
    const char *value;          /* its name in --help; NULL for flags */
    const char *const *choices; /* MUSTER_OPT_CHOICE: ended by NULL */
    uint64_t min, max;          /* MUSTER_OPT_U64; max 0: no upper limit */
    const char *help;           /* lower case, no full stop; default included */
    const char *also;           /* an older long name, understood and not shown; NULL: none */
};

/* Parses argv into *values, which holds the defaults; options that are not given stay untouched.
 * Operands are moved behind the options (unless cmd->stop_at_operand) and the index of the first
 * is returned. -1: nothing more to do, *status is the exit status: --help went to stdout (0), or
 * the error and how to get help to stderr (2). -h and --help are in every table. */
int muster_opt_parse(const struct muster_cmd *cmd, int argc, char **argv, void *values,
                     int *status);

/* The same for a command without operands; false: nothing more to do. */
bool muster_opt_parse_all(const struct muster_cmd *cmd, int argc, char **argv, void *values,
                          int *status);

/* The same for a command that takes one operand, a `what`: anything else is wrong. */
int muster_opt_parse_one(const struct muster_cmd *cmd, int argc, char **argv, void *values,
                         const char *what, int *status);

/* "muster NAME: text" and where help is, on stderr; returns MUSTER_STATUS_USAGE. */
__attribute__((format(printf, 2, 3))) int muster_opt_wrong(const struct muster_cmd *cmd,
                                                           const char *fmt, ...);

/* A call as it was typed, for people to read: "muster report run-7 --html x.html". */
void muster_opt_describe(int argc, char **argv, char *to, size_t size);

/* The help of a command. */
void muster_opt_help(const struct muster_cmd *cmd, FILE *out);

#endif
