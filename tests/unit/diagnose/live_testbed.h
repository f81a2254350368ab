/*
 * Live processes of one run on this host, as the live diagnosis meets them: each a process of its
 * own with a real segment and its lock. A scenario runs in the first of them, writes what it likes
 * into all segments, and looks with whatever time it says it is.
 */
#ifndef MUSTER_TESTS_UNIT_DIAGNOSE_LIVE_TESTBED_H
#define MUSTER_TESTS_UNIT_DIAGNOSE_LIVE_TESTBED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/clock.h"
#include "diagnose/live/live.h"

enum { WORLD_RANKS = 4 };
#define WORLD_COMM 0xabcull

struct testbed {
    char shm[64], run[64];
    struct muster_segment_file file; /* of the process that the scenario runs in: rank 0 */
    struct muster_segment *rank[WORLD_RANKS];
    pid_t pid[WORLD_RANKS];
    struct muster_settings settings;
    struct muster_live *live;
    uint64_t now_ns; /* what testbed_look says it is */
};

struct testbed_end {
    int status;         /* as of waitpid: what the scenario returned, or its signal */
    char emitted[4096]; /* on standard error */
    char found[65536];  /* findings.jsonl of rank 0 */
};

/* Runs the scenario in a testbed of its own; `config` is a YAML document. The process leads: it has
 * the lowest pid; or it follows. */
struct testbed_end testbed_run(const char *config, int (*scenario)(struct testbed *));
struct testbed_end testbed_run_following(const char *config, int (*scenario)(struct testbed *));

/* `s` seconds later. */
void testbed_look(struct testbed *testbed, double s);

/* All ranks made `calls` collectives 20 s ago and wait in the last one; those in `absent` (bits)
 * lack it and have ended what they called. */
void testbed_wait(struct testbed *testbed, unsigned calls, unsigned absent);
/* All came, and all has ended. */
void testbed_go_on(struct testbed *testbed, unsigned calls);

/* Puts `n` more operations with GPU times into every rank's ring, as of a step of five; `late`
 * (-1: nobody) begins each step 1 ms after the others. */
void testbed_step(struct testbed *testbed, unsigned n, int late);

#endif
