#include "diagnose/path/path.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "diagnose/path/path_internal.h"
#include "diagnose/path/path_pair.h"

enum { LARGE_BYTES = 4 << 20 };

/* What is missing on a host for one reason: one finding. */
static struct muster_path_missing *missing_of(struct muster_path_scan *scan, uint32_t host,
                                              enum muster_path_why why)
{
    for (size_t i = 0; i < scan->n; i++)
        if (scan->missing[i].host == host && scan->missing[i].pair.why == why)
            return &scan->missing[i];
    struct muster_path_missing *made =
        muster_arena_add(scan->memory, &scan->missing, &scan->n, sizeof *made);
    made->host = host;
    return made;
}

/* The pair in the largest communicator stands for all. */
static void take(struct muster_path_scan *scan, uint32_t comm, const struct muster_view_member *a,
                 const struct muster_path_pair *pair)
{
    const struct muster_view *view = scan->view;
    struct muster_path_missing *missing = missing_of(scan, scan->host[a->gpu], pair->why);
    if (missing->pairs == 0 || view->comm[comm].nranks > view->comm[missing->comm].nranks) {
        missing->pair = *pair;
        missing->comm = comm;
        missing->pairs = 0;
    }
    missing->pairs += missing->comm == comm;
}

static void chain_hosts(struct muster_path_scan *scan, const struct muster_view_comm *comm)
{
    const struct muster_view_member *member = &scan->view->member[comm->first_member];
    for (uint32_t i = 0; i < comm->members; i++)
        scan->first[scan->host[member[i].gpu]] = MUSTER_VIEW_NONE;
    for (uint32_t i = comm->members; i-- > 0;) {
        uint32_t *first = &scan->first[scan->host[member[i].gpu]];
        scan->next[i] = *first;
        *first = i;
    }
}

static void scan_pairs(struct muster_path_scan *scan, uint32_t c)
{
    const struct muster_view *view = scan->view;
    const struct muster_view_comm *comm = &view->comm[c];
    chain_hosts(scan, comm);
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_view_member *a = &view->member[comm->first_member + i];
        for (uint32_t j = scan->next[i]; j != MUSTER_VIEW_NONE; j = scan->next[j]) {
            const struct muster_view_member *b = a + (j - i);
            struct muster_path_pair pair;
            if (a->gpu != b->gpu && (a->ops || b->ops) &&
                muster_path_pair(&view->gpu[a->gpu], &view->gpu[b->gpu], &pair) && pair.expected &&
                pair.why != MUSTER_PATH_USED) {
                take(scan, c, a, &pair);
            }
        }
    }
}

static const struct muster_view_member *member_of(const struct muster_view *view, uint32_t c,
                                                  int32_t rank)
{
    const struct muster_view_comm *comm = &view->comm[c];
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++)
        if (view->member[m].rank == rank)
            return &view->member[m];
    return NULL;
}

/* The network between two ranks of one host: whatever the reason, the direct path is not used. */
static void scan_net(struct muster_path_scan *scan, const struct muster_view_net *net)
{
    const struct muster_view *view = scan->view;
    const struct muster_view_member *a = &view->member[net->member];
    const struct muster_view_member *b = member_of(view, a->comm, net->peer);
    struct muster_path_pair pair;
    if (!net->send || net->count == 0 || !b || scan->host[a->gpu] != scan->host[b->gpu] ||
        a->gpu == b->gpu || view->comm[a->comm].duplicate_rank) {
        return;
    }
    if (!muster_path_pair(&view->gpu[a->gpu], &view->gpu[b->gpu], &pair)) {
        scan->unknown = scan->unknown ? scan->unknown : net;
        return;
    }
    if (!pair.expected)
        return;
    if (pair.why == MUSTER_PATH_USED) {
        pair.why = MUSTER_PATH_UNEXPLAINED;
        take(scan, a->comm, a, &pair);
    }
    struct muster_path_missing *missing = missing_of(scan, scan->host[a->gpu], pair.why);
    if (!missing->net) {
        missing->net = net;
        missing->net_to = &view->gpu[b->gpu];
    }
}

static void report_unknown(const struct muster_path_scan *scan, struct muster_finding_lines *lines)
{
    const struct muster_view *view = scan->view;
    for (uint32_t g = 0; g < view->gpus; g++) {
        const struct muster_view_gpu *gpu = &view->gpu[g];
        if (!gpu->facts)
            continue;
        if (gpu->facts->head.state == MUSTER_FACTS_READING) {
            muster_finding_line(lines,
                                "rank %" PRId32 ": the GPU driver did not answer, so its paths are "
                                "not known",
                                gpu->rank);
            return;
        }
        if (!gpu->fact && muster_path_disabled(gpu)) {
            muster_finding_line(lines,
                                "rank %" PRId32 ": NCCL_P2P_DISABLE=1 is set; whether its GPU "
                                "could reach others directly is not known (%.100s)",
                                gpu->rank,
                                gpu->facts->head.no_nvml[0] ? gpu->facts->head.no_nvml
                                                            : "the driver does not show it");
            return;
        }
    }
    if (scan->unknown && scan->n == 0) {
        const struct muster_view_member *from = &view->member[scan->unknown->member];
        muster_finding_line(lines,
                            "rank %" PRId32 " sends to another rank of its host over the network; "
                            "whether their GPUs could reach each other directly is not known",
                            view->gpu[from->gpu].rank);
    }
}

static int describe_all(struct muster_path_scan *scan, struct muster_findings *findings)
{
    for (size_t i = 0; i < scan->n; i++) {
        struct muster_path_reached reached =
            muster_path_measure(scan->view, scan->missing[i].comm, LARGE_BYTES, scan->memory);
        struct muster_finding *finding = muster_findings_add(findings);
        if (!finding)
            return -1;
        muster_path_format_missing(scan->view, &scan->missing[i], &reached, finding);
    }
    return 0;
}

int muster_diagnose_path(const struct muster_view *view, struct muster_findings *findings,
                         struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct muster_path_scan scan = {
        .view = view,
        .memory = &memory,
        .host = muster_view_hosts(view, &memory),
        .next = muster_arena_array(&memory, view->members + 1, sizeof(uint32_t)),
        .first = muster_arena_array(&memory, view->gpus + 1, sizeof(uint32_t))};
    for (uint32_t c = 0; c < view->comms && !memory.failed; c++)
        if (view->comm[c].id && !view->comm[c].duplicate_rank)
            scan_pairs(&scan, c);
    for (size_t i = 0; i < view->nets && !memory.failed; i++)
        scan_net(&scan, &view->net[i]);
    if (!memory.failed && (describe_all(&scan, findings) || muster_path_find_low(&scan, findings)))
        memory.failed = true;
    int result = muster_arena_check(&memory, err, "looking at paths");
    if (result == 0)
        report_unknown(&scan, &findings->not_observable);
    muster_arena_free(&memory);
    return result;
}
