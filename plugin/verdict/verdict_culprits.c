#include <inttypes.h>
#include <stdio.h>

#include "verdict/verdict.h"

static bool has(const int32_t *rank, unsigned n, int64_t wanted)
{
    bool found = false;
    for (unsigned i = 0; i < n; i++)
        found |= rank[i] == wanted;
    return found;
}

/* Whether GPU g is in the finding's communicator. */
static bool is_member(const struct muster_view *view, uint64_t comm, size_t g)
{
    bool found = false;
    for (size_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *own = &view->comm[c];
        for (uint32_t i = 0; own->id == comm && i < own->members; i++)
            found |= view->member[own->first_member + i].gpu == g;
    }
    return found;
}

static bool is_over(const struct muster_finding *finding)
{
    return finding->resolved || finding->retracted;
}

static const char *culprit_word(const struct muster_finding *finding)
{
    if (finding->kind == MUSTER_FINDING_SLOW_TRANSFER)
        return "slow transfer";
    switch (muster_finding_rows[finding->kind].scope) {
    case MUSTER_SCOPE_HANG:
        return "hangs the job";
    case MUSTER_SCOPE_SLOW:
        return "holds others back";
    case MUSTER_SCOPE_PATH:
        return "slow path";
    case MUSTER_SCOPE_CALLS:
        return "called otherwise";
    case MUSTER_SCOPE_CHOICE:
        break;
    }
    return "chose otherwise";
}

static void mark(const struct muster_view *view, const struct muster_finding *finding,
                 unsigned number, size_t g, struct muster_report_rank *rank)
{
    bool waits = muster_finding_rows[finding->kind].scope <= MUSTER_SCOPE_SLOW;
    if (has(finding->rank, finding->ranks, rank->rank)) {
        rank->named = rank->named ? rank->named : number;
        snprintf(rank->verdict_text, sizeof rank->verdict_text, "%s", culprit_word(finding));
    } else if (!rank->named && !rank->verdict && waits && finding->ranks &&
               (finding->victims ? has(finding->victim, finding->victims, rank->rank)
                                 : is_member(view, finding->comm, g))) {
        snprintf(rank->verdict_text, sizeof rank->verdict_text,
                 finding->ranks > 1 ? "waits for rank %" PRId32 "..." : "waits for rank %" PRId32,
                 finding->rank[0]);
    }
    rank->verdict = rank->verdict_text[0] ? rank->verdict_text : NULL;
}

void muster_verdict_mark(const struct muster_view *view, const struct muster_findings *findings,
                         struct muster_report *report)
{
    for (size_t f = 0; f < findings->n; f++)
        for (size_t r = 0; r < report->ranks && !is_over(&findings->finding[f]); r++)
            mark(view, &findings->finding[f], (unsigned)f + 1, r, &report->rank[r]);
}
