#include <inttypes.h>
#include <stdlib.h>

#include "score.h"

static double share(unsigned n, unsigned of)
{
    return of ? (double)n / of : 1;
}

static void print_row(const char *word, const struct score_row *row, FILE *out)
{
    fprintf(out, "| %-18s | %5u | %4u | ", word, row->cases, row->emitted);
    fprintf(out, row->right + row->wrong ? "%5.3f" : "    –",
            share(row->right, row->right + row->wrong));
    fprintf(out, " (%u of %u) | ", row->right, row->right + row->wrong);
    fprintf(out, row->due ? "%5.3f" : "    –", share(row->found, row->due));
    fprintf(out, " (%u of %u) | %u | %u |\n", row->found, row->due, row->victims, row->alike);
}

static void print_rows(const struct score *score, FILE *out)
{
    static const char head[] =
        "| cases | told | precision | recall | innocents named | all wait |\n"
        "|---|---|---|---|---|---|---|\n";
    fprintf(out, "| category %s", head);
    for (unsigned c = 0; c < CASES; c++)
        if (score->category[c].cases)
            print_row(job_category_word(c), &score->category[c], out);
    print_row("all", &score->all, out);
    fprintf(out, "\n| family %s", head);
    for (unsigned f = 0; f < FAMILIES; f++)
        if (score->family[f].cases)
            print_row(job_family_word(f), &score->family[f], out);
}

static void print_power(const struct score *score, FILE *out)
{
    static const char *const word[SCORE_COSTS] = {"below 0.25 %", "0.25 to 0.5 %", "0.5 to 1 %",
                                                  "1 to 2 %",     "2 to 5 %",      "5 to 10 %",
                                                  "10 to 20 %",   "20 % on"};
    fprintf(out,
            "\n| true cost, of the run | faults in %u timed operations and more | named |\n"
            "|---|---|---|\n",
            (unsigned)TRUTH_DUE_HITS);
    for (unsigned i = 0; i < SCORE_COSTS; i++) {
        fprintf(out, "| %s | %u | %.3f |\n", word[i], score->shown[i],
                score->shown[i] ? share(score->named[i], score->shown[i]) : 0);
    }
}

static int by_value(const void *left, const void *right)
{
    const struct score_ratio *a = left, *b = right;
    return a->value < b->value ? -1 : a->value > b->value;
}

static void print_costs(struct score *score, FILE *out)
{
    unsigned n = score->ratios, near = 0;
    if (!n)
        return;
    qsort(score->ratio, n, sizeof *score->ratio, by_value);
    for (unsigned i = 0; i < n; i++)
        near += score->ratio[i].value >= 0.7 && score->ratio[i].value <= 1.3;
    fprintf(out,
            "\ncost said over true cost, %u findings: median %.2f, a tenth below %.2f, a tenth "
            "above %.2f; within 30 %%: %.3f\n",
            n, score->ratio[n / 2].value, score->ratio[n / 10].value,
            score->ratio[n - 1 - n / 10].value, share(near, n));
    if (score->causes) {
        fprintf(out,
                "cause said (host or gpu) in %u of the %u of these that are of ranks, right %.3f\n",
                score->causes, score->causes_due, share(score->causes_right, score->causes));
    }
}

static void print_confidence(const struct score *score, FILE *out)
{
    if (!score->sures)
        return;
    fprintf(out,
            "\nBrier score of the confidence %.4f, %u findings\n\n"
            "| confidence said | findings | mean said | right |\n|---|---|---|---|\n",
            score->brier / score->sures, score->sures);
    for (unsigned i = 0; i < SCORE_TENTHS; i++) {
        if (score->sure[i]) {
            fprintf(out, "| %.1f to %.1f | %u | %.3f | %.3f |\n", i / 10.0, (i + 1) / 10.0,
                    score->sure[i], score->sure_sum[i] / score->sure[i],
                    share(score->sure_right[i], score->sure[i]));
        }
    }
    fprintf(out, "\n| one kind of evidence: confidence said | right | fitted to these |\n"
                 "|---|---|---|\n");
    for (unsigned i = 0; i < SCORE_PROOFS && score->proof[i].n; i++) {
        const struct score_proof *proof = &score->proof[i];
        fprintf(out, "| %.4f | %u of %u | %.4f |\n", proof->p, proof->right, proof->n,
                (proof->right + 1.0) / (proof->n + 2.0));
    }
}

/* Of the true cost over the one said: a tenth of the other families' below, and a tenth above.
 * score->ratio: sorted. */
static void fit_costs(const struct score *score, unsigned without, double *low, double *high)
{
    unsigned others = 0, at = 0;
    *low = *high = 1;
    for (unsigned i = 0; i < score->ratios; i++)
        others += score->ratio[i].family != without;
    for (unsigned i = 0; i < score->ratios; i++) {
        if (score->ratio[i].family == without)
            continue;
        *high = at == others / 10 ? 1 / score->ratio[i].value : *high;
        *low = at == others - 1 - others / 10 ? 1 / score->ratio[i].value : *low;
        at++;
    }
}

static void print_left_out(const struct score *score, unsigned family, FILE *out)
{
    const struct score_row *own = &score->family[family], *all = &score->all;
    unsigned n = own->right + own->wrong, right = all->right - own->right;
    unsigned others = all->right + all->wrong - n, costs = 0, within = 0;
    double p = (right + 1.0) / (others + 2.0), low, high;
    fit_costs(score, family, &low, &high);
    for (unsigned i = 0; i < score->ratios; i++) {
        double truth = 1 / score->ratio[i].value;
        bool is_own = score->ratio[i].family == family;
        costs += is_own;
        within += is_own && truth >= low && truth <= high;
    }
    double brier = n ? (own->right * (1 - p) * (1 - p) + own->wrong * p * p) / n : 0;
    fprintf(out, "| %s | %u | %.3f | %.3f | %.4f | %.2f to %.2f | %u of %u |\n",
            job_family_word(family), n, p, share(own->right, n), brier, low, high, within, costs);
}

/* What is fitted, the confidence and the interval of costs, fitted to the other families and
 * evaluated on this one. */
static void print_families(const struct score *score, FILE *out)
{
    fprintf(out,
            "\n| family left out | findings | confidence by the others | right | Brier | true "
            "cost over the one said, by the others | within |\n|---|---|---|---|---|---|---|\n");
    for (unsigned f = 0; f < FAMILIES; f++)
        if (score->family[f].right + score->family[f].wrong)
            print_left_out(score, f, out);
    double low, high;
    fit_costs(score, FAMILIES, &low, &high);
    fprintf(out, "\ntrue cost over the one said, fitted to all families: %.2f to %.2f\n", low,
            high);
}

void score_print(struct score *score, FILE *out)
{
    print_rows(score, out);
    print_power(score, out);
    print_costs(score, out);
    print_confidence(score, out);
    print_families(score, out);
    fprintf(out, "\n%" PRIu64 " operations, judged at %.1f million a second of a processor\n",
            score->ops, score->busy_s > 0 ? (double)score->ops / score->busy_s / 1e6 : 0.0);
}

static void explain_fault(const struct job *job, const struct truth *truth,
                          const struct recorded *recorded, unsigned f, FILE *out)
{
    static const char *const how[] = {"GPU work", "host work",  "slow GPU",
                                      "drifting", "hot expert", "slow link"};
    const struct fault *fault = &job->fault[f];
    fprintf(out, "  fault: %s, ", how[fault->how]);
    if (fault->how == HOW_LINK)
        fprintf(out, "host %u to host %u, times %.2f", fault->first, fault->to, fault->factor);
    else
        fprintf(out, "ranks %u to %u", fault->first, fault->first + fault->ranks - 1);
    if (fault->how == HOW_GPU || fault->how == HOW_HOST) {
        fprintf(out, ", %.2f ms at action %u in %.0f %% of the steps %u to %u, each %u",
                fault->ns / 1e6, fault->at, 100 * fault->share, fault->from, fault->until,
                fault->every ? fault->every : 1);
    } else if (fault->how != HOW_LINK) {
        fprintf(out, ", %.1f %%, steps %u to %u", 100 * fault->factor, fault->from, fault->until);
    }
    fprintf(out, "; costs %.3f s (%.2f %%), hits %u%s\n", truth->cost_s[f],
            100 * truth_share(truth, f), recorded->hits[f], truth->due[f] ? ", due" : "");
}

static void explain_innocent(const struct job *job, const struct truth *truth,
                             const struct recorded *recorded, unsigned rank, FILE *out)
{
    double s = truth_culprit(job, rank) ? 0 : truth_noise_s(job, recorded, rank);
    if (!truth_culprit(job, rank)) {
        fprintf(out, "      rank %u is innocent; its own noise costs %.4f s (%.2f %%)\n", rank, s,
                100 * s / truth->run_s);
    }
}

void score_explain(const struct job *job, const struct truth *truth,
                   const struct recorded *recorded, const struct evaluated *evaluated,
                   bool evidence, FILE *out)
{
    static const char *const words[] = {"right", "WRONG", "neutral", "no matter"};
    unsigned seen = 0, timing[3] = {0};
    char text[1024];
    for (unsigned r = 0; r < job->ranks; r++) {
        seen += job->seen[r];
        timing[job->timing[r]]++;
    }
    fprintf(out,
            "  %s, %s, %u ranks (%u seen; %u full, %u auto at 1/%u, %u light), %u steps of "
            "%.1f ms%s%s, %" PRIu64 " operations, %.1f s\n",
            job_category_word(job->category), job_family_word(job->family), job->ranks, seen,
            timing[TIMED_FULL], timing[TIMED_AUTO], 1u << job->level, timing[TIMED_LIGHT],
            job->steps, job->step_ns / 1e6, job->sync ? ", hosts wait" : "",
            job->by_events ? ", by events" : "", recorded->ops, truth->run_s);
    for (unsigned f = 0; f < job->faults; f++)
        explain_fault(job, truth, recorded, f, out);
    for (size_t i = 0; i < evaluated->findings.n; i++) {
        const struct muster_finding *finding = &evaluated->findings.finding[i];
        unsigned faults;
        enum verdict verdict = score_finding(job, finding, &faults);
        muster_finding_sentence(finding, text, sizeof text);
        fprintf(out, "  %s: %s\n", words[verdict], text);
        for (unsigned k = 0; verdict == VERDICT_WRONG && k < finding->ranks; k++)
            explain_innocent(job, truth, recorded, (unsigned)finding->rank[k], out);
        for (unsigned e = 0; evidence && e < finding->evidence.n; e++)
            fprintf(out, "      %s\n", finding->evidence.line[e]);
    }
}

static void csv_line(uint64_t seed, const struct job *job, const char *what, unsigned faults,
                     const struct truth *truth, const struct recorded *recorded,
                     const struct muster_finding *finding, FILE *out)
{
    unsigned f = faults ? (unsigned)__builtin_ctz(faults) : JOB_FAULTS_MAX;
    bool fault = f < job->faults;
    fprintf(out, "%" PRIu64 ",%s,%s,%u,%s,%d,%.6f,%u,%s,%d,%.6f,%.6f,%.4f,%d\n", seed,
            job_category_word(job->category), job_family_word(job->family), job->ranks, what,
            fault ? (int)job->fault[f].first : -1, fault ? truth_share(truth, f) : 0,
            fault ? recorded->hits[f] : 0, finding ? muster_finding_name(finding->kind) : "",
            finding && finding->ranks ? finding->rank[0] : -1, finding ? finding->cost_share : 0,
            finding ? score_cost_s(finding) / truth->run_s : 0, finding ? finding->confidence : 0,
            __builtin_popcount(faults));
}

void score_csv(uint64_t seed, const struct job *job, const struct truth *truth,
               const struct recorded *recorded, const struct evaluated *evaluated, FILE *out)
{
    static const char *const words[] = {"right", "wrong", "neutral", "other"};
    unsigned named = 0, faults;
    if (!job) {
        fprintf(out, "seed,category,family,ranks,verdict,guilty,true_share,hits,kind,rank,"
                     "share_said,cost_over_run,confidence,faults\n");
        return;
    }
    for (size_t i = 0; i < evaluated->findings.n; i++) {
        const struct muster_finding *finding = &evaluated->findings.finding[i];
        enum verdict verdict = score_finding(job, finding, &faults);
        named |= faults;
        csv_line(seed, job, words[verdict], faults, truth, recorded, finding, out);
    }
    for (unsigned f = 0; f < job->faults; f++) {
        if (!(named >> f & 1)) {
            csv_line(seed, job, truth->due[f] ? "missed" : "unnamed", 1u << f, truth, recorded,
                     NULL, out);
        }
    }
}
