/*
 * What it costs a job to time one launch by two CUDA events, in nanoseconds: a table by size from
 * bench/timing_price (docs/cost.md, "The price of a pair").
 */
#ifndef MUSTER_RECORD_LAUNCH_PRICE_H
#define MUSTER_RECORD_LAUNCH_PRICE_H

#include <stdint.h>

/* cpus: that the process may use; the completion thread's share of them is part of the price. */
uint64_t muster_price_ns(uint64_t bytes, unsigned cpus);

#endif
