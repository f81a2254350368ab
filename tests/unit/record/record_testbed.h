/* A recorder whose drain thread stands still, so that a test decides when a pass is made and what
 * the time is. */
#ifndef MUSTER_TESTS_UNIT_RECORD_RECORD_TESTBED_H
#define MUSTER_TESTS_UNIT_RECORD_RECORD_TESTBED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "record/drain.h"
#include "record/handle.h"
#include "record/track.h"

struct testbed {
    struct muster_recorder *rec;
    void *ctx;
};

/* kernels: NCCL stamps them, and nothing else times. */
void testbed_open(struct testbed *testbed, bool kernels, bool host_times);
/* `file` is made. */
void testbed_open_with(struct testbed *testbed, const struct muster_recorder_options *options);
void testbed_close(struct testbed *testbed);
void *testbed_comm(struct testbed *testbed, uint64_t hash, int nranks, int nnodes, uint32_t api);
/* A pass as if `later_ns` had gone by. */
void testbed_drain(struct testbed *testbed, uint64_t later_ns);

struct muster_event_op testbed_op(unsigned func, uint64_t count);
void *testbed_call(struct testbed *testbed, void *ctx, const struct muster_event_op *op);
void *testbed_launch(struct testbed *testbed, void *ctx, void *call,
                     const struct muster_event_op *op);
void *testbed_p2p(struct testbed *testbed, void *ctx, unsigned func, int peer, uint64_t count,
                  int channels);
void *testbed_group(struct testbed *testbed, void *ctx, bool graph);
void *testbed_kernel(struct testbed *testbed, void *parent, unsigned channel, uint64_t start);
void testbed_kernel_stop(struct testbed *testbed, void *kernel, uint64_t stop);
/* Both events of a collective of 8 channels, none of its kernels. */
void *testbed_collective(struct testbed *testbed, void *ctx, unsigned func, uint64_t count);

/* Sums over the rows of the segment. */
uint64_t testbed_count(const struct testbed *testbed, unsigned func);
uint64_t testbed_bytes(const struct testbed *testbed, unsigned func);
const struct muster_seg_row *testbed_row(const struct testbed *testbed, unsigned func);
const struct muster_op *testbed_last(const struct testbed *testbed);
uint64_t testbed_drops(const struct testbed *testbed, enum muster_drop reason);

#endif
