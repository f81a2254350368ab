/*
 * analysis: how many recorded operations a second plugin/diagnose looks at, by one thread: from
 * plain operations in memory through the view to the findings on late ranks and slow transfers.
 * Time is what the thread had of its core, so that other work on the machine does not count.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/pages.h"
#include "base/text.h"
#include "diagnose/straggler/straggler.h"
#include "diagnose/transfer/transfer.h"

static const char usage[] = "usage: analysis [--ranks N] [--ops N] [--rounds N] [--clean]\n"
                            "--ranks N   ranks (default 4)\n"
                            "--ops N     operations of each (default 1000000)\n"
                            "--rounds N  the median counts (default 5)\n"
                            "--clean     no rank is late, so that transfers are looked at, too\n";

enum { ROUNDS_MAX = 101, SIZES = 5, PAIR_EVERY = 4 };

struct bench {
    uint64_t ranks, ops, rounds;
    bool clean;
};

/* A step of five all-reduces; every fourth operation is one of a pair of neighbours, so that
 * operations of two communicators alternate on each GPU. Rank 1 is 300 us late once a step. */
static struct muster_op make_op(uint64_t i, uint64_t rank, uint64_t number, bool late,
                                uint64_t *clock_ns)
{
    static const uint64_t counts[SIZES] = {1 << 20, 4 << 20, 1 << 16, 256, 8 << 20};
    uint64_t late_ns = i % SIZES == 0 ? 300000 : 0;
    uint64_t self_ns = 4000 + (i * 7919 + rank * 104729) % 2000 + (late ? late_ns : 0);
    uint64_t transfer_ns = 20000 + counts[i % SIZES] / 64;
    struct muster_op op = {
        .number = number,
        .enqueue_ns = 1000000000 + i * 400000,
        .begin_ns = *clock_ns + self_ns,
        .end_ns = *clock_ns + 310000 + transfer_ns,
        .count = counts[i % SIZES],
        .peer = -1,
        .func = MUSTER_FUNC_ALL_REDUCE,
        .dtype = MUSTER_DTYPE_FLOAT32,
        .algo = MUSTER_ALGO_RING,
        .proto = MUSTER_PROTO_SIMPLE,
        .channels = 24,
        .source = MUSTER_SOURCE_GPU,
        .flags = MUSTER_OP_IN_WINDOW,
    };
    *clock_ns = op.end_ns;
    return op;
}

static void feed(const struct bench *bench, const struct muster_op *op, struct muster_view *view)
{
    for (uint64_t r = 0; r < bench->ranks; r++) {
        uint32_t gpu = muster_view_add_gpu(
            view,
            &(struct muster_view_gpu){.rank = (int32_t)r, .gpu_index = (int32_t)r, .host = "host"});
        uint32_t world =
            muster_view_add_member(view, gpu, 1, (int32_t)r, (uint32_t)bench->ranks, 1, "world");
        uint32_t pair = muster_view_add_member(view, gpu, 2 + r / 2, (int32_t)r % 2, 2, 1, "pair");
        for (uint64_t i = 0; i < bench->ops; i++)
            muster_view_add_op(view, i % PAIR_EVERY == 0 ? pair : world, &op[r * bench->ops + i]);
    }
}

static struct muster_op *make_ops(const struct bench *bench)
{
    struct muster_op *op = malloc(bench->ranks * bench->ops * sizeof *op);
    for (uint64_t r = 0; op && r < bench->ranks; r++) {
        uint64_t clock_ns = 1800000000000000000ull + r * 123456;
        uint64_t number[2] = {0, 0};
        for (uint64_t i = 0; i < bench->ops; i++) {
            op[r * bench->ops + i] =
                make_op(i, r, number[i % PAIR_EVERY == 0]++, r == 1 && !bench->clean, &clock_ns);
        }
    }
    return op;
}

static uint64_t busy_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * MUSTER_NS_PER_S + (uint64_t)used.tv_nsec;
}

static int one_round(const struct bench *bench, const struct muster_op *op, double *per_second)
{
    struct muster_view view = {0};
    struct muster_findings findings = {0};
    struct muster_err err = {""};
    uint64_t begin_ns = busy_ns();
    feed(bench, op, &view);
    if (muster_view_finish(&view, &err) || muster_straggler_find(&view, &findings, &err) ||
        muster_diagnose_transfer(&view, &findings, &err)) {
        fprintf(stderr, "analysis: %s\n", err.text);
        return -1;
    }
    *per_second = (double)(bench->ranks * bench->ops) * (double)MUSTER_NS_PER_S /
                  (double)(busy_ns() - begin_ns);
    if (findings.n != !bench->clean || (findings.n && findings.finding[0].rank[0] != 1)) {
        fprintf(stderr, "analysis: %zu findings instead of %s\n", findings.n,
                bench->clean ? "none" : "rank 1's");
        return -1;
    }
    muster_findings_free(&findings);
    muster_view_free(&view);
    return 0;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static int parse(int argc, char **argv, struct bench *bench)
{
    static const struct option known[] = {{"ranks", required_argument, NULL, 'r'},
                                          {"ops", required_argument, NULL, 'o'},
                                          {"rounds", required_argument, NULL, 'n'},
                                          {"clean", no_argument, NULL, 'c'},
                                          {NULL, 0, NULL, 0}};
    *bench = (struct bench){.ranks = 4, .ops = 1000000, .rounds = 5};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'c') {
            bench->clean = true;
            continue;
        }
        uint64_t *to = c == 'r'   ? &bench->ranks
                       : c == 'o' ? &bench->ops
                       : c == 'n' ? &bench->rounds
                                  : NULL;
        if (!to || !muster_text_u64(optarg, to))
            return -1;
    }
    return bench->ranks >= 2 && bench->ops && bench->rounds && bench->rounds <= ROUNDS_MAX ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct bench bench;
    double per_second[ROUNDS_MAX];
    if (parse(argc, argv, &bench)) {
        fputs(usage, stderr);
        return 2;
    }
    muster_pages_keep_apart(); /* as the command does */
    struct muster_op *op = make_ops(&bench);
    if (!op) {
        fprintf(stderr, "analysis: out of memory\n");
        return 1;
    }
    int result = 0;
    for (uint64_t i = 0; i < bench.rounds && result == 0; i++)
        result = one_round(&bench, op, &per_second[i]);
    free(op);
    if (result)
        return 1;
    qsort(per_second, bench.rounds, sizeof per_second[0], by_value);
    printf("%llu ranks, %llu operations each: %.2f million operations a second\n",
           (unsigned long long)bench.ranks, (unsigned long long)bench.ops,
           per_second[bench.rounds / 2] / 1e6);
    return 0;
}
