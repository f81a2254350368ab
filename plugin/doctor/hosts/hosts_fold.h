/*
 * Failing pairs reported in few words: a subnet, a host, two subnets, and what is left one by one.
 * Each failing pair is in one of them. Pure.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_FOLD_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct muster_fold_input {
    unsigned n;
    const char *const *name;   /* of each host */
    const char *const *subnet; /* of each host; "" where unknown */
    const char *bad;           /* n x n, from a row to a column: enum muster_fold_pair */
};

/* What is unknown contradicts no sentence, and makes none. */
enum muster_fold_pair { MUSTER_FOLD_GOOD, MUSTER_FOLD_BAD, MUSTER_FOLD_UNKNOWN };

struct muster_fold {
    const char *text;  /* "host node3, both ways", "from subnet 10.1.0.0/16 to host node9" */
    size_t pairs;      /* directed ones */
    unsigned from, to; /* one of them */
};

/* Into the arena, most pairs first. */
size_t muster_hosts_fold(const struct muster_fold_input *input, struct muster_arena *arena,
                         const struct muster_fold **folds);

#endif
