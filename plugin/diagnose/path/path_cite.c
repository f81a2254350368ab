/* What is known of GPUs and interfaces, as evidence for findings of others. Their verdicts stay. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sort.h"
#include "diagnose/path/path.h"
#include "diagnose/path/path_pair.h"

enum {
    SHARE = 20, /* percent of samples, and more than the others' by as much, to be reported */
    SEEN = 2,   /* samples with a limit: one may be chance */
    HALF = 50,
    CLOCK_PERCENT = 95, /* of the others' clock */
    OTHERS_MAX = 1024,
};

/* The culprit's GPU against the others of the communicator. */
struct crowd {
    const struct muster_view_gpu *culprit;
    const struct muster_view_gpu *other[OTHERS_MAX];
    unsigned n;
};

static double percent(uint32_t part, uint32_t whole)
{
    return whole ? 100.0 * part / whole : 0;
}

typedef double measure(const struct muster_fact_use *use, unsigned which);

/* Typical of the others: the upper median. */
static double typical(const struct crowd *crowd, measure *of, unsigned which)
{
    double value[OTHERS_MAX];
    for (unsigned i = 0; i < crowd->n; i++)
        value[i] = of(crowd->other[i]->use, which);
    muster_sort_double(value, crowd->n);
    return crowd->n ? value[crowd->n / 2] : 0;
}

static double limited(const struct muster_fact_use *use, unsigned which)
{
    return percent(use->limited[which], use->samples);
}

static double clock_of(const struct muster_fact_use *use, unsigned which)
{
    (void)which;
    return use->clocked ? (double)use->sum_sm_mhz / use->clocked : 0;
}

static double waits(const struct muster_fact_use *use, unsigned which)
{
    (void)which;
    return percent(use->waiting, use->busy);
}

static double shared(const struct muster_fact_use *use, unsigned which)
{
    (void)which;
    return percent(use->shared, use->samples);
}

/* Counters that grew; -1: not known. */
static double grown(const struct muster_fact_use *use, unsigned which)
{
    const struct muster_fact_reading *a = &use->first, *b = &use->last;
    const int64_t from[] = {a->ecc_uncorrected, a->ecc_corrected, a->pcie_replays,
                            a->nvlink_recoveries};
    const int64_t to[] = {b->ecc_uncorrected, b->ecc_corrected, b->pcie_replays,
                          b->nvlink_recoveries};
    return from[which] < 0 || to[which] < from[which] ? 0 : (double)(to[which] - from[which]);
}

static bool cite_limits(const struct crowd *crowd, struct muster_finding_lines *lines)
{
    const struct muster_view_gpu *gpu = crowd->culprit;
    bool any = false;
    for (unsigned i = 0; i < MUSTER_LIMITS; i++) {
        double own = limited(gpu->use, i), others = typical(crowd, limited, i);
        if (gpu->use->limited[i] < SEEN || own < SHARE || own < others + SHARE)
            continue;
        any = true;
        muster_finding_line(
            lines,
            "GPU %s of rank %" PRId32 ": clocks limited by %s in %.0f %% of %" PRIu32
            " samples, those of the others in %.0f %%",
            gpu->fact->pci, gpu->rank, muster_fact_limit_name(i), own, gpu->use->samples, others);
    }
    return any;
}

static bool cite_clock(const struct crowd *crowd, struct muster_finding_lines *lines)
{
    const struct muster_view_gpu *gpu = crowd->culprit;
    double own = clock_of(gpu->use, 0), others = typical(crowd, clock_of, 0);
    if (own <= 0 || others <= 0 || own * 100 >= others * CLOCK_PERCENT)
        return false;
    muster_finding_line(lines,
                        "GPU %s of rank %" PRId32 ": %.0f MHz while busy, the others %.0f MHz (up "
                        "to %" PRId32 " degrees here)",
                        gpu->fact->pci, gpu->rank, own, others, gpu->use->max_temperature);
    return true;
}

static bool cite_errors(const struct crowd *crowd, struct muster_finding_lines *lines)
{
    static const char *const words[] = {"uncorrected ECC errors", "corrected ECC errors",
                                        "PCIe replays", "NVLink recoveries"};
    const struct muster_view_gpu *gpu = crowd->culprit;
    bool any = false;
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        double own = grown(gpu->use, i), others = typical(crowd, grown, i);
        if (own <= others * 2 || own < 1)
            continue;
        any = true;
        muster_finding_line(lines,
                            "GPU %s of rank %" PRId32 ": %.0f %s during the job, the others "
                            "typically %.0f",
                            gpu->fact->pci, gpu->rank, own, words[i], others);
    }
    if (gpu->use->xid) {
        muster_finding_line(lines, "GPU %s of rank %" PRId32 ": Xid %" PRIu32 " during the job",
                            gpu->fact->pci, gpu->rank, gpu->use->xid);
    }
    return any || gpu->use->xid;
}

static bool cite_sharing(const struct crowd *crowd, struct muster_finding_lines *lines)
{
    const struct muster_view_gpu *gpu = crowd->culprit;
    double own = shared(gpu->use, 0), others = typical(crowd, shared, 0);
    if (own < HALF || own < others + SHARE)
        return false;
    muster_finding_line(lines,
                        "GPU %s of rank %" PRId32 ": other processes use it too, in %.0f %% of "
                        "%" PRIu32 " samples (%" PRId32 " of them at the end)",
                        gpu->fact->pci, gpu->rank, own, gpu->use->samples, gpu->use->last.others);
    return true;
}

/* A GPU that spins in a collective is fully used and draws little: it waits for somebody. */
static void cite_waiting(const struct crowd *crowd, struct muster_finding_lines *lines)
{
    const struct muster_view_gpu *gpu = crowd->culprit;
    double own = waits(gpu->use, 0), others = typical(crowd, waits, 0);
    if (others >= HALF && own + SHARE <= others) {
        muster_finding_line(
            lines,
            "the other GPUs wait: fully used at under 40 %% of their power limit in "
            "%.0f %% of samples, that of rank %" PRId32 " in %.0f %%",
            others, gpu->rank, own);
    } else if (own >= HALF && others + SHARE <= own) {
        muster_finding_line(lines,
                            "against it: the GPU of rank %" PRId32 " is fully used at under 40 %% "
                            "of its power limit in %.0f %% of samples, as one that waits; the "
                            "others in %.0f %%",
                            gpu->rank, own, others);
    }
}

static void cite_gpu(const struct crowd *crowd, struct muster_finding_lines *lines)
{
    enum { ENOUGH = 3 };
    bool any = cite_limits(crowd, lines);
    any |= cite_clock(crowd, lines);
    any |= cite_errors(crowd, lines);
    any |= cite_sharing(crowd, lines);
    if (!any && crowd->n > 0 && crowd->culprit->use->samples >= ENOUGH) {
        muster_finding_line(
            lines,
            "GPU %s of rank %" PRId32 ": clocks, limits and errors as of the others "
            "(%" PRIu32 " samples)",
            crowd->culprit->fact->pci, crowd->culprit->rank, crowd->culprit->use->samples);
    }
    cite_waiting(crowd, lines);
}

static bool gather(const struct muster_view *view, const struct muster_view_comm *comm,
                   int32_t rank, struct crowd *crowd)
{
    crowd->culprit = NULL;
    crowd->n = 0;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++) {
        const struct muster_view_gpu *gpu = &view->gpu[view->member[m].gpu];
        if (!gpu->use || gpu->use->samples == 0)
            continue;
        if (gpu->rank == rank)
            crowd->culprit = gpu;
        else if (crowd->n < OTHERS_MAX)
            crowd->other[crowd->n++] = gpu;
    }
    return crowd->culprit != NULL;
}

static const struct muster_view_gpu *gpu_of(const struct muster_view *view,
                                            const struct muster_view_comm *comm, int32_t rank)
{
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++)
        if (view->gpu[view->member[m].gpu].rank == rank)
            return &view->gpu[view->member[m].gpu];
    return NULL;
}

static void cite_interface(const struct muster_view_gpu *gpu, const char *end,
                           const struct muster_path_reached *reached,
                           struct muster_finding_lines *lines)
{
    const struct muster_fact_head *head = gpu && gpu->facts ? &gpu->facts->head : NULL;
    char rate[64] = "rate not told by its driver", achieved[64] = "";
    if (!head || !(head->nic_verbs[0] || head->nic[0]))
        return;
    if (head->nic_mbps && !head->nic_verbs[0])
        snprintf(rate, sizeof rate, "%" PRIu32 " Mb/s by its driver", head->nic_mbps);
    if (reached->ops)
        snprintf(achieved, sizeof achieved, "; %.2f GB/s achieved", reached->mean_gbs);
    muster_finding_line(lines, "rank %" PRId32 " %s through %s, %s%s", gpu->rank, end,
                        head->nic_verbs[0] ? head->nic_verbs : head->nic, rate, achieved);
}

static void cite_one(const struct muster_view *view, uint32_t c, struct muster_arena *memory,
                     struct crowd *crowd, struct muster_finding *finding)
{
    enum { SOME_BYTES = 1 << 20 };
    const struct muster_view_comm *comm = &view->comm[c];
    if (gather(view, comm, finding->rank[0], crowd))
        cite_gpu(crowd, &finding->evidence);
    if (finding->kind != MUSTER_FINDING_SLOW_TRANSFER || finding->ranks < 2)
        return;
    struct muster_path_reached reached = muster_path_measure(view, c, SOME_BYTES, memory);
    cite_interface(gpu_of(view, comm, finding->rank[0]), "sends", &reached, &finding->evidence);
    cite_interface(gpu_of(view, comm, finding->rank[1]), "receives", &reached, &finding->evidence);
}

int muster_path_cite(const struct muster_view *view, struct muster_findings *findings,
                     struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct crowd *crowd = muster_arena_array(&memory, 1, sizeof *crowd);
    for (size_t i = 0; i < findings->n && !memory.failed; i++) {
        struct muster_finding *finding = &findings->finding[i];
        bool slow =
            muster_finding_is_late(finding) || finding->kind == MUSTER_FINDING_SLOW_TRANSFER;
        for (uint32_t c = 0; c < view->comms && slow && finding->ranks; c++)
            if (view->comm[c].id == finding->comm)
                cite_one(view, c, &memory, crowd, finding);
    }
    int result = muster_arena_check(&memory, err, "looking at GPUs");
    muster_arena_free(&memory);
    return result;
}
