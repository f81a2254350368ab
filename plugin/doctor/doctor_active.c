/* Tests that move data between GPUs. */
#include <stdlib.h>
#include <string.h>

#include "allreduce/allreduce.h"
#include "allreduce/gpu_api.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/p2p.h"
#include "launch/library_trust.h"
#include "topology/paths.h"

enum {
    P2P_MS = 40000,
    P2P_STAGE_MS = 6000,
    P2P_WORDS = 16 << 20, /* 64 MiB a buffer */
    PROBE_S = 15,
    ALLREDUCE_S = 30,
    SMALL_BYTES = 8,
    LARGE_BYTES = 64 << 20,
    SLOW_PERCENT = 70,
};

const char *const muster_doctor_rank[] = {"doctor", NULL};

static const struct {
    const char *id, *class_id, *expected;
} tests[] = {
    {"p2p.kernel", "F43,F44,F45", "what one GPU's kernel writes, its owner reads"},
    {"p2p.copy", "F43,F44,F45", "what a copy engine writes, its owner reads"},
    {"p2p.bandwidth", "F54,F55", "70 % of what the path allows"},
    {"allreduce.small", "F41,F43", "the right sum"},
    {"allreduce.large", "F41,F43,F50", "the right sum"},
};

enum { KERNEL, COPY, BANDWIDTH, SMALL, LARGE };

static struct muster_check *begin(struct muster_doctor *doctor, int test)
{
    struct muster_check *check =
        muster_check_begin(doctor->checks, tests[test].id, tests[test].class_id);
    muster_check_expected(check, "%s", tests[test].expected);
    return check;
}

enum { RIGHT, WRONG, FAILED, HUNG, UNTESTED, VERDICTS };

/* A pair that hangs or fails in one test shows nothing about the other. */
static int evaluate_pair(const struct muster_p2p_result *pair, int test)
{
    int stage = test == KERNEL ? MUSTER_P2P_KERNEL : MUSTER_P2P_COPY;
    bool tested = test == KERNEL ? pair->kernel_tested : pair->copy_tested;
    uint32_t wrong = test == KERNEL ? pair->kernel_wrong : pair->copy_wrong;
    if (tested && wrong)
        return WRONG;
    if (pair->from_pci[0] && (pair->stage == stage || pair->stage == MUSTER_P2P_BEGIN))
        return HUNG;
    if (pair->failed[0] && (pair->failed_stage == stage || pair->failed_stage == MUSTER_P2P_BEGIN))
        return FAILED;
    return tested ? RIGHT : UNTESTED;
}

static void report_pair(struct muster_check *check, const struct muster_p2p_result *pair, int test,
                        int verdict)
{
    uint32_t wrong = test == KERNEL ? pair->kernel_wrong : pair->copy_wrong;
    if (verdict == HUNG)
        muster_check_evidence(check, "GPU %d to %d: hung or crashed%s", pair->from, pair->to,
                              pair->stage == MUSTER_P2P_BEGIN ? " before its start" : "");
    else if (verdict == FAILED)
        muster_check_evidence(check, "GPU %d to %d: %s", pair->from, pair->to, pair->failed);
    else if (verdict == WRONG)
        muster_check_evidence(check, "GPU %d to %d: the owner reads %u wrong words of %u",
                              pair->from, pair->to, wrong, pair->words);
}

static void evaluate_data(struct muster_check *check, const struct muster_p2p_matrix *matrix,
                          int test)
{
    int count[VERDICTS] = {0}, without = 0, pairs = matrix->gpus * (matrix->gpus - 1);
    for (int a = 0; a < matrix->gpus; a++)
        for (int b = 0; b < matrix->gpus; b++) {
            const struct muster_p2p_result *pair = &matrix->pair[a][b];
            if (a == b)
                continue;
            int verdict = evaluate_pair(pair, test);
            count[verdict]++;
            without += pair->stage == MUSTER_P2P_DONE && !pair->failed[0] && !pair->access;
            report_pair(check, pair, test, verdict);
        }
    muster_check_found(check, "%d of %d pairs right%s%s%s", count[RIGHT], pairs,
                       count[WRONG] ? ", wrong data" : "", count[FAILED] ? ", a call fails" : "",
                       count[HUNG] ? ", a pair hangs" : "");
    int untested = count[UNTESTED] - (test == KERNEL ? without : 0);
    if (without)
        muster_check_evidence(check, "pairs without peer access, which go through the host: %d",
                              without);
    if (untested > 0)
        muster_check_evidence(check, "pairs that were not tested: %d", untested);
    if (count[WRONG] + count[FAILED] + count[HUNG]) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check, "do not run jobs with P2P here: NCCL_P2P_DISABLE=1 until ACS, "
                                   "IOMMU, driver or virtual machine are put right");
    } else if (count[RIGHT] == 0) {
        muster_check_unchecked(check, without
                                          ? "the driver grants no peer access between these GPUs"
                                          : "no pair was tested");
    }
}

static double path_limit(const struct muster_doctor *doctor, const struct muster_p2p_result *pair)
{
    struct muster_pci a, b;
    struct muster_path path;
    if (!muster_pci_parse(pair->from_pci, &a) || !muster_pci_parse(pair->to_pci, &b))
        return 0;
    int x = muster_machine_find_gpu(doctor->survey->machine, a);
    int y = muster_machine_find_gpu(doctor->survey->machine, b);
    if (x < 0 || y < 0)
        return 0;
    muster_path_gpus(doctor->survey->machine, x, y, &path);
    return doctor->survey->machine->hidden && path.nvlinks == 0 ? 0 : path.limit_gbs;
}

struct bandwidth {
    int pairs, slow, limited;
    double least, most, worst; /* GB/s, the better of both ways; worst: of the limit */
};

static double best_of(const struct muster_p2p_result *pair)
{
    return pair->copy_gbs > pair->kernel_gbs ? pair->copy_gbs : pair->kernel_gbs;
}

static void report_bandwidth(struct muster_check *check, const struct muster_p2p_result *pair,
                             double limit, bool slow)
{
    if (limit > 0)
        muster_check_evidence(check,
                              "GPU %d to %d: copy %.1f, kernel %.1f GB/s of %.1f (%.0f %%)%s",
                              pair->from, pair->to, pair->copy_gbs, pair->kernel_gbs, limit,
                              100 * best_of(pair) / limit, slow ? ": slow" : "");
    else
        muster_check_evidence(check, "GPU %d to %d: copy %.1f, kernel %.1f GB/s", pair->from,
                              pair->to, pair->copy_gbs, pair->kernel_gbs);
}

enum { REPORT_NONE, REPORT_SLOW, REPORT_OTHERS };

static void measure(const struct muster_doctor *doctor, const struct muster_p2p_matrix *matrix,
                    struct muster_check *check, int which, struct bandwidth *all)
{
    *all = (struct bandwidth){0};
    for (int a = 0; a < matrix->gpus; a++)
        for (int b = 0; b < matrix->gpus; b++) {
            const struct muster_p2p_result *pair = &matrix->pair[a][b];
            double best = best_of(pair);
            if (a == b || pair->stage != MUSTER_P2P_DONE || best <= 0 || pair->copy_wrong ||
                pair->kernel_wrong)
                continue;
            double limit = pair->access ? path_limit(doctor, pair) : 0;
            bool slow = limit > 0 && best * 100 < limit * SLOW_PERCENT;
            all->least = all->pairs == 0 || best < all->least ? best : all->least;
            all->most = best > all->most ? best : all->most;
            if (limit > 0 && (all->limited == 0 || best / limit < all->worst))
                all->worst = best / limit;
            all->pairs++;
            all->slow += slow;
            all->limited += limit > 0;
            if (which == (slow ? REPORT_SLOW : REPORT_OTHERS))
                report_bandwidth(check, pair, limit, slow);
        }
}

static void check_bandwidth(struct muster_doctor *doctor, const struct muster_p2p_matrix *matrix)
{
    struct muster_check *check = begin(doctor, BANDWIDTH);
    struct bandwidth all;
    measure(doctor, matrix, check, REPORT_NONE, &all);
    if (all.limited)
        muster_check_evidence(check, "%.1f to %.1f GB/s, at least %.0f %% of what the path allows",
                              all.least, all.most, 100 * all.worst);
    else if (all.pairs)
        muster_check_evidence(check, "%.1f to %.1f GB/s", all.least, all.most);
    /* Slow pairs before the others: a check holds only so many lines. */
    measure(doctor, matrix, check, REPORT_SLOW, &all);
    measure(doctor, matrix, check, REPORT_OTHERS, &all);
    if (all.pairs == 0) {
        muster_check_unchecked(check, "no pair could be measured");
    } else if (all.slow) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "%d pairs are slow", all.slow);
        muster_check_advice(check, "see gpu.pcie, gpu.nvlink and gpu.acs for the link");
    } else if (!all.limited) {
        muster_check_unchecked(check, "measured, but what the paths allow is not known here");
    } else {
        muster_check_found(check, "as the paths allow");
    }
}

/* Before Hopper NVML has no fabric state: that the fabric manager is missing shows here alone. */
static void report_fabric(struct muster_doctor *doctor, const char *why)
{
    struct muster_check *fabric = muster_checks_find(doctor->checks, "gpu.fabric");
    if (!fabric || !strstr(why, "error 802"))
        return;
    muster_check_worse(fabric, MUSTER_CHECK_PROBLEM);
    muster_check_found(fabric, "no fabric manager: CUDA does not start (802)");
    muster_check_advice(fabric,
                        "install and start nvidia-fabricmanager of the driver's version; on "
                        "boards without NVSwitch look at the driver");
}

/* CUDA that does not start where there are GPUs stops every job. */
static void report_no_p2p(struct muster_doctor *doctor, struct muster_check *kernel,
                          const struct muster_p2p_matrix *matrix, const char *why)
{
    bool gpus = doctor->survey->nvml && doctor->survey->nvml->gpus > 0;
    if (gpus && matrix && matrix->gpus == 0) {
        report_fabric(doctor, why);
        muster_check_worse(kernel, MUSTER_CHECK_PROBLEM);
        muster_check_found(kernel, "%.370s", why);
        muster_check_advice(kernel, "NVML shows GPUs, but CUDA does not start: error 802 is the "
                                    "fabric manager (gpu.fabric); else look at the driver, and at "
                                    "what the container is given");
    } else {
        muster_check_unchecked(kernel, "%.370s", why);
    }
    muster_check_unchecked(begin(doctor, COPY), "%.370s", why);
    muster_check_unchecked(begin(doctor, BANDWIDTH), "%.370s", why);
}

static void run_p2p(struct muster_doctor *doctor)
{
    struct muster_p2p_matrix *matrix = muster_arena_array(doctor->memory, 1, sizeof *matrix);
    struct muster_err err;
    const struct muster_p2p_limits limits = {P2P_MS, P2P_STAGE_MS, P2P_WORDS};
    struct muster_check *kernel = begin(doctor, KERNEL); /* has the time of all */
    int failed = matrix ? muster_p2p_test(&limits, matrix, &err)
                        : muster_fail_memory(&err, "the pairs of GPUs");
    if (failed) {
        report_no_p2p(doctor, kernel, matrix, err.text);
        return;
    }
    evaluate_data(kernel, matrix, KERNEL);
    evaluate_data(begin(doctor, COPY), matrix, COPY);
    check_bandwidth(doctor, matrix);
}

static void evaluate_allreduce(struct muster_check *check, const struct muster_allreduce_plan *plan,
                               const struct muster_allreduce_result *result)
{
    char size[32];
    double bus = 2.0 * (plan->gpus - 1) / plan->gpus;
    muster_text_bytes(size, sizeof size, plan->bytes[0]);
    muster_check_found(check, "right on %d GPU%s", plan->gpus, plan->gpus > 1 ? "s" : "");
    if (plan->gpus < 2)
        muster_check_evidence(check, "%s: %.1f us, with no path between GPUs on its way", size,
                              result->median_us);
    else if (plan->bytes[0] < LARGE_BYTES || result->median_us <= 0)
        muster_check_evidence(check, "%s: %.1f us", size, result->median_us);
    else
        muster_check_evidence(check, "%s: %.1f us, bus bandwidth %.1f GB/s", size,
                              result->median_us,
                              (double)plan->bytes[0] / result->median_us / 1000 * bus);
}

/* Which NCCL a job would load, or NULL where none was found; -1: to run it is to run what somebody
 * else wrote. */
static int find_nccl(const struct muster_doctor *doctor, const char **nccl, struct muster_err *err)
{
    *nccl = doctor->nccl;
    if (doctor->nccl || doctor->loaded < 0)
        return 0;
    *nccl = doctor->library[doctor->loaded].path;
    if (muster_library_ask(*nccl, err) == 0)
        return 0;
    struct muster_err why = *err;
    return muster_fail(err, "%.400s; --nccl PATH does", why.text);
}

/* Without NVLS: its multicast objects are for jobs that want them, not for a test. */
static bool run_allreduce(const char *nccl, struct muster_check *check, int gpus, uint64_t bytes)
{
    struct muster_allreduce_plan plan = {.gpus = gpus,
                                         .mode = MUSTER_ALLREDUCE_LAUNCH,
                                         .sizes = 1,
                                         .bytes = {bytes},
                                         .iters = 20,
                                         .warmup = 5,
                                         .rounds = 5,
                                         .late_rank = -1};
    struct muster_allreduce_result result[1];
    struct muster_err err;
    snprintf(plan.nccl, sizeof plan.nccl, "%s", nccl ? nccl : "");
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (muster_allreduce_run(&plan, muster_doctor_rank, ALLREDUCE_S, result, &err) == 0) {
        evaluate_allreduce(check, &plan, &result[0]);
        return true;
    }
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "%.370s", err.text);
    muster_check_advice(check, "no job will run here; NCCL_DEBUG=INFO tells more, and "
                               "NCCL_P2P_DISABLE=1 whether it is the path between GPUs");
    return false;
}

static void skip_all(struct muster_doctor *doctor, const char *why)
{
    for (int test = KERNEL; test <= LARGE; test++)
        muster_check_unchecked(begin(doctor, test), "%s", why);
}

static bool in_use(const struct muster_nvml *nvml)
{
    for (int i = 0; i < nvml->gpus; i++)
        if (muster_doctor_in_use(&nvml->gpu[i]))
            return true;
    return false;
}

void muster_doctor_active(struct muster_doctor *doctor)
{
    struct muster_allreduce_probe probe;
    struct muster_err err;
    if (doctor->activity == MUSTER_DOCTOR_PASSIVE) {
        skip_all(doctor, "--passive");
        return;
    }
    if (doctor->activity == MUSTER_DOCTOR_AUTO && doctor->survey->nvml &&
        in_use(doctor->survey->nvml)) {
        skip_all(doctor, "the GPUs are in use; --active tests them all the same");
        return;
    }
    if (muster_library_ask(MUSTER_CUDA_LIBRARY, &err)) {
        skip_all(doctor, err.text);
        return;
    }
    run_p2p(doctor);
    const char *nccl;
    struct muster_check *small = begin(doctor, SMALL);
    int rc =
        find_nccl(doctor, &nccl, &err) ? -1 : muster_allreduce_probe(nccl, PROBE_S, &probe, &err);
    if (rc || probe.gpus < 1) {
        const char *why = rc ? err.text : "no GPU";
        muster_check_unchecked(small, "%s", why);
        muster_check_unchecked(begin(doctor, LARGE), "%s", why);
        return;
    }
    if (probe.gpus > MUSTER_ALLREDUCE_GPUS)
        probe.gpus = MUSTER_ALLREDUCE_GPUS;
    bool works = run_allreduce(nccl, small, probe.gpus, SMALL_BYTES);
    struct muster_check *large = begin(doctor, LARGE);
    if (works)
        run_allreduce(nccl, large, probe.gpus, LARGE_BYTES);
    else
        muster_check_unchecked(large, "the small one fails already");
}
