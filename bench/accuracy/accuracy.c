/*
 * accuracy: how often plugin/diagnose is right on generated jobs whose culprits are known.
 * A finding is right if kind and culprits are the ones of the case and no other rank is named.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy_options.h"
#include "accuracy_print.h"
#include "base/clock.h"
#include "diagnose/straggler/straggler.h"
#include "diagnose/transfer/transfer.h"
#include "generate.h"

static const char usage[] =
    "usage: accuracy --models FILE [--from SEED] [--to SEED] [--cases N] [--large]\n"
    "                [--reach] [--say] [--evidence]\n"
    "--models FILE  what extract.py wrote\n"
    "--from, --to   seeds, both included (default 101 to 200; 1 to 100 are for tuning)\n"
    "--cases N      cases a seed (default 20)\n"
    "--large        32 to 1024 ranks\n"
    "--reach        fail unless precision is at least 0.98 and recall 0.95\n"
    "--say          print each case that is not right\n"
    "--evidence     print hits, others, ranks and right or wrong of each late_rank found\n";

/* Delay over the clean p99 deviation, and share of the timed operations that it hits. */
enum { RATIOS = 6, SHARES = 4 };
static const double ratio_of[RATIOS] = {0, 0.5, 1, 2, 5, 20};
static const double share_of[SHARES] = {0, 0.05, 0.1, 0.2};

struct score {
    uint64_t cases, clean, found, right, wrong, ops;
    uint64_t eligible, eligible_right;
    uint64_t slow, slow_right;
    uint64_t n[RATIOS][SHARES], ok[RATIOS][SHARES];
    uint64_t diagnose_ns;
};

/* Percent. What is promised is evaluated by bench/verdicts; this keeps the old cases from getting
 * worse. */
enum { PRECISION = 98, RECALL = 95 };
#define WORTH 0.005 /* of the time: less is not named */

enum verdict { RIGHT, MISSED, WRONG };

/* All findings together must name the culprits, and nobody else. */
static enum verdict evaluate(const struct scenario *s, const struct muster_findings *findings)
{
    enum muster_finding_kind kind =
        s->fault == FAULT_SLOW ? MUSTER_FINDING_SLOW_TRANSFER : MUSTER_FINDING_LATE_RANK;
    bool named[CULPRIT_MAX] = {false};
    unsigned n = 0;
    for (size_t f = 0; f < findings->n; f++) {
        const struct muster_finding *finding = &findings->finding[f];
        if (s->fault == FAULT_NONE || s->culprit_hidden || finding->kind != kind)
            return WRONG;
        for (unsigned i = 0; i < finding->ranks; i++) {
            unsigned rank = (unsigned)finding->rank[i];
            unsigned g = rank == s->culprit[0] ? 0 : 1;
            if (g >= s->n_culprits || rank != s->culprit[g] ||
                (s->fault == FAULT_SLOW && rank != s->culprit[i])) {
                return WRONG;
            }
            n += !named[g];
            named[g] = true;
        }
    }
    if (s->fault == FAULT_NONE || s->culprit_hidden)
        return RIGHT;
    return n == s->n_culprits ? RIGHT : n ? WRONG : MISSED;
}

static int diagnose(const struct scenario *s, struct muster_findings *findings,
                    struct outcome *outcome, struct score *score)
{
    struct muster_view view = {0};
    struct muster_err err = {""};
    const struct sink sink = sink_of_view(&view);
    memset(findings, 0, sizeof *findings);
    scenario_play(s, &sink, outcome);
    score->ops += view.ops;
    uint64_t begin = muster_now_ns();
    if (muster_view_finish(&view, &err) || muster_straggler_find(&view, findings, &err) ||
        muster_diagnose_transfer(&view, findings, &err)) {
        fprintf(stderr, "accuracy: %s\n", err.text);
        return -1;
    }
    score->diagnose_ns += muster_now_ns() - begin;
    drop_checkpoints(s, findings);
    muster_view_free(&view);
    return 0;
}

/* Whether a late rank has to be found: the delay stands out, hits often enough, and costs so much
 * that a finding would be worth it (docs/diagnosis.md). */
static bool is_due(const struct outcome *outcome, const struct scenario *s)
{
    return s->delay_ns >= 5 * outcome->p99_ns && outcome->timed >= 200 &&
           5 * outcome->affected >= outcome->timed &&
           (double)s->delay_ns * (double)outcome->hits >= WORTH * outcome->length_ns;
}

static void count_late(const struct outcome *outcome, const struct scenario *s,
                       enum verdict verdict, struct score *score)
{
    double ratio = (double)s->delay_ns / (double)(outcome->p99_ns ? outcome->p99_ns : 1);
    double share = (double)outcome->affected / (double)(outcome->timed ? outcome->timed : 1);
    unsigned i = RATIOS - 1;
    unsigned j = SHARES - 1;
    while (i && ratio < ratio_of[i])
        i--;
    while (j && share < share_of[j] * 0.999)
        j--;
    score->n[i][j]++;
    score->ok[i][j] += verdict == RIGHT;
    if (is_due(outcome, s)) {
        score->eligible++;
        score->eligible_right += verdict == RIGHT;
    }
}

static bool must_be_found(const struct outcome *outcome, const struct scenario *s)
{
    return s->fault == FAULT_SLOW ||
           (s->fault == FAULT_LATE && !s->culprit_hidden && is_due(outcome, s));
}

static void explain(const struct scenario *s, const struct muster_findings *findings,
                    enum verdict verdict)
{
    printf("%s: ", verdict == WRONG ? "WRONG" : "MISSED");
    scenario_print(s, stdout);
    printf("\n");
    report_findings(findings, false);
}

static int one_case(const struct options *options, const struct models *models, uint64_t seed,
                    struct score *score)
{
    struct scenario s;
    struct muster_findings findings;
    struct outcome outcome;
    scenario_draw(models, seed, options->large, &s);
    if (diagnose(&s, &findings, &outcome, score))
        return -1;
    enum verdict verdict = evaluate(&s, &findings);
    score->cases++;
    score->clean += s.fault == FAULT_NONE || s.culprit_hidden;
    score->found += findings.n > 0;
    score->right += findings.n > 0 && verdict == RIGHT;
    score->wrong += verdict == WRONG;
    if (s.fault == FAULT_SLOW) {
        score->slow++;
        score->slow_right += verdict == RIGHT;
    } else if (s.fault == FAULT_LATE && !s.culprit_hidden) {
        count_late(&outcome, &s, verdict, score);
    }
    if (options->explain &&
        (verdict == WRONG || (verdict == MISSED && must_be_found(&outcome, &s)))) {
        explain(&s, &findings, verdict);
    }
    if (options->evidence && findings.n) {
        printf("evidence %s %u %.3f %s\n", muster_finding_name(findings.finding[0].kind), s.ranks,
               findings.finding[0].confidence, verdict == RIGHT ? "right" : "wrong");
        printf("    %s\n", findings.finding[0].evidence.line[0]);
    }
    muster_findings_free(&findings);
    return 0;
}

static void print_score(const struct options *options, const struct score *score)
{
    printf("seeds %" PRIu64 " to %" PRIu64 ", %" PRIu64 " cases each%s: %" PRIu64 " cases, %" PRIu64
           " without a culprit in view, %" PRIu64 " operations, %.1f million a second\n",
           options->from, options->to, options->cases, options->large ? ", large" : "",
           score->cases, score->clean, score->ops,
           1e3 * (double)score->ops / (double)(score->diagnose_ns ? score->diagnose_ns : 1));
    printf("precision %.4f (%" PRIu64 " of %" PRIu64 " cases with findings right)\n",
           score->found ? (double)score->right / (double)score->found : 1, score->right,
           score->found);
    printf("recall %.4f where the delay is at least 5 x p99, hits 20 %% of at least 200 timed "
           "operations and costs 0.5 %% of the time (%" PRIu64 " of %" PRIu64 ")\n",
           score->eligible ? (double)score->eligible_right / (double)score->eligible : 1,
           score->eligible_right, score->eligible);
    printf("slow transfers found %" PRIu64 " of %" PRIu64 "\n", score->slow_right, score->slow);
    printf(
        "recall by delay / p99 (down) and share of operations hit (across): cases in brackets\n");
    printf("%10s  %-16s%-16s%-16s%-16s\n", "", "0 to 5 %", "5 to 10 %", "10 to 20 %", "20 % on");
    for (unsigned i = 0; i < RATIOS; i++) {
        printf("%9gx ", ratio_of[i]);
        for (unsigned j = 0; j < SHARES; j++) {
            double n = (double)score->n[i][j];
            char cell[32];
            snprintf(cell, sizeof cell, n > 0 ? "%.3f (%.0f)" : "-",
                     n > 0 ? (double)score->ok[i][j] / n : 0, n);
            printf(" %-15s", cell);
        }
        printf("\n");
    }
}

static bool reached(const struct score *score)
{
    return 100 * score->right >= PRECISION * score->found && score->eligible > 0 &&
           100 * score->eligible_right >= RECALL * score->eligible &&
           score->slow_right == score->slow;
}

int main(int argc, char **argv)
{
    struct options options = {.from = 101, .to = 200, .cases = 20};
    struct models models;
    struct score score = {0};
    int result = 0;
    if (options_parse(argc, argv, "models from to cases reach large say evidence", &options)) {
        fputs(usage, stderr);
        return 2;
    }
    models_read(options.models, &models);
    for (uint64_t seed = options.from; seed <= options.to && result == 0; seed++)
        for (uint64_t i = 0; i < options.cases && result == 0; i++)
            result = one_case(&options, &models, seed * 1000 + i, &score);
    models_free(&models);
    if (result == 0)
        print_score(&options, &score);
    return result || (options.reach && !reached(&score)) ? 1 : 0;
}
