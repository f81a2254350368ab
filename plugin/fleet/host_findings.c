#include "fleet/host_findings.h"

#include <string.h>

/* Whether a process of this host has the rank, and none of another. */
static bool is_of(const struct muster_join *join, size_t host, int32_t rank)
{
    bool own = false;
    for (size_t i = 0; i < join->processes; i++) {
        const struct muster_join_process *process = &join->process[i];
        if (process->state != MUSTER_PROCESS_RUNNING || process->segment->identity.rank != rank ||
            join->host[process->host].instance == 0)
            continue;
        if (process->host != host)
            return false;
        own = true;
    }
    return own;
}

static bool is_believed(const struct muster_join *join, size_t host,
                        const struct muster_finding *finding)
{
    for (unsigned i = 0; i < finding->ranks; i++)
        if (!is_of(join, host, finding->rank[i]))
            return false;
    return finding->ranks > 0;
}

#define MUCH 0.5 /* of what costs most */

static void drop_small(struct muster_findings *findings)
{
    double most = 0;
    size_t kept = 0;
    for (size_t i = 0; i < findings->n; i++)
        most = findings->finding[i].cost_share > most ? findings->finding[i].cost_share : most;
    for (size_t i = 0; i < findings->n; i++)
        if (findings->finding[i].cost_share >= MUCH * most)
            findings->finding[kept++] = findings->finding[i];
    findings->n = kept;
}

bool muster_host_findings(const struct muster_join *join, uint64_t now_ns,
                          struct muster_findings *findings)
{
    for (size_t h = 0; h < join->hosts; h++) {
        const struct muster_join_host *host = &join->host[h];
        for (size_t i = 0; i < host->findings && host->instance; i++) {
            if (!muster_join_hears(join, host, now_ns) || !is_believed(join, h, &host->finding[i]))
                continue;
            struct muster_finding *finding = muster_findings_copy(findings, &host->finding[i]);
            if (!finding)
                return false;
            memcpy(finding->host, host->host, sizeof finding->host);
        }
    }
    drop_small(findings);
    return true;
}
