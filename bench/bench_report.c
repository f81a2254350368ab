/*
 * report: how many recorded operations a second are read from logs and made into a report, by one
 * thread, and how much memory that takes. The logs are written here first, by the code that the
 * plugin uses.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "launch/scratch.h"
#include "oplog/log_writer.h"
#include "report/report.h"
#include "run/run.h"
#include "segment/identity.h"
#include "segment/reap.h"
#include "segment/totals.h"

static const char usage[] =
    "usage: report [--ranks N] [--ops N] [--late US] [--rounds N] [--keep DIR]\n"
    "--ranks N   processes of the run (default 4)\n"
    "--ops N     operations of each (default 1000000)\n"
    "--late US   how much later rank 1 comes, of 200 (default 0)\n"
    "--rounds N  readings; the median counts (default 5)\n"
    "--keep DIR  only write the run there, for commands to read\n";

enum {
    RANKS_MAX = 16384,
    ROUNDS_MAX = 101,
    SIZES = 5,
    BURST = 1024, /* operations put without a pause: an eighth of the log's queue */
    PAUSE_US = 4000,
    AT_ONCE = 16,
    FINISH_MS = 60000,
    STEP_NS = 200000,
};

struct bench {
    uint64_t ranks, ops, rounds, late_us;
    const char *keep; /* NULL: the run is read, and removed */
    char run_dir[PATH_MAX], segment_dir[PATH_MAX];
};

/* A step of the training job in tests/traces/recordings/late-gpu: five all-reduces on one
 * communicator. */
static struct muster_op make_op(uint64_t number, unsigned rank, uint64_t late_ns)
{
    static const uint64_t counts[SIZES] = {1 << 20, 4 << 20, 1 << 16, 256, 8 << 20};
    const uint64_t duration_ns =
        20000 + counts[number % SIZES] / 64 + (number * 7919 + rank) % 5000;
    /* Whoever is not late waits for who is; all are over at the same time. */
    const uint64_t own_ns = rank == 1 ? late_ns : 0;
    const uint64_t begin_ns = 1700000000000000000ull + number * (STEP_NS + late_ns) + own_ns;
    return (struct muster_op){
        .number = number,
        .enqueue_ns = 1000000000 + number * (STEP_NS + late_ns) + own_ns,
        .begin_ns = begin_ns,
        .end_ns = begin_ns + duration_ns + late_ns - own_ns,
        .count = counts[number % SIZES],
        .comm = 1,
        .peer = -1,
        .func = MUSTER_FUNC_ALL_REDUCE,
        .dtype = MUSTER_DTYPE_FLOAT32,
        .algo = MUSTER_ALGO_RING,
        .proto = MUSTER_PROTO_SIMPLE,
        .channels = 24,
        .source = MUSTER_SOURCE_GPU,
        .flags = MUSTER_OP_IN_WINDOW,
    };
}

static int make_segment(const struct bench *bench, unsigned rank, struct muster_segment_file *file,
                        struct muster_err *err)
{
    struct muster_seg_identity identity;
    memset(&identity, 0, sizeof identity);
    muster_identity_read(&identity);
    identity.rank = (int32_t)rank;
    identity.world = (int32_t)bench->ranks;
    identity.timing = MUSTER_TIMING_FULL;
    identity.nccl = 22809;
    identity.api = 5;
    muster_text_copy(identity.run_dir, sizeof identity.run_dir, bench->run_dir);
    snprintf(identity.file_stem, sizeof identity.file_stem, "bench-%u", rank);
    if (muster_segment_create(file, bench->segment_dir, &identity, err) != MUSTER_SEGMENT_OK)
        return -1;
    struct muster_seg_comm *comm = &file->map->comm[0];
    comm->id = 0x6d7573746572;
    comm->rank = (int32_t)rank;
    comm->nranks = (uint32_t)bench->ranks;
    comm->nnodes = 1;
    comm->gpu_index = (int32_t)rank;
    comm->begin_ns = muster_now_ns();
    comm->uid = 1;
    return 0;
}

static void put_ops(const struct bench *bench, unsigned rank, struct muster_segment *segment,
                    struct muster_log_writer *writer)
{
    static struct muster_row_index index;
    muster_rows_index(segment, &index);
    for (uint64_t number = 0; number < bench->ops; number++) {
        struct muster_op op = make_op(number, rank, 1000 * bench->late_us);
        muster_rows_add(segment, &index, &op, op.count * sizeof(float));
        muster_log_put(writer, &op);
        if (number % BURST == BURST - 1)
            usleep(PAUSE_US);
    }
    segment->comm[0].retired = bench->ops;
    segment->comm[0].end_ns = muster_now_ns();
    atomic_store(&segment->comm[0].calls, bench->ops);
    atomic_store(&segment->exit_state, (uint32_t)MUSTER_EXIT_FINALIZED);
}

/* The life of one rank's process. */
static int write_rank(const struct bench *bench, unsigned rank)
{
    struct muster_segment_file file;
    struct muster_log_writer *writer;
    struct muster_err err;
    if (make_segment(bench, rank, &file, &err) ||
        muster_log_writer_start(&writer, &file,
                                &(struct muster_log_options){.max_bytes = UINT64_MAX / 2}, &err)) {
        fprintf(stderr, "report: %s\n", err.text);
        return 1;
    }
    put_ops(bench, rank, file.map, writer);
    uint64_t lost = atomic_load(&file.map->lost_log);
    if (lost)
        printf("# rank %u: the log's writer fell behind, %llu operations are not in it\n", rank,
               (unsigned long long)lost);
    fflush(stdout);
    return muster_log_writer_finish(writer, FINISH_MS) ? 0 : 1;
}

/* Some at a time, as each waits for its log's writer. */
static int write_run(const struct bench *bench, struct muster_err *err)
{
    for (unsigned rank = 0; rank < bench->ranks;) {
        pid_t pid[AT_ONCE];
        unsigned n = 0;
        int status = 0, failed = 0;
        fflush(stdout);
        for (; n < AT_ONCE && rank + n < bench->ranks && (n == 0 || pid[n - 1] > 0); n++) {
            pid[n] = fork();
            if (pid[n] == 0)
                _exit(write_rank(bench, rank + n));
        }
        for (unsigned i = 0; i < n; i++)
            failed |= pid[i] < 0 || waitpid(pid[i], &status, 0) != pid[i] || status;
        muster_reap(bench->segment_dir);
        if (failed)
            return muster_fail(err, "a rank from %u on could not be written", rank);
        rank += n;
    }
    return 0;
}

struct times {
    double load_s, build_s;
    uint64_t ops; /* known one by one */
    uint64_t missing;
    uint64_t joint;
};

static int read_run(const struct bench *bench, struct times *times, struct muster_err *err)
{
    const char *dir = bench->run_dir;
    const struct muster_run_query query = {
        .run = &dir, .runs = 1, .segment_dir = bench->segment_dir, .streamed = true};
    struct muster_run run;
    struct muster_view view = {0};
    struct muster_report report;
    uint64_t begin = muster_now_ns();
    if (muster_run_load(&query, &run, err))
        return -1;
    uint64_t loaded = muster_now_ns();
    bool built = muster_view_of_run_aligned(&run, &view, err) == 0 &&
                 muster_report_build(&view, MUSTER_BY_OP, &report, err) == 0;
    muster_view_free(&view);
    if (!built) {
        muster_run_free(&run);
        return -1;
    }
    *times = (struct times){.load_s = (double)(loaded - begin) / 1e9,
                            .build_s = (double)(muster_now_ns() - loaded) / 1e9,
                            .joint = report.joint};
    for (size_t i = 0; i < run.processes; i++) {
        times->ops += run.process[i].log_ops + run.process[i].ops;
        times->missing += run.process[i].ops_missing;
    }
    muster_report_free(&report);
    muster_run_free(&run);
    return 0;
}

static int compare_times(const void *a, const void *b)
{
    const struct times *x = a, *y = b;
    double s = x->load_s + x->build_s, t = y->load_s + y->build_s;
    return (s > t) - (s < t);
}

static int measure(const struct bench *bench, struct muster_err *err)
{
    static struct times times[ROUNDS_MAX];
    if (write_run(bench, err))
        return -1;
    if (bench->keep)
        return 0;
    for (uint64_t round = 0; round < bench->rounds; round++)
        if (read_run(bench, &times[round], err))
            return -1;
    qsort(times, bench->rounds, sizeof *times, compare_times);
    const struct times *median = &times[bench->rounds / 2];
    const double ops = (double)median->ops;
    printf("%llu operations of %llu ranks, %llu missing, %llu compared over all ranks\n",
           (unsigned long long)median->ops, (unsigned long long)bench->ranks,
           (unsigned long long)median->missing, (unsigned long long)median->joint);
    printf("%-8s %10s %22s\n", "", "s", "million operations/s");
    printf("%-8s %10.3f %22.2f\n", "load", median->load_s, ops / median->load_s / 1e6);
    printf("%-8s %10.3f %22.2f\n", "build", median->build_s, ops / median->build_s / 1e6);
    printf("%-8s %10.3f %22.2f\n", "both", median->load_s + median->build_s,
           ops / (median->load_s + median->build_s) / 1e6);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%.1f MB at most\n", (double)used.ru_maxrss / 1000);
    return 0;
}

static int parse(int argc, char **argv, struct bench *bench)
{
    static const struct option known[] = {{"ranks", 1, NULL, 'n'},  {"ops", 1, NULL, 'o'},
                                          {"rounds", 1, NULL, 'r'}, {"late", 1, NULL, 'l'},
                                          {"keep", 1, NULL, 'k'},   {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'k') {
            bench->keep = optarg;
            continue;
        }
        uint64_t *into = option == 'n'   ? &bench->ranks
                         : option == 'l' ? &bench->late_us
                         : option == 'o' ? &bench->ops
                                         : &bench->rounds;
        if (option == '?' || !muster_text_u64(optarg, into) || (*into < 1 && option != 'l'))
            return -1;
    }
    return optind == argc && bench->late_us <= 1000000 && bench->ranks <= RANKS_MAX &&
                   bench->rounds <= ROUNDS_MAX
               ? 0
               : -1;
}

int main(int argc, char **argv)
{
    static struct bench bench = {.ranks = 4, .ops = 1000000, .rounds = 5};
    struct muster_err err;
    if (parse(argc, argv, &bench)) {
        fputs(usage, stderr);
        return 2;
    }
    int failed = muster_scratch_make(bench.run_dir, sizeof bench.run_dir,
                                     bench.keep ? bench.keep : "/tmp", &err) ||
                 muster_scratch_make(bench.segment_dir, sizeof bench.segment_dir, "/dev/shm", &err);
    if (!failed)
        failed = measure(&bench, &err);
    if (bench.keep && !failed)
        printf("%s\n", bench.run_dir);
    else if (*bench.run_dir)
        muster_scratch_remove(bench.run_dir);
    if (*bench.segment_dir)
        muster_scratch_remove(bench.segment_dir);
    if (failed)
        fprintf(stderr, "report: %s\n", err.text);
    return failed ? 1 : 0;
}
