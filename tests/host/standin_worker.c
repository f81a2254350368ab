#include "standin_worker.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job {
    struct job *next;
    void (*work)(void *);
    _Alignas(16) unsigned char argument[];
};

struct standin_worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first, **last;
    bool busy, held, ending;
};

static void *worker_main(void *memory)
{
    struct standin_worker *worker = memory;

    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while ((!worker->first || worker->held) && !(worker->ending && !worker->first))
            pthread_cond_wait(&worker->changed, &worker->lock);
        struct job *job = worker->first;
        if (!job)
            break;
        worker->first = job->next;
        if (!worker->first)
            worker->last = &worker->first;
        worker->busy = true;
        pthread_mutex_unlock(&worker->lock);
        job->work(job->argument);
        free(job);
        pthread_mutex_lock(&worker->lock);
        worker->busy = false;
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

struct standin_worker *standin_worker_create(const char *name)
{
    struct standin_worker *worker = calloc(1, sizeof(*worker));

    if (!worker)
        _exit(96);
    worker->last = &worker->first;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->changed, NULL);
    if (pthread_create(&worker->thread, NULL, worker_main, worker))
        _exit(96);
    pthread_setname_np(worker->thread, name);
    return worker;
}

void standin_worker_post(struct standin_worker *worker, void (*work)(void *), const void *argument,
                         size_t bytes)
{
    struct job *job = malloc(sizeof(*job) + bytes);

    if (!job)
        _exit(96);
    job->next = NULL;
    job->work = work;
    memcpy(job->argument, argument, bytes);
    pthread_mutex_lock(&worker->lock);
    *worker->last = job;
    worker->last = &job->next;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

void standin_worker_drain(struct standin_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->first || worker->busy)
        pthread_cond_wait(&worker->changed, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
}

void standin_worker_keep_up(struct standin_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while ((worker->first || worker->busy) && !worker->held)
        pthread_cond_wait(&worker->changed, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
}

void standin_worker_hold(struct standin_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->held = true;
    pthread_mutex_unlock(&worker->lock);
}

void standin_worker_release(struct standin_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->held = false;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

void standin_worker_destroy(struct standin_worker *worker)
{
    if (!worker)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->ending = true;
    worker->held = false;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}
