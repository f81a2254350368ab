/*
 * Driving a plugin in a process of its own, so that its state is fresh and its death is seen, and
 * reading what it left, as `muster report` would.
 */
#ifndef MUSTER_TESTS_HOST_HOST_TESTBED_H
#define MUSTER_TESTS_HOST_HOST_TESTBED_H

#include "run/run.h"
#include "standin.h"
#include "standin_ledger.h"

struct standin_testbed {
    unsigned api;       /* interface version to drive */
    const char *timing; /* MUSTER_TIMING */
    char dir[64];       /* MUSTER_DIR */
    char segment_dir[64];
    struct standin_ledger *ledger;
    struct muster_run run; /* after standin_testbed_run */
};

typedef void standin_scenario(struct standin *nccl);

/* Runs the scenario in a child that then leaves by exit(0), and loads the run. The test fails if
 * the child does anything else than leave with 0, or if the run cannot be loaded. */
void standin_testbed_run(struct standin_testbed *testbed, unsigned api, const char *timing,
                         standin_scenario *scenario);
/* The child's status as waitpid gives it; no run is loaded. For what the stand-in or the made-up
 * driver must notice. */
int standin_testbed_status(struct standin_testbed *testbed, unsigned api, const char *timing,
                           standin_scenario *scenario);
/* As standin_testbed_run, for a child that kills itself with SIGKILL. */
void standin_testbed_run_killed(struct standin_testbed *testbed, unsigned api, const char *timing,
                                standin_scenario *scenario);
/* The same for several processes at once, which the scenario tells apart by STANDIN_RANK in its
 * environment: 0, 1, ... All end by exit(0) or, `killed`, all by SIGKILL. */
void standin_testbed_run_ranks(struct standin_testbed *testbed, unsigned api, const char *timing,
                               standin_scenario *scenario, unsigned ranks, bool killed);
/* The same where nothing may have been recorded: no run is loaded. */
void standin_testbed_run_nothing(struct standin_testbed *testbed, unsigned api, const char *timing,
                                 standin_scenario *scenario);
void standin_testbed_end(struct standin_testbed *testbed); /* removes all files */

/* For scenarios: waits until so many operations of this process were moved to rows or dropped, as
 * its segment says. Ends the process after a minute. */
void standin_wait_retired(uint64_t operations);

/* For scenarios: from here on what this process writes on standard error is kept. */
void standin_keep_stderr(void);
/* The kept lines that contain the text, of all processes. */
unsigned standin_testbed_lines(const struct standin_testbed *testbed, const char *text);

/* Row by row: count, bytes, replays, calls only, and (full timing) the GPU's times equal what was
 * issued, and nothing else was recorded. */
void standin_testbed_expect_all(const struct standin_testbed *testbed);

/* The only recorded process. */
const struct muster_process *standin_testbed_process(const struct standin_testbed *testbed);
uint64_t standin_testbed_drops(const struct standin_testbed *testbed, enum muster_drop drop);
/* Sum over drops of all kinds. */
uint64_t standin_testbed_all_drops(const struct standin_testbed *testbed);
/* Files left in the run directory and in the segment directory. */
unsigned standin_testbed_files(const struct standin_testbed *testbed);
/* Sums over the rows of one function, or of all with MUSTER_FUNCS. */
uint64_t standin_testbed_count(const struct standin_testbed *testbed, unsigned func);
uint64_t standin_testbed_bytes(const struct standin_testbed *testbed, unsigned func);
uint64_t standin_testbed_timed(const struct standin_testbed *testbed, unsigned func);

#endif
