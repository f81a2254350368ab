/*
 * NCCL's cost table of one operation as text, for `muster policy explain --table`: a line for each
 * entry that is offered, "ALGO PROTO COST"; words as in a policy, '#' begins a comment. COST is
 * microseconds, or LATENCY/BANDWIDTH in microseconds and GB/s as NCCL_DEBUG_SUBSYS=TUNING prints
 * them, from which latency + bytes / bandwidth is made. What is missing, below 0, nan or 0/0 is not
 * offered.
 */
#ifndef MUSTER_POLICY_OFFLINE_COST_FILE_H
#define MUSTER_POLICY_OFFLINE_COST_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/policy.h"

enum {
    MUSTER_COST_ENTRIES = MUSTER_POLICY_ALGOS * MUSTER_POLICY_PROTOS,
    MUSTER_COST_FILE_BYTES = 64 << 10,
};

/* Parses text; `name` stands in errors, `bytes` is the operation's size. cost[a * protos + p] as in
 * struct muster_cost_table, -1 where nothing is offered. */
int muster_cost_file_parse(float cost[MUSTER_COST_ENTRIES], const char *name, const char *text,
                           size_t size, uint64_t bytes, struct muster_err *err);
/* The same from a file. */
int muster_cost_file_read(float cost[MUSTER_COST_ENTRIES], const char *path, uint64_t bytes,
                          struct muster_err *err);

#endif
