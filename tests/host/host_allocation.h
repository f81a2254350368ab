/*
 * Counts what the plugin allocates on NCCL's threads. Linked into a program, it replaces malloc and
 * its like and mmap for the plugin, too, and counts the calls made inside watched plugin calls.
 */
#ifndef MUSTER_TESTS_HOST_HOST_ALLOCATION_H
#define MUSTER_TESTS_HOST_HOST_ALLOCATION_H

#include "standin.h"

/* From now on the plugin's start, state and stop calls are watched, on all threads. Once, after
 * the first communicator has loaded it. */
void allocation_watch(struct standin *nccl);
/* Watches this thread for the time in between. */
void allocation_watch_begin(void);
void allocation_watch_end(void);
/* Allocations seen so far, and watched calls made. */
unsigned long allocations_seen(void);
unsigned long allocation_calls(void);

#endif
