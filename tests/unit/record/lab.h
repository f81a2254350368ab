/* A recorder whose drain thread stands still, so that a test decides when a pass is made and what
 * the time is. */
#ifndef MUSTER_TESTS_RECORD_LAB_H
#define MUSTER_TESTS_RECORD_LAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "record/drain.h"
#include "record/handle.h"
#include "record/track.h"

struct lab {
    struct muster_recorder *rec;
    void *ctx;
};

void lab_open(struct lab *lab, bool armed, bool host_times);
void lab_close(struct lab *lab);
void *lab_comm(struct lab *lab, uint64_t hash, int nranks, int nnodes, uint32_t api);
/* A pass as if `later_ns` had gone by. */
void lab_drain(struct lab *lab, uint64_t later_ns);

struct muster_event_op lab_op(unsigned func, uint64_t count);
void *lab_call(struct lab *lab, void *ctx, const struct muster_event_op *op);
void *lab_launch(struct lab *lab, void *ctx, void *call, const struct muster_event_op *op);
void *lab_p2p(struct lab *lab, void *ctx, unsigned func, int peer, uint64_t count, int channels);
void *lab_group(struct lab *lab, void *ctx, bool graph);
void *lab_kernel(struct lab *lab, void *parent, unsigned channel, uint64_t start);
void lab_kernel_stop(struct lab *lab, void *kernel, uint64_t stop);
/* Both events of a collective of 8 channels, none of its kernels. */
void *lab_collective(struct lab *lab, void *ctx, unsigned func, uint64_t count);

/* Sums over the rows of the segment. */
uint64_t lab_count(const struct lab *lab, unsigned func);
uint64_t lab_bytes(const struct lab *lab, unsigned func);
const struct muster_seg_row *lab_row(const struct lab *lab, unsigned func);
const struct muster_op *lab_last(const struct lab *lab);
uint64_t lab_drops(const struct lab *lab, enum muster_drop reason);

#endif
