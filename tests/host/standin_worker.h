/* A thread that runs what it is given in order: NCCL's proxy, group and callback threads. */
#ifndef MUSTER_TESTS_HOST_STANDIN_WORKER_H
#define MUSTER_TESTS_HOST_STANDIN_WORKER_H

#include <stddef.h>

struct standin_worker;

struct standin_worker *standin_worker_create(const char *name);
/* Runs `work(copy of argument)` on the worker, later. */
void standin_worker_post(struct standin_worker *worker, void (*work)(void *), const void *argument,
                         size_t bytes);
void standin_worker_drain(struct standin_worker *worker); /* until all posted so far is done */
/* The same, but not while it is held. */
void standin_worker_keep_up(struct standin_worker *worker);
void standin_worker_hold(struct standin_worker *worker); /* nothing more is begun */
void standin_worker_release(struct standin_worker *worker);
void standin_worker_destroy(struct standin_worker *worker); /* runs what is left, joins */

#endif
