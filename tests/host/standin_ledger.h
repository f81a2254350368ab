/*
 * What the stand-in issued, summed as a user would expect to read it: the truth that a recording
 * is compared with. Lives in memory shared between the test and the process it drives.
 */
#ifndef MUSTER_TESTS_HOST_STANDIN_LEDGER_H
#define MUSTER_TESTS_HOST_STANDIN_LEDGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/nccl_types.h"

enum { STANDIN_LEDGER_ENTRIES = 2048 };

struct standin_ledger_entry {
    uint64_t comm;
    int rank;
    int peer; /* -1 for collectives */
    uint8_t func, algo, proto, size_log2;
    uint64_t count, bytes, graph, api_only, host_timed;
    uint64_t timed, sum_ns, min_ns, max_ns; /* by the GPU's clock */
};

struct standin_ledger {
    pthread_mutex_t lock;
    unsigned entries;
    struct standin_ledger_entry entry[STANDIN_LEDGER_ENTRIES];
    uint64_t note[16]; /* what a scenario wants to tell its test */
};

/* Finds or makes the entry of this class and adds one operation; `add` holds what to add. */
void standin_ledger_add(struct standin_ledger *ledger, const struct standin_ledger_entry *add);
uint64_t standin_ledger_count(const struct standin_ledger *ledger);
uint64_t standin_ledger_timed(const struct standin_ledger *ledger);

#endif
