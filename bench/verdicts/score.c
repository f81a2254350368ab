#include "score.h"

#include <string.h>

#include "maxplus.h"

static bool is_word(const struct muster_finding *finding, const char *word)
{
    return strcmp(muster_finding_name(finding->kind), word) == 0;
}

static bool is_slow_comm(const struct job *job, const struct fault *fault, uint64_t comm)
{
    for (unsigned g = 0; g < GROUPS; g++) {
        for (unsigned r = 0; job->shape[g].n > 1 && r < job->ranks; r++)
            if (job_first(job, g, r) == r && recording_comm(job, g, r) == comm)
                return simulate_is_slow(job, fault, g, r);
    }
    return false;
}

/* A slow transfer names two ranks, in either order where the direction is not known, or only the
 * communicator. */
static enum verdict score_link(const struct job *job, const struct muster_finding *finding,
                               unsigned *faults)
{
    for (unsigned f = 0; f < job->faults; f++) {
        const struct fault *fault = &job->fault[f];
        unsigned a = finding->ranks ? job_host((unsigned)finding->rank[0]) : 0;
        unsigned b = finding->ranks > 1 ? job_host((unsigned)finding->rank[1]) : 0;
        bool pair = (a == fault->first && b == fault->to) || (b == fault->first && a == fault->to);
        bool right = finding->ranks ? pair : is_slow_comm(job, fault, finding->comm);
        if (fault->how == HOW_LINK && right)
            *faults |= 1u << f;
    }
    return *faults ? VERDICT_RIGHT : VERDICT_WRONG;
}

static unsigned owed(const struct job *job)
{
    unsigned set = 0;
    for (unsigned f = 0; f < job->faults; f++)
        set |= (unsigned)job->fault[f].owed << f;
    return set;
}

enum verdict score_finding(const struct job *job, const struct muster_finding *finding,
                           unsigned *faults)
{
    bool some = false;
    *faults = 0;
    if (is_word(finding, "slow_transfer"))
        return score_link(job, finding, faults);
    bool late = is_word(finding, "late_rank") || is_word(finding, "late_host");
    if (!late && !is_word(finding, "uneven_stages"))
        return VERDICT_NONE;
    for (unsigned i = 0; i < finding->ranks; i++) {
        unsigned culprit = truth_culprit(job, (unsigned)finding->rank[i]);
        if (!culprit)
            return VERDICT_WRONG;
        *faults |= culprit;
        some = true;
    }
    if (!some)
        return VERDICT_WRONG;
    return late && *faults & owed(job) ? VERDICT_RIGHT : VERDICT_NEUTRAL;
}

/* Faults that are named by findings that are right. Of a host: at least half of its ranks. */
static unsigned named_faults(const struct job *job, const struct muster_findings *findings)
{
    unsigned ranks[JOB_FAULTS_MAX] = {0}, named = 0;
    bool seen[JOB_RANKS_MAX] = {false};
    for (size_t i = 0; i < findings->n; i++) {
        const struct muster_finding *finding = &findings->finding[i];
        unsigned faults;
        if (score_finding(job, finding, &faults) != VERDICT_RIGHT)
            continue;
        named |= is_word(finding, "late_rank") ? 0 : faults;
        for (unsigned k = 0; k < finding->ranks && !is_word(finding, "slow_transfer"); k++) {
            unsigned rank = (unsigned)finding->rank[k], culprit = truth_culprit(job, rank);
            for (unsigned f = 0; f < job->faults && !seen[rank]; f++)
                ranks[f] += culprit >> f & 1;
            seen[rank] = true;
        }
    }
    for (unsigned f = 0; f < job->faults; f++)
        named |= (unsigned)(ranks[f] && 2 * ranks[f] >= job->fault[f].ranks) << f;
    return named;
}

static unsigned innocents(const struct job *job, const struct muster_finding *finding)
{
    unsigned n = 0;
    for (unsigned i = 0; i < finding->ranks; i++)
        n += !truth_culprit(job, (unsigned)finding->rank[i]);
    return n ? n : 1;
}

static void add_row(struct score_row *row, const struct job *job, const struct truth *truth,
                    const struct evaluated *evaluated)
{
    unsigned named = named_faults(job, &evaluated->findings), emitted = 0, faults;
    row->cases++;
    for (unsigned f = 0; f < job->faults; f++) {
        row->due += truth->due[f];
        row->found += truth->due[f] && named >> f & 1;
    }
    for (size_t i = 0; i < evaluated->findings.n; i++) {
        const struct muster_finding *finding = &evaluated->findings.finding[i];
        enum verdict verdict = score_finding(job, finding, &faults);
        row->right += verdict == VERDICT_RIGHT;
        row->wrong += verdict == VERDICT_WRONG;
        row->neutral += verdict == VERDICT_NEUTRAL;
        row->victims += verdict == VERDICT_WRONG ? innocents(job, finding) : 0;
        emitted += verdict != VERDICT_NONE;
        row->alike += is_word(finding, "all_wait");
    }
    row->emitted += emitted > 0;
}

static const double cost_of[SCORE_COSTS] = {-1, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2};

static void add_power(struct score *score, const struct job *job, const struct truth *truth,
                      const struct evaluated *evaluated)
{
    unsigned named = named_faults(job, &evaluated->findings);
    for (unsigned f = 0; f < job->faults; f++) {
        unsigned i = SCORE_COSTS - 1;
        while (i && truth_share(truth, f) < cost_of[i])
            i--;
        score->shown[i] += truth->shows[f];
        score->named[i] += truth->shows[f] && named >> f & 1;
    }
}

static void add_confidence(struct score *score, const struct muster_finding *finding, bool right)
{
    double p = finding->confidence, miss = p - right;
    unsigned tenth = p >= 1 ? SCORE_TENTHS - 1 : p <= 0 ? 0 : (unsigned)(p * SCORE_TENTHS);
    score->sure[tenth]++;
    score->sure_right[tenth] += right;
    score->sure_sum[tenth] += p;
    for (unsigned i = 0; i < SCORE_PROOFS; i++) {
        struct score_proof *proof = &score->proof[i];
        if (proof->n && proof->p != p)
            continue;
        proof->p = p;
        proof->n++;
        proof->right += right;
        break;
    }
    score->brier += miss * miss;
    score->sures++;
}

static bool cause_is(const struct fault *fault, enum muster_finding_cause cause)
{
    return cause == (fault->how == HOW_HOST ? MUSTER_CAUSE_HOST : MUSTER_CAUSE_GPU);
}

double score_cost_s(const struct muster_finding *finding)
{
    return finding->cost_run_s > 0 ? finding->cost_run_s : finding->cost_s;
}

/* Cost and cause, of findings about one fault that is due. */
static void add_details(struct score *score, const struct job *job, const struct truth *truth,
                        const struct muster_finding *finding, unsigned faults)
{
    unsigned f = (unsigned)__builtin_ctz(faults);
    if (__builtin_popcount(faults) != 1 || !truth->due[f])
        return;
    if (score->ratios < SCORE_RATIOS)
        score->ratio[score->ratios++] =
            (struct score_ratio){score_cost_s(finding) / truth->cost_s[f], job->family};
    if (job->fault[f].how == HOW_LINK)
        return;
    score->causes_due++;
    if (finding->cause != MUSTER_CAUSE_UNKNOWN) {
        score->causes++;
        score->causes_right += cause_is(&job->fault[f], finding->cause);
    }
}

void score_add(struct score *score, const struct job *job, const struct truth *truth,
               const struct recorded *recorded, const struct evaluated *evaluated)
{
    add_row(&score->all, job, truth, evaluated);
    add_row(&score->category[job->category], job, truth, evaluated);
    add_row(&score->family[job->family], job, truth, evaluated);
    add_power(score, job, truth, evaluated);
    for (size_t i = 0; i < evaluated->findings.n; i++) {
        const struct muster_finding *finding = &evaluated->findings.finding[i];
        unsigned faults;
        enum verdict verdict = score_finding(job, finding, &faults);
        if (verdict == VERDICT_RIGHT || verdict == VERDICT_WRONG)
            add_confidence(score, finding, verdict == VERDICT_RIGHT);
        if (verdict == VERDICT_RIGHT)
            add_details(score, job, truth, finding, faults);
    }
    score->ops += recorded->ops;
    score->busy_s += evaluated->busy_s;
}

bool score_is_bad(const struct job *job, const struct truth *truth,
                  const struct evaluated *evaluated)
{
    struct score_row row = {0};
    add_row(&row, job, truth, evaluated);
    return row.wrong || row.found < row.due;
}
