/*
 * Turns on GPUs that several jobs share: a job works only while it holds the lock on a file that
 * all of them name, so that none is measured beside another's work. One thread.
 */
#ifndef MUSTER_ALLREDUCE_TURNS_H
#define MUSTER_ALLREDUCE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct muster_turns {
    int fd;        /* -1: the job is alone and always has its turn */
    uint32_t jobs; /* that name the file */
    bool came;     /* has asked for its first turn */
    bool waiting;  /* for a turn */
    bool held;
    uint64_t not_before_ns; /* after a turn the others come first */
};

/* `path` is made if it is not there; "": a job alone. */
int muster_turns_open(struct muster_turns *turns, const char *path, uint32_t jobs,
                      struct muster_err *err);
/* All ranks of the job are ready to work. With its first turn the file grows by a byte. */
int muster_turns_ask(struct muster_turns *turns, struct muster_err *err);
/* Tries to begin a turn, which no job gets before all have asked for one: so none works while
 * another still makes its communicator. Never waits; true: it began. */
bool muster_turns_begin(struct muster_turns *turns, uint64_t now_ns);
void muster_turns_end(struct muster_turns *turns, uint64_t now_ns);
/* Ends a turn that is held, too. */
void muster_turns_close(struct muster_turns *turns);

#endif
