/*
 * The reader's side: everything that is known about one or more runs, from logs, archived segments
 * and live ones. Nothing here trusts a file: sizes, offsets and enumerators are checked, and what
 * is damaged is skipped and noted.
 */
#ifndef MUSTER_RUN_RUN_H
#define MUSTER_RUN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "oplog/log_reader.h"
#include "run/live_jobs.h"
#include "segment/layout.h"

enum muster_process_state {
    MUSTER_PROCESS_RUNNING,
    MUSTER_PROCESS_FINALIZED,
    MUSTER_PROCESS_EXITED,
    MUSTER_PROCESS_KILLED, /* gone without its exit handlers */
};

/* By the exit state of its segment. */
enum muster_process_state muster_process_state_of(bool alive, uint32_t exit_state);

/* One recorded process: one rank, or several when it drives several GPUs. */
struct muster_process {
    enum muster_process_state state;
    struct muster_segment *segment; /* a private copy, brought to a consistent state: undo applied
                                       and operations in flight that count added to their rows.
                                       If only the log is left: its image, as of its last second.
                                       Never NULL */
    struct muster_seg_identity identity; /* also from the log */
    struct muster_log_comm *comm;
    size_t comms;
    struct muster_op *op; /* known one by one, in the order of retirement: log, then ring, then in
                             flight. Those of the log only if the run was not loaded `streamed`:
                             muster_process_read_ops reads them, too */
    size_t ops;
    char *log;            /* its path; NULL: all is in `op` */
    uint64_t log_end;     /* ordinal after the last operation that was in it */
    uint64_t log_ops;     /* how many it held */
    size_t retired;       /* of `op`, the first so many; those behind them are in flight */
    uint64_t read_to;     /* ordinal up to which retired operations were read */
    uint64_t ops_missing; /* retired but not in `op`: overwritten, lost, or unreadable */
    struct muster_refreshed *refreshed; /* of a run that was read again (run/refresh.h): `op` is its
                                           window and what is in flight; NULL: the whole */
    uint64_t last_seen_unix_ns;         /* heartbeat */
    uint64_t seen_ns; /* up to then it is known what it did, by its CLOCK_MONOTONIC; 0: up to its
                         last heartbeat */
    bool elsewhere;   /* on another host, or before a reboot: known to the second of its log */
};

struct muster_run {
    struct muster_arena
        memory;          /* of texts; failed: something of the run is missing for want of it */
    const char **source; /* the directories or pids it came from */
    size_t sources;
    struct muster_process *process; /* by (rank, host, pid) */
    size_t processes;
    const char **note; /* what could not be read and why, one line each */
    size_t notes;
};

/* Leaves out processes that began before: those of this boot by CLOCK_MONOTONIC, others, whose
 * clocks may be behind, by the time of day less a minute. unix_ns 0: none is left out. */
struct muster_run_since {
    uint64_t mono_ns, unix_ns;
    uint64_t slack_ns; /* how much earlier a process of this boot may have begun */
};

struct muster_run_query {
    const char *const *run; /* directories or pids; none: the newest ./muster-*, or all live
                               segments of this user with `live` */
    size_t runs;
    bool live;
    const struct muster_live_job *job; /* with `live`: of this job alone; NULL: of all */
    bool streamed;                     /* operations stay in the logs until they are asked for */
    struct muster_run_since since;
    const char *segment_dir; /* NULL: $MUSTER_SEGMENT_DIR, else /dev/shm */
};

/* Dead processes' segments whose run directory is among the runs are archived there on the way.
 * Fails only if nothing at all could be read, or without memory for all that is there. */
int muster_run_load(const struct muster_run_query *query, struct muster_run *run,
                    struct muster_err *err);
/* The run as it is now; only what is new is read. `run` is zeroed, and is then loaded whole by a
 * query that is `streamed`; or it was refreshed by the same query, and then a window of the latest
 * operations of each process is kept (run/refresh.h). A process that is over stays as it was read;
 * of one that lives on this host what came into its ring is taken, and its tables. On failure the
 * run is empty. Views of it end here. */
int muster_run_refresh(const struct muster_run_query *query, struct muster_run *run,
                       struct muster_err *err);
void muster_run_free(struct muster_run *run);
void muster_process_free(struct muster_process *process); /* what it holds */

/* Where the query looks for live segments. The query's memory, or the environment's. */
const char *muster_run_segment_dir(const struct muster_run_query *query);

/* All operations of the process that are known one by one, in the order of retirement, some
 * thousands at a time. `take` returns false to end it, without an error; what it gets is gone when
 * it returns. -1: its log could be read when the run was loaded, and cannot any more. */
int muster_process_read_ops(const struct muster_process *process, muster_op_taker take, void *to,
                            struct muster_err *err);

/* Communicator `uid` of the process, from segment or log; NULL if neither knows it. */
const struct muster_log_comm *muster_process_comm(const struct muster_process *process,
                                                  uint32_t uid);

#endif
