#include "run/live_jobs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/text.h"
#include "run/run.h"
#include "segment/reap.h"
#include "segment/segment_reader.h"

bool muster_same_job(const struct muster_seg_identity *a, uint32_t a_uid,
                     const struct muster_seg_identity *b, uint32_t b_uid)
{
    return a_uid == b_uid && a->boot_hash == b->boot_hash && strcmp(a->run_dir, b->run_dir) == 0;
}

static int by_begin(const void *left, const void *right)
{
    const struct muster_live_job *a = left, *b = right;
    if (a->who.begin_unix_ns != b->who.begin_unix_ns)
        return a->who.begin_unix_ns < b->who.begin_unix_ns ? -1 : 1;
    return strcmp(a->who.run_dir, b->who.run_dir);
}

/* Its first process stands for it. False: no memory. */
static bool add(struct muster_live_job **job, size_t *jobs, const struct muster_live_job *one)
{
    for (size_t i = 0; i < *jobs; i++) {
        struct muster_live_job *known = &(*job)[i];
        if (!muster_same_job(&known->who, known->uid, &one->who, one->uid))
            continue;
        if (one->who.begin_unix_ns < known->who.begin_unix_ns)
            *known = *one;
        return true;
    }
    if (!muster_grow(job, *jobs, sizeof **job))
        return false;
    (*job)[(*jobs)++] = *one;
    return true;
}

size_t muster_live_jobs(const struct muster_run_query *query, struct muster_live_job **job)
{
    struct muster_found *found;
    const char *dir = muster_run_segment_dir(query);
    size_t jobs = 0;
    size_t n =
        geteuid() == 0 ? muster_find_all_segments(dir, &found) : muster_find_segments(dir, &found);
    *job = NULL;
    for (size_t i = 0; i < n; i++) {
        struct muster_live_job one = {.uid = found[i].uid};
        if (found[i].alive && muster_segment_read_identity(found[i].path, &one.who, NULL) == 0 &&
            !add(job, &jobs, &one))
            break;
    }
    muster_found_free(found, n);
    if (jobs > 0)
        qsort(*job, jobs, sizeof **job, by_begin);
    return jobs;
}

void muster_live_query(const struct muster_live_job *job, const char **dir,
                       struct muster_run_query *query)
{
    struct stat st;
    query->job = job;
    *dir = job->who.run_dir;
    if ((*dir)[0] && stat(*dir, &st) == 0) {
        query->run = dir;
        query->runs = 1;
    }
}

size_t muster_run_alive(const struct muster_run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->processes; i++)
        n += run->process[i].state == MUSTER_PROCESS_RUNNING;
    return n;
}

/* A process that ends by itself takes its segment away if it can: what is found here need not be
 * what ended last. */
int muster_live_none(const struct muster_run *run, const char *command, struct muster_err *err)
{
    const struct muster_process *newest = &run->process[0];
    char age[32];
    for (size_t i = 1; i < run->processes; i++)
        if (run->process[i].last_seen_unix_ns > newest->last_seen_unix_ns)
            newest = &run->process[i];
    muster_text_age(age, sizeof age, newest->last_seen_unix_ns, muster_unix_ns());
    return muster_fail(err,
                       "No job recorded by muster is running here%s. One that ended by itself is "
                       "in its run directory: %s RUN. The last that was killed, or could not write "
                       "there, was seen %s: %s %.300s",
                       geteuid() == 0 ? "" : " as this user", command, age, command,
                       newest->identity.run_dir);
}
