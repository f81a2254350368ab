/*
 * slow: how often plugin/diagnose/transfer is right on generated jobs in which the transfers of one
 * communicator become slow, or are slower than those of others of its shape; and on jobs in which
 * nothing of that kind lasts: stretches of slowness, one class alone, late ranks by turns,
 * checkpoints, ranks that are not seen.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy_options.h"
#include "accuracy_print.h"
#include "diagnose/straggler/straggler.h"
#include "diagnose/transfer/transfer.h"
#include "draw.h"
#include "generate.h"

static const char usage[] =
    "usage: slow --models FILE [--from SEED] [--to SEED] [--cases N] [--reach] [--say]\n"
    "--models FILE  what extract.py wrote\n"
    "--from, --to   seeds, both included (default 101 to 200; 1 to 100 are for tuning)\n"
    "--cases N      cases a seed (default 20)\n"
    "--reach        fail unless precision is at least 0.93, and 0.6 of what is 3 times as slow or\n"
    "               more is named\n"
    "--say          print each case that is not right\n";

enum kind { SLOWED, SLOWER, BURST, ONE_CLASS, CLEAN, KINDS };
static const char *const word_of[KINDS] = {"became slow", "slower than its peers", "for a stretch",
                                           "one class", "clean"};

enum { FACTORS = 5 };
static const double factor_of[FACTORS] = {1, 1.5, 2, 3, 5};

struct score {
    uint64_t cases, found, right;
    uint64_t n[KINDS], ok[KINDS], wrong[KINDS];
    uint64_t all[2][FACTORS], named[2][FACTORS];
};

static void draw_group(struct draw *draw, struct scenario *to)
{
    const struct position *position = &to->model->position[draw_below(draw, to->model->positions)];
    to->slow_group = position->group;
    to->slow_first = position->group == GROUP_TP   ? draw_below(draw, to->ranks / 2) * 2
                     : position->group == GROUP_DP ? draw_below(draw, 2)
                                                   : 0;
}

static enum kind draw_kind(struct draw *draw, struct scenario *to)
{
    double kind = draw_unit(draw);
    bool groups = to->model->position[0].group != GROUP_WORLD;
    if (groups && kind < 0.25 && to->ranks >= 8)
        return SLOWER;
    return kind < 0.5 ? SLOWED : kind < 0.65 ? BURST : kind < 0.75 ? ONE_CLASS : CLEAN;
}

static enum kind draw(const struct models *models, uint64_t seed, struct scenario *to)
{
    struct draw draw = {.state = seed * 3 + 1};
    scenario_draw(models, seed, false, to);
    draw_u64(&draw);
    to->fault = FAULT_NONE;
    to->culprit_hidden = false;
    to->n_culprits = 0;
    to->hidden = draw_chance(&draw, 0.1) ? to->hidden : 0;
    enum kind kind = draw_kind(&draw, to);
    if (kind == CLEAN)
        return kind;
    draw_group(&draw, to);
    to->jitter = false;
    to->fault = FAULT_SLOWED;
    to->factor = draw_log(&draw, 1.2, 12);
    to->everywhere = kind != ONE_CLASS;
    to->position = draw_below(&draw, to->model->positions);
    to->slow_from = (unsigned)(to->steps * (0.1 + 0.7 * draw_unit(&draw)));
    to->slow_to = to->steps;
    if (kind == SLOWER) {
        to->slow_from = 0;
        to->slow_group = GROUP_TP;
        to->slow_first = draw_below(&draw, to->ranks / 2) * 2;
    } else if (kind == BURST) {
        to->slow_to = to->slow_from + 1 + (unsigned)(to->steps * 0.15 * draw_unit(&draw));
    }
    return kind;
}

static void diagnose(const struct scenario *s, struct muster_findings *findings)
{
    struct muster_view view = {0};
    struct muster_err err = {""};
    struct outcome outcome;
    const struct sink sink = sink_of_view(&view);
    memset(findings, 0, sizeof *findings);
    scenario_play(s, &sink, &outcome);
    if (muster_view_finish(&view, &err) || muster_straggler_find(&view, findings, &err) ||
        muster_diagnose_transfer(&view, findings, &err)) {
        fprintf(stderr, "slow: %s\n", err.text);
        exit(1);
    }
    drop_checkpoints(s, findings);
    muster_view_free(&view);
}

/* Every finding is of the communicator that is slow. Of one in which only one class is, it may be
 * said or not: it depends on how much of the time that class takes. */
static bool all_right(const struct scenario *s, enum kind kind,
                      const struct muster_findings *findings)
{
    uint64_t id = s->seed << 32 | (uint64_t)(s->slow_group + 1) << 16 | (s->slow_first + 1);
    for (size_t f = 0; f < findings->n; f++) {
        if ((kind > SLOWER && kind != ONE_CLASS) ||
            findings->finding[f].kind != MUSTER_FINDING_SLOW_TRANSFER ||
            findings->finding[f].comm != id) {
            return false;
        }
    }
    return true;
}

static void explain(const struct scenario *s, enum kind kind,
                    const struct muster_findings *findings)
{
    scenario_print(s, stdout);
    printf(", %s by %.2f, steps %u to %u, group %u of %u\n", word_of[kind], s->factor, s->slow_from,
           s->slow_to, s->slow_group, s->slow_first);
    report_findings(findings, false);
}

static void one_case(const struct options *options, const struct models *models, uint64_t seed,
                     struct score *score)
{
    struct scenario s;
    struct muster_findings findings;
    enum kind kind = draw(models, seed, &s);
    diagnose(&s, &findings);
    bool right = all_right(&s, kind, &findings);
    bool missed = kind <= SLOWER && findings.n == 0;
    score->cases++;
    score->found += findings.n > 0;
    score->right += findings.n > 0 && right;
    score->n[kind]++;
    score->wrong[kind] += !right;
    score->ok[kind] += right && !missed;
    for (unsigned i = 0; i < FACTORS && kind <= SLOWER && !s.hidden; i++) {
        bool here = s.factor >= factor_of[i] && (i + 1 == FACTORS || s.factor < factor_of[i + 1]);
        score->all[kind][i] += here;
        score->named[kind][i] += here && right && !missed;
    }
    if (options->explain && (!right || (missed && s.factor >= 3))) {
        printf("%s: ", right ? "MISSED" : "WRONG");
        explain(&s, kind, &findings);
    }
    muster_findings_free(&findings);
}

static void print_score(const struct options *options, const struct score *score)
{
    printf("seeds %" PRIu64 " to %" PRIu64 ", %" PRIu64 " cases each: %" PRIu64 " cases\n",
           options->from, options->to, options->cases, score->cases);
    printf("precision %.4f (%" PRIu64 " of %" PRIu64 " cases with findings right)\n",
           score->found ? (double)score->right / (double)score->found : 1, score->right,
           score->found);
    for (unsigned k = 0; k < KINDS; k++) {
        printf("%-22s %5" PRIu64 " of %5" PRIu64 " right, %" PRIu64 " wrong\n", word_of[k],
               score->ok[k], score->n[k], score->wrong[k]);
    }
    for (unsigned k = 0; k <= SLOWER; k++) {
        printf("recall, %s, by factor:", word_of[k]);
        for (unsigned i = 0; i < FACTORS; i++)
            printf(" %gx %" PRIu64 "/%" PRIu64, factor_of[i], score->named[k][i], score->all[k][i]);
        printf("\n");
    }
}

/* Few findings are cheap to be right about: those that are plain must be among them. */
static bool reached(const struct score *score)
{
    uint64_t all = 0, named = 0;
    for (unsigned i = 0; i < FACTORS; i++) {
        for (unsigned k = 0; k <= SLOWER && factor_of[i] >= 3; k++) {
            all += score->all[k][i];
            named += score->named[k][i];
        }
    }
    return 100 * score->right >= 93 * score->found && all > 0 && 10 * named >= 6 * all;
}

int main(int argc, char **argv)
{
    struct options options = {.from = 101, .to = 200, .cases = 20};
    struct models models;
    struct score score = {0};
    if (options_parse(argc, argv, "models from to cases reach say", &options)) {
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
