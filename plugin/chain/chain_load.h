/* The other profiler's tables, by interface version. Set-up only. */
#ifndef MUSTER_CHAIN_CHAIN_LOAD_H
#define MUSTER_CHAIN_CHAIN_LOAD_H

#include "base/err.h"
#include "nccl/profiler_abi.h"

/* One table; its functions but init are alike in all versions. */
struct muster_chain_table {
    unsigned api; /* 0: none */
    union {
        const void *any;
        const struct nccl_profiler_v1 *v1; /* to v3 */
        const struct nccl_profiler_v4 *v4;
        const struct nccl_profiler_v5 *v5; /* to v7 */
    };
};

struct muster_chain_library {
    void *handle;                                          /* never closed */
    struct muster_chain_table newest[NCCL_NEWEST_API + 1]; /* for each NCCL: its own or the next
                                                            * lower one */
};

/* Looks for `name` as NCCL does: as it is, then as libnccl-profiler-NAME.so; STATIC_PLUGIN is the
 * program itself. -1: no such library, no table in it, or it is muster's own. */
int muster_chain_load(struct muster_chain_library *library, const char *name,
                      struct muster_err *err);

#endif
