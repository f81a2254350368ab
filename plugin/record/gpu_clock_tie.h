/*
 * A GPU's clock tied to the host's: the least distance between a stamp and the moment it was seen,
 * of this second and the one before, as the clocks drift by some 10 us a second. What is seen soon
 * once a second is enough.
 */
#ifndef MUSTER_RECORD_GPU_CLOCK_TIE_H
#define MUSTER_RECORD_GPU_CLOCK_TIE_H

#include <stdatomic.h>
#include <stdint.h>

/* Relaxed throughout: one thread's as a rule; a second one moves the estimate. All zero: nothing
 * was seen yet. */
struct muster_tie {
    _Atomic uint64_t since_ns;  /* host: begin of the second */
    _Atomic uint64_t behind[2]; /* host minus GPU: of this second, of the one before */
    _Atomic uint32_t seconds;
};

/* Host time of stamp_ns, which is seen at now_ns: not after now_ns, and not before the true one. */
uint64_t muster_tie_host_ns(struct muster_tie *tie, uint64_t stamp_ns, uint64_t now_ns);

#endif
