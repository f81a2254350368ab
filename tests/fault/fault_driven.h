/* Running a process in which one call fails by plan, and evaluating what it left. */
#ifndef MUSTER_TESTS_FAULT_FAULT_DRIVEN_H
#define MUSTER_TESTS_FAULT_FAULT_DRIVEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "fault_plan.h"

#include <cmocka.h>

enum { DRIVEN_TEXT = 1 << 16 };

struct driven {
    struct fault_plan *plan;
    int fd;         /* of the plan; the driven process inherits it */
    char base[64];  /* on the disk; holds run and trace */
    char run[80];   /* MUSTER_DIR */
    char moved[96]; /* where the run goes if that cannot be written */
    char trace[80]; /* MUSTER_TRACE, if traced */
    char segment_dir[64];
    bool traced;
    const char *timing;                      /* MUSTER_TIMING; NULL: channels */
    const char *config;                      /* MUSTER_CONFIG; NULL: none */
    int status;                              /* as waitpid gives it */
    char out[DRIVEN_TEXT], err[DRIVEN_TEXT]; /* what it printed */
};

/* Of main: only the tests whose name holds the argument are run; without one all. */
void driven_filter(int argc, char **argv);

int driven_setup(void **state);
int driven_teardown(void **state);

/* The plan's counters and ledger begin anew. */
void driven_restart(struct driven *driven);
/* That, and removes what earlier runs left. */
void driven_clear(struct driven *driven);
/* Runs `argv` under the plan as it stands. A process that lives longer than a minute is killed by
 * SIGALRM. */
void driven_run_again(struct driven *driven, const char *const *argv);
/* Clears and runs. */
void driven_run(struct driven *driven, const char *const *argv);

/* Whether some call failed. */
bool driven_failed(const struct driven *driven);

/* Complaints on stderr; fails the test if a line is not muster's. */
unsigned driven_lines(const struct driven *driven);

struct driven_totals {
    uint64_t processes, ops, bytes;
    bool reports_missing; /* drops, lost log entries, missing operations, or a note */
};

/* Operations that the job issued. */
uint64_t driven_issued(const struct driven *driven);

/* What a report of the run directory rests on; zeros if there is none. */
void driven_totals(const struct driven *driven, struct driven_totals *totals);

/* Files that would stay for good: what is left in the segment directory once everything is old and
 * was reaped, and temporary files in the run directory. */
unsigned driven_leftovers(const struct driven *driven);

/* The plugin's promises after one run of the job: it left with 0; what was recorded is what was
 * issued, or less and said so; nothing is left for good. `what` stands in the failure. */
void driven_evaluate_job(const struct driven *driven, const char *what);

#endif
