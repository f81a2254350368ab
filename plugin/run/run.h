/*
 * The reader's side: everything that is known about one or more runs, from logs, archived
 * segments and live ones. Nothing here trusts a file: sizes, offsets and enumerators are checked,
 * and what is damaged is skipped and said.
 */
#ifndef MUSTER_SEGMENT_RUN_H
#define MUSTER_SEGMENT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "segment/layout.h"
#include "segment/log_format.h"

enum muster_process_state {
    MUSTER_PROCESS_RUNNING,
    MUSTER_PROCESS_FINALIZED,
    MUSTER_PROCESS_EXITED,
    MUSTER_PROCESS_KILLED, /* gone without its exit handlers */
};

/* One recorded process: one rank, or several when it drives several GPUs. */
struct muster_process {
    enum muster_process_state state;
    struct muster_segment *segment; /* a private copy, brought to a consistent state: undo applied
                                       and operations in flight that count added to their rows.
                                       NULL if only the log is left */
    struct muster_seg_identity identity; /* also from the log */
    bool policy_known; /* segment->policy tells: false of a log written before muster logged it.
                          State, hash, tuner_api, and of each rule name, line, hits and not_offered
                          are there also where only the log is left, as of its last second */
    struct muster_log_comm *comm;
    size_t comms;
    struct muster_op *op; /* known one by one, in the order of retirement: log, then ring, then in
                             flight */
    size_t ops;
    uint64_t ops_missing;       /* retired but not in `op`: overwritten, lost, or unreadable */
    uint64_t last_seen_unix_ns; /* heartbeat */
};

struct muster_run {
    char **source; /* the directories or pids it came from */
    size_t sources;
    struct muster_process *process; /* by (rank, host, pid) */
    size_t processes;
    char **note; /* what could not be read and why, one line each */
    size_t notes;
    bool no_memory; /* only while it is loaded */
};

struct muster_run_query {
    const char *const *run; /* directories or pids; none: the newest ./muster-*, or all live
                               segments of this user with `live` */
    size_t runs;
    bool live;
    const char *segment_dir; /* NULL: $MUSTER_SEGMENT_DIR, else /dev/shm */
};

/* Dead processes' segments whose run directory is among the runs are archived there on the way.
 * Fails only if nothing at all could be read, or without memory for all that is there. */
int muster_run_load(const struct muster_run_query *query, struct muster_run *run,
                    struct muster_err *err);
void muster_run_free(struct muster_run *run);

/* Where the query looks for live segments. The query's memory, or the environment's. */
const char *muster_run_segment_dir(const struct muster_run_query *query);

/* Communicator `uid` of the process, from segment or log; NULL if neither knows it. */
const struct muster_log_comm *muster_process_comm(const struct muster_process *process,
                                                  uint32_t uid);

#endif
