/*
 * A recorded job played again: a process for each of its ranks, which begin together and leave as
 * the recorded ones did. Of the command alone: it signals, and takes leave of, all children of its
 * process. One thread.
 *
 *     muster_replay_job_find, then muster_replay_job_start; in any case after that
 *     muster_replay_job_wait and muster_replay_job_end; muster_replay_job_free
 */
#ifndef MUSTER_REPLAY_REPLAY_JOB_H
#define MUSTER_REPLAY_REPLAY_JOB_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

struct muster_replay_process;

struct muster_replay_job {
    /* The caller's. */
    char plugin[PATH_MAX], out[PATH_MAX];
    char speed[24], hold[24];       /* as muster_replay_rank_args has them */
    void (*note)(const char *text); /* what happened to one rank, a line without its end */
    /* Of replay_job.c. */
    struct muster_arena memory; /* of the ranks */
    struct muster_replay_process *rank;
    size_t ranks;
    sigset_t signals; /* blocked, and waited for */
    sigset_t inherited;
    bool asked;      /* to end */
    int stop_signal; /* what asked this process to end; 0: nothing did */
};

/* The recordings of a folder, or one file. -1: there are none, or no memory. */
int muster_replay_job_find(struct muster_replay_job *job, const char *path, struct muster_err *err);

/* Starts all ranks, hears from each whether it can play, and lets them begin. -1: one cannot; all
 * are asked to end. From here on signals that ask this process to end are kept for
 * muster_replay_job_wait. */
int muster_replay_job_start(struct muster_replay_job *job, struct muster_err *err);

/* Once it was started: what playing will take, holding included; 0: as long as it takes. */
double muster_replay_job_expected_s(const struct muster_replay_job *job);

/* Until all ranks have left; a signal is passed on, and who does not follow it is killed. Whether
 * each left as its recording did, or was asked to. */
bool muster_replay_job_wait(struct muster_replay_job *job);

/* Ends what a plugin started, and puts the segments of ranks that were killed into the run. Dies of
 * the signal that stopped it, so that a shell sees so. */
void muster_replay_job_end(struct muster_replay_job *job);

void muster_replay_job_free(struct muster_replay_job *job);

#endif
