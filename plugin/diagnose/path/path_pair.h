/* Two GPUs of one host: what joins them, and what keeps NCCL from using it. Between path*.c only.
 */
#ifndef MUSTER_DIAGNOSE_PATH_PATH_PAIR_H
#define MUSTER_DIAGNOSE_PATH_PATH_PAIR_H

#include "diagnose/finding.h"
#include "view/view.h"

enum muster_path_why {
    MUSTER_PATH_USED,        /* nothing is known to keep it from being used */
    MUSTER_PATH_DISABLED,    /* NCCL_P2P_DISABLE */
    MUSTER_PATH_LEVEL,       /* NCCL_P2P_LEVEL */
    MUSTER_PATH_REFUSED,     /* the driver */
    MUSTER_PATH_UNEXPLAINED, /* yet the network carries it */
};

struct muster_path_pair {
    const struct muster_view_gpu *a, *b;
    const struct muster_fact_peer *peer; /* b, as seen from a */
    bool expected;                       /* NCCL would use it unless set otherwise */
    enum muster_path_why why;
    const struct muster_view_gpu *by; /* whose environment sets that; NULL: nobody's */
};

/* False: the facts do not know the one from the other. */
bool muster_path_pair(const struct muster_view_gpu *a, const struct muster_view_gpu *b,
                      struct muster_path_pair *pair);

/* The value of a variable in the GPU's process; NULL: not set, or not known. */
const char *muster_path_variable(const struct muster_view_gpu *gpu, enum muster_fact_var variable);
/* Whether NCCL_P2P_DISABLE of this process turns peer access off. */
bool muster_path_disabled(const struct muster_view_gpu *gpu);

/* What joins the two: "18 NVLinks of 26.6 GB/s, 478 GB/s in each direction". */
void muster_path_pair_format(const struct muster_path_pair *pair, char *text, size_t size);

/* What large collectives of a communicator reached: bus bandwidth, in 10^9 bytes a second. */
struct muster_path_reached {
    uint64_t ops;
    double mean_gbs, best_gbs;
    uint64_t largest; /* bytes */
};
/* ops is 0 where they cannot be known: not all ranks in view, nothing timed, an arena that failed.
 */
struct muster_path_reached muster_path_measure(const struct muster_view *view, uint32_t comm,
                                               uint64_t min_bytes, struct muster_arena *memory);

#endif
