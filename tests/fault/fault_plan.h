/*
 * Which call of a driven process fails, and how. The plan lies in memory shared between the test
 * and the processes it starts (descriptor number in FAULT_PLAN); the preloaded shim obeys it.
 */
#ifndef MUSTER_TESTS_FAULT_FAULT_PLAN_H
#define MUSTER_TESTS_FAULT_FAULT_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "standin_ledger.h"

enum fault_family { FAULT_NONE, FAULT_MEMORY, FAULT_FILES, FAULT_HELD, FAULT_SLOW };

enum { FAULT_SLOW_S = 5 };

struct fault_plan {
    int family;
    int error;               /* errno of the failing call */
    bool onwards;            /* every later call fails too */
    bool cut;                /* reads and writes do half instead */
    uint64_t at;             /* the call that fails, from 1; 0: none */
    _Atomic uint64_t seen;   /* calls so far, of all processes */
    _Atomic uint64_t failed; /* of them failed */
    char call[32];           /* that failed first */
    char place[80];          /* FAULT_HELD: calls on what lies there never return instead;
                                FAULT_SLOW: they take FAULT_SLOW_S and then work */
    /* What the job notes of itself, on CLOCK_MONOTONIC: how long it waited to begin (communicators
     * made), and when it had nothing left to do but to end. */
    uint64_t start_ns, done_at_ns;
    struct standin_ledger ledger;
};

/* Of the shim: calls of this thread, and of threads that it makes, count from now on. In the
 * command every thread counts from the start. */
void fault_enter(void) __attribute__((weak));
void fault_leave(void) __attribute__((weak));

#endif
