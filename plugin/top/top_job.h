/* One job of this host as `muster top` follows it, and what is filled from it. Between top_host.c
 * and top_fill.c only. */
#ifndef MUSTER_TOP_TOP_JOB_H
#define MUSTER_TOP_TOP_JOB_H

#include "base/arena.h"
#include "top/top_process.h"

enum { MUSTER_TOP_FINDINGS = 32 };

struct muster_top_job {
    struct muster_agent_job *evaluator;
    struct muster_seg_identity who; /* of its first process */
    uint32_t uid;
    struct muster_top_process *process;
    size_t processes;
    size_t next_rows; /* whose sums come next */
    size_t alive;
    uint64_t looked_ns; /* the last look that found any */
};

/* Memory of what was filled last. */
struct muster_top_filled {
    struct muster_arena memory;
    struct muster_top_rank *rank;
    struct muster_top_comm *comm;
    struct muster_top_class *class;
    struct muster_finding finding[MUSTER_TOP_FINDINGS];
};

/* Everything of the job into a zeroed *top, with pointers into *filled, whose older contents end.
 * Without memory for all there is less. */
void muster_top_fill(const struct muster_top_job *job, struct muster_top_filled *filled,
                     struct muster_top *top);
void muster_top_filled_free(struct muster_top_filled *filled);

#endif
