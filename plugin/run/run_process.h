/* One process of a run, put together from what is left of it. Between run*.c only. */
#ifndef MUSTER_SEGMENT_RUN_PROCESS_H
#define MUSTER_SEGMENT_RUN_PROCESS_H

#include "segment/log_read.h"
#include "segment/run.h"

struct muster_pieces {
    struct muster_segment *segment; /* NULL: none; taken over */
    bool alive;                     /* its lock is held */
    struct muster_log log;          /* taken over */
    bool has_log;
};

/* Adds a line to the run's notes. */
__attribute__((format(printf, 2, 3))) void muster_run_note(struct muster_run *run, const char *fmt,
                                                           ...);

/* Adds the process to the run; the pieces are gone afterwards. One of the two must be there. */
void muster_run_add(struct muster_run *run, struct muster_pieces *pieces);

/* A segment as the log's operations would have filled it, NULL without memory. */
struct muster_segment *muster_run_rebuild(const struct muster_log *log);

void muster_process_free(struct muster_process *process);

#endif
