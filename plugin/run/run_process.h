/* One process of a run, put together from what is left of it. Between run*.c only. */
#ifndef MUSTER_RUN_RUN_PROCESS_H
#define MUSTER_RUN_RUN_PROCESS_H

#include "oplog/log_reader.h"
#include "run/run.h"

struct muster_pieces {
    struct muster_segment *segment; /* NULL: none, then the log's image; taken over */
    bool alive;                     /* its lock is held */
    struct muster_log log;          /* taken over */
    bool has_log;
    char *log_path; /* the log's operations stay there; NULL: they are taken over. Owned */
};

/* Adds a line to the run's notes. */
__attribute__((format(printf, 2, 3))) void muster_run_note(struct muster_run *run, const char *fmt,
                                                           ...);

/* Adds the process to the run; the pieces are gone afterwards. One of the two must be there. */
void muster_run_add(struct muster_run *run, struct muster_pieces *pieces);

/* A process that was read before goes into the run, with all that it holds; *process is zeroed. */
void muster_run_add_known(struct muster_run *run, struct muster_process *process);

/* What a process did since it was read, by its segment as it is now, which is taken over. False:
 * its ring has gone round meanwhile, and nothing has changed. */
bool muster_process_refresh(struct muster_process *process, struct muster_segment *segment,
                            bool alive, bool *no_memory);

void muster_process_free(struct muster_process *process);

#endif
