/*
 * divergent: how often plugin/diagnose/divergence is right. Jobs as in generate.h, whose ranks have
 * policies and whose operations run as a simulated tuner chose: on some ranks another policy, one
 * that changes nothing, none, other variables of NCCL, or one other choice; and jobs in which
 * nothing of that is so: clean ones, and ones whose ranks call different things or go. Right is
 * what names exactly those of a communicator's ranks in view that are unlike most ranks of the job;
 * where as many are like as unlike, all of them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy_options.h"
#include "accuracy_print.h"
#include "diagnose/divergence/divergence.h"
#include "generate.h"

static const char usage[] =
    "usage: divergent --models FILE [--from SEED] [--to SEED] [--cases N] [--large] [--reach]\n"
    "                 [--say] [--evidence]\n"
    "--models FILE  what extract.py wrote\n"
    "--from, --to   seeds, both included (default 101 to 200; 1 to 100 are for tuning)\n"
    "--cases N      cases a seed (default 20)\n"
    "--large        32 to 1024 ranks\n"
    "--reach        fail unless 0.99 of those are right that are found with a confidence of 0.95,\n"
    "               and of those in view none is missed\n"
    "--say          print each case that is not right\n"
    "--evidence     print confidence and right or wrong of each finding\n";

#define SURE 0.95

enum kind {
    CLEAN,   /* no policy, one, or tuners that are off for several reasons */
    BROKEN,  /* one rank skips a call, makes one too many or another, or goes; then all stop */
    OTHER,   /* policies that differ in what they want of some sizes */
    TEXT,    /* policies that want the same */
    LACKING, /* no tuner, or one that is off, where others steer */
    WORDS,   /* no policies: variables of NCCL differ */
    ONCE,    /* no policies: one operation runs differently */
    KINDS
};
static const char *const word_of[KINDS] = {"clean",     "other calls", "other policy", "other text",
                                           "lacks one", "other words", "one operation"};

enum { SIDES = 3, CLASSES = 64 };

struct words {
    uint8_t algo, proto, channels;
};

struct job {
    struct scenario s;
    enum kind kind;
    bool steered;             /* policies there are */
    unsigned side[RANKS_MAX]; /* 0: as most */
    bool half;                /* as many ranks on side 0 as not */
    unsigned sides;
    unsigned from[SIDES], to[SIDES], what[SIDES]; /* sizes (log2) and word that a side changes */
    unsigned state[SIDES];                        /* enum muster_policy_state of its tuners */
    bool grouped;  /* what NCCL chooses depends on what it launches together, too */
    uint64_t at;   /* number at which one operation differs, or a call */
    unsigned call; /* of BROKEN: 0 skipped, 1 one too many, 2 another, 3 gone */
    bool hangs;    /* nothing comes after the first difference */
    bool shared;   /* a culprit in view is with one of the others in view */
    /* While it is played. */
    struct muster_view view;
    struct muster_seg_policy policy[RANKS_MAX];
    uint32_t rank_of_gpu[RANKS_MAX];
    struct part *part;
    size_t parts;
    struct seen *seen;
    size_t n, room;
};

/* A rank's part in a communicator, by handle. */
struct part {
    uint64_t id;
    uint32_t handle;
    unsigned rank, ops; /* ops: of the communicator in a step */
    bool over;
};

struct seen {
    uint64_t comm, number;
    struct words words;
    unsigned rank;
};

static void *must(void *memory)
{
    if (!memory)
        exit(2);
    return memory;
}

/* ---- what a case is ---- */

static void draw_sides(struct draw *draw, struct job *job)
{
    unsigned n = job->s.ranks, culprit = 1, half = (n - 1) / 2;
    double how = draw_unit(draw);
    if (how < 0.2 && n % 2 == 0) {
        culprit = n / 2;
        job->half = true;
    } else if (how < 0.5 && half > 1) {
        culprit = 1 + draw_below(draw, half < 8 ? half : 8);
    }
    job->half |= culprit * 2 == n;
    job->sides = culprit > 1 && !job->half && draw_chance(draw, 0.2) ? 3 : 2;
    for (unsigned i = 0; i < culprit;) {
        unsigned r = draw_below(draw, n);
        if (job->side[r] == 0) {
            job->side[r] = job->sides == 3 && i % 2 ? 2 : 1;
            i++;
        }
    }
}

static void draw_job(const struct models *models, uint64_t seed, bool large, struct job *job)
{
    static const unsigned off[] = {MUSTER_POLICY_NONE, MUSTER_POLICY_INVALID,
                                   MUSTER_POLICY_REFUSED};
    struct draw draw = {.state = seed * 5 + 3};
    memset(job, 0, sizeof *job);
    scenario_draw(models, seed, large, &job->s);
    draw_u64(&draw);
    job->s.fault = FAULT_NONE;
    job->s.jitter = false;
    job->s.culprit_hidden = false;
    double kind = draw_unit(&draw);
    job->kind = kind < 0.12   ? CLEAN
                : kind < 0.35 ? BROKEN
                : kind < 0.55 ? OTHER
                : kind < 0.65 ? TEXT
                : kind < 0.75 ? LACKING
                : kind < 0.9  ? WORDS
                              : ONCE;
    job->steered = job->kind < WORDS && (job->kind >= OTHER || draw_chance(&draw, 0.5));
    job->grouped = draw_chance(&draw, 0.3);
    job->call = draw_below(&draw, 4);
    job->at = 1 + draw_below(&draw, job->s.steps * job->s.model->positions / 2 + 1);
    job->hangs = draw_chance(&draw, 0.3);
    for (unsigned i = 0; i < SIDES; i++) {
        job->from[i] = 8 + draw_below(&draw, 16);
        job->to[i] = job->from[i] + 1 + draw_below(&draw, 8);
        job->what[i] = draw_below(&draw, 3);
        job->state[i] = off[draw_below(&draw, 3)];
    }
    if (job->kind >= OTHER)
        draw_sides(&draw, job);
    else if (job->kind == BROKEN)
        job->side[draw_below(&draw, job->s.ranks)] = 1;
}

/* ---- what ran ---- */

static unsigned log2_of(uint64_t value)
{
    unsigned n = 0;
    while (value >>= 1)
        n++;
    return n;
}

/* NCCL's own choice: of function and size, and of what it launches together. */
static struct words own_choice(const struct job *job, const struct part *part,
                               const struct muster_op *op)
{
    unsigned size = log2_of(op->count * 4);
    bool together = job->grouped && op->number % part->ops % 3 == 0;
    size += together ? 2 : 0;
    struct words words = {MUSTER_ALGO_RING, MUSTER_PROTO_SIMPLE, together ? 24 : 16};
    if (size < 16)
        words = (struct words){MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 2};
    else if (size < 22)
        words = (struct words){MUSTER_ALGO_RING, MUSTER_PROTO_LL128, (uint8_t)(size - 10)};
    return words;
}

static struct words choice(const struct job *job, const struct part *part,
                           const struct muster_op *op)
{
    unsigned side = job->side[part->rank], size = log2_of(op->count * 4);
    struct words words = own_choice(job, part, op);
    bool ranged = job->kind == OTHER || job->kind == WORDS || job->kind == LACKING;
    /* Where ranks lack the policy it is the others' that does something. */
    if (job->kind == LACKING)
        side = !side;
    bool hit = job->kind == ONCE ? op->number == job->at
                                 : ranged && size >= job->from[side] && size < job->to[side];
    if (!side || !hit)
        return words;
    if (job->what[side] == 0)
        words.algo = words.algo == MUSTER_ALGO_RING ? MUSTER_ALGO_TREE : MUSTER_ALGO_RING;
    else if (job->what[side] == 1)
        words.proto = side == 1 ? MUSTER_PROTO_SIMPLE : MUSTER_PROTO_LL;
    else
        words.channels = (uint8_t)(side == 1 ? 1 : 3);
    return words;
}

/* ---- playing it ---- */

static void set_policy(const struct job *job, unsigned rank, struct muster_seg_policy *policy)
{
    unsigned side = job->side[rank];
    unsigned state = job->steered ? MUSTER_POLICY_ACTIVE : MUSTER_POLICY_NONE;
    if (job->kind == LACKING && side)
        state = job->state[side];
    else if (job->kind == CLEAN && !job->steered)
        state = job->state[rank % SIDES];
    atomic_store_explicit(&policy->state, state, memory_order_relaxed);
    policy->tuner_api = state != MUSTER_POLICY_NONE ? 5 : 0;
    if (state != MUSTER_POLICY_NONE) {
        memset(policy->sha256, job->kind == OTHER || job->kind == TEXT ? (int)side + 1 : 1,
               sizeof policy->sha256);
    }
}

static uint32_t add_gpu(void *arg, unsigned rank)
{
    struct job *job = arg;
    set_policy(job, rank, &job->policy[rank]);
    uint32_t gpu =
        muster_view_add_gpu(&job->view, &(struct muster_view_gpu){.rank = (int32_t)rank,
                                                                  .gpu_index = (int32_t)rank % 8,
                                                                  .host = "host",
                                                                  .timing = MUSTER_TIMING_FULL,
                                                                  .policy = &job->policy[rank],
                                                                  .called = true});
    job->rank_of_gpu[gpu] = rank;
    return gpu;
}

/* The communicator's operations in a step; its group stands in its id (play.c). */
static unsigned ops_of(const struct job *job, uint64_t id)
{
    const struct model *model = job->s.model;
    unsigned n = 0;
    for (unsigned i = 0; i < model->positions; i++)
        n += model->position[i].group + 1 == (id >> 16 & 0xffff);
    return n ? n : 1;
}

static uint32_t add_member(void *arg, uint32_t gpu, uint64_t id, unsigned rank, unsigned nranks,
                           unsigned nnodes)
{
    struct job *job = arg;
    uint32_t handle =
        muster_view_add_member(&job->view, gpu, id, (int32_t)rank, nranks, nnodes, "");
    job->part = must(realloc(job->part, (job->parts + 1) * sizeof *job->part));
    job->part[job->parts++] = (struct part){
        .id = id, .handle = handle, .rank = job->rank_of_gpu[gpu], .ops = ops_of(job, id)};
    return handle;
}

static struct part *part_of(struct job *job, uint32_t handle)
{
    size_t at = handle < job->parts ? handle : job->parts - 1;
    while (job->part[at].handle != handle)
        at = (at + 1) % job->parts;
    return &job->part[at];
}

static void feed(struct job *job, const struct part *part, const struct muster_op *op)
{
    if (job->n == job->room) {
        job->room = 2 * job->room + 4096;
        job->seen = must(realloc(job->seen, job->room * sizeof *job->seen));
    }
    job->seen[job->n++] =
        (struct seen){part->id, op->number, {op->algo, op->proto, op->channels}, part->rank};
    muster_view_add_op(&job->view, part->handle, op);
}

/* What the rank calls instead; false: not this one. */
static bool break_call(struct job *job, struct part *part, struct muster_op *op)
{
    bool culprit = job->side[part->rank] != 0;
    bool last = op->number >= job->at + (job->call == 3 ? 1 : part->ops * 2);
    if (part->over || last || (culprit && job->call == 3 && op->number >= job->at)) {
        part->over = true;
        return false;
    }
    if (!culprit || op->number < job->at)
        return true;
    if (job->call == 2 && op->number == job->at) {
        op->count += 1 + op->count / 3;
    } else if (job->call == 0 && op->number == job->at) {
        return false;
    } else if (job->call == 0) {
        op->number--;
    } else if (job->call == 1) {
        if (op->number == job->at)
            feed(job, part, op);
        op->number++;
    }
    return true;
}

static void add_op(void *arg, uint32_t member, const struct muster_op *recorded)
{
    struct job *job = arg;
    struct part *part = part_of(job, member);
    struct muster_op op = *recorded;
    struct words words = choice(job, part, &op), own = own_choice(job, part, &op);
    op.algo = words.algo;
    op.proto = words.proto;
    op.channels = words.channels;
    if (job->kind == BROKEN && !break_call(job, part, &op))
        return;
    /* Other choices hang now and then: the ranks that made them come no further. */
    if (job->hangs && job->kind >= OTHER && part->over)
        return;
    part->over = memcmp(&words, &own, sizeof own) != 0;
    feed(job, part, &op);
}

static void add_net(void *arg, uint32_t member, const struct muster_seg_net *net)
{
    (void)arg, (void)member, (void)net;
}

/* ---- what should be found ---- */

static int by_operation(const void *left, const void *right)
{
    const struct seen *a = left, *b = right;
    if (a->comm != b->comm)
        return a->comm < b->comm ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static bool words_differ(struct job *job)
{
    if (job->n)
        qsort(job->seen, job->n, sizeof *job->seen, by_operation);
    for (size_t i = 1; i < job->n; i++) {
        if (by_operation(&job->seen[i - 1], &job->seen[i]) == 0 &&
            memcmp(&job->seen[i - 1].words, &job->seen[i].words, sizeof(struct words)) != 0) {
            return true;
        }
    }
    return false;
}

/* Whether anything of it is in view. */
static bool is_in_view(struct job *job)
{
    if (job->kind < OTHER)
        return false;
    if (job->kind >= WORDS)
        return words_differ(job);
    for (size_t i = 0; i < job->parts; i++) {
        for (size_t j = 0; j < i; j++) {
            if (job->part[i].id == job->part[j].id &&
                job->side[job->part[i].rank] != job->side[job->part[j].rank] &&
                (job->kind != LACKING || !job->side[job->part[i].rank] ||
                 !job->side[job->part[j].rank])) {
                return true;
            }
        }
    }
    return false;
}

/* What is right (above), as far as a finding names ranks. */
static bool names_them(const struct job *job, const struct muster_finding *finding)
{
    unsigned here = 0, unlike = 0, named_unlike = 0;
    for (size_t i = 0; i < job->parts; i++) {
        if (job->part[i].id == finding->comm) {
            here++;
            unlike += job->side[job->part[i].rank] != 0;
        }
    }
    for (unsigned i = 0; i < finding->ranks; i++)
        named_unlike += job->side[finding->rank[i]] != 0;
    unsigned all = here < MUSTER_FINDING_RANKS ? here : MUSTER_FINDING_RANKS;
    unsigned some = unlike < MUSTER_FINDING_RANKS ? unlike : MUSTER_FINDING_RANKS;
    if (finding->confidence <= 0.5 || job->half)
        return finding->ranks == all && finding->confidence <= 0.5;
    /* One operation need not show all of them. */
    bool enough = job->steered ? named_unlike == some : named_unlike > 0;
    return finding->ranks == named_unlike && enough;
}

/* ---- scores ---- */

struct score {
    uint64_t cases, found, right, sure, sure_right;
    uint64_t n[KINDS], in_view[KINDS], missed[KINDS], wrong[KINDS];
    uint64_t tied, tied_right;
};

static bool is_right(const struct job *job, bool in_view, const struct muster_findings *findings)
{
    for (size_t f = 0; f < findings->n; f++)
        if (!in_view || !names_them(job, &findings->finding[f]))
            return false;
    return true;
}

static void explain(const struct job *job, bool right, const struct muster_findings *findings)
{
    printf("%s: ", right ? "MISSED" : "WRONG");
    scenario_print(&job->s, stdout);
    printf(", %s%s%s, call %u at %" PRIu64 ":", word_of[job->kind], job->half ? ", half" : "",
           job->grouped ? ", grouped" : "", job->call, job->at);
    for (unsigned r = 0; r < job->s.ranks; r++)
        if (job->side[r])
            printf(" %u", r);
    printf("\n");
    report_findings(findings, false);
}

static void tally(const struct options *options, const struct job *job, bool in_view,
                  const struct muster_findings *findings, struct score *score)
{
    bool right = is_right(job, in_view, findings), missed = in_view && findings->n == 0;
    score->cases++;
    score->found += findings->n > 0;
    score->right += findings->n > 0 && right;
    score->n[job->kind]++;
    score->in_view[job->kind] += in_view;
    score->missed[job->kind] += missed;
    score->wrong[job->kind] += !right;
    for (size_t f = 0; f < findings->n; f++) {
        const struct muster_finding *finding = &findings->finding[f];
        bool good = in_view && names_them(job, finding), sure = finding->confidence >= SURE;
        score->sure += sure;
        score->sure_right += sure && good;
        score->tied += finding->confidence <= 0.5;
        score->tied_right += finding->confidence <= 0.5 && good;
        if (options->evidence) {
            printf("evidence %s %s %s %.4f %s\n", finding->has_op ? "operation" : "policy",
                   job->s.hidden ? "part" : "all", word_of[job->kind], finding->confidence,
                   good ? "right" : "wrong");
        }
    }
    if (options->explain && (!right || missed))
        explain(job, right, findings);
}

static void one_case(const struct options *options, const struct models *models, uint64_t seed,
                     struct score *score)
{
    struct job *job = must(malloc(sizeof *job));
    struct muster_findings findings = {0};
    struct muster_err err = {""};
    struct outcome outcome;
    draw_job(models, seed, options->large, job);
    const struct sink sink = {job, add_gpu, add_member, add_op, add_net};
    scenario_play(&job->s, &sink, &outcome);
    if (muster_view_finish(&job->view, &err) ||
        muster_diagnose_divergence(&job->view, true, &findings, &err)) {
        fprintf(stderr, "divergent: %s\n", err.text);
        exit(1);
    }
    tally(options, job, is_in_view(job), &findings, score);
    muster_findings_free(&findings);
    muster_view_free(&job->view);
    free(job->part);
    free(job->seen);
    free(job);
}

static void print_score(const struct options *options, const struct score *score)
{
    printf("seeds %" PRIu64 " to %" PRIu64 ", %" PRIu64 " cases each%s: %" PRIu64 " cases\n",
           options->from, options->to, options->cases, options->large ? ", large" : "",
           score->cases);
    printf("precision %.4f (%" PRIu64 " of %" PRIu64 " cases with findings right)\n",
           score->found ? (double)score->right / (double)score->found : 1, score->right,
           score->found);
    printf("findings with a confidence of at least %.2f: %" PRIu64 " of %" PRIu64 " right; of 0.5 "
           "at most: %" PRIu64 " of %" PRIu64 "\n",
           SURE, score->sure_right, score->sure, score->tied_right, score->tied);
    for (unsigned k = 0; k < KINDS; k++) {
        printf("%-14s %5" PRIu64 " cases, %5" PRIu64 " in view: %" PRIu64 " missed, %" PRIu64
               " wrong\n",
               word_of[k], score->n[k], score->in_view[k], score->missed[k], score->wrong[k]);
    }
}

static bool reached(const struct score *score)
{
    uint64_t missed = 0;
    for (unsigned k = 0; k < KINDS; k++)
        missed += score->missed[k];
    return score->sure && 100 * score->sure_right >= 99 * score->sure && missed == 0;
}

int main(int argc, char **argv)
{
    struct options options = {.from = 101, .to = 200, .cases = 20};
    struct models models;
    struct score score = {0};
    if (options_parse(argc, argv, "models from to cases large reach say evidence", &options)) {
        fputs(usage, stderr);
        return 2;
    }
    models_read(options.models, &models);
    for (uint64_t seed = options.from; seed <= options.to; seed++)
        for (uint64_t i = 0; i < options.cases; i++)
            one_case(&options, &models, seed * 1000 + i, &score);
    models_free(&models);
    print_score(&options, &score);
    return options.reach && !reached(&score) ? 1 : 0;
}
