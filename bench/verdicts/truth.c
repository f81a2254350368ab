#include "truth.h"

#include <string.h>

#include "maxplus.h"

static double factorial(unsigned n)
{
    return n < 2 ? 1 : n * factorial(n - 1);
}

static double shapley(const double *run_ns, unsigned faults, unsigned f)
{
    double cost = 0;
    for (unsigned set = 0; set < 1u << faults; set++) {
        unsigned n = (unsigned)__builtin_popcount(set);
        if (!(set >> f & 1)) {
            double weight = factorial(n) * factorial(faults - n - 1) / factorial(faults);
            cost += weight * (run_ns[set | 1u << f] - run_ns[set]);
        }
    }
    return cost;
}

static bool is_seen(const struct job *job, const struct fault *fault)
{
    bool seen = fault->how == HOW_LINK;
    for (unsigned r = fault->first; r < fault->first + fault->ranks; r++)
        seen |= job->seen[r];
    return seen;
}

void truth_find(const struct job *job, const struct recorded *recorded, struct truth *truth)
{
    double run_ns[1 << JOB_FAULTS_MAX];
    unsigned all = (1u << job->faults) - 1;
    memset(truth, 0, sizeof *truth);
    for (unsigned set = 0; set < all; set++)
        run_ns[set] = simulate(job, set, job->steps, NULL, NULL);
    run_ns[all] = recorded->run_ns;
    truth->run_s = recorded->run_ns / 1e9;
    for (unsigned f = 0; f < job->faults; f++) {
        const struct fault *fault = &job->fault[f];
        truth->cost_s[f] = shapley(run_ns, job->faults, f) / 1e9;
        truth->shows[f] = fault->owed && is_seen(job, fault) && recorded->hits[f] >= TRUTH_DUE_HITS;
        truth->due[f] = truth->shows[f] && truth_share(truth, f) >= TRUTH_DUE_SHARE;
    }
}

double truth_noise_s(const struct job *job, const struct recorded *recorded, unsigned rank)
{
    struct job calm = *job;
    calm.calm = rank + 1;
    return (recorded->run_ns - simulate(&calm, (1u << job->faults) - 1, job->steps, NULL, NULL)) /
           1e9;
}

unsigned truth_culprit(const struct job *job, unsigned rank)
{
    unsigned set = 0;
    for (unsigned f = 0; f < job->faults; f++) {
        const struct fault *fault = &job->fault[f];
        set |= (unsigned)(rank >= fault->first && rank < fault->first + fault->ranks) << f;
    }
    return set;
}
