#include "diagnose/diagnose.h"

#include "diagnose/hang.h"

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

int muster_diagnose_run(const struct muster_run *run, uint64_t hang_ns,
                        struct muster_findings *findings, struct muster_err *err)
{
    return find_hangs(run, hang_ns, findings, err);
}
