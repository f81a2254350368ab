#include "cost_worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sort.h"

enum {
    BURST = 256,          /* collectives without a pause */
    IN_FLIGHT = 2048,     /* of all threads without a pause: fewer than a plugin can hold */
    WARM = 8,             /* of a burst that are not counted: the pause cooled the caches */
    WHOLE = 4,            /* collectives per sample of a whole one */
    PAUSE_US = 10000,     /* for the plugin's own thread to empty what the burst left */
    LINE = 64,            /* bytes of a cache line */
    DRIVER_BATCHES = 255, /* of WHOLE launches, for the median of the driver's share */
};

struct measured_thread {
    struct process *process;
    struct bench_lane lane;
    struct cost_hist *hist;
    pthread_t thread;
    uint64_t collectives;
    volatile char *elsewhere; /* [cold_bytes]: what a job does between two collectives */
};

/* What the worker's process holds. */
struct process {
    struct cost_plan plan;
    struct muster_driver driver;
    int mask;
    bool end; /* written before `begin` is passed, read after */
    pthread_barrier_t begin, done;
    uint64_t (*marks)(void); /* NULL: marks are not told apart */
    double driver_ns;
    void *context; /* of the first GPU; NULL: not asked for */
    int (*set_context)(void *context);
    struct measured_thread thread[COST_THREADS];
};

/* The worker's answer to its start, and to its end. */
struct answer {
    char name[64];
    bool asks_kernel, asks_launch;
    double driver_ns;
    bool failed;
    uint64_t collectives;
    struct muster_err err;
};

/* `ticks` net of the clock. With a coarse clock single ones may be negative; the first bucket
 * would bend their mean, so the histogram begins one step below zero. */
static void count(const struct cost_plan *plan, struct cost_hist *hist, unsigned row, double ticks)
{
    double net = ticks * plan->tick_ns * COST_PER_NS + COST_ZERO;
    uint32_t bucket = net <= 0 ? 0 : net >= COST_BUCKETS ? COST_BUCKETS - 1 : (uint32_t)net;
    hist->n[row][bucket]++;
}

static int burst(const struct cost_plan *plan)
{
    int share = IN_FLIGHT / (int)plan->threads;
    return share < BURST ? share : BURST;
}

static void cool(struct measured_thread *thread)
{
    for (size_t i = 0; i < thread->process->plan.cold_bytes; i += LINE)
        thread->elsewhere[i]++;
}

static void burst_of_calls(struct measured_thread *thread)
{
    const struct cost_plan *plan = &thread->process->plan;
    const int n = burst(plan);
    for (int i = 0; i < n; i++) {
        cool(thread);
        bench_lane_collective_sampled(&thread->lane, plan->timed);
        for (unsigned k = 0; i >= WARM && k < thread->lane.samples; k++)
            count(plan, thread->hist, thread->lane.sample[k].call,
                  (double)thread->lane.sample[k].ticks - plan->tick_cost.ticks);
    }
    thread->collectives += (uint64_t)n;
}

static void burst_of_wholes(struct measured_thread *thread)
{
    const struct cost_plan *plan = &thread->process->plan;
    const int n = burst(plan), each = plan->cold_bytes ? 1 : WHOLE;
    for (int i = 0; i < n; i += each) {
        cool(thread);
        uint64_t begin = bench_ticks();
        for (int k = 0; k < each; k++)
            bench_lane_collective(&thread->lane, plan->timed);
        double ticks = (double)(bench_ticks() - begin) - plan->tick_cost.ticks;
        if (i >= WARM)
            count(plan, thread->hist, COST_WHOLE, ticks / each);
    }
    thread->collectives += (uint64_t)n;
}

static void *measure(void *arg)
{
    struct measured_thread *thread = arg;
    struct process *process = thread->process;
    if (process->context)
        process->set_context(process->context);
    for (;;) {
        pthread_barrier_wait(&process->begin);
        if (process->end)
            return NULL;
        burst_of_calls(thread);
        usleep(PAUSE_US);
        burst_of_wholes(thread);
        usleep(PAUSE_US);
        pthread_barrier_wait(&process->done);
    }
}

struct event_calls {
    uint64_t (*marks)(void);
    int (*get_context)(void **context);
    int (*create)(void **event, unsigned flags);
    int (*record)(void *event, void *stream);
    int (*is_capturing)(void *stream, int *status);
};

/* What a timed launch asks of the driver, by itself. */
static double driver_share_ns(const struct cost_plan *plan, const struct event_calls *calls)
{
    double batch[DRIVER_BATCHES];
    void *context, *event[2];
    int status;
    if (calls->get_context(&context) || calls->create(&event[0], 0) || calls->create(&event[1], 0))
        return 0;
    for (int i = 0; i < DRIVER_BATCHES; i++) {
        uint64_t begin = bench_ticks();
        for (int k = 0; k < WHOLE; k++) {
            calls->is_capturing(NULL, &status);
            calls->record(event[0], NULL);
            calls->record(event[1], NULL);
        }
        batch[i] =
            ((double)(bench_ticks() - begin) - plan->tick_cost.ticks) * plan->tick_ns / WHOLE;
    }
    muster_sort_double(batch, DRIVER_BATCHES);
    return batch[DRIVER_BATCHES / 2];
}

/* Its name is the driver's, so that the plugin finds it loaded. */
static int load_cuda(struct process *process, struct muster_err *err)
{
    struct event_calls calls;
    const struct {
        const char *name;
        void *to;
    } wanted[] = {{"bench_marks_recorded", &calls.marks},
                  {"cuCtxGetCurrent", &calls.get_context},
                  {"cuEventCreate", &calls.create},
                  {"cuEventRecord", &calls.record},
                  {"cuStreamIsCapturing", &calls.is_capturing}};
    if (!process->plan.cuda)
        return 0;
    void *library = dlopen(process->plan.cuda, RTLD_NOW | RTLD_GLOBAL);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *function = library ? dlsym(library, wanted[i].name) : NULL;
        if (!function)
            return muster_fail(err, "%s", dlerror());
        memcpy(wanted[i].to, &function, sizeof function);
    }
    process->marks = process->plan.marks ? calls.marks : NULL;
    process->driver_ns = driver_share_ns(&process->plan, &calls);
    return 0;
}

/* As NCCL's threads have it. */
static int open_gpu(struct process *process, struct muster_err *err)
{
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    const struct {
        const char *name;
        void *to;
    } wanted[] = {{"cuInit", &init},
                  {"cuDevicePrimaryCtxRetain", &retain},
                  {"cuCtxSetCurrent", &process->set_context}};
    if (!process->plan.gpu || process->plan.cuda)
        return 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *function = driver ? dlsym(driver, wanted[i].name) : NULL;
        if (!function)
            return muster_fail(err, "%s", dlerror());
        memcpy(wanted[i].to, &function, sizeof function);
    }
    if (init(0) || retain(&process->context, 0) || process->set_context(process->context))
        return muster_fail(err, "no CUDA context of the first GPU");
    return 0;
}

static int load(struct process *process, struct cost_hist *hist, struct muster_err *err)
{
    const struct cost_plan *plan = &process->plan;
    if (load_cuda(process, err) || open_gpu(process, err))
        return -1;
    if (muster_driver_open(&process->driver, plan->plugin, plan->api, 0, err))
        return -1;
    if (process->driver.api < 4)
        return muster_fail(err, "%s: its newest interface is v%u; v4 or newer is needed",
                           plan->plugin, process->driver.api);
    for (unsigned i = 0; i < plan->threads; i++) {
        struct measured_thread *thread = &process->thread[i];
        thread->process = process;
        thread->hist = &hist[i];
        if (bench_lane_init(&thread->lane, &process->driver, 0x6d757374 + i, &process->mask, err))
            return -1;
        thread->lane.marks = process->marks;
        thread->elsewhere = calloc(1, plan->cold_bytes + 1);
        if (!thread->elsewhere)
            return muster_fail(err, "no memory to cool the caches with");
    }
    return 0;
}

static int start_threads(struct process *process, struct muster_err *err)
{
    const unsigned n = process->plan.threads;
    pthread_barrier_init(&process->begin, NULL, n + 1);
    pthread_barrier_init(&process->done, NULL, n + 1);
    for (unsigned i = 0; i < n; i++)
        if (pthread_create(&process->thread[i].thread, NULL, measure, &process->thread[i]))
            return muster_fail(err, "cannot start thread %u of %u", i + 1, n);
    return 0;
}

static void end_threads(struct process *process, struct answer *answer)
{
    process->end = true;
    pthread_barrier_wait(&process->begin);
    for (unsigned i = 0; i < process->plan.threads; i++) {
        pthread_join(process->thread[i].thread, NULL);
        muster_driver_fini(&process->driver, process->thread[i].lane.context);
        answer->collectives += process->thread[i].collectives;
    }
}

static void serve(struct process *process, struct cost_hist *hist, int from, int to)
{
    struct answer answer = {0};
    char order;
    if (load(process, hist, &answer.err) || start_threads(process, &answer.err))
        answer.failed = true;
    else
        snprintf(answer.name, sizeof answer.name, "%s v%u", process->driver.name,
                 process->driver.api);
    answer.driver_ns = process->driver_ns;
    answer.asks_kernel = process->mask >> MUSTER_EVENT_KERNEL_CH & 1;
    answer.asks_launch = process->mask >> MUSTER_EVENT_KERNEL_LAUNCH & 1;
    if (write(to, &answer, sizeof answer) != (ssize_t)sizeof answer || answer.failed)
        _exit(1);
    while (read(from, &order, 1) == 1 && order == 'r') {
        pthread_barrier_wait(&process->begin);
        pthread_barrier_wait(&process->done);
        if (write(to, &order, 1) != 1)
            _exit(1);
    }
    end_threads(process, &answer);
    if (write(to, &answer, sizeof answer) != (ssize_t)sizeof answer)
        _exit(1);
}

/* In the new process. */
static void run_process(const struct cost_plan *plan, struct cost_hist *hist, int from, int to)
{
    static struct process process;
    process.plan = *plan;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("MUSTER_TIMING", plan->timing, 0);
    setenv("MUSTER_DIR", plan->run_dir, 1);
    setenv("NCCL_ALLGATHERV_ENABLE", "0", 1); /* else the newest interfaces stamp no kernels */
    serve(&process, hist, from, to);
    exit(0); /* with the plugin's exit handlers */
}

static int read_answer(const struct cost_worker *worker, struct answer *answer,
                       struct muster_err *err)
{
    if (read(worker->from, answer, sizeof *answer) != (ssize_t)sizeof *answer)
        return muster_fail(err, "the process of plugin %s died",
                           *worker->name ? worker->name : "that was being loaded");
    return answer->failed ? muster_fail(err, "%s", answer->err.text) : 0;
}

static int share_hist(struct cost_worker *worker, struct muster_err *err)
{
    void *shared = mmap(NULL, worker->threads * sizeof(struct cost_hist), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return muster_fail(err, "no memory for the samples of %u threads", worker->threads);
    worker->hist = shared;
    return 0;
}

static int start_process(struct cost_worker *worker, const struct cost_plan *plan,
                         struct muster_err *err)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC))
        return muster_fail(err, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return muster_fail(err, "cannot make a pipe: %s", strerror(errno));
    }
    worker->pid = fork();
    if (worker->pid == 0) {
        close(to[1]);
        close(from[0]);
        run_process(plan, worker->hist, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    worker->to = to[1];
    worker->from = from[0];
    return worker->pid < 0 ? muster_fail(err, "fork: %s", strerror(errno)) : 0;
}

int cost_worker_start(struct cost_worker *worker, const struct cost_plan *plan,
                      struct muster_err *err)
{
    struct answer answer;
    *worker = (struct cost_worker){.to = -1, .from = -1, .threads = plan->threads};
    if (share_hist(worker, err) || start_process(worker, plan, err) ||
        read_answer(worker, &answer, err)) {
        cost_worker_free(worker);
        return -1;
    }
    memcpy(worker->name, answer.name, sizeof worker->name);
    worker->driver_ns = answer.driver_ns;
    worker->asks_kernel = answer.asks_kernel;
    worker->asks_launch = answer.asks_launch;
    return 0;
}

int cost_worker_round(struct cost_worker *worker, struct muster_err *err)
{
    char order = 'r';
    if (write(worker->to, &order, 1) != 1 || read(worker->from, &order, 1) != 1)
        return muster_fail(err, "the process of plugin %s died", worker->name);
    return 0;
}

int cost_worker_finish(struct cost_worker *worker, uint64_t *collectives, struct muster_err *err)
{
    /* Not by closing: later workers have inherited this end of the pipe. */
    const char order = 'e';
    struct answer answer;
    int status = 0;
    if (write(worker->to, &order, 1) != 1)
        return muster_fail(err, "the process of plugin %s died", worker->name);
    if (read_answer(worker, &answer, err))
        return -1;
    while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
        ;
    worker->pid = 0;
    if (status)
        return muster_fail(err, "the process of plugin %s ended with status %#x", worker->name,
                           (unsigned)status);
    *collectives = answer.collectives;
    return 0;
}

void cost_worker_free(struct cost_worker *worker)
{
    if (worker->threads == 0)
        return; /* never started */
    if (worker->to >= 0)
        close(worker->to);
    if (worker->from >= 0)
        close(worker->from);
    if (worker->pid > 0) {
        kill(worker->pid, SIGKILL);
        waitpid(worker->pid, NULL, 0);
    }
    if (worker->hist)
        munmap(worker->hist, worker->threads * sizeof(struct cost_hist));
    *worker = (struct cost_worker){.to = -1, .from = -1};
}

static uint64_t bucket_total(const struct cost_worker *worker, unsigned row, unsigned bucket)
{
    uint64_t total = 0;
    for (unsigned thread = 0; thread < worker->threads; thread++)
        total += worker->hist[thread].n[row][bucket];
    return total;
}

static uint64_t row_total(const struct cost_worker *worker, unsigned row)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < COST_BUCKETS; i++)
        total += bucket_total(worker, row, i);
    return total;
}

static double bucket_ns(unsigned bucket)
{
    return ((double)bucket - COST_ZERO) / COST_PER_NS;
}

double cost_quantile_ns(const struct cost_worker *worker, unsigned row, double q)
{
    const double wanted = q * (double)row_total(worker, row);
    uint64_t seen = 0;
    for (unsigned i = 0; i < COST_BUCKETS && wanted > 0; i++) {
        seen += bucket_total(worker, row, i);
        if ((double)seen >= wanted)
            return bucket_ns(i) > 0 ? bucket_ns(i) : 0;
    }
    return -1;
}

double cost_mean_ns(const struct cost_worker *worker, unsigned row, double cut)
{
    const double wanted = (1 - cut) * (double)row_total(worker, row);
    double seen = 0, sum = 0;
    for (unsigned i = 0; i < COST_BUCKETS && seen < wanted; i++) {
        double n = (double)bucket_total(worker, row, i);
        seen += n;
        sum += n * bucket_ns(i);
    }
    if (seen == 0)
        return -1;
    return sum > 0 ? sum / seen : 0;
}
