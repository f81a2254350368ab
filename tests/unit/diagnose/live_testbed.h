/*
 * Live processes of one run on this host, as the live diagnosis meets them: each a process of its
 * own with a real segment and its lock. A scenario runs in the first of them, writes what it likes
 * into all segments, and looks with whatever time it says it is.
 */
#ifndef TESTS_UNIT_DIAGNOSE_WORLD_H
#define TESTS_UNIT_DIAGNOSE_WORLD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/clock.h"
#include "diagnose/live.h"

enum { WORLD_RANKS = 4 };
#define WORLD_COMM 0xabcull

struct world {
    char shm[64], run[64];
    struct muster_segment_file file; /* of the process that the scenario runs in: rank 0 */
    struct muster_segment *rank[WORLD_RANKS];
    pid_t pid[WORLD_RANKS];
    struct muster_settings settings;
    struct muster_live *live;
    uint64_t now_ns; /* what world_look says it is */
};

struct world_end {
    int status;        /* as of waitpid: what the scenario returned, or its signal */
    char said[4096];   /* on standard error */
    char found[65536]; /* findings.jsonl of rank 0 */
};

/* Runs the scenario in a world of its own; `config` is a YAML document. The process leads: it has
 * the lowest pid; or it follows. */
struct world_end world_run(const char *config, int (*scenario)(struct world *));
struct world_end world_run_following(const char *config, int (*scenario)(struct world *));

/* `s` seconds later. */
void world_look(struct world *world, double s);

/* All ranks made `calls` collectives 20 s ago and wait in the last one; those in `absent` (bits)
 * lack it and have ended what they called. */
void world_wait(struct world *world, unsigned calls, unsigned absent);
/* All came, and all has ended. */
void world_go_on(struct world *world, unsigned calls);

/* Puts `n` more operations with GPU times into every rank's ring, as of a step of five; `late`
 * (-1: nobody) begins each step 1 ms after the others. */
void world_step(struct world *world, unsigned n, int late);

#endif
