#include "diagnose/diagnose.h"

#include "diagnose/divergence.h"
#include "diagnose/hang.h"
#include "diagnose/late.h"
#include "diagnose/path.h"
#include "diagnose/transfer.h"
#include "diagnose/unread.h"

static int find_hangs(const struct muster_run *run, uint64_t hang_ns,
                      struct muster_findings *findings, struct muster_err *err)
{
    struct muster_hang_view view;
    if (muster_hang_view_of_run(run, &view, err) != 0)
        return -1;
    bool whole = muster_hang_find(&view, hang_ns, findings);
    muster_hang_view_free(&view);
    return whole ? 0 : muster_fail(err, "out of memory for the findings");
}

static int judge_operations(const struct muster_run *run, bool choices,
                            struct muster_findings *findings, struct muster_err *err)
{
    struct muster_view view;
    if (muster_view_of_run(run, &view, err) != 0)
        return -1;
    int rc = muster_diagnose_late(&view, findings, err);
    if (rc == 0)
        rc = muster_diagnose_transfer(&view, findings, err);
    if (rc == 0)
        rc = muster_path_cite(&view, findings, err);
    if (rc == 0)
        rc = muster_diagnose_path(&view, findings, err);
    if (rc == 0 && choices)
        rc = muster_diagnose_divergence(&view, false, findings, err);
    if (rc == 0)
        muster_say_unread(&view, &findings->not_observable);
    muster_view_free(&view);
    return rc;
}

int muster_diagnose_slow(const struct muster_run *run, struct muster_findings *findings,
                         struct muster_err *err)
{
    return judge_operations(run, false, findings, err);
}

int muster_diagnose_run(const struct muster_run *run, uint64_t hang_ns,
                        struct muster_findings *findings, struct muster_err *err)
{
    if (find_hangs(run, hang_ns, findings, err) != 0)
        return -1;
    return judge_operations(run, true, findings, err);
}
