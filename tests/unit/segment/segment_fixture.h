/* What the segment room's tests share: directories of their own, identities, operations. */
#ifndef MUSTER_TESTS_UNIT_SEGMENT_SEGMENT_FIXTURE_H
#define MUSTER_TESTS_UNIT_SEGMENT_SEGMENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "segment/layout.h"
#include "segment/segment_file.h"

struct fixture {
    char shm[64]; /* a directory on tmpfs */
    char run[64]; /* a directory on the disk */
};

int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Who this process is, with `run` as run directory and "host-<pid>" as stem. */
void fixture_identity(const struct fixture *fixture, struct muster_seg_identity *identity);

/* Entry 0: communicator 1, "dp", rank 2 of 4. */
void fixture_comm(struct muster_segment *segment);

/* Operation n of a training step in full timing: the sizes recur, the times scatter. */
struct muster_op fixture_op(uint64_t n);

/* Puts the operation into ring and rows, as the drain thread does. */
void fixture_retire(struct muster_segment *segment, const struct muster_op *op);

/* A collective of communicator 1 in a slot. */
void fixture_slot(struct muster_segment *segment, unsigned i, uint64_t number,
                  enum muster_slot_state state);

/* Runs `child` in a forked process that then waits to be killed, with SIGKILL, once it said that
 * it is ready. Returns its pid, reaped. */
pid_t fixture_killed_process(void (*child)(const struct fixture *), const struct fixture *fixture);

char *fixture_path(char *path, size_t size, const char *dir, const char *name);
unsigned fixture_count(const char *dir, const char *end); /* files whose name ends so */

#endif
