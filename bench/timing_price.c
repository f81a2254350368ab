/*
 * timing_price: what times by CUDA events cost an all-reduce, by size, in a loop of nothing but
 * all-reduces; what one record costs the calling thread; and what a thread burns that reads the
 * events. plugin/record/launch_price.c carries the table.
 *
 *   timing_price [--nccl PATH] [--cuda PATH] [--ranks N] [--threads] [--rounds N] [--context]
 *
 * A process per GPU, or with --threads one process; ranks share GPUs where there are too few.
 * NCCL_PROFILER_PLUGIN and NULL_PLUGIN_MASK say what NCCL arms beside. --context tries
 * cuCtxRecordEvent instead: its price, and what it does to a capture of another stream.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { RANKS = 8, ROUNDS = 64, EVENTS = 4096, FLOAT32 = 7, SUM = 0, RELAXED = 2 };
enum { TIMED = 0, BLOCKING = 1, UNTIMED = 2 }; /* flags of cuEventCreate */

struct id {
    char bytes[128];
};

static struct {
    int (*init)(unsigned);
    int (*devices)(int *);
    int (*device)(int *, int);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*alloc)(uint64_t *, size_t);
    int (*stream)(void **, unsigned);
    int (*sync)(void *);
    int (*create)(void **, unsigned);
    int (*record)(void *, void *);
    int (*query)(void *);
    int (*wait)(void *);
    int (*elapsed)(float *, void *, void *);
    int (*capture)(void *, int);
    int (*capture_end)(void *, void **);
    int (*capture_info)(void *, int *);
    int (*context_record)(void *, void *); /* CUDA 12.5; may be NULL */
    int (*unique_id)(struct id *);
    int (*comm)(void **, int, struct id, int);
    int (*allreduce)(const void *, void *, size_t, int, int, void *, void *);
    int (*destroy)(void *);
} gpu;

static const struct {
    size_t bytes;
    unsigned iterations;
} sizes[] = {{8, 2000},       {1 << 10, 2000}, {32 << 10, 2000}, {256 << 10, 1500},
             {2 << 20, 1000}, {8 << 20, 400},  {64 << 20, 60}};
enum { SIZES = sizeof sizes / sizeof *sizes };

enum kind { NOTHING, NOTHING_AGAIN, ONE_UNTIMED, ONE_TIMED, PAIR, PAIR_BLOCKING, KINDS };
static const char *const kind_words[KINDS] = {"none",    "none again", "1 untimed",
                                              "1 timed", "pair",       "pair, blocking"};

/* Shared by the ranks. */
struct shared {
    struct id id;
    _Atomic int id_ready;
    _Atomic unsigned arrived, turn;
    double us[SIZES][KINDS][ROUNDS][RANKS];
    double record_ns[RANKS], query_ns[RANKS], elapsed_ns[RANKS], early_ns[RANKS];
};

static struct {
    const char *nccl, *cuda;
    int ranks, rounds;
    bool threads, context;
    struct shared *shared;
} run = {.nccl = "libnccl.so.2", .cuda = "libcuda.so.1", .ranks = 2, .rounds = 9};

static void die(const char *what, int code)
{
    fprintf(stderr, "timing_price: %s: %d\n", what, code);
    _exit(1);
}

static void check(int code, const char *what)
{
    if (code)
        die(what, code);
}

static void find(void *library, const char *name, void *to, bool needed)
{
    void *function = dlsym(library, name);
    if (!function && needed)
        die(name, 0);
    memcpy(to, &function, sizeof function);
}

static void load(void)
{
    void *cuda = dlopen(run.cuda, RTLD_NOW);
    void *nccl = cuda ? dlopen(run.nccl, RTLD_NOW) : NULL;
    if (!nccl) {
        fprintf(stderr, "timing_price: %s\n", dlerror());
        _exit(1);
    }
    const struct {
        const char *name;
        void *to;
    } driver[] = {{"cuInit", &gpu.init},
                  {"cuDeviceGetCount", &gpu.devices},
                  {"cuDeviceGet", &gpu.device},
                  {"cuDevicePrimaryCtxRetain", &gpu.retain},
                  {"cuCtxSetCurrent", &gpu.set_current},
                  {"cuMemAlloc_v2", &gpu.alloc},
                  {"cuStreamCreate", &gpu.stream},
                  {"cuStreamSynchronize", &gpu.sync},
                  {"cuEventCreate", &gpu.create},
                  {"cuEventRecord", &gpu.record},
                  {"cuEventQuery", &gpu.query},
                  {"cuEventSynchronize", &gpu.wait},
                  {"cuEventElapsedTime", &gpu.elapsed},
                  {"cuStreamBeginCapture_v2", &gpu.capture},
                  {"cuStreamEndCapture", &gpu.capture_end},
                  {"cuStreamIsCapturing", &gpu.capture_info}};
    for (size_t i = 0; i < sizeof driver / sizeof *driver; i++)
        find(cuda, driver[i].name, driver[i].to, true);
    find(cuda, "cuCtxRecordEvent", &gpu.context_record, false);
    find(nccl, "ncclGetUniqueId", &gpu.unique_id, true);
    find(nccl, "ncclCommInitRank", &gpu.comm, true);
    find(nccl, "ncclAllReduce", &gpu.allreduce, true);
    find(nccl, "ncclCommDestroy", &gpu.destroy, true);
}

static void meet(void)
{
    /* Acquire and release: what a rank wrote before is seen by those that leave after it. */
    unsigned turn = atomic_load_explicit(&run.shared->turn, memory_order_acquire);
    unsigned n = atomic_fetch_add_explicit(&run.shared->arrived, 1, memory_order_acq_rel) + 1;
    if (n % (unsigned)run.ranks == 0)
        atomic_store_explicit(&run.shared->turn, turn + 1, memory_order_release);
    while (atomic_load_explicit(&run.shared->turn, memory_order_acquire) == turn)
        sched_yield();
}

struct rank {
    int number;
    void *context, *stream, *comm;
    uint64_t from, to;
    void *event[BLOCKING + 2][EVENTS]; /* by flags */
};

static void allreduce(const struct rank *rank, size_t bytes)
{
    check(gpu.allreduce((const void *)rank->from, (void *)rank->to, bytes / 4, FLOAT32, SUM,
                        rank->comm, rank->stream),
          "ncclAllReduce");
}

static void loop(const struct rank *rank, enum kind kind, size_t bytes, unsigned n)
{
    void *const *event = rank->event[kind == PAIR_BLOCKING ? BLOCKING
                                     : kind == ONE_UNTIMED ? UNTIMED
                                                           : TIMED];
    bool before = kind == PAIR || kind == PAIR_BLOCKING;
    for (unsigned i = 0; i < n; i++) {
        if (before)
            gpu.record(event[2 * i % EVENTS], rank->stream);
        allreduce(rank, bytes);
        if (kind >= ONE_UNTIMED)
            gpu.record(event[(2 * i + 1) % EVENTS], rank->stream);
    }
}

static void measure(const struct rank *rank, int round)
{
    for (unsigned s = 0; s < SIZES; s++)
        for (unsigned k = 0; k < KINDS; k++) {
            enum kind kind = (enum kind)((k + (unsigned)round) % KINDS);
            unsigned n = sizes[s].iterations;
            loop(rank, kind, sizes[s].bytes, n / 10);
            check(gpu.sync(rank->stream), "cuStreamSynchronize");
            meet();
            uint64_t begin = muster_now_ns();
            loop(rank, kind, sizes[s].bytes, n);
            check(gpu.sync(rank->stream), "cuStreamSynchronize");
            if (round >= 0)
                run.shared->us[s][kind][round][rank->number] =
                    (double)(muster_now_ns() - begin) / n / 1e3;
        }
}

/* Host time of the driver's calls on a stream that is idle, or that waits. */
static void measure_calls(const struct rank *rank)
{
    float ms;
    void *const *event = rank->event[TIMED];
    uint64_t begin = muster_now_ns();
    for (unsigned i = 0; i < EVENTS; i++)
        gpu.record(event[i], rank->stream);
    run.shared->record_ns[rank->number] = (double)(muster_now_ns() - begin) / EVENTS;
    allreduce(rank, 64 << 20);
    gpu.record(event[0], rank->stream);
    begin = muster_now_ns();
    unsigned n = 0;
    while (gpu.query(event[0]) != 0)
        n++;
    run.shared->early_ns[rank->number] = n ? (double)(muster_now_ns() - begin) / n : 0;
    check(gpu.sync(rank->stream), "cuStreamSynchronize");
    begin = muster_now_ns();
    for (unsigned i = 0; i < EVENTS; i++)
        gpu.query(event[i]);
    run.shared->query_ns[rank->number] = (double)(muster_now_ns() - begin) / EVENTS;
    begin = muster_now_ns();
    for (unsigned i = 1; i < EVENTS; i++)
        gpu.elapsed(&ms, event[i - 1], event[i]);
    run.shared->elapsed_ns[rank->number] = (double)(muster_now_ns() - begin) / (EVENTS - 1);
}

/* cuCtxRecordEvent records all streams of a context; what it does while one is being captured. */
static void try_context(const struct rank *rank)
{
    void *other, *graph = NULL;
    int capturing = -1;
    if (!gpu.context_record) {
        printf("rank %d: the driver has no cuCtxRecordEvent\n", rank->number);
        return;
    }
    enum { N = 2000 };
    double us[2];
    for (int with = 0; with < 2; with++) {
        check(gpu.sync(rank->stream), "cuStreamSynchronize");
        meet();
        uint64_t begin = muster_now_ns();
        for (unsigned i = 0; i < N; i++) {
            allreduce(rank, 8);
            if (with)
                check(gpu.context_record(rank->context, rank->event[TIMED][i]), "cuCtxRecordEvent");
        }
        check(gpu.sync(rank->stream), "cuStreamSynchronize");
        us[with] = (double)(muster_now_ns() - begin) / N / 1e3;
    }
    printf("rank %d: 8 B %.2f us, with cuCtxRecordEvent behind each %.2f us\n", rank->number, us[0],
           us[1]);
    check(gpu.stream(&other, 1), "cuStreamCreate");
    check(gpu.capture(other, RELAXED), "cuStreamBeginCapture");
    int code = gpu.context_record(rank->context, rank->event[TIMED][0]);
    int state = gpu.capture_info(other, &capturing);
    int end = gpu.capture_end(other, &graph);
    printf("rank %d: while another stream is captured it returns %d; that capture's state is %d "
           "(cuStreamIsCapturing %d; 2: invalidated), ending it returns %d\n",
           rank->number, code, capturing, state, end);
}

static void *rank_main(void *argument)
{
    static struct rank ranks[RANKS];
    int number = *(int *)argument;
    struct rank *rank = &ranks[number];
    rank->number = number;
    int device, devices = 1;
    check(gpu.init(0), "cuInit");
    check(gpu.devices(&devices), "cuDeviceGetCount");
    check(gpu.device(&device, number % devices), "cuDeviceGet");
    check(gpu.retain(&rank->context, device), "cuDevicePrimaryCtxRetain");
    check(gpu.set_current(rank->context), "cuCtxSetCurrent");
    if (number == 0) {
        check(gpu.unique_id(&run.shared->id), "ncclGetUniqueId");
        atomic_store_explicit(&run.shared->id_ready, 1, memory_order_release);
    }
    while (!atomic_load_explicit(&run.shared->id_ready, memory_order_acquire))
        sched_yield();
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): main maps it before any rank begins */
    check(gpu.comm(&rank->comm, run.ranks, run.shared->id, number), "ncclCommInitRank");
    check(gpu.stream(&rank->stream, 1), "cuStreamCreate");
    check(gpu.alloc(&rank->from, 64 << 20), "cuMemAlloc");
    check(gpu.alloc(&rank->to, 64 << 20), "cuMemAlloc");
    for (unsigned flags = TIMED; flags <= UNTIMED; flags++)
        for (unsigned i = 0; i < EVENTS; i++)
            check(gpu.create(&rank->event[flags][i], flags), "cuEventCreate");
    measure(rank, -1);
    if (run.context)
        try_context(rank);
    else
        for (int round = 0; round < run.rounds; round++)
            measure(rank, round);
    measure_calls(rank);
    meet();
    check(gpu.destroy(rank->comm), "ncclCommDestroy");
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The slowest rank's time of a round, as all-reduces end together. */
static double of_round(unsigned s, unsigned kind, int round)
{
    double most = 0;
    for (int r = 0; r < run.ranks; r++)
        if (run.shared->us[s][kind][round][r] > most)
            most = run.shared->us[s][kind][round][r];
    return most;
}

static void print_table(void)
{
    printf("%-10s %10s", "bytes", "none, us");
    for (unsigned k = NOTHING_AGAIN; k < KINDS; k++)
        printf(" %14s", kind_words[k]);
    printf("   (us more, median of %d rounds)\n", run.rounds);
    for (unsigned s = 0; s < SIZES; s++) {
        double plain[ROUNDS], more[ROUNDS];
        for (int i = 0; i < run.rounds; i++)
            plain[i] = of_round(s, NOTHING, i);
        printf("%-10zu %10.3f", sizes[s].bytes, median(plain, run.rounds));
        for (unsigned k = NOTHING_AGAIN; k < KINDS; k++) {
            for (int i = 0; i < run.rounds; i++)
                more[i] = of_round(s, k, i) - of_round(s, NOTHING, i);
            printf(" %14.3f", median(more, run.rounds));
        }
        printf("\n");
    }
}

static void print_calls(void)
{
    const struct shared *shared = run.shared;
    for (int r = 0; shared && r < run.ranks; r++)
        printf("rank %d: ns a call: record %.0f, query of what is over %.0f, of what is not %.0f, "
               "elapsed %.0f\n",
               r, shared->record_ns[r], shared->query_ns[r], shared->early_ns[r],
               shared->elapsed_ns[r]);
}

static int run_ranks(int *numbers)
{
    int failed = 0;
    pthread_t thread[RANKS];
    pid_t pid[RANKS];
    if (run.threads)
        load();
    for (int r = 0; r < run.ranks; r++) {
        numbers[r] = r;
        if (run.threads) {
            check(pthread_create(&thread[r], NULL, rank_main, &numbers[r]), "pthread_create");
        } else if ((pid[r] = fork()) == 0) {
            load();
            rank_main(&numbers[r]);
            fflush(stdout);
            _exit(0);
        }
    }
    for (int r = 0; r < run.ranks; r++) {
        int status = 0;
        if (run.threads)
            pthread_join(thread[r], NULL);
        else if (waitpid(pid[r], &status, 0) < 0 || status != 0)
            failed = 1;
    }
    return failed;
}

int main(int argc, char **argv)
{
    const struct option options[] = {{"nccl", 1, NULL, 'n'},
                                     {"cuda", 1, NULL, 'c'},
                                     {"ranks", 1, NULL, 'r'},
                                     {"threads", 0, NULL, 't'},
                                     {"rounds", 1, NULL, 'o'},
                                     {"context", 0, NULL, 'x'},
                                     {0}};
    int numbers[RANKS], letter;
    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (letter == 'n')
            run.nccl = optarg;
        else if (letter == 'c')
            run.cuda = optarg;
        else if (letter == 'r')
            run.ranks = atoi(optarg);
        else if (letter == 'o')
            run.rounds = atoi(optarg);
        else if (letter == 't')
            run.threads = true;
        else if (letter == 'x')
            run.context = true;
        else
            return 2;
    if (run.ranks < 1 || run.ranks > RANKS || run.rounds < 1 || run.rounds > ROUNDS)
        return 2;
    run.shared =
        mmap(NULL, sizeof *run.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.shared == MAP_FAILED)
        die("mmap", 0);
    if (run_ranks(numbers))
        return 1;
    if (!run.context)
        print_table();
    print_calls();
    return 0;
}
