/* Paths that are used and do less than they can, and NICs of the other socket. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "diagnose/path/path_internal.h"

enum {
    HUGE_BYTES = 64 << 20,
    OPS_MIN = 20,
    LOW_PERCENT = 5, /* of what NVLink allows: a network's share, not NVLink's */
};

/* A rank's first directed row to another host. */
static const struct muster_view_net *net_abroad(const struct muster_path_scan *scan, uint32_t gpu,
                                                const struct muster_view_gpu **peer)
{
    const struct muster_view *view = scan->view;
    for (size_t i = 0; i < view->nets; i++) {
        const struct muster_view_net *net = &view->net[i];
        const struct muster_view_member *from = &view->member[net->member];
        const struct muster_view_comm *comm = &view->comm[from->comm];
        if (from->gpu != gpu || net->count == 0 || comm->duplicate_rank)
            continue;
        for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++) {
            const struct muster_view_member *to = &view->member[m];
            if (to->rank == net->peer && scan->host[to->gpu] != scan->host[gpu]) {
                *peer = &view->gpu[to->gpu];
                return net;
            }
        }
    }
    return NULL;
}

static bool is_missing_on(const struct muster_path_scan *scan, uint32_t host)
{
    for (size_t i = 0; i < scan->n; i++)
        if (scan->missing[i].host == host)
            return true;
    return false;
}

/* The largest communicator in which the GPU has a neighbour on its host over an expected path of
 * the class; the pair goes to *pair. MUSTER_VIEW_NONE: there is none. */
static uint32_t neighbour(const struct muster_path_scan *scan, uint32_t gpu, bool nvlink,
                          struct muster_path_pair *pair)
{
    const struct muster_view *view = scan->view;
    uint32_t best = MUSTER_VIEW_NONE;
    for (size_t i = 0; i < view->members; i++) {
        const struct muster_view_member *own = &view->member[i];
        const struct muster_view_comm *comm = &view->comm[own->comm];
        if (own->gpu != gpu || own->ops == 0 || comm->id == 0 || comm->duplicate_rank ||
            (best != MUSTER_VIEW_NONE && comm->nranks <= view->comm[best].nranks)) {
            continue;
        }
        for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++) {
            const struct muster_view_member *other = &view->member[m];
            struct muster_path_pair met;
            if (scan->host[other->gpu] == scan->host[gpu] && other->gpu != gpu &&
                muster_path_pair(&view->gpu[gpu], &view->gpu[other->gpu], &met) && met.expected &&
                met.why == MUSTER_PATH_USED && (met.peer->class == MUSTER_PATH_NVLINK) == nvlink &&
                (nvlink || met.peer->low != MUSTER_FACT_FULL)) {
                *pair = met;
                best = own->comm;
                break;
            }
        }
    }
    return best;
}

static struct muster_finding *begin(const struct muster_path_scan *scan, uint32_t comm,
                                    enum muster_finding_kind kind, const struct muster_view_gpu *a,
                                    const struct muster_view_gpu *b,
                                    struct muster_findings *findings)
{
    struct muster_finding *finding = muster_findings_add(findings);
    if (finding) {
        finding->kind = kind;
        finding->confidence = muster_path_confidence(false);
        muster_path_begin(scan->view, comm, a, b, finding);
    }
    return finding;
}

static int find_nvlinks(const struct muster_path_scan *scan, uint32_t g,
                        struct muster_findings *findings)
{
    const struct muster_view_gpu *gpu = &scan->view->gpu[g];
    const struct muster_fact_gpu *fact = gpu->fact;
    const struct muster_fact_reading *now = &gpu->use->last;
    struct muster_path_pair pair;
    bool lost = gpu->use->samples > 1 && now->nvlinks >= 0 && now->nvlinks < fact->nvlinks;
    /* A link that is down is still present. Where links are missing altogether the driver was too
     * busy to report them all. */
    bool fewer =
        fact->nvlinks < fact->nvlinks_usual && fact->nvlinks_present >= fact->nvlinks_usual;
    if (fact->nvlinks == 0 || (!fewer && !lost))
        return 0;
    uint32_t comm = neighbour(scan, g, true, &pair);
    if (comm == MUSTER_VIEW_NONE)
        return 0;
    struct muster_finding *finding =
        begin(scan, comm, MUSTER_FINDING_PATH_DEGRADED, gpu, pair.b, findings);
    if (!finding)
        return -1;
    if (lost) {
        muster_finding_line(&finding->evidence,
                            "GPU %s of rank %" PRId32 " had %u active NVLinks when the job began "
                            "and has %" PRId32 " now",
                            fact->pci, gpu->rank, fact->nvlinks, now->nvlinks);
    } else {
        muster_finding_line(&finding->evidence,
                            "GPU %s of rank %" PRId32
                            " has %u active NVLinks, GPUs of its model on "
                            "this host have %u",
                            fact->pci, gpu->rank, fact->nvlinks, fact->nvlinks_usual);
    }
    snprintf(finding->advice, sizeof finding->advice,
             "take this GPU out of the job; nvidia-smi nvlink -s and the kernel log say which "
             "links are down and since when");
    return 0;
}

static int find_pcie(const struct muster_path_scan *scan, uint32_t g,
                     struct muster_findings *findings)
{
    const struct muster_view_gpu *gpu = &scan->view->gpu[g], *other = NULL;
    const struct muster_fact_gpu *fact = gpu->fact;
    struct muster_path_pair pair = {.peer = NULL};
    const struct muster_view_net *net = NULL;
    uint8_t low = fact->host_low;
    uint32_t comm = neighbour(scan, g, false, &pair);
    if (comm != MUSTER_VIEW_NONE) {
        low = pair.peer->low;
        other = pair.b;
    } else if (low != MUSTER_FACT_FULL && (net = net_abroad(scan, g, &other))) {
        comm = scan->view->member[net->member].comm;
    }
    if (comm == MUSTER_VIEW_NONE || low == MUSTER_FACT_FULL || !fact->low[0])
        return 0;
    if (low == MUSTER_FACT_LOW_IDLE) {
        muster_finding_line(&findings->not_observable, "rank %" PRId32 ": %.200s", gpu->rank,
                            fact->low);
        return 0;
    }
    struct muster_finding *finding =
        begin(scan, comm, MUSTER_FINDING_PATH_DEGRADED, gpu, other, findings);
    if (!finding)
        return -1;
    muster_finding_line(&finding->evidence, "%s", fact->low);
    muster_finding_line(&finding->evidence,
                        net ? "rank %" PRId32 " reaches rank %" PRId32 " of another host through it"
                            : "rank %" PRId32 " reaches rank %" PRId32 " of its host through it",
                        gpu->rank, other->rank);
    snprintf(finding->advice, sizeof finding->advice,
             "reseat the card or riser, check the slot and the BIOS; muster topo shows every link "
             "of this host");
    return 0;
}

static const char *nic_name(const struct muster_fact_head *head)
{
    return head->nic_verbs[0] ? head->nic_verbs : head->nic;
}

static int find_nic(const struct muster_path_scan *scan, uint32_t g,
                    struct muster_findings *findings)
{
    const struct muster_view_gpu *gpu = &scan->view->gpu[g], *peer;
    const struct muster_fact_gpu *fact = gpu->fact;
    const struct muster_fact_head *head = &gpu->facts->head;
    const struct muster_view_net *net;
    if (fact->nic_class != MUSTER_PATH_SYS || fact->near_class > MUSTER_PATH_NODE ||
        !fact->near[0] || !nic_name(head)[0] || !(net = net_abroad(scan, g, &peer))) {
        return 0;
    }
    struct muster_finding *finding = begin(scan, scan->view->member[net->member].comm,
                                           MUSTER_FINDING_PATH_MISSING, gpu, peer, findings);
    if (!finding)
        return -1;
    enum muster_fact_var which = head->nic_verbs[0] ? MUSTER_VAR_IB_HCA : MUSTER_VAR_SOCKET_IFNAME;
    const char *value = muster_path_variable(gpu, which);
    muster_finding_line(&finding->evidence,
                        "data between hosts take %s, on the other socket than GPU %s (SYS); %s is "
                        "nearer (%s)",
                        nic_name(head), fact->pci, fact->near,
                        muster_path_class_name(fact->near_class));
    if (value) {
        muster_finding_line(&finding->evidence, "%s=%s chooses it", muster_fact_var_name(which),
                            value);
    }
    snprintf(finding->advice, sizeof finding->advice,
             "let NCCL choose among all NICs of the fabric, or name those near each GPU");
    return 0;
}

/* NVLink is there and nothing is known to turn it off, and yet the largest collectives are as slow
 * as a network's. Few channels, or a policy's choice, would explain that. */
static int find_slow(const struct muster_path_scan *scan, uint32_t c,
                     struct muster_findings *findings)
{
    const struct muster_view *view = scan->view;
    const struct muster_view_comm *comm = &view->comm[c];
    struct muster_path_pair pair, slowest = {.peer = NULL};
    if (!comm->id || comm->duplicate_rank || comm->members != comm->nranks)
        return 0;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++) {
        const struct muster_view_gpu *a = &view->gpu[view->member[m].gpu];
        const struct muster_view_member *next =
            &view->member[m + 1 < comm->first_member + comm->members ? m + 1 : comm->first_member];
        bool steered = a->policy && a->policy->state == MUSTER_POLICY_ACTIVE;
        if (steered || muster_path_variable(a, MUSTER_VAR_MAX_NCHANNELS) ||
            !muster_path_pair(a, &view->gpu[next->gpu], &pair) ||
            pair.peer->class != MUSTER_PATH_NVLINK || pair.why != MUSTER_PATH_USED ||
            scan->host[next->gpu] != scan->host[view->member[m].gpu]) {
            return 0;
        }
        if (!slowest.peer || pair.peer->limit_mbs < slowest.peer->limit_mbs)
            slowest = pair;
    }
    if (!slowest.peer)
        return 0;
    struct muster_path_reached reached = muster_path_measure(view, c, HUGE_BYTES, scan->memory);
    double limit = slowest.peer->limit_mbs / 1000.0;
    if (reached.ops < OPS_MIN || reached.best_gbs * 100 >= limit * LOW_PERCENT)
        return 0;
    struct muster_finding *finding =
        begin(scan, c, MUSTER_FINDING_PATH_DEGRADED, slowest.a, slowest.b, findings);
    if (!finding)
        return -1;
    char path[96];
    muster_path_pair_format(&slowest, path, sizeof path);
    finding->confidence = muster_path_confidence(true);
    muster_finding_line(&finding->evidence, "all ranks of the communicator are joined by %s", path);
    muster_finding_line(&finding->evidence,
                        "the fastest of %" PRIu64 " timed collectives of 64 MiB and more reached "
                        "%.1f GB/s bus bandwidth",
                        reached.ops, reached.best_gbs);
    muster_finding_line(&finding->not_observable, "which of the links, or which setting, is slow");
    snprintf(finding->advice, sizeof finding->advice,
             "muster doctor measures every pair of GPUs; NCCL_DEBUG=INFO prints how ranks are "
             "joined");
    return 0;
}

int muster_path_find_low(const struct muster_path_scan *scan, struct muster_findings *findings)
{
    const struct muster_view *view = scan->view;
    int result = 0;
    for (uint32_t g = 0; g < view->gpus && result == 0; g++) {
        if (!view->gpu[g].fact)
            continue;
        if (!is_missing_on(scan, scan->host[g]))
            result = find_nvlinks(scan, g, findings);
        if (result == 0)
            result = find_pcie(scan, g, findings);
        if (result == 0)
            result = find_nic(scan, g, findings);
    }
    for (uint32_t c = 0; c < view->comms && result == 0; c++)
        if (scan->n == 0)
            result = find_slow(scan, c, findings);
    return result;
}
