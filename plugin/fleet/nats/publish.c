#include "fleet/nats/publish.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/clock.h"
#include "fleet/fleet_name.h"
#include "fleet/gather.h"
#include "fleet/nats/sender.h"
#include "segment/segment_reader.h"

enum { JOBS = 256 };
#define TAKE_NS    (250 * MUSTER_NS_PER_MS)
#define PUBLISH_NS (500 * MUSTER_NS_PER_MS)
#define LOOK_NS    (2 * MUSTER_NS_PER_S) /* the agent looks each second, unless it is held up */

/* What the agent found of one job. */
struct reported {
    uint32_t uid;
    char run_dir[MUSTER_SEG_PATH];
    struct muster_findings findings;
};

struct muster_publish {
    struct muster_publish_options options;
    struct muster_sender *sender;
    uint64_t instance;
    struct muster_gather *gather[JOBS];
    size_t gathers;
    struct muster_publisher_parts *parts; /* of all of them */
    uint64_t look_ns, publish_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Under the lock. */
    bool stop;
    uint64_t cpu_ns;
    struct reported *reported; /* of jobs with findings */
    size_t reporteds;
    bool found_new;
    struct muster_found *found; /* by the agent, last */
    size_t founds;
};

/* ---- jobs ---- */

static struct muster_gather *gather_of(struct muster_publish *publish,
                                       const struct muster_seg_identity *who,
                                       const struct muster_found *found)
{
    for (size_t i = 0; i < publish->gathers; i++)
        if (muster_gather_is(publish->gather[i], who, found->uid))
            return publish->gather[i];
    if (publish->gathers == JOBS || !found->alive)
        return NULL;
    struct muster_gather *gather =
        muster_gather_new(who, found->uid, publish->instance, publish->parts);
    if (gather)
        publish->gather[publish->gathers++] = gather;
    return gather;
}

static struct muster_gather *known_gather(const struct muster_publish *publish,
                                          const struct muster_found *found)
{
    for (size_t i = 0; i < publish->gathers; i++)
        if (muster_gather_has(publish->gather[i], found->path, found->uid))
            return publish->gather[i];
    return NULL;
}

static void look_at_jobs(struct muster_publish *publish, const struct muster_found *found, size_t n,
                         struct muster_gather **of, struct muster_found *own)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct muster_seg_identity who;
        of[i] = known_gather(publish, &found[i]);
        if (!of[i] && muster_segment_read_identity(found[i].path, &who, NULL) == 0 &&
            who.run_dir[0])
            of[i] = gather_of(publish, &who, &found[i]);
    }
    for (size_t g = 0; g < publish->gathers; g++) {
        struct muster_gather *gather = publish->gather[g];
        size_t mine = 0;
        for (size_t i = 0; i < n; i++)
            if (of[i] == gather)
                own[mine++] = found[i];
        if (muster_gather_look(gather, own, mine, muster_now_ns()) > 0)
            publish->gather[kept++] = gather;
        else
            muster_gather_free(gather);
    }
    publish->gathers = kept;
}

void muster_publish_found(void *arg, struct muster_found *found, size_t n)
{
    struct muster_publish *publish = arg;
    pthread_mutex_lock(&publish->lock);
    struct muster_found *old = publish->found;
    size_t olds = publish->founds;
    publish->found = found;
    publish->founds = n;
    publish->found_new = true;
    pthread_mutex_unlock(&publish->lock);
    muster_found_free(old, olds);
}

/* What the agent found since the last look. False: nothing. */
static bool take_found(struct muster_publish *publish, struct muster_found **found, size_t *n)
{
    pthread_mutex_lock(&publish->lock);
    bool is_new = publish->found_new;
    if (is_new) {
        *found = publish->found;
        *n = publish->founds;
        publish->found = NULL;
        publish->founds = 0;
        publish->found_new = false;
    }
    pthread_mutex_unlock(&publish->lock);
    return is_new;
}

static size_t find(const struct muster_publish *publish, struct muster_found **found)
{
    return publish->options.all ? muster_find_all_segments(publish->options.segment_dir, found)
                                : muster_find_segments(publish->options.segment_dir, found);
}

/* Frees what was found. */
static void look(struct muster_publish *publish, struct muster_found *found, size_t n)
{
    struct muster_arena memory = {0};
    struct muster_gather **of = muster_arena_array(&memory, n + 1, sizeof(struct muster_gather *));
    struct muster_found *own = muster_arena_array(&memory, n + 1, sizeof *own);
    if (!memory.failed)
        look_at_jobs(publish, found, n, of, own);
    muster_arena_free(&memory);
    muster_found_free(found, n);
}

/* ---- findings ---- */

/* The caller holds the lock. */
static struct reported *reported_of(const struct muster_publish *publish, uint32_t uid,
                                    const char *run_dir)
{
    for (size_t i = 0; i < publish->reporteds; i++)
        if (publish->reported[i].uid == uid && strcmp(publish->reported[i].run_dir, run_dir) == 0)
            return &publish->reported[i];
    return NULL;
}

/* False: no memory; what is there stays. */
static bool copy_findings(const struct muster_finding *finding, size_t n,
                          struct muster_findings *to)
{
    struct muster_findings copies = {0};
    for (size_t i = 0; i < n; i++) {
        if (!muster_findings_copy(&copies, &finding[i])) {
            muster_findings_free(&copies);
            return false;
        }
    }
    muster_findings_free(to);
    *to = copies;
    return true;
}

static void forget(struct muster_publish *publish, struct reported *reported)
{
    muster_findings_free(&reported->findings);
    *reported = publish->reported[--publish->reporteds];
}

void muster_publish_findings(void *arg, uint32_t uid, const char *run_dir,
                             const struct muster_finding *finding, size_t findings)
{
    struct muster_publish *publish = arg;
    pthread_mutex_lock(&publish->lock);
    struct reported *reported = reported_of(publish, uid, run_dir);
    if (!reported && findings > 0 && publish->reporteds < JOBS &&
        muster_grow(&publish->reported, publish->reporteds, sizeof *publish->reported)) {
        reported = &publish->reported[publish->reporteds++];
        *reported = (struct reported){.uid = uid};
        snprintf(reported->run_dir, sizeof reported->run_dir, "%s", run_dir);
    }
    if (reported && (findings == 0 || !copy_findings(finding, findings, &reported->findings)))
        forget(publish, reported);
    pthread_mutex_unlock(&publish->lock);
}

static void publish_job(struct muster_publish *publish, struct muster_gather *gather,
                        uint64_t now_ns, struct muster_wire_out *out)
{
    struct muster_findings late = {0};
    pthread_mutex_lock(&publish->lock);
    const struct reported *reported =
        reported_of(publish, muster_gather_uid(gather), muster_gather_run_dir(gather));
    if (reported)
        copy_findings(reported->findings.finding, reported->findings.n, &late);
    pthread_mutex_unlock(&publish->lock);
    muster_gather_publish(gather, now_ns, muster_unix_ns(), late.finding, late.n, out);
    muster_findings_free(&late);
}

static void publish_all(struct muster_publish *publish, uint64_t now_ns)
{
    for (size_t i = 0; i < publish->gathers; i++) {
        struct muster_wire_out out = {0};
        char subject[MUSTER_FLEET_NAME + sizeof MUSTER_FLEET_JOBS + 1];
        snprintf(subject, sizeof subject, "%s.%s", MUSTER_FLEET_JOBS,
                 muster_gather_name(publish->gather[i]));
        publish_job(publish, publish->gather[i], now_ns, &out);
        if (out.failed) {
            free(out.byte);
            continue;
        }
        muster_sender_add(publish->sender, subject, out.byte, out.used, now_ns);
    }
}

/* ---- the thread ---- */

static bool pause_until(struct muster_publish *publish, uint64_t due_ns)
{
    struct timespec at = {.tv_sec = (time_t)(due_ns / MUSTER_NS_PER_S),
                          .tv_nsec = (long)(due_ns % MUSTER_NS_PER_S)};
    pthread_mutex_lock(&publish->lock);
    while (!publish->stop && pthread_cond_timedwait(&publish->wake, &publish->lock, &at) == 0)
        ;
    bool stop = publish->stop;
    publish->cpu_ns = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    pthread_mutex_unlock(&publish->lock);
    return stop;
}

static void look_if_due(struct muster_publish *publish, uint64_t now_ns)
{
    struct muster_found *found;
    size_t n;
    if (!take_found(publish, &found, &n)) {
        if (now_ns < publish->look_ns)
            return;
        n = find(publish, &found);
    }
    look(publish, found, n);
    publish->look_ns = now_ns + LOOK_NS;
}

static void *publish_main(void *arg)
{
    struct muster_publish *publish = arg;
    uint64_t now;
    do {
        now = muster_now_ns();
        look_if_due(publish, now);
        if (now >= publish->publish_ns) {
            publish_all(publish, now);
            publish->publish_ns = now + PUBLISH_NS;
        } else {
            for (size_t i = 0; i < publish->gathers; i++)
                muster_gather_take(publish->gather[i], now);
        }
        muster_sender_send(publish->sender);
    } while (!pause_until(publish, now + TAKE_NS));
    /* Whoever is over by now is sent as over: an agent that ends with its job is asked nothing
     * later. */
    struct muster_found *found;
    size_t n = find(publish, &found);
    look(publish, found, n);
    publish_all(publish, muster_now_ns());
    muster_sender_send(publish->sender);
    return NULL;
}

static int start_thread(struct muster_publish *publish, struct muster_err *err)
{
    pthread_condattr_t clock;
    pthread_mutex_init(&publish->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&publish->wake, &clock);
    pthread_condattr_destroy(&clock);
    const struct muster_link_options link = {.nats = publish->options.nats,
                                             .who = "muster agent",
                                             .log = publish->options.log,
                                             .quiet = publish->options.quiet};
    if (muster_sender_open(&link, publish->instance, &publish->sender, err) != 0)
        return -1;
    int rc = pthread_create(&publish->thread, NULL, publish_main, publish);
    if (rc == 0)
        return 0;
    muster_sender_close(publish->sender);
    return muster_fail(err, "no thread to tell NATS with: %s", strerror(rc));
}

static void free_all(struct muster_publish *publish)
{
    for (size_t i = 0; i < publish->gathers; i++)
        muster_gather_free(publish->gather[i]);
    free(publish->parts);
    while (publish->reporteds > 0)
        forget(publish, publish->reported);
    free(publish->reported);
    muster_found_free(publish->found, publish->founds);
    pthread_cond_destroy(&publish->wake);
    pthread_mutex_destroy(&publish->lock);
    free(publish);
}

int muster_publish_start(const struct muster_publish_options *options,
                         struct muster_publish **publish, struct muster_err *err)
{
    struct muster_publish *one = calloc(1, sizeof *one);
    if (!one)
        return muster_fail_memory(err, "what NATS is told");
    one->options = *options;
    one->parts = muster_gather_parts_new();
    if (!one->parts) {
        free(one);
        return muster_fail_memory(err, "what NATS is told");
    }
    if (getrandom(&one->instance, sizeof one->instance, 0) != sizeof one->instance)
        one->instance = muster_unix_ns();
    if (start_thread(one, err) != 0) {
        free_all(one);
        return -1;
    }
    *publish = one;
    return 0;
}

void muster_publish_stop(struct muster_publish *publish)
{
    if (!publish)
        return;
    pthread_mutex_lock(&publish->lock);
    publish->stop = true;
    pthread_cond_signal(&publish->wake);
    pthread_mutex_unlock(&publish->lock);
    pthread_join(publish->thread, NULL);
    muster_sender_close(publish->sender);
    free_all(publish);
}

/* ---- metrics ---- */

static void one_family(struct muster_exposition *to, const struct muster_family *family,
                       uint64_t value)
{
    const struct muster_label none = {NULL, NULL};
    muster_exposition_family(to, family);
    muster_exposition_count(to, "", &none, value);
}

void muster_publish_metrics(void *arg, struct muster_exposition *to)
{
    static const struct muster_family up = {"muster_agent_nats_up", MUSTER_FAMILY_GAUGE,
                                            "1 while NATS takes what the agent tells"};
    static const struct muster_family waiting = {"muster_agent_nats_waiting", MUSTER_FAMILY_GAUGE,
                                                 "Messages that NATS has not taken yet"};
    static const struct muster_family messages = {
        "muster_agent_nats_messages_total", MUSTER_FAMILY_COUNTER, "Messages that NATS has taken"};
    static const struct muster_family lost = {"muster_agent_nats_lost_total", MUSTER_FAMILY_COUNTER,
                                              "Messages that became older than a minute"};
    static const struct muster_family bytes = {"muster_agent_nats_bytes_total",
                                               MUSTER_FAMILY_COUNTER,
                                               "Bytes of the messages that were made"};
    struct muster_publish *publish = arg;
    struct muster_sender_figures is = muster_sender_figures(publish->sender);
    one_family(to, &up, is.good);
    one_family(to, &waiting, is.waiting);
    one_family(to, &messages, is.there);
    one_family(to, &lost, is.lost);
    one_family(to, &bytes, is.bytes);
}
