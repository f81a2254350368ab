/*
 * A profiler of the tests that muster is chained to: it believes nothing. It reads descriptors by
 * the published offsets, and ends the process with a line and CHILD_BROKEN where it is called with
 * a context, a handle or a parent that is not its own, or with what it did not ask for.
 *
 *   CHILD_REPORT  file that holds a struct child_report, made by the test
 *   CHILD_MASK    the events it asks for (default: all)
 *   CHILD_MODE    handles (default); null: it keeps no event; fail: its init fails
 */
#ifndef MUSTER_TESTS_HOST_CHILD_PROFILER_H
#define MUSTER_TESTS_HOST_CHILD_PROFILER_H

#include <stdatomic.h>
#include <stdint.h>

enum { CHILD_BROKEN = 95, CHILD_KINDS = 16 };

struct child_report {
    _Atomic uint64_t api, inits, finalizes;
    _Atomic uint64_t starts[CHILD_KINDS], stops[CHILD_KINDS]; /* by the type's bit */
    _Atomic uint64_t states[32];
    _Atomic uint64_t count;   /* elements of Coll and P2p, as told */
    _Atomic uint64_t named;   /* Coll and P2p that name the communicator "tp" with its hash */
    _Atomic uint64_t parents; /* parents that were its own */
    _Atomic uint64_t groups;  /* and parents' groups */
    _Atomic uint64_t foreign; /* parents of another process */
    _Atomic uint64_t channels;
    _Atomic uint64_t again; /* stops of what was stopped: NCCL's habit with calls, not muster's */
};

enum { CHILD_HASH = 0xc0ffee }; /* of the communicator "tp" */

#endif
