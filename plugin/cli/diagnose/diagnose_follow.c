#include "cli/diagnose/diagnose_follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/array.h"
#include "diagnose/finding_changes.h"
#include "run/refresh.h"

/* A job from its first look on: with its look and its watch it stays where it is. */
struct followed {
    struct muster_live_job job;
    struct muster_look look;
    struct muster_watch watch;
    struct follow *follow;
    bool seen, over;
};

struct follow {
    const struct muster_look_how *how;
    muster_follow_emit *emit;
    void *arg;
    struct followed **one;
    size_t n;
    size_t jobs; /* of those, how many are jobs of their own, whether they live or not */
    bool written;
};

static void emit(void *arg, const struct muster_finding *finding)
{
    const struct followed *one = arg;
    const struct follow *follow = one->follow;
    follow->emit(follow->arg, follow->jobs > 1 ? muster_look_name(&one->look) : NULL, finding);
}

/* `job` NULL: all that the query takes. False: no memory. */
static bool add(struct follow *follow, const struct muster_live_job *job)
{
    struct followed *one = calloc(1, sizeof *one);
    if (!one || !muster_grow(&follow->one, follow->n, sizeof(struct followed *))) {
        free(one);
        return false;
    }
    one->follow = follow;
    if (job) {
        one->job = *job;
        one->look.job = &one->job;
        follow->jobs++;
    }
    follow->one[follow->n++] = one;
    return true;
}

static bool is_job(const struct followed *one, const struct muster_live_job *job)
{
    return one->look.job && !one->over &&
           muster_same_job(&one->job.who, one->job.uid, &job->who, job->uid);
}

static bool is_followed(const struct follow *follow, const struct muster_live_job *job)
{
    for (size_t i = 0; i < follow->n; i++)
        if (is_job(follow->one[i], job))
            return true;
    return false;
}

/* One that could never be read ends when its processes do. */
static void drop_unseen(struct follow *follow, const struct muster_live_job *job, size_t n)
{
    for (size_t i = 0; i < follow->n; i++) {
        struct followed *one = follow->one[i];
        bool lives = !one->look.job || one->seen;
        for (size_t k = 0; k < n && !lives; k++)
            lives = is_job(one, &job[k]);
        one->over |= !lives;
    }
}

/* Jobs that came since the last time. Without any, whatever there is, until a job comes. */
static void find_jobs(struct follow *follow)
{
    struct muster_live_job *job = NULL;
    size_t n = follow->how->query.live ? muster_live_jobs(&follow->how->query, &job) : 0;
    if (n > 0 && follow->jobs == 0 && follow->n > 0)
        follow->one[0]->over = true;
    drop_unseen(follow, job, n);
    for (size_t i = 0; i < n; i++)
        if (!is_followed(follow, &job[i]))
            add(follow, &job[i]);
    free(job);
    if (follow->n == 0)
        add(follow, NULL);
}

static void look_at(struct followed *one)
{
    struct follow *follow = one->follow;
    struct muster_err err;
    if (muster_look_take(&one->look, follow->how, &err) == 0) {
        muster_watch_alive(&one->watch, muster_run_alive(&one->look.run));
        muster_watch_window(&one->watch, muster_run_since_unix_ns(&one->look.run));
        muster_watch_update(&one->watch, &one->look.findings, emit, one);
        one->over = one->watch.alive == 0;
        muster_watch_slow(&one->watch, &one->look.findings, one->over, emit, one);
        one->seen = true;
    } else {
        one->over = one->seen && follow->how->query.live;
        if (one->over)
            muster_watch_end(&one->watch, emit, one);
        else if (!one->seen && !follow->written)
            fprintf(stderr, "muster diagnose: %s; waiting\n", err.text);
        follow->written = true;
    }
    muster_look_end(&one->look);
    if (one->over)
        muster_run_free(&one->look.run);
}

/* Whether any of it is unresolved; frees it. */
static bool end(struct follow *follow)
{
    bool unresolved = false;
    for (size_t i = 0; i < follow->n; i++) {
        unresolved |= muster_watch_unresolved(&follow->one[i]->watch);
        muster_watch_free(&follow->one[i]->watch);
        muster_run_free(&follow->one[i]->look.run);
        free(follow->one[i]);
    }
    free(follow->one);
    return unresolved;
}

bool muster_follow(const struct muster_look_how *how, muster_follow_emit *emit_of, void *arg)
{
    struct follow follow = {.how = how, .emit = emit_of, .arg = arg};
    bool running = true;
    while (running && !ferror(stdout)) {
        running = false;
        find_jobs(&follow);
        for (size_t i = 0; i < follow.n; i++) {
            if (!follow.one[i]->over)
                look_at(follow.one[i]);
            running |= !follow.one[i]->over;
        }
        if (running)
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    return end(&follow);
}
