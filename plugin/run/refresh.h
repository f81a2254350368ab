/*
 * One process that lives, read again and again by its segment: each part as far as it is new, into
 * the same memory. Of its operations a window is kept, so that memory follows what is compared and
 * not how long the job runs. One thread.
 */
#ifndef MUSTER_RUN_REFRESH_H
#define MUSTER_RUN_REFRESH_H

#include "oplog/log_tail.h"
#include "run/op_window.h"
#include "run/run.h"

/* What a refreshed process holds beside what every process does. */
struct muster_refreshed {
    struct muster_window window;  /* `op` of the process begins with it */
    bool halved;                  /* the window is younger than the process */
    uint64_t missed;              /* operations that the ring lost before they were taken */
    struct muster_log_tail *tail; /* of a process that only its log shows; else NULL */
    /* Network totals when the window began, in its middle, and when they were read last. */
    struct muster_seg_net (*net)[3];
};

/* How many operations each of `processes` may keep, so that all together stay below `all`. */
size_t muster_window_share(size_t all, size_t processes);

/* Makes a zeroed process one that is refreshed, or keeps of a loaded one what a window of `most`
 * holds, the `latest` without a gap. False: no memory, or its log cannot be read any more; nothing
 * is lost then. */
bool muster_process_begin_refresh(struct muster_process *process, size_t most, size_t latest);

/* Since when all that was called is known, by its CLOCK_MONOTONIC; 0: since it began; UINT64_MAX:
 * nowhere. */
uint64_t muster_process_whole_from_ns(const struct muster_process *process);

/* Takes what is new in the ring of the segment at `path`. `scratch`: MUSTER_SEG_RING of them.
 * Returns how many operations the process went on by, also where the ring was faster. */
uint64_t muster_process_take_ring(struct muster_process *process, const char *path, size_t most,
                                  struct muster_op *scratch);

/* The same of one that only its log at `path` shows: what is new there is taken. The first time
 * that is the whole log. 0; -1: it cannot be read. */
int muster_process_take_log(struct muster_process *process, const char *path, size_t most,
                            struct muster_err *err);

/* Header and tables; network totals are those since the window began. Without `rows`, which are
 * most of it, those stay as they were: what compares operations asks for none. */
bool muster_process_read_tables(struct muster_process *process, const char *path, bool rows);

/* Another look at the same process, beside what was taken of it: what is in flight, and what its
 * ring holds whole, as it stands now. Of one that is over, whose segment lies at `path`, all. A
 * copy that an earlier look made is used again. `scratch`: MUSTER_SEG_RING of them. False: it
 * cannot be read. What `to` shows ends with the next reading of `process`, and is to be ended
 * before. */
bool muster_process_show_standing(struct muster_process *process, const char *path, bool alive,
                                  struct muster_op *scratch, struct muster_process *to);
void muster_process_end_standing(struct muster_process *shown);

/* Private memory for a segment's copy: zeros, and in memory only where something is read into it.
 * For free(). */
struct muster_segment *muster_segment_blank(void);

/* Since when all of what is compared is in the windows of a refreshed run, since 1970; 0: since the
 * beginning. */
uint64_t muster_run_since_unix_ns(const struct muster_run *run);

void muster_refreshed_free(struct muster_refreshed *refreshed);

#endif
