/* Tests that move data between GPUs. */
#include <stdlib.h>
#include <string.h>

#include "cli/allreduce.h"
#include "cli/doctor.h"
#include "cli/p2p.h"
#include "topology/paths.h"

enum {
    P2P_MS = 40000,
    PROBE_S = 15,
    ALLREDUCE_S = 45,
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

static void judge_pair(struct muster_check *check, const struct muster_p2p_result *pair, int test)
{
    static const char *const stages[] = {"before its start", "in the kernel's write",
                                         "in the copy engine's write"};
    uint32_t wrong = test == KERNEL ? pair->kernel_wrong : pair->copy_wrong;
    if (pair->from_pci[0] == '\0')
        return;
    if (pair->stage != MUSTER_P2P_DONE) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "a pair hangs");
        muster_check_evidence(check, "GPU %d to %d: hung or crashed %s", pair->from, pair->to,
                              stages[pair->stage]);
    } else if (pair->failed[0]) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "a pair fails");
        muster_check_evidence(check, "GPU %d to %d: %s", pair->from, pair->to, pair->failed);
    } else if (wrong && (test == COPY || pair->kernel_tested)) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "wrong data");
        muster_check_evidence(check, "GPU %d to %d: the owner reads %u wrong words of %u",
                              pair->from, pair->to, wrong, 16u << 20);
    }
}

static void judge_data(struct muster_check *check, const struct muster_p2p_matrix *matrix, int test)
{
    int with = 0, pairs = 0;
    for (int a = 0; a < matrix->gpus; a++)
        for (int b = 0; b < matrix->gpus; b++) {
            pairs += a != b;
            with += a != b && matrix->pair[a][b].access;
        }
    if (test == KERNEL && with == 0)
        muster_check_unchecked(check, "the driver grants no peer access between these GPUs");
    else
        muster_check_found(check, "%d pairs right", test == KERNEL ? with : pairs);
    for (int a = 0; a < matrix->gpus; a++)
        for (int b = 0; b < matrix->gpus; b++)
            if (a != b)
                judge_pair(check, &matrix->pair[a][b], test);
    if (with < pairs)
        muster_check_evidence(check, "%d of %d pairs without peer access go through the host",
                              pairs - with, pairs);
    if (matrix->untested)
        muster_check_evidence(check, "%d pairs were not tested", matrix->untested);
    if (check->status == MUSTER_CHECK_PROBLEM)
        muster_check_advice(check, "do not run jobs with P2P here: NCCL_P2P_DISABLE=1 until ACS, "
                                   "IOMMU, driver or virtual machine are put right");
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

static void check_bandwidth(struct muster_doctor *doctor, const struct muster_p2p_matrix *matrix)
{
    struct muster_check *check = begin(doctor, BANDWIDTH);
    int slow = 0, limited = 0;
    muster_check_found(check, "as the paths allow");
    for (int a = 0; a < matrix->gpus; a++)
        for (int b = 0; b < matrix->gpus; b++) {
            const struct muster_p2p_result *pair = &matrix->pair[a][b];
            if (a == b || pair->stage != MUSTER_P2P_DONE || pair->failed[0])
                continue;
            double limit = pair->access ? path_limit(doctor, pair) : 0;
            double best = pair->copy_gbs > pair->kernel_gbs ? pair->copy_gbs : pair->kernel_gbs;
            bool is_slow = limit > 0 && best * 100 < limit * SLOW_PERCENT;
            slow += is_slow;
            limited += limit > 0;
            muster_check_evidence(check,
                                  limit > 0 ? "GPU %d to %d: copy %.1f, kernel %.1f GB/s of %.1f "
                                              "(%.0f %%)%s"
                                            : "GPU %d to %d: copy %.1f, kernel %.1f GB/s",
                                  a, b, pair->copy_gbs, pair->kernel_gbs, limit,
                                  limit > 0 ? 100 * best / limit : 0, is_slow ? ": slow" : "");
        }
    if (slow) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "%d pairs are slow", slow);
        muster_check_advice(check, "see gpu.pcie, gpu.nvlink and gpu.acs for the link");
    } else if (!limited) {
        muster_check_unchecked(check, "measured, but what the paths allow is not known here");
    }
}

static void run_p2p(struct muster_doctor *doctor)
{
    struct muster_p2p_matrix *matrix = calloc(1, sizeof *matrix);
    struct muster_err err = {"out of memory"};
    struct muster_check *kernel = begin(doctor, KERNEL); /* has the time of all */
    if (!matrix || muster_p2p_test(P2P_MS, matrix, &err)) {
        muster_check_unchecked(kernel, "%s", err.text);
        muster_check_unchecked(begin(doctor, COPY), "%s", err.text);
        muster_check_unchecked(begin(doctor, BANDWIDTH), "%s", err.text);
        free(matrix);
        return;
    }
    judge_data(kernel, matrix, KERNEL);
    judge_data(begin(doctor, COPY), matrix, COPY);
    check_bandwidth(doctor, matrix);
    free(matrix);
}

static void judge_allreduce(struct muster_check *check, const struct muster_allreduce_plan *plan,
                            const struct muster_allreduce_result *result)
{
    double factor = plan->gpus > 1 ? 2.0 * (plan->gpus - 1) / plan->gpus : 1;
    muster_check_found(check, "right on %d GPUs", plan->gpus);
    muster_check_evidence(
        check, "%llu bytes: %.1f us, bus bandwidth %.1f GB/s", (unsigned long long)plan->bytes[0],
        result->median_us,
        result->median_us > 0 ? (double)plan->bytes[0] / result->median_us / 1000 * factor : 0.0);
}

/* Without NVLS: its multicast objects are for jobs that want them, not for a test. */
static void run_allreduce(struct muster_doctor *doctor, struct muster_check *check, int gpus,
                          uint64_t bytes)
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
    snprintf(plan.nccl, sizeof plan.nccl, "%s",
             doctor->nccl          ? doctor->nccl
             : doctor->loaded >= 0 ? doctor->library[doctor->loaded].path
                                   : "");
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (muster_allreduce_run(&plan, muster_doctor_rank, ALLREDUCE_S, result, &err) == 0) {
        judge_allreduce(check, &plan, &result[0]);
        return;
    }
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "%.370s", err.text);
    muster_check_advice(check, "no job will run here; NCCL_DEBUG=INFO tells more, and "
                               "NCCL_P2P_DISABLE=1 whether it is the path between GPUs");
}

static void skip_all(struct muster_doctor *doctor, const char *why)
{
    for (int test = KERNEL; test <= LARGE; test++)
        muster_check_unchecked(begin(doctor, test), "%s", why);
}

static bool in_use(const struct muster_nvml *nvml)
{
    for (int i = 0; i < nvml->gpus; i++)
        if (nvml->gpu[i].processes > 0 || nvml->gpu[i].utilization > 0)
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
    run_p2p(doctor);
    struct muster_check *small = begin(doctor, SMALL);
    int rc = muster_allreduce_probe(doctor->nccl, PROBE_S, &probe, &err);
    if (rc || probe.gpus < 1) {
        const char *why = rc ? err.text : "no GPU";
        muster_check_unchecked(small, "%s", why);
        muster_check_unchecked(begin(doctor, LARGE), "%s", why);
        return;
    }
    if (probe.gpus > MUSTER_ALLREDUCE_GPUS)
        probe.gpus = MUSTER_ALLREDUCE_GPUS;
    run_allreduce(doctor, small, probe.gpus, SMALL_BYTES);
    run_allreduce(doctor, begin(doctor, LARGE), probe.gpus, LARGE_BYTES);
}
