/*
 * Known bugs of NCCL: which versions, where, what happens, what helps, and where that stands. A
 * table, and the question which of its rows hold on a host. Pure.
 */
#ifndef MUSTER_DOCTOR_RULES_KNOWN_NCCL_H
#define MUSTER_DOCTOR_RULES_KNOWN_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a bug needs, one bit each. An enumerator has but 31: these are macros. */
#define MUSTER_NCCL_ON_ARM           (UINT64_C(1) << 0)
#define MUSTER_NCCL_ON_HOPPER        (UINT64_C(1) << 1) /* compute capability 9 */
#define MUSTER_NCCL_ON_RTX50         (UINT64_C(1) << 2) /* 12 */
#define MUSTER_NCCL_BEFORE_BLACKWELL (UINT64_C(1) << 3) /* below 10 */
#define MUSTER_NCCL_ON_VOLTA         (UINT64_C(1) << 4) /* 7.0 */
#define MUSTER_NCCL_TWO_GPUS         (UINT64_C(1) << 5)
#define MUSTER_NCCL_NVSWITCH         (UINT64_C(1) << 6)
#define MUSTER_NCCL_NO_NVSWITCH      (UINT64_C(1) << 7) /* NVLinks from GPU to GPU */
#define MUSTER_NCCL_LINKS_DOWN       (UINT64_C(1) << 8) /* some NVLinks are down */
#define MUSTER_NCCL_RDMA             (UINT64_C(1) << 9)
#define MUSTER_NCCL_ROCE             (UINT64_C(1) << 10)
#define MUSTER_NCCL_NO_GID_INDEX     (UINT64_C(1) << 11) /* NCCL_IB_GID_INDEX is not set */
#define MUSTER_NCCL_PEERMEM          (UINT64_C(1) << 12) /* nvidia-peermem, and not nv_peer_mem */
#define MUSTER_NCCL_HOSTS            (UINT64_C(1) << 13) /* the job has several */
#define MUSTER_NCCL_ONE_GPU_A_HOST   (UINT64_C(1) << 14)
#define MUSTER_NCCL_VIRTUAL          (UINT64_C(1) << 15) /* a virtual machine */
#define MUSTER_NCCL_WSL              (UINT64_C(1) << 16) /* Windows' subsystem for Linux */
#define MUSTER_NCCL_NO_CUMEM         (UINT64_C(1) << 17) /* NCCL_CUMEM_ENABLE=0 */
#define MUSTER_NCCL_NO_NUMA          (UINT64_C(1) << 18) /* a GPU or NIC whose NUMA node is -1 */
#define MUSTER_NCCL_CONTAINER        (UINT64_C(1) << 19) /* where memory may not be bound */
#define MUSTER_NCCL_OVER_80_RANKS    (UINT64_C(1) << 20)
#define MUSTER_NCCL_OVER_1000_RANKS  (UINT64_C(1) << 21)
#define MUSTER_NCCL_ANY_CONTAINER    (UINT64_C(1) << 22)
#define MUSTER_NCCL_USB_NETWORK      (UINT64_C(1) << 23) /* a network interface on USB */
#define MUSTER_NCCL_NO_P2P           (UINT64_C(1) << 24) /* between no two GPUs */
#define MUSTER_NCCL_ODD_NUMA                                                                       \
    (UINT64_C(1) << 25) /* a NUMA node without CPUs or without memory; not of Grace */
#define MUSTER_NCCL_MANY_PORTS                                                                     \
    (UINT64_C(1) << 26) /* more active RDMA ports than NCCL has room for */
#define MUSTER_NCCL_OLD_CUDA   (UINT64_C(1) << 27) /* built with a CUDA before 11.3 */
#define MUSTER_NCCL_OLD_DRIVER (UINT64_C(1) << 28) /* whose CUDA is before 11.3 */
#define MUSTER_NCCL_CUMEM      (UINT64_C(1) << 29) /* NCCL_CUMEM_ENABLE is not 0 */
#define MUSTER_NCCL_AMPERE     (UINT64_C(1) << 30) /* compute capability 8 */

/* What a job that meets the bug shows, one bit each. */
enum {
    MUSTER_SHOWS_HANG = 1 << 0,
    MUSTER_SHOWS_FAILURE = 1 << 1, /* an error or a crash, mostly at init */
    MUSTER_SHOWS_WRONG_DATA = 1 << 2,
    MUSTER_SHOWS_SLOWNESS = 1 << 3,
    MUSTER_SHOWS_CRASH = 1 << 4, /* of a job that runs */
};

/* How sure it is that a job meets the bug where all needs hold. */
enum muster_known_weight {
    MUSTER_KNOWN_SOMETIMES, /* depends on what the program calls: reported, not certain */
    MUSTER_KNOWN_LIKELY,    /* a warning */
    MUSTER_KNOWN_SURE,      /* a problem */
};

struct muster_known_nccl {
    int first, last; /* versions, 22809: 2.28.9 */
    uint64_t needs;
    enum muster_known_weight weight;
    unsigned shows;
    const char *class_id, *what, *fix;
    const char *source; /* a thread, or the release whose notes have it */
};

extern const struct muster_known_nccl muster_known_nccl[];
extern const size_t muster_known_nccl_n;

/* Whether a row holds for a version on a host that has these. */
bool muster_known_nccl_holds(const struct muster_known_nccl *bug, int version, uint64_t has);
/* The kind of line (job_log.h) that a bug makes NCCL print, and hardly anything else does; NULL:
 * none.
 */
const char *muster_known_nccl_prints(const struct muster_known_nccl *bug);

/* What is asked of the table: of which NCCL, where, and what a job showed. */
struct muster_known_question {
    int version;
    uint64_t has;
    const char *symptoms; /* words separated by commas; NULL: nothing */
    const char *logged;   /* kinds of lines of its log, separated by blanks; NULL: none */
};
/* Whether the log has the line that the bug prints: it is certain then. */
bool muster_known_nccl_logged(const struct muster_known_nccl *bug,
                              const struct muster_known_question *of);
/* The row that is to be named, of those that hold: what the log shows decides, then what the job
 * showed, then how sure it is. `certain`: of those that are likely or sure, or logged; else of
 * those that depend on the program, if they are of few versions or the only ones of this version
 * that bring about what the job showed. NULL: none. */
const struct muster_known_nccl *muster_known_nccl_pick(const struct muster_known_question *of,
                                                       bool certain);
/* Whether it needs what few hosts have, or many things at once: it counts for much where all of
 * that is there. */
bool muster_known_nccl_is_rare(const struct muster_known_nccl *bug);
/* Whether it is of three minor versions and more, and of hosts like many. */
bool muster_known_nccl_is_wide(const struct muster_known_nccl *bug);
/* Whether it brings about one of these: words, separated by commas. */
bool muster_known_nccl_explains(const struct muster_known_nccl *bug, const char *symptoms);
/* The symptoms of causes.h that it brings about, separated by blanks. */
void muster_known_nccl_symptoms(unsigned shows, char *words, size_t size);

#endif
