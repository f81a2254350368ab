#include "score_live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double DUE_S = 0.1;
enum { LASTED_LONG = 2 };
static const double lasted_s[LIVE_LASTED] = {5, 10, 30, INFINITY};

static bool shares_rank(const struct muster_finding *a, const struct muster_finding *b)
{
    for (unsigned i = 0; i < a->ranks; i++) {
        for (unsigned k = 0; k < b->ranks; k++)
            if (a->rank[i] == b->rank[k])
                return true;
    }
    return a->ranks == 0 && b->comm == a->comm;
}

static bool holds(const struct muster_finding *emitted, const struct muster_findings *after)
{
    for (size_t i = 0; i < after->n; i++)
        if (shares_rank(emitted, &after->finding[i]))
            return true;
    return false;
}

static double lasts_s(const struct job *job, const struct truth *truth, unsigned f)
{
    return truth->run_s * (job->fault[f].until - job->fault[f].from) / job->steps;
}

/* When the fault had cost so much that it should be told soon. */
static double due_s(const struct job *job, const struct truth *truth, unsigned f)
{
    double from = truth->run_s * job->fault[f].from / job->steps;
    return from + lasts_s(job, truth, f) * fmin(1, DUE_S / truth->cost_s[f]);
}

/* Whether a fleet's worker hears enough of it. */
static bool is_heard(const struct job *job)
{
    enum { HEARD_PERCENT = 90 };
    unsigned seen = 0;
    for (unsigned r = 0; r < job->ranks; r++)
        seen += job->seen[r];
    return seen * 100 >= job->ranks * HEARD_PERCENT;
}

static void count(struct score_live_share *share, bool due, bool named)
{
    share->due += due;
    share->named += due && named;
}

/* `named`: bit of each fault. */
static void add_shares(struct score_live *score, const struct job *job, const struct truth *truth,
                       unsigned named)
{
    bool heard = is_heard(job);
    for (unsigned f = 0; f < job->faults; f++) {
        unsigned i = 0;
        while (lasts_s(job, truth, f) >= lasted_s[i])
            i++;
        bool one = heard && i >= LASTED_LONG && job->fault[f].ranks == 1;
        count(heard ? &score->lasted[i] : &score->unheard, truth->due[f], named >> f & 1);
        count(&score->one, one && truth->due[f], named >> f & 1);
    }
}

static void add_delays(struct score_live *score, const struct job *job, const struct truth *truth,
                       const struct live_run *run)
{
    unsigned named = 0;
    for (unsigned i = 0; i < run->n; i++) {
        unsigned faults;
        if (score_finding(job, &run->emitted[i].finding, &faults) != VERDICT_RIGHT)
            continue;
        for (unsigned f = 0; f < job->faults && score->delays < LIVE_DELAYS; f++)
            if (truth->due[f] && faults >> f & ~named >> f & 1)
                score->delay_s[score->delays++] = run->emitted[i].at_s - due_s(job, truth, f);
        named |= faults;
    }
    add_shares(score, job, truth, named);
}

/* What is so of a job in which nobody is at fault. */
static bool is_so(const struct job *job, const struct muster_finding *finding)
{
    return finding->kind == MUSTER_FINDING_ALL_WAIT && job->category == CASE_INPUT_WAIT;
}

void score_live_add(struct score_live *score, const struct job *job, const struct truth *truth,
                    const struct live_run *run, const struct evaluated *after)
{
    score->clean += job->faults == 0;
    unsigned so = 0;
    for (unsigned i = 0; i < run->n; i++)
        so += is_so(job, &run->emitted[i].finding);
    score->clean_emitted += job->faults == 0 && run->n > so;
    score->clean_so += job->faults == 0 && so > 0;
    score->emitted += run->n;
    score->busy_s += run->busy_s;
    score->looked_s += run->looked_s;
    for (unsigned i = 0; i < run->n; i++) {
        const struct live_emitted *emitted = &run->emitted[i];
        unsigned faults;
        score->retracted += emitted->retracted;
        score->wrong += score_finding(job, &emitted->finding, &faults) == VERDICT_WRONG;
        score->gone += !holds(&emitted->finding, &after->findings);
    }
    add_delays(score, job, truth, run);
}

void score_live_evaluated(const struct live_run *run, struct evaluated *evaluated)
{
    *evaluated = (struct evaluated){.busy_s = run->busy_s};
    for (unsigned i = 0; i < run->n; i++) {
        struct muster_finding *finding = muster_findings_add(&evaluated->findings);
        if (!finding)
            exit(2);
        *finding = run->emitted[i].finding;
    }
}

void score_live_explain(const struct job *job, const struct live_run *run, FILE *out)
{
    char text[1024];
    for (unsigned i = 0; i < run->n; i++) {
        unsigned faults;
        bool wrong = score_finding(job, &run->emitted[i].finding, &faults) == VERDICT_WRONG;
        muster_finding_sentence(&run->emitted[i].finding, text, sizeof text);
        fprintf(out, "  live, second %.0f%s%s: %s\n", run->emitted[i].at_s, wrong ? ", WRONG" : "",
                run->emitted[i].retracted ? ", retracted" : "", text);
    }
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void print_share(const char *what, const struct score_live_share *share, FILE *out)
{
    if (share->due)
        fprintf(out, "| %s | %u | %.3f |\n", what, share->due, (double)share->named / share->due);
}

static void print_shares(const struct score_live *score, FILE *out)
{
    static const char *const word[LIVE_LASTED] = {"less than 5 s", "5 to 10 s", "10 to 30 s",
                                                  "30 s and more"};
    fprintf(out, "\n| the fault lasted | faults that were due | named |\n|---|---|---|\n");
    for (unsigned i = 0; i < LIVE_LASTED; i++)
        print_share(word[i], &score->lasted[i], out);
    print_share("10 s and more, of one rank", &score->one, out);
    print_share("in jobs of which less than nine tenths are recorded", &score->unheard, out);
}

void score_live_print(struct score_live *score, FILE *out)
{
    fprintf(out,
            "\nlive: %u findings told, %u of them wrong, %u retracted, %u not found "
            "afterwards; %u clean runs, %u with anything told; beside these %u that wait for "
            "input, of which it was told that every rank waits alike\n",
            score->emitted, score->wrong, score->retracted, score->gone, score->clean,
            score->clean_emitted, score->clean_so);
    if (score->delays) {
        unsigned n = score->delays;
        qsort(score->delay_s, n, sizeof *score->delay_s, by_value);
        fprintf(out,
                "named %.1f s (median; nine in ten within %.1f s) after the fault had cost "
                "%.1f s, %u faults that were due\n",
                score->delay_s[n / 2], score->delay_s[n - 1 - n / 10], DUE_S, n);
    }
    print_shares(score, out);
    fprintf(out, "leaders used %.2f %% of a processor of a host\n",
            score->looked_s > 0 ? 100 * score->busy_s / score->looked_s : 0.0);
}
