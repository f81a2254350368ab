/*
 * Whether GPUs of this host really reach each other. A pair can pass every query and still hang or
 * lose data (the window of a peer may lead to a private mirror), and reading back on the writer's
 * side proves nothing: so a GPU writes through the window, and the owner of the memory looks. With
 * the copy engine and with a kernel, each pair in both directions, in a process that is killed when
 * it hangs. Plain allocations only; no multicast object is ever made.
 */
#ifndef MUSTER_DOCTOR_P2P_H
#define MUSTER_DOCTOR_P2P_H

#include <stdint.h>

#include "base/err.h"

enum { MUSTER_P2P_GPUS = 16 };

enum muster_p2p_stage {
    MUSTER_P2P_BEGIN,  /* written before a pair is touched: what hangs can be named */
    MUSTER_P2P_KERNEL, /* the kernel's write is under way */
    MUSTER_P2P_COPY,   /* the copy engine's */
    MUSTER_P2P_DONE,
};

/* One ordered pair, by CUDA's numbers. Written to the parent once a stage, as far as known. */
struct muster_p2p_result {
    int32_t from, to;
    int32_t stage;
    int32_t access;                     /* the driver grants peer access */
    int32_t kernel_tested, copy_tested; /* the owner has looked; a kernel's only with access */
    uint32_t kernel_wrong, copy_wrong;  /* words that the owner found wrong, of `words` */
    uint32_t words;
    double kernel_gbs, copy_gbs; /* 10^9 bytes a second; 0: not measured */
    int32_t failed_stage;
    char failed[128]; /* a call that failed, in failed_stage; "" */
    char from_pci[20], to_pci[20];
};

struct muster_p2p_matrix {
    int gpus;
    struct muster_p2p_result pair[MUSTER_P2P_GPUS][MUSTER_P2P_GPUS]; /* [from][to] */
    int hung;     /* pairs whose process crashed or had to be killed: stage is where */
    int untested; /* pairs left out after too many hangs, or for want of time */
};

struct muster_p2p_limits {
    unsigned deadline_ms; /* for all of it */
    unsigned stage_ms;    /* for a write and its verification: a pair that takes longer hangs */
    uint32_t words;       /* of four bytes, that are written and looked at */
};

/* All pairs. err: no driver, fewer than two GPUs, or nothing could be tested. */
int muster_p2p_test(const struct muster_p2p_limits *limits, struct muster_p2p_matrix *matrix,
                    struct muster_err *err);

#endif
