/*
 * Which threads are between the start and the stop of a captured group: what they launch goes into
 * a CUDA graph and does not run. Not a variable of the thread: in a library that is loaded late its
 * first use would allocate.
 */
#ifndef MUSTER_RECORD_GRAPH_CAPTURE_H
#define MUSTER_RECORD_GRAPH_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MUSTER_CAPTURING = 16 }; /* threads that may capture at once */

struct muster_capture {
    _Atomic bool ever; /* a graph was captured in this process */
    _Atomic uintptr_t thread[MUSTER_CAPTURING];
};

/* A word that names the calling thread among those that live. */
uintptr_t muster_capture_thread(void);

/* All on the thread they are about. */
void muster_capture_begins(struct muster_capture *capture);
void muster_capture_ends(struct muster_capture *capture);
bool muster_capture_is_on(const struct muster_capture *capture);

#endif
