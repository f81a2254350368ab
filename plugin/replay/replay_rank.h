/*
 * One rank of a replay, in a process of its own: what the rank's process of the recorded job was.
 * The parent hands over the words that muster_replay_rank_args names, and two pipes.
 */
#ifndef MUSTER_REPLAY_REPLAY_RANK_H
#define MUSTER_REPLAY_REPLAY_RANK_H

#include <stdbool.h>
#include <stdint.h>

#define MUSTER_REPLAY_RANK_WORD "--one-rank" /* argv[1] of such a process */

enum muster_replay_rank_args {
    MUSTER_REPLAY_FILE = 2,
    MUSTER_REPLAY_PLUGIN,
    MUSTER_REPLAY_SPEED, /* 0: max */
    MUSTER_REPLAY_HOLD,  /* seconds */
    MUSTER_REPLAY_OUT,
    MUSTER_REPLAY_HELLO, /* descriptors; -1: no parent, begin at once */
    MUSTER_REPLAY_GO,
    MUSTER_REPLAY_PROGRESS, /* may be missing: a file of struct muster_play_progress to count in */
    MUSTER_REPLAY_ARGS
};

/* Ready, or why not. */
struct muster_replay_hello {
    char error[512];   /* "": ready */
    uint64_t first_ns; /* t of the first call */
    uint64_t last_ns;  /* of the last */
    bool killed;       /* the recording ends with a kill, and so will the process */
    bool truncated;
};

struct muster_replay_go {
    uint64_t epoch_ns, start_ns; /* as in struct muster_play */
};

/* How the process ends, in numbers that are exit statuses of `muster replay`, too. */
enum muster_replay_rank_end {
    MUSTER_REPLAY_RANK_PLAYED = 0,
    MUSTER_REPLAY_RANK_FAILED = 1, /* on the way */
    MUSTER_REPLAY_RANK_NEVER = 2,  /* called wrongly, or the recording or plugin cannot be read */
};

/* The whole life of the process; returns its exit status. */
int muster_replay_rank(int argc, char **argv);

#endif
