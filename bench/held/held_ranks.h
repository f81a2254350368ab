/* Processes that stand for the ranks of a host: each holds a segment that the bench writes in its
 * name. */
#ifndef MUSTER_BENCH_HELD_HELD_RANKS_H
#define MUSTER_BENCH_HELD_HELD_RANKS_H

#include <sys/types.h>

#include "segment/segment_file.h"

enum { HELD_RANKS_MAX = 128 };

struct held_ranks {
    char shm[64]; /* the folder: a template for mkdtemp, made before */
    unsigned ranks, comms;
    bool here; /* they belong to this host, not to one of another boot */
    pid_t pid[HELD_RANKS_MAX];
    struct muster_segment *segment[HELD_RANKS_MAX]; /* mapped */
};

/* Ends the bench. */
_Noreturn void held_fail(const char *what);

/* The segment of the calling process as a rank. */
void held_create(const struct held_ranks *held, unsigned rank, struct muster_segment_file *file);

/* A process that holds one; it writes a byte to `ready`, and ends with the bench. */
pid_t held_start(const struct held_ranks *held, unsigned rank, int ready);

/* A timed all-reduce of communicator 1, one each 5 ms, with a little noise by rank. */
struct muster_op held_op(uint64_t number, unsigned rank);

void held_map_all(struct held_ranks *held);

/* Ends the processes and removes the folder. */
void held_end(const struct held_ranks *held);

#endif
