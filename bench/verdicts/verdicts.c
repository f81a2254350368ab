/*
 * verdicts: how often muster is right about who holds a job back, on generated jobs whose truth is
 * counterfactual (truth.h), by category, model family and size of the fault.
 *
 * Seeds from 1000 on are for the evaluation. No constant of the detector, and none of its fitted
 * tables, may be chosen on them: tune on seeds below 1000, and evaluate once.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "live_fleet.h"
#include "live_host.h"
#include "maxplus.h"
#include "score_live.h"

static const char usage[] =
    "usage: verdicts [--from SEED] [--to SEED] [--category WORD] [--family WORD] [--without WORD]\n"
    "                [--ranks N] [--case N] [--live] [--fleet] [--null N] [--csv FILE]\n"
    "                [--say] [--no-gpu-times] [--reach] [--floor PERCENT]\n"
    "--from, --to      seeds, both included (default 1000 to 1009); each is a case of each\n"
    "                  category. Those from 1000 on judge: choose no constant by them\n"
    "--category WORD   of this category only\n"
    "--family WORD     of this family only: ddp, fsdp, tp-dp, tp-pp-dp, interleaved, experts,\n"
    "                  expert-sends, context\n"
    "--without WORD    all families but this, for fits that leave one out\n"
    "--ranks N         so many ranks, 8 to 1024, a power of 2 (default: as the case has it)\n"
    "--case N          one case, seed * 100 + category, with its truth and all that was said\n"
    "--live            what is told while the job runs: each host's leader, once a second\n"
    "--fleet           what a fleet worker tells meanwhile, of all hosts together; with --live "
    "both\n"
    "--no-gpu-times   no rank has any, as before NCCL 2.28.3\n"
    "--null N          N runs, live as a rule, with nothing wrong, of all families; any word "
    "fails, but that\n"
    "                  every rank waits alike where all wait for their input\n"
    "--csv FILE        a line a finding, and a line a fault that was not named\n"
    "--say             print each case with something wrong or missing\n"
    "--reach           fail unless precision is at least 0.99, recall 0.95, and nobody innocent "
    "named\n"
    "--floor PERCENT   fail unless recall is at least that, precision 0.99, and nobody innocent "
    "named\n";

struct options {
    uint64_t from, to, ranks, one, null, floor; /* floor: percent; 0: none */
    int category, family, without;              /* -1: any, none */
    const char *csv;
    bool explain, single, live, fleet, reach, no_gpu_times;
};

static int parse_ranks(const char *text, uint64_t *ranks)
{
    if (!muster_text_u64(text, ranks) || *ranks < JOB_HOST_GPUS || *ranks > JOB_RANKS_MAX ||
        (*ranks & (*ranks - 1)))
        return -1;
    return 0;
}

static int parse_one(int option, struct options *options)
{
    switch (option) {
    case 'f':
        return muster_text_u64(optarg, &options->from) ? 0 : -1;
    case 't':
        return muster_text_u64(optarg, &options->to) ? 0 : -1;
    case 'c':
        return (options->category = job_category_of(optarg)) < 0 ? -1 : 0;
    case 'm':
        return (options->family = job_family_of(optarg)) < 0 ? -1 : 0;
    case 'w':
        return (options->without = job_family_of(optarg)) < 0 ? -1 : 0;
    case 'r':
        return parse_ranks(optarg, &options->ranks);
    case 'k':
        options->single = true;
        return muster_text_u64(optarg, &options->one) && options->one % 100 < CASES ? 0 : -1;
    case 'v':
        options->csv = optarg;
        return 0;
    case 's':
        options->explain = true;
        return 0;
    case 'g':
        options->reach = true;
        return 0;
    case 'o':
        return muster_text_u64(optarg, &options->floor) ? 0 : -1;
    case 'b':
        options->no_gpu_times = true;
        return 0;
    case 'l':
        options->live = true;
        return 0;
    case 'a':
        options->fleet = true;
        return 0;
    case 'n':
        return muster_text_u64(optarg, &options->null) ? 0 : -1;
    default:
        return -1;
    }
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {{"from", required_argument, NULL, 'f'},
                                          {"to", required_argument, NULL, 't'},
                                          {"category", required_argument, NULL, 'c'},
                                          {"family", required_argument, NULL, 'm'},
                                          {"without", required_argument, NULL, 'w'},
                                          {"ranks", required_argument, NULL, 'r'},
                                          {"case", required_argument, NULL, 'k'},
                                          {"csv", required_argument, NULL, 'v'},
                                          {"say", no_argument, NULL, 's'},
                                          {"live", no_argument, NULL, 'l'},
                                          {"fleet", no_argument, NULL, 'a'},
                                          {"reach", no_argument, NULL, 'g'},
                                          {"null", required_argument, NULL, 'n'},
                                          {"no-gpu-times", no_argument, NULL, 'b'},
                                          {"floor", required_argument, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    *options =
        (struct options){.from = 1000, .to = 1009, .category = -1, .family = -1, .without = -1};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
        if (parse_one(c, options))
            return -1;
    options->live |= options->null && !options->fleet;
    if (options->from > options->to && !options->null) {
        fprintf(stderr, "verdicts: --from %" PRIu64 " lies behind --to %" PRIu64 ": give both\n",
                options->from, options->to);
        return -1;
    }
    return optind == argc ? 0 : -1;
}

struct bench {
    const struct options *options;
    struct score score;
    struct score_live live;
    FILE *csv;
};

/* A clean job first: faults are drawn as shares of its step. */
static void draw(const struct options *options, uint64_t seed, unsigned category, int family,
                 struct job *job)
{
    enum { PROBED = 12 };
    job_draw(seed, category, family < 0 ? FAMILIES : (enum job_family)family,
             (unsigned)options->ranks, job);
    job->step_ns = simulate(job, 0, PROBED, NULL, NULL) / PROBED;
    job_draw_faults(job);
    job->blind = options->no_gpu_times;
}

static void score_case(struct bench *bench, uint64_t seed, const struct job *job)
{
    const struct options *options = bench->options;
    struct truth truth;
    struct recorded recorded;
    struct evaluated evaluated;
    struct live_run live = {0};
    evaluate_run(job, &recorded, &evaluated);
    truth_find(job, &recorded, &truth);
    if (options->live)
        live_play(job, &recorded, &live);
    if (options->fleet)
        live_fleet_play(job, &recorded, &live);
    if (options->live || options->fleet) {
        score_live_add(&bench->live, job, &truth, &live, &evaluated);
        evaluated_free(&evaluated);
        score_live_evaluated(&live, &evaluated);
    }
    score_add(&bench->score, job, &truth, &recorded, &evaluated);
    if (bench->csv)
        score_csv(seed, job, &truth, &recorded, &evaluated, bench->csv);
    bool word = job->faults == 0 && live.n > 0;
    if (options->single || (options->explain && (word || score_is_bad(job, &truth, &evaluated)))) {
        printf("case %" PRIu64 "\n", seed * 100 + job->category);
        score_explain(job, &truth, &recorded, &evaluated, options->single, stdout);
        score_live_explain(job, &live, stdout);
    }
    live_run_free(&live);
    evaluated_free(&evaluated);
}

static void one_case(struct bench *bench, uint64_t seed, unsigned category, int family)
{
    const struct options *options = bench->options;
    struct job job;
    draw(options, seed, category, family, &job);
    bool wanted = options->family < 0 || (int)job.family == options->family;
    if (wanted && (int)job.family != options->without)
        score_case(bench, seed, &job);
    job_free(&job);
}

static bool reached(const struct score_row *all, uint64_t recall)
{
    return 100 * all->right >= 99 * (all->right + all->wrong) &&
           100 * all->found >= recall * all->due && all->victims == 0;
}

/* Runs with nothing wrong, the families by turns. Whether nothing was told that is not so. */
static bool null_cases(struct bench *bench)
{
    static const enum job_category nothing[] = {CASE_CLEAN, CASE_SEQUENCES,  CASE_GC,
                                                CASE_CLEAN, CASE_INPUT_WAIT, CASE_WARM_UP};
    enum { KINDS = sizeof nothing / sizeof *nothing };
    const struct options *options = bench->options;
    for (uint64_t i = 0; i < options->null; i++) {
        int family = options->family < 0 ? (int)(i % FAMILIES) : options->family;
        one_case(bench, options->from + i, nothing[i / FAMILIES % KINDS], family);
    }
    score_print(&bench->score, stdout);
    score_live_print(&bench->live, stdout);
    return bench->live.clean_emitted == 0;
}

static void all_cases(struct bench *bench)
{
    const struct options *options = bench->options;
    uint64_t begin = muster_now_ns();
    for (uint64_t seed = options->from; seed <= options->to; seed++) {
        for (unsigned c = 0; c < CASES; c++)
            if (options->category < 0 || (unsigned)options->category == c)
                one_case(bench, seed, c, options->family);
    }
    double seconds = (double)(muster_now_ns() - begin) / 1e9;
    printf("seeds %" PRIu64 " to %" PRIu64 ", family %s\n\n", options->from, options->to,
           options->family < 0 ? "any" : job_family_word((unsigned)options->family));
    score_print(&bench->score, stdout);
    if (options->live || options->fleet)
        score_live_print(&bench->live, stdout);
    printf("%u cases in %.1f s\n", bench->score.all.cases, seconds);
}

int main(int argc, char **argv)
{
    struct options options;
    if (parse(argc, argv, &options)) {
        fputs(usage, stderr);
        return 2;
    }
    struct bench *bench = calloc(1, sizeof *bench);
    if (!bench)
        return 2;
    bench->options = &options;
    bench->csv = options.csv ? fopen(options.csv, "w") : NULL;
    if (options.csv && !bench->csv) {
        perror(options.csv);
        free(bench);
        return 2;
    }
    if (bench->csv)
        score_csv(0, NULL, NULL, NULL, NULL, bench->csv);
    int result = 0;
    if (options.single)
        one_case(bench, options.one / 100, (unsigned)(options.one % 100), options.family);
    else if (options.null)
        result = null_cases(bench) ? 0 : 1;
    else
        all_cases(bench);
    enum { REACH = 95 };
    uint64_t recall = options.reach ? REACH : options.floor;
    if (recall && !reached(&bench->score.all, recall))
        result = 1;
    if (bench->csv && fclose(bench->csv))
        result = 2;
    free(bench);
    return result;
}
