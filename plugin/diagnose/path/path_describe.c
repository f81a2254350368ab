/* Findings about paths in words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "diagnose/path/path_internal.h"

double muster_path_confidence(bool concluded)
{
    return concluded ? 0.5 : 601.0 / 602.0;
}

void muster_path_begin(const struct muster_view *view, uint32_t comm,
                       const struct muster_view_gpu *a, const struct muster_view_gpu *b,
                       struct muster_finding *finding)
{
    finding->comm = view->comm[comm].id;
    finding->rank[0] = a->rank;
    finding->rank[1] = b->rank;
    finding->ranks = 2;
    finding->gpu = a->gpu_index;
    finding->since_unix_ns = muster_view_first_call_unix_ns(view, &view->comm[comm]);
    muster_text_copy(finding->host, sizeof finding->host, a->host);
}

static void report_expected(const struct muster_path_missing *missing,
                            struct muster_finding_lines *lines)
{
    char path[96];
    muster_path_pair_format(&missing->pair, path, sizeof path);
    muster_finding_line(lines, "GPUs %s and %s are joined by %s", missing->pair.a->fact->pci,
                        missing->pair.b->fact->pci, path);
}

static void report_others(const struct muster_path_missing *missing,
                          struct muster_finding_lines *lines)
{
    if (missing->pairs > 1) {
        muster_finding_line(lines,
                            "the same holds for %" PRIu32 " more pairs of ranks of this host",
                            missing->pairs - 1);
    }
}

static void report_why(const struct muster_path_missing *missing, struct muster_finding *finding)
{
    const struct muster_path_pair *pair = &missing->pair;
    switch (pair->why) {
    case MUSTER_PATH_DISABLED:
        muster_finding_line(&finding->evidence,
                            "NCCL_P2P_DISABLE=1 in the environment of rank %" PRId32 ": NCCL uses "
                            "no direct path between GPUs",
                            pair->by->rank);
        break;
    case MUSTER_PATH_LEVEL:
        muster_finding_line(&finding->evidence,
                            "NCCL_P2P_LEVEL=%s in the environment of rank %" PRId32 " leaves this "
                            "path out",
                            muster_path_variable(pair->by, MUSTER_VAR_P2P_LEVEL), pair->by->rank);
        break;
    case MUSTER_PATH_REFUSED:
        muster_finding_line(&finding->evidence, "the driver refuses peer access between them: %s",
                            muster_p2p_name(pair->peer->p2p));
        break;
    default:
        muster_finding_line(&finding->not_observable,
                            "why NCCL does not use the direct path: no variable turns it off and "
                            "the driver does not refuse it");
    }
}

static void report_instead(const struct muster_view *view,
                           const struct muster_path_missing *missing,
                           struct muster_finding *finding)
{
    const char *shm = muster_path_variable(missing->pair.a, MUSTER_VAR_SHM_DISABLE);
    if (missing->net) {
        const struct muster_view_gpu *from = &view->gpu[view->member[missing->net->member].gpu];
        char bytes[32];
        muster_text_bytes(bytes, sizeof bytes, missing->net->bytes);
        muster_finding_line(&finding->evidence,
                            "rank %" PRId32 " sends to rank %" PRId32 " of the same host over the "
                            "network: %s in %" PRIu64 " operations of the proxy",
                            from->rank, missing->net_to->rank, bytes, missing->net->count);
    }
    if (shm && strcmp(shm, "0") != 0) {
        muster_finding_line(&finding->evidence,
                            "NCCL_SHM_DISABLE=%s as well: not even the host's memory is used", shm);
    }
}

static void report_reached(const struct muster_path_reached *reached, const char *what,
                           struct muster_finding *finding)
{
    char bytes[32];
    if (reached->ops == 0) {
        muster_finding_line(&finding->not_observable,
                            "what the job's large collectives reach: too few were timed on all "
                            "ranks");
        return;
    }
    muster_text_bytes(bytes, sizeof bytes, reached->largest);
    muster_finding_line(&finding->evidence,
                        "%" PRIu64 " timed collectives of 4 MiB and more (up to %s) reached %.1f "
                        "GB/s bus bandwidth, the fastest %.1f; %s",
                        reached->ops, bytes, reached->mean_gbs, reached->best_gbs, what);
}

static void advise(const struct muster_path_missing *missing, char *advice, size_t size)
{
    static const char *const text[] = {
        [MUSTER_PATH_DISABLED] = "unset NCCL_P2P_DISABLE (job script, image, nccl.conf), unless "
                                 "muster doctor shows that copies between these GPUs fail",
        [MUSTER_PATH_LEVEL] = "unset NCCL_P2P_LEVEL, unless it was measured to help here",
        [MUSTER_PATH_REFUSED] = "run muster doctor and muster topo on this host; a driver, "
                                "firmware or hypervisor setting keeps GPUs apart",
        [MUSTER_PATH_UNEXPLAINED] = "see that each container shows all GPUs of the host and that "
                                    "its ranks share /dev/shm and the host's name; NCCL_DEBUG=INFO "
                                    "prints how ranks are joined",
    };
    snprintf(advice, size, "%s", text[missing->pair.why]);
}

void muster_path_format_missing(const struct muster_view *view,
                                const struct muster_path_missing *missing,
                                const struct muster_path_reached *reached,
                                struct muster_finding *finding)
{
    char path[96], limit[128];
    finding->kind = MUSTER_FINDING_PATH_MISSING;
    muster_path_begin(view, missing->comm, missing->pair.a, missing->pair.b, finding);
    finding->confidence = muster_path_confidence(missing->pair.why == MUSTER_PATH_UNEXPLAINED);
    report_expected(missing, &finding->evidence);
    report_why(missing, finding);
    report_others(missing, &finding->evidence);
    report_instead(view, missing, finding);
    muster_path_pair_format(&missing->pair, path, sizeof path);
    snprintf(limit, sizeof limit, "the path allows: %s", path);
    report_reached(reached, limit, finding);
    muster_finding_line(&finding->not_observable,
                        "what it costs: how long the operations would take otherwise");
    advise(missing, finding->advice, sizeof finding->advice);
}
