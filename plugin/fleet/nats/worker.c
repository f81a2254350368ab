#include "fleet/nats/worker.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/agent_http.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/text.h"
#include "fleet/nats/lease.h"
#include "fleet/nats/worker_metrics.h"

enum { PAUSE_MS = 20, JOBS = 1024 };
#define LOOK_NS    (300 * MUSTER_NS_PER_MS) /* for jobs that are free */
#define PICTURE_NS (500 * MUSTER_NS_PER_MS)
#define LOG_NS     (10 * MUSTER_NS_PER_S)
#define KEPT_BYTES (1 << 30)

struct worker {
    const struct muster_worker_options *options;
    char name[MUSTER_FLEET_NAME];
    struct muster_link *link;
    unsigned begun;
    bool open; /* board and leases are there */
    struct muster_board board;
    struct muster_leases *leases;
    struct muster_hook_queue *hooks;
    struct muster_held_job *job[JOBS];
    size_t jobs;
    uint64_t look_ns, picture_ns, logged_ns;
    uint64_t ever[MUSTER_FINDING_KINDS];
    pthread_mutex_t lock;
    struct muster_worker_picture picture; /* under the lock */
};

static void log_line(struct worker *worker, const char *text)
{
    uint64_t now = muster_now_ns();
    if (worker->logged_ns && now - worker->logged_ns < LOG_NS)
        return;
    worker->logged_ns = now;
    fprintf(worker->options->log, "muster fleet: %s\n", text);
    fflush(worker->options->log);
}

/* ---- jobs ---- */

static void drop_job(struct worker *worker, size_t i, const char *why)
{
    fprintf(worker->options->log, "muster fleet: job %s: given up: %s\n",
            muster_held_job_name(worker->job[i]), why);
    fflush(worker->options->log);
    muster_held_job_free(worker->job[i]);
    worker->job[i] = worker->job[--worker->jobs];
    malloc_trim(0);
}

static bool has_job(const struct worker *worker, const char *name)
{
    for (size_t i = 0; i < worker->jobs; i++)
        if (strcmp(muster_held_job_name(worker->job[i]), name) == 0)
            return true;
    return false;
}

static void take_job(struct worker *worker, const char *name)
{
    struct muster_err err;
    const struct muster_held_by by = {.link = worker->link,
                                      .board = &worker->board,
                                      .hooks = worker->hooks,
                                      .worker = worker->name,
                                      .hang_ns =
                                          worker->options->settings->hang_seconds * MUSTER_NS_PER_S,
                                      .log = worker->options->log,
                                      .ever = worker->ever};
    if (worker->jobs == JOBS)
        log_line(worker, "it has 1,024 jobs and takes no more: start another worker, and see who "
                         "tells of so many");
    if (worker->jobs == JOBS || strlen(name) >= MUSTER_FLEET_NAME ||
        !muster_leases_take(worker->leases, name))
        return;
    struct muster_held_job *job = muster_held_job_new(&by, name, &err);
    if (!job) {
        muster_leases_give(worker->leases, name);
        log_line(worker, err.text);
        return;
    }
    worker->job[worker->jobs++] = job;
    fprintf(worker->options->log, "muster fleet: job %s: taken\n", name);
    fflush(worker->options->log);
}

static bool is_kept(const jsStreamStateSubjects *subjects, const char *name)
{
    for (int i = 0; subjects && i < subjects->Count; i++)
        if (strcmp(subjects->List[i].Subject + sizeof MUSTER_FLEET_JOBS, name) == 0)
            return true;
    return false;
}

static void close_all(struct worker *worker)
{
    while (worker->jobs > 0)
        drop_job(worker, worker->jobs - 1, "NATS was away, or this worker ends");
    muster_leases_stop(worker->leases);
    worker->leases = NULL;
    if (worker->open)
        muster_board_close(&worker->board);
    worker->open = false;
}

/* Jobs are what agents speak of: the subjects of which something is kept. */
static void look_for_jobs(struct worker *worker)
{
    jsStreamInfo *info = NULL;
    jsOptions options;
    jsOptions_Init(&options);
    options.Wait = MUSTER_LINK_WAIT_MS;
    options.Stream.Info.SubjectsFilter = MUSTER_FLEET_JOBS ".>";
    natsStatus s =
        js_GetStreamInfo(&info, muster_link_js(worker->link), MUSTER_FLEET_STREAM, &options, NULL);
    if (s == NATS_NOT_FOUND) {
        log_line(
            worker,
            "NATS knows nothing of the fleet any more, as after the loss of its store: made anew");
        close_all(worker);
    }
    if (s != NATS_OK)
        return;
    const jsStreamStateSubjects *subjects = info->State.Subjects;
    for (size_t i = worker->jobs; i-- > 0;) {
        char name[MUSTER_FLEET_NAME];
        memcpy(name, muster_held_job_name(worker->job[i]), sizeof name);
        if (is_kept(subjects, name))
            continue;
        muster_held_job_end(worker->job[i]);
        drop_job(worker, i, "nobody tells of it any more");
        muster_leases_give(worker->leases, name);
    }
    for (int i = 0; subjects && i < subjects->Count; i++) {
        const char *name = subjects->List[i].Subject + sizeof MUSTER_FLEET_JOBS;
        if (!has_job(worker, name))
            take_job(worker, name);
    }
    jsStreamInfo_Destroy(info);
}

/* Whether there was something to do. */
static bool work(struct worker *worker)
{
    size_t messages = 0;
    uint64_t now = muster_now_ns();
    if (now >= worker->look_ns) {
        worker->look_ns = now + LOOK_NS;
        look_for_jobs(worker);
        if (!worker->open)
            return false;
    }
    for (size_t i = worker->jobs; i-- > 0;) {
        if (!muster_leases_has(worker->leases, muster_held_job_name(worker->job[i]))) {
            drop_job(worker, i,
                     "its lease ran out, as NATS answered late, or another worker took it");
            continue;
        }
        messages += muster_held_job_take(worker->job[i], muster_now_ns());
        muster_held_job_look(worker->job[i], muster_held_job_read_ns(worker->job[i]));
    }
    return messages > 0;
}

/* ---- NATS ---- */

/* -1: it can never work. */
static int open_all(struct worker *worker)
{
    struct muster_err err = {""};
    unsigned begun = muster_link_tend(worker->link, muster_now_ns());
    if (begun != worker->begun && worker->open)
        close_all(worker);
    worker->begun = begun;
    if (worker->open || !muster_link_is_up(worker->link))
        return 0;
    int rc = muster_board_open(worker->link, true, &worker->board, &err);
    worker->open = rc == 0;
    if (rc == 0)
        rc = muster_leases_start(worker->board.leases, worker->name, &worker->leases, &err);
    if (rc == 0)
        return 0;
    close_all(worker);
    log_line(worker, err.text);
    return strstr(err.text, "speaks version") ? -1 : 0;
}

/* ---- the page ---- */

static void take_picture(struct worker *worker, uint64_t now_ns)
{
    static const struct muster_worker_picture none;
    struct muster_worker_picture *picture = malloc(sizeof *picture);
    worker->picture_ns = now_ns + PICTURE_NS;
    if (!picture)
        return;
    *picture = none;
    for (size_t i = 0; i < worker->jobs; i++)
        muster_worker_picture_add(picture, worker->job[i]);
    memcpy(picture->findings.ever, worker->ever, sizeof worker->ever);
    picture->up = worker->open && muster_link_is_up(worker->link);
    picture->cpu_ns = muster_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    pthread_mutex_lock(&worker->lock);
    free(worker->picture.job);
    worker->picture = *picture;
    pthread_mutex_unlock(&worker->lock);
    free(picture);
}

static bool page(void *arg, bool open_metrics, char **text, size_t *bytes)
{
    struct worker *worker = arg;
    *text = NULL;
    FILE *memory = open_memstream(text, bytes);
    if (!memory)
        return false;
    pthread_mutex_lock(&worker->lock);
    muster_worker_print(&worker->picture, open_metrics, memory);
    pthread_mutex_unlock(&worker->lock);
    return muster_text_close(memory, text);
}

/* ---- all ---- */

/* A look at a large job takes hundreds of MB and gives them back: a third of its time would be the
 * kernel's, for pages that are taken and cleared anew. They are kept while there are jobs. */
static void keep_memory(void)
{
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
}

static void name_worker(struct worker *worker)
{
    char host[48] = "host";
    unsigned number = (unsigned)muster_unix_ns();
    gethostname(host, sizeof host - 1);
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number ^= (unsigned)getpid();
    snprintf(worker->name, sizeof worker->name, "%s-%d-%08x", host, (int)getpid(), number);
}

static bool has_ended(const sigset_t *ends, bool busy)
{
    const struct timespec pause = {.tv_nsec = busy ? 0 : PAUSE_MS * (long)MUSTER_NS_PER_MS};
    return sigtimedwait(ends, NULL, &pause) > 0;
}

static int work_until_end(struct worker *worker, const sigset_t *ends, struct muster_err *err)
{
    bool busy = false;
    while (!has_ended(ends, busy)) {
        if (open_all(worker) != 0)
            return muster_fail(err, "a fleet of another version is at work there");
        busy = worker->open && work(worker);
        if (muster_now_ns() >= worker->picture_ns)
            take_picture(worker, muster_now_ns());
    }
    return 0;
}

static int serve(struct worker *worker, struct muster_http **http, struct muster_err *err)
{
    const struct muster_worker_options *options = worker->options;
    *http = NULL;
    if (!options->listen[0])
        return 0;
    if (muster_http_start(options->listen, options->web, page, worker, http, err) != 0)
        return -1;
    fprintf(options->log, "muster fleet: %s/metrics\n", muster_http_where(*http));
    fflush(options->log);
    return 0;
}

int muster_worker_run(const struct muster_worker_options *options, struct muster_err *err)
{
    struct worker *worker = calloc(1, sizeof *worker);
    struct muster_http *http;
    sigset_t ends;
    if (!worker)
        return muster_fail_memory(err, "the worker");
    worker->options = options;
    pthread_mutex_init(&worker->lock, NULL);
    name_worker(worker);
    keep_memory();
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* before the threads: they leave these to this one */
    signal(SIGPIPE, SIG_IGN);
    const struct muster_link_options link = {
        .nats = options->nats, .who = "muster fleet", .log = options->log};
    int rc = muster_link_open(&link, &worker->link, err);
    rc = rc == 0 ? serve(worker, &http, err) : rc;
    if (rc == 0) {
        worker->hooks = muster_hook_queue_start(options->settings);
        rc = work_until_end(worker, &ends, err);
        if (http)
            muster_http_stop(http);
        close_all(worker);
        muster_hook_queue_stop(worker->hooks);
    }
    muster_link_close(worker->link);
    free(worker->picture.job);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
    return rc;
}
