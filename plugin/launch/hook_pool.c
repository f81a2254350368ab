#include "launch/hook_pool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "launch/hooks.h"

enum { AT_ONCE = 8, DEADLINE_MS = 10000, GRACE_MS = 1000 };

struct one {
    struct muster_hook_pool *pool;
    struct muster_actions on;
    size_t bytes;
    char text[];
};

void muster_hook_pool_init(struct muster_hook_pool *pool)
{
    pool->left_out = 0;
    atomic_init(&pool->running, 0);
    atomic_init(&pool->end_ns, UINT64_MAX);
}

static uint64_t end_of(const struct muster_hook_pool *pool)
{
    return atomic_load_explicit(&pool->end_ns, memory_order_relaxed);
}

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5 * MUSTER_NS_PER_MS}, NULL);
}

static void *one_main(void *arg)
{
    struct one *one = arg;
    struct muster_hook_pool *pool = one->pool;
    const char *argv[MUSTER_ACTION_ARGS + 1] = {NULL};
    muster_action_argv(&one->on, argv);
    muster_hook_run("muster run", argv, one->text, one->bytes, DEADLINE_MS, &pool->end_ns);
    free(one);
    /* Release: pairs with the acquire in muster_hook_pool_wait. */
    atomic_fetch_sub_explicit(&pool->running, 1, memory_order_release);
    return NULL;
}

static bool start(struct muster_hook_pool *pool, const struct muster_actions *on, const char *text,
                  size_t bytes)
{
    struct one *one = malloc(sizeof *one + bytes);
    if (!one)
        return false;
    *one = (struct one){.pool = pool, .on = *on, .bytes = bytes};
    memcpy(one->text, text, bytes);
    atomic_fetch_add_explicit(&pool->running, 1, memory_order_relaxed);
    if (muster_thread_start("muster-hook", one_main, one) == 0)
        return true;
    atomic_fetch_sub_explicit(&pool->running, 1, memory_order_relaxed);
    free(one);
    return false;
}

void muster_hook_pool_run(struct muster_hook_pool *pool, const struct muster_actions *on,
                          const char *text, size_t bytes)
{
    while (atomic_load_explicit(&pool->running, memory_order_relaxed) >= AT_ONCE &&
           muster_now_ns() < end_of(pool))
        pause_a_little();
    if (muster_now_ns() >= end_of(pool) || !start(pool, on, text, bytes))
        pool->left_out++;
}

void muster_hook_pool_limit(struct muster_hook_pool *pool, unsigned ms)
{
    atomic_store_explicit(&pool->end_ns, muster_now_ns() + ms * MUSTER_NS_PER_MS,
                          memory_order_relaxed);
}

bool muster_hook_pool_wait(const struct muster_hook_pool *pool)
{
    unsigned running;
    /* Acquire: pairs with the release at the end of one_main. */
    while ((running = atomic_load_explicit(&pool->running, memory_order_acquire)) > 0 &&
           muster_now_ns() < end_of(pool) + GRACE_MS * MUSTER_NS_PER_MS)
        pause_a_little();
    return running == 0;
}
