/* What was told of a generated job while it ran, and what finding that took. */
#ifndef MUSTER_BENCH_VERDICTS_LIVE_EMITTED_H
#define MUSTER_BENCH_VERDICTS_LIVE_EMITTED_H

#include "diagnose/finding.h"

struct live_emitted {
    struct muster_finding finding;
    double at_s; /* since the run began */
    bool retracted;
};

struct live_run {
    struct live_emitted *emitted;
    unsigned n, room;
    double busy_s;   /* of a processor, of all who looked */
    double looked_s; /* of the job's time, of each who looked */
    unsigned hosts;
};

/* One more that was told at `at_s`, or the end of one that was told before. Exits where it has no
 * memory. */
void live_run_note(struct live_run *run, const struct muster_finding *finding, double at_s);
void live_run_free(struct live_run *run);

#endif
