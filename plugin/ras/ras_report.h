/*
 * What NCCL's own RAS service reports of a job's communicators, read from its JSON: a second
 * witness to findings about hangs, never one alone. It counts what was launched and does not see
 * what has ended. Anybody's bytes: everything is bounded, and refused whole with line and column.
 */
#ifndef MUSTER_RAS_RAS_REPORT_H
#define MUSTER_RAS_RAS_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "diagnose/finding.h"

enum { MUSTER_RAS_FUNCS = 5 }; /* Broadcast, Reduce, AllGather, ReduceScatter, AllReduce */

struct muster_ras_rank {
    int32_t rank; /* in the communicator */
    int64_t pid;
    char host[64];
    enum { MUSTER_RAS_ANSWERS, MUSTER_RAS_SILENT, MUSTER_RAS_DEAD } state;
    int64_t error; /* NCCL's asynchronous one; 0: none */
    uint64_t launched[MUSTER_RAS_FUNCS];
};

struct muster_ras_comm {
    uint64_t hash; /* as segments name it */
    struct muster_ras_rank *rank;
    size_t ranks;
};

struct muster_ras_report {
    struct muster_arena memory;
    struct muster_ras_comm *comm;
    size_t comms;
};

/* `name`: of whoever answered, stands in errors. Free it either way. */
int muster_ras_read(const char *name, const char *text, size_t bytes,
                    struct muster_ras_report *report, struct muster_err *err);
void muster_ras_free(struct muster_ras_report *report);

/* What it reports of a communicator, in ranks of that. */
void muster_ras_describe(const struct muster_ras_report *report, uint64_t comm,
                         struct muster_finding_lines *to);

#endif
