/* What the programs that score findings are asked. */
#ifndef MUSTER_BENCH_ACCURACY_ACCURACY_OPTIONS_H
#define MUSTER_BENCH_ACCURACY_ACCURACY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    const char *models;            /* file */
    uint64_t from, to, cases;      /* seeds, and cases of each; set before: the defaults */
    bool large, explain, evidence; /* many ranks; print what was wrong; print what backs findings */
    bool reach;                    /* fail where the goal is not reached */
};

/* `allowed`: names of options, separated by spaces; one that is not among them is an error, as is
 * --models left out where it is allowed. -1: a wrong call. */
int options_parse(int argc, char **argv, const char *allowed, struct options *options);

#endif
