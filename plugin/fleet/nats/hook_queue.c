#include "fleet/nats/hook_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "launch/hooks.h"

enum { WAITING = 256, DEADLINE_MS = 10000 };
#define LEFT_NS (2 * MUSTER_NS_PER_S) /* as a job leaves to its hooks */

struct muster_hook_queue {
    const struct muster_settings *settings;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    _Atomic uint64_t end_ns; /* until then what is left may run */
    struct {
        enum muster_finding_kind kind;
        char *line;
    } item[WAITING];
    size_t n;
};

static void run(const struct muster_hook_queue *queue, enum muster_finding_kind kind,
                const char *line)
{
    const char *argv[MUSTER_ACTION_ARGS + 1] = {NULL};
    char *text = NULL;
    int bytes = asprintf(&text, "%s\n", line);
    muster_action_argv(&queue->settings->on[kind], argv);
    if (bytes > 0)
        muster_hook_run("muster fleet", argv, text, (size_t)bytes, DEADLINE_MS, &queue->end_ns);
    free(bytes > 0 ? text : NULL);
}

static void *queue_main(void *arg)
{
    struct muster_hook_queue *queue = arg;
    pthread_mutex_lock(&queue->lock);
    while (!queue->stop || queue->n > 0) {
        if (queue->n == 0) {
            pthread_cond_wait(&queue->wake, &queue->lock);
            continue;
        }
        enum muster_finding_kind kind = queue->item[0].kind;
        char *line = queue->item[0].line;
        memmove(&queue->item[0], &queue->item[1], --queue->n * sizeof queue->item[0]);
        pthread_mutex_unlock(&queue->lock);
        run(queue, kind, line);
        free(line);
        pthread_mutex_lock(&queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

struct muster_hook_queue *muster_hook_queue_start(const struct muster_settings *settings)
{
    bool any = false;
    for (unsigned k = 0; k < MUSTER_FINDING_KINDS; k++)
        any |= settings->on[k].args > 0;
    struct muster_hook_queue *queue = any ? calloc(1, sizeof *queue) : NULL;
    if (!queue)
        return NULL;
    queue->settings = settings;
    atomic_store_explicit(&queue->end_ns, UINT64_MAX, memory_order_relaxed);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->wake, NULL);
    if (pthread_create(&queue->thread, NULL, queue_main, queue) == 0)
        return queue;
    free(queue);
    return NULL;
}

bool muster_hook_queue_wants(const struct muster_hook_queue *queue, enum muster_finding_kind kind)
{
    return queue && queue->settings->on[kind].args > 0;
}

void muster_hook_queue_add(struct muster_hook_queue *queue, enum muster_finding_kind kind,
                           char *line)
{
    bool wanted = muster_hook_queue_wants(queue, kind);
    if (wanted) {
        pthread_mutex_lock(&queue->lock);
        wanted = queue->n < WAITING;
        if (wanted) {
            queue->item[queue->n].kind = kind;
            queue->item[queue->n++].line = line;
        }
        pthread_cond_signal(&queue->wake);
        pthread_mutex_unlock(&queue->lock);
    }
    if (!wanted)
        free(line);
}

void muster_hook_queue_stop(struct muster_hook_queue *queue)
{
    if (!queue)
        return;
    atomic_store_explicit(&queue->end_ns, muster_now_ns() + LEFT_NS, memory_order_relaxed);
    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    pthread_cond_signal(&queue->wake);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->thread, NULL);
    pthread_cond_destroy(&queue->wake);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}
