/* Runs made by hand, as run/run.h would load them. */
#ifndef MUSTER_TESTS_UNIT_REPORT_REPORT_FIXTURE_H
#define MUSTER_TESTS_UNIT_REPORT_REPORT_FIXTURE_H

#include "report/report.h"

#define US 1000ull

/* An empty run of n processes: rank r on "host", full timing, finalized, with a segment. */
struct muster_run *fixture_run(size_t n);
void fixture_free(struct muster_run *run);

/* A communicator in the segment of process p; the entry, for tests that change it. */
struct muster_seg_comm *fixture_comm(struct muster_run *run, size_t p, uint32_t uid, uint64_t id,
                                     int32_t rank, uint32_t nranks);

/* An all-reduce of 256 Ki float32 by ring and simple, timed by the GPU; duration 0: not timed. */
struct muster_op fixture_op(uint32_t uid, uint64_t number, uint64_t duration_ns);
/* Adds it to the rows of the process and to the operations known one by one. */
void fixture_add(struct muster_run *run, size_t p, struct muster_op op);
/* Only to the rows, only to the list. */
void fixture_add_row(struct muster_run *run, size_t p, struct muster_op op);
void fixture_add_list(struct muster_run *run, size_t p, struct muster_op op);

/* Asserts success. */
struct muster_report fixture_report(const struct muster_run *run, enum muster_report_by by);
/* Whether a gap holds the text. */
bool fixture_gap(const struct muster_report *report, const char *text);

#endif
