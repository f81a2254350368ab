/*
 * Driving a plugin in a process of its own, so that its state is fresh and its death is seen, and
 * reading what it left, as `muster report` would.
 */
#ifndef MUSTER_TESTS_HOST_LAB_H
#define MUSTER_TESTS_HOST_LAB_H

#include "ledger.h"
#include "segment/run.h"
#include "standin.h"

struct standin_lab {
    unsigned api;       /* interface version to drive */
    const char *timing; /* MUSTER_TIMING */
    char dir[64];       /* MUSTER_DIR */
    char segment_dir[64];
    struct standin_ledger *ledger;
    struct muster_run run; /* after standin_lab_run */
};

typedef void standin_scenario(struct standin *nccl);

/* Runs the scenario in a child that then leaves by exit(0), and loads the run. The test fails if
 * the child does anything else than leave with 0, or if the run cannot be loaded. */
void standin_lab_run(struct standin_lab *lab, unsigned api, const char *timing,
                     standin_scenario *scenario);
/* The same for a child that kills itself with SIGKILL. */
void standin_lab_run_killed(struct standin_lab *lab, unsigned api, const char *timing,
                            standin_scenario *scenario);
/* The same for several processes at once, which the scenario tells apart by STANDIN_RANK in its
 * environment: 0, 1, ... All end by exit(0) or, `killed`, all by SIGKILL. */
void standin_lab_run_ranks(struct standin_lab *lab, unsigned api, const char *timing,
                           standin_scenario *scenario, unsigned ranks, bool killed);
/* The same where nothing may have been recorded: no run is loaded. */
void standin_lab_run_nothing(struct standin_lab *lab, unsigned api, const char *timing,
                             standin_scenario *scenario);
void standin_lab_end(struct standin_lab *lab); /* removes all files */

/* For scenarios: waits until so many operations of this process were moved to rows or dropped, as
 * its segment says. Ends the process after a minute. */
void standin_wait_retired(uint64_t operations);

/* Row by row: count, bytes, replays, calls only, and (full timing) the GPU's times equal what was
 * issued, and nothing else was recorded. */
void standin_lab_expect_all(const struct standin_lab *lab);

/* The only recorded process. */
const struct muster_process *standin_lab_process(const struct standin_lab *lab);
uint64_t standin_lab_drops(const struct standin_lab *lab, enum muster_drop drop);
/* Sum over drops of all kinds. */
uint64_t standin_lab_all_drops(const struct standin_lab *lab);
/* Files left in the run directory and in the segment directory. */
unsigned standin_lab_files(const struct standin_lab *lab);
/* Sums over the rows of one function, or of all with MUSTER_FUNCS. */
uint64_t standin_lab_count(const struct standin_lab *lab, unsigned func);
uint64_t standin_lab_bytes(const struct standin_lab *lab, unsigned func);
uint64_t standin_lab_timed(const struct standin_lab *lab, unsigned func);

#endif
