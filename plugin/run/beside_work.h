/*
 * Work of a command beside other work of its, on a second processor. Off until a command asks for
 * it: what stands on this runs in the job, too, where nobody may start a thread.
 */
#ifndef MUSTER_RUN_BESIDE_WORK_H
#define MUSTER_RUN_BESIDE_WORK_H

#include <pthread.h>
#include <stdbool.h>

struct muster_beside {
    void (*work)(void *arg);
    void *arg;
    pthread_t thread;
    bool started; /* on a thread of its own; else it is done when its end is waited for */
};

/* From now on, where this process may use two processors. By a command's main thread, before it
 * starts others. */
void muster_beside_permit(void);
bool muster_beside_is_permitted(void);

/* What `work` needs stays until the end, and nobody else touches it. */
void muster_beside_begin(struct muster_beside *beside, void (*work)(void *arg), void *arg);
/* Once, after each begin: it is done then. */
void muster_beside_end(struct muster_beside *beside);

#endif
