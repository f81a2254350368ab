#include "cli/diagnose/diagnose_look.h"

#include <string.h>

#include "base/host.h"
#include "diagnose/diagnose.h"
#include "diagnose/evidence.h"
#include "told/told.h"

/* What the kernel says of absent ranks that live here. */
static void add_evidence(const struct muster_run *run, struct muster_findings *findings)
{
    const struct muster_evidence_roots roots = {"/proc", "/sys"};
    struct muster_host host;
    muster_host_read(&host, NULL);
    for (size_t i = 0; i < findings->n; i++) {
        struct muster_finding *finding = &findings->finding[i];
        for (size_t p = 0; p < run->processes; p++) {
            const struct muster_process *process = &run->process[p];
            if (finding->kind == MUSTER_FINDING_HANG_ABSENT &&
                process->state == MUSTER_PROCESS_RUNNING &&
                process->identity.boot_hash == host.boot_hash &&
                muster_process_start_ticks((pid_t)process->identity.pid) ==
                    process->identity.start_ticks &&
                process->identity.rank == finding->rank[0] &&
                strcmp(process->identity.host, finding->host) == 0)
                muster_evidence_absent(&roots, process->identity.pid, finding->rank[0],
                                       &finding->evidence);
        }
    }
}

int muster_look_take(struct muster_look *look, const struct muster_look_how *how,
                     struct muster_err *err)
{
    struct muster_run_query query = how->query;
    const char *dir;
    look->view = (struct muster_view){0};
    look->findings = (struct muster_findings){0};
    if (look->job)
        muster_live_query(look->job, &dir, &query);
    if (muster_run_refresh(&query, &look->run, err) != 0 ||
        muster_view_of_run(&look->run, &look->view, err) != 0 ||
        muster_diagnose_view(&look->view, how->hang_ns, &look->findings, err) != 0)
        return -1;
    add_evidence(&look->run, &look->findings);
    return how->told ? muster_told_add(&look->run, &look->findings, err) : 0;
}

void muster_look_end(struct muster_look *look)
{
    muster_findings_free(&look->findings);
    muster_view_free(&look->view);
}

bool muster_look_unresolved(const struct muster_look *look)
{
    for (size_t i = 0; i < look->findings.n; i++)
        if (!look->findings.finding[i].resolved && !look->findings.finding[i].retracted)
            return true;
    return false;
}

const char *muster_look_name(const struct muster_look *look)
{
    return look->job ? look->job->who.run_dir : "";
}
