/* One process of a run, put together from what is left of it. Between run*.c only. */
#ifndef MUSTER_RUN_RUN_PROCESS_H
#define MUSTER_RUN_RUN_PROCESS_H

#include "oplog/log_reader.h"
#include "run/run.h"

enum { MUSTER_RUN_LATEST = 1024 }; /* operations that a refreshed run keeps without a gap */

struct muster_pieces {
    struct muster_segment *segment; /* NULL: none, then the log's image; taken over */
    bool alive;                     /* its lock is held */
    struct muster_log log;          /* taken over */
    char *log_path; /* the log's operations stay there; NULL: they are taken over. Owned */
};

/* Adds a line to the run's notes. */
__attribute__((format(printf, 2, 3))) void muster_run_note(struct muster_run *run, const char *fmt,
                                                           ...);

/* Adds the process to the run; the pieces are gone afterwards. One of the two must be there. */
void muster_run_add(struct muster_run *run, struct muster_pieces *pieces);

/* A process that was read before goes into the run, with all that it holds; *process is zeroed. */
void muster_run_add_known(struct muster_run *run, struct muster_process *process);

/* What a process did since it was read, by its segment at `path`; at most `most` operations are
 * kept. `scratch`: MUSTER_SEG_RING of them. False: it cannot be read there. */
bool muster_process_refresh(struct muster_process *process, const char *path, bool alive,
                            size_t most, struct muster_op *scratch, bool *no_memory);

/* The same of one that only its log at `path` shows, since it was read like that or not at all. */
bool muster_process_refresh_log(struct muster_process *process, const char *path, size_t most,
                                bool *no_memory);

#endif
