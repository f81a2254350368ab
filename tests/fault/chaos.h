/* Jobs that do anything in any order while everything goes wrong around them. */
#ifndef MUSTER_TESTS_FAULT_CHAOS_H
#define MUSTER_TESTS_FAULT_CHAOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHAOS_JOBS = 2 };

/* What happened, over all runs. */
struct chaos_tally {
    unsigned runs, jobs, killed, forks, reloads, communicators;
    unsigned full_disks, full_shms, corrupt_segments, pairs;
    uint64_t operations, dropped;
    unsigned exact; /* jobs whose every operation was accounted for */
    unsigned harmed, wrong, left;
};

/* Shared between the test and the job that it drives. */
struct chaos_job {
    uint64_t seed;
    pid_t pid;
    unsigned api;                 /* interface version that it drives */
    bool plain;                   /* opens one communicator on v5, no more */
    bool kill;                    /* by SIGKILL, some time */
    unsigned kill_us;             /* after its start */
    int status;                   /* as waitpid gives it */
    uint64_t leaves_ns;           /* when it began to exit; 0: it was killed before */
    bool cut;                     /* its exit took as long as muster may write then, or longer */
    _Atomic uint64_t begun, done; /* operations */
    _Atomic unsigned forks, reloads, communicators;
};

/* The whole life of a job's process: exit status 0. MUSTER_DIR and the like are set. */
__attribute__((noreturn)) void chaos_job_main(struct chaos_job *job);

/* One run in directories below `base`. False: something was harmed, wrong or left; printed. */
bool chaos_run(const char *base, uint64_t seed, struct chaos_tally *tally);

#endif
