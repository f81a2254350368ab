/*
 * hangs: how often plugin/diagnose/hang is right on generated jobs that hang, or only look so.
 * Right is what names the kind and the culprits of the case and nobody else; where nothing
 * hangs, or the culprits cannot be seen, right is to say nothing.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy_options.h"
#include "accuracy_print.h"
#include "diagnose/hang/hang.h"
#include "hang_scene.h"

static const char usage[] =
    "usage: hangs [--from SEED] [--to SEED] [--cases N] [--large] [--reach] [--say]\n"
    "             [--evidence]\n"
    "--from, --to   seeds, both included (default 101 to 200; 1 to 100 are for tuning)\n"
    "--cases N      cases a seed (default 40)\n"
    "--large        32 to 1024 ranks\n"
    "--reach        fail unless 0.99 of those are right that are found with a confidence of 0.95,\n"
    "               and of those that kernel events show\n"
    "--say          print each case that is not right\n"
    "--evidence     print kind, evidence and right or wrong of each finding\n";

#define SURE 0.95

enum verdict { RIGHT, MISSED, WRONG, VERDICTS };

struct score {
    uint64_t cases, found, right;
    uint64_t sure, sure_right; /* found with high confidence */
    uint64_t n[HANG_FAULTS][HANG_PROOFS][VERDICTS];
    uint64_t partly[VERDICTS]; /* of jobs with hidden ranks */
};

static struct muster_findings diagnose(const struct hang_case *hang, const struct hang_job *job)
{
    struct hang_sight *sight = calloc(hang->ranks, sizeof *sight);
    struct muster_run run = {.process = calloc(hang->ranks, sizeof *run.process)};
    struct muster_findings findings = {0};
    struct muster_view view;
    for (unsigned r = 0; sight && run.process && r < hang->ranks; r++) {
        if (!hang_show(job, r, &sight[r]))
            continue;
        uint64_t head = sight[r].segment->ring_head;
        run.process[run.processes++] = (struct muster_process){
            .segment = sight[r].segment,
            .identity = sight[r].segment->identity,
            .state = sight[r].state,
            .op = sight[r].segment->ring,
            .ops = head < MUSTER_SEG_RING ? (size_t)head : (size_t)MUSTER_SEG_RING,
            .seen_ns = sight[r].seen_ns,
            .elsewhere = sight[r].from_log,
        };
    }
    if (!sight || !run.process || muster_view_of_run(&run, &view, NULL) != 0 ||
        !muster_hang_find(&view, (uint64_t)(HANG_THRESHOLD_S * 1e9), false, &findings)) {
        exit(2);
    }
    muster_view_free(&view);
    free(run.process);
    for (unsigned r = 0; r < hang->ranks; r++)
        hang_hide(&sight[r]);
    free(sight);
    return findings;
}

/* A finding keeps the first so many ranks. */
static unsigned expected(const struct hang_case *hang, const struct hang_truth *truth)
{
    unsigned n = 0;
    for (unsigned r = 0; r < hang->ranks; r++)
        n += truth->culprit[r] && !truth->spare[r];
    return n < MUSTER_FINDING_RANKS ? n : MUSTER_FINDING_RANKS;
}

static enum verdict evaluate(const struct hang_case *hang, const struct hang_truth *truth,
                             const struct muster_findings *findings)
{
    bool named[HANG_RANKS_MAX] = {false};
    unsigned n = 0;
    if (findings->n == 0)
        return truth->found && !truth->or_none ? MISSED : RIGHT;
    if (!truth->found)
        return WRONG;
    for (size_t f = 0; f < findings->n; f++) {
        const struct muster_finding *finding = &findings->finding[f];
        bool kind = (int)finding->kind == truth->kind || (int)finding->kind == truth->or_kind;
        if (!kind || (!truth->named && finding->ranks))
            return WRONG;
        for (unsigned i = 0; i < finding->ranks; i++) {
            if (!truth->culprit[finding->rank[i]])
                return WRONG;
            n += !named[finding->rank[i]];
            named[finding->rank[i]] = true;
        }
    }
    return !truth->named || n >= expected(hang, truth) ? RIGHT : WRONG;
}

static void explain(const struct hang_case *hang, const struct hang_truth *truth,
                    const struct muster_findings *findings, enum verdict verdict)
{
    printf("%s: ", verdict == WRONG ? "WRONG" : "MISSED");
    hang_print(hang, stdout);
    printf("; expected %s",
           truth->found ? muster_finding_name((enum muster_finding_kind)truth->kind) : "nothing");
    for (unsigned r = 0; r < hang->ranks && truth->found && truth->named; r++)
        if (truth->culprit[r])
            printf(" %u", r);
    printf("\n");
    report_findings(findings, true);
    for (unsigned i = 0; i < findings->not_observable.n && i < 4; i++)
        printf("    not observable: %s\n", findings->not_observable.line[i]);
}

static void one_case(const struct options *options, uint64_t seed, struct score *score)
{
    static struct hang_truth truth;
    struct hang_case hang;
    hang_draw(seed, options->large, &hang);
    struct hang_job *job = hang_play(&hang);
    hang_emit(job, &truth);
    struct muster_findings findings = diagnose(&hang, job);
    enum verdict verdict = evaluate(&hang, &truth, &findings);
    score->cases++;
    score->found += findings.n > 0;
    score->right += findings.n > 0 && verdict == RIGHT;
    bool sure = findings.n > 0 && findings.finding[0].confidence >= SURE;
    score->sure += sure;
    score->sure_right += sure && verdict == RIGHT;
    if (hang.hidden)
        score->partly[verdict]++;
    else
        score->n[hang.fault][hang.proof][verdict]++;
    if (options->explain && verdict != RIGHT)
        explain(&hang, &truth, &findings, verdict);
    if (options->evidence && findings.n) {
        printf("evidence %s %.4f %s\n", muster_finding_name(findings.finding[0].kind),
               findings.finding[0].confidence, verdict == RIGHT ? "right" : "wrong");
    }
    muster_findings_free(&findings);
    hang_free(job);
}

static void print_row(const struct score *score, enum hang_fault fault)
{
    printf("%-14s", hang_fault_name(fault));
    for (unsigned proof = 0; proof < HANG_PROOFS; proof++) {
        const uint64_t *n = score->n[fault][proof];
        char cell[64];
        snprintf(cell, sizeof cell, "%" PRIu64 "/%" PRIu64 "/%" PRIu64, n[RIGHT], n[MISSED],
                 n[WRONG]);
        printf(" %-14s", cell);
    }
    printf("\n");
}

static void print_score(const struct options *options, const struct score *score)
{
    printf("seeds %" PRIu64 " to %" PRIu64 ", %" PRIu64 " cases each%s: %" PRIu64 " cases\n",
           options->from, options->to, options->cases, options->large ? ", large" : "",
           score->cases);
    printf("precision %.4f (%" PRIu64 " of %" PRIu64 " cases with findings right)\n",
           score->found ? (double)score->right / (double)score->found : 1, score->right,
           score->found);
    printf("of those with a confidence of at least %.2f: %.4f (%" PRIu64 " of %" PRIu64 ")\n", SURE,
           score->sure ? (double)score->sure_right / (double)score->sure : 1, score->sure_right,
           score->sure);
    printf("right/missed/wrong by what happened (down) and what tells of completion (across)\n");
    printf("%-14s", "");
    for (unsigned proof = 0; proof < HANG_PROOFS; proof++)
        printf(" %-14s", hang_proof_name(proof));
    printf("\n");
    for (unsigned fault = 0; fault < HANG_FAULTS; fault++)
        print_row(score, fault);
    printf("with ranks out of sight: %" PRIu64 "/%" PRIu64 "/%" PRIu64 "\n", score->partly[RIGHT],
           score->partly[MISSED], score->partly[WRONG]);
}

/* Where kernel events tell, nothing should be missed. */
static bool reached(const struct score *score)
{
    uint64_t right = 0, missed = 0;
    for (unsigned fault = 0; fault < HANG_FAULTS; fault++) {
        right += score->n[fault][HANG_BY_KERNELS][RIGHT];
        missed += score->n[fault][HANG_BY_KERNELS][MISSED];
    }
    return 100 * score->sure_right >= 99 * score->sure && 100 * right >= 99 * (right + missed);
}

int main(int argc, char **argv)
{
    struct options options = {.from = 101, .to = 200, .cases = 40};
    struct score score = {0};
    if (options_parse(argc, argv, "from to cases reach large say evidence", &options)) {
        fputs(usage, stderr);
        return 2;
    }
    for (uint64_t seed = options.from; seed <= options.to; seed++)
        for (uint64_t i = 0; i < options.cases; i++)
            one_case(&options, seed * 1000 + i, &score);
    print_score(&options, &score);
    return options.reach && !reached(&score) ? 1 : 0;
}
