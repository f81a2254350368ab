/*
 * A generated job as the plugin's live diagnosis meets it: the segments of one host's processes,
 * whose rings go round as operations retire, looked at once a second. Time is the job's, so that a
 * run of minutes takes seconds.
 */
#ifndef MUSTER_BENCH_VERDICTS_LIVE_HOST_H
#define MUSTER_BENCH_VERDICTS_LIVE_HOST_H

#include "diagnose/finding.h"
#include "recording.h"

struct live_emitted {
    struct muster_finding finding;
    double at_s; /* since the run began */
    bool retracted;
};

struct live_run {
    struct live_emitted *emitted;
    unsigned n, room;
    double busy_s;   /* of a processor, of the leaders of all hosts */
    double looked_s; /* of the job's time, of all hosts */
    unsigned hosts;
};

/* Each host by itself: those of the culprits, and others, until there are four. Exits where it has
 * no memory or no /dev/shm. */
void live_play(const struct job *job, struct recorded *recorded, struct live_run *run);
void live_free(struct live_run *run);

#endif
