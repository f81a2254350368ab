/* A process that records: its segment, what retires in it, and what a reader should find. */
#ifndef MUSTER_TESTS_UNIT_RUN_RUN_PROCESS_FIXTURE_H
#define MUSTER_TESTS_UNIT_RUN_RUN_PROCESS_FIXTURE_H

#include "segment_fixture.h"

#include "oplog/log_writer.h"
#include "run/run.h"

enum { LONG_MS = 60000 };

/* Shared, with one communicator, of rank 3. */
struct muster_segment_file process_segment(const struct fixture *fixture);

/* Operations from `from` up to `to`, also into the log unless `writer` is NULL. */
void process_retire(struct muster_segment_file *file, struct muster_log_writer *writer,
                    uint64_t from, uint64_t to);

/* Of all rows. */
uint64_t process_total(const struct muster_segment *segment);

/* The first `n` are those from `from` on. */
void process_assert_ops(const struct muster_process *process, uint64_t from, uint64_t n);

#endif
