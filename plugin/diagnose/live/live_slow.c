#include "diagnose/live/live_slow.h"

#include <math.h>

#include "base/clock.h"
#include "run/refresh.h"

enum {
    NEW_LEAST = 16,       /* operations timed since the last time, a process */
    EVALUATE_SHARE = 300, /* one part in so many of a processor's time is for evaluating */
    /* Delays come in rows, of so many steps at most that evidence counts (e_process.c): who is late
     * in one of them only is not found again after it. */
    ROW_STEPS = 9,
};
/* Meanwhile nothing else is looked for. */
#define APART_MOST_NS (30 * MUSTER_NS_PER_S)

static uint64_t cpu_ns(void)
{
    return muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

bool muster_live_slow_due(const struct muster_live_slow *slow, const struct muster_live_run *run,
                          uint64_t now_ns, bool waiting)
{
    size_t processes;
    uint64_t timed = muster_live_run_timed(run, &processes);
    return muster_live_slow_due_at(slow, timed, processes, now_ns, waiting);
}

bool muster_live_slow_due_at(const struct muster_live_slow *slow, uint64_t timed, size_t processes,
                             uint64_t now_ns, bool waiting)
{
    bool rested = now_ns - slow->evaluated_ns >= slow->rest_ns;
    bool apart = now_ns - slow->evaluated_ns >= slow->apart_ns;
    bool again = waiting ? apart : rested && timed - slow->timed >= NEW_LEAST * processes;
    return processes >= 2 && again;
}

uint64_t muster_live_slow_paid_ns(uint64_t paid_ns, uint64_t now_ns, uint64_t rest_ns)
{
    uint64_t since_ns = now_ns - MUSTER_NS_PER_S;
    return (paid_ns > since_ns ? paid_ns : since_ns) + rest_ns;
}

uint64_t muster_live_slow_apart_ns(const struct muster_findings *findings)
{
    double step_s = 0;
    for (size_t i = 0; i < findings->n; i++)
        step_s = fmax(step_s, findings->finding[i].step_s);
    return (uint64_t)fmin(ROW_STEPS * step_s * (double)MUSTER_NS_PER_S, (double)APART_MOST_NS);
}

bool muster_live_slow_evaluate(struct muster_live_slow *slow, struct muster_live_run *live,
                               const struct muster_live_peers *peers, uint64_t now_ns,
                               struct muster_findings *findings, muster_live_slow_look *look,
                               void *arg)
{
    uint64_t cost = cpu_ns();
    size_t processes;
    struct muster_view view;
    slow->timed = muster_live_run_timed(live, &processes);
    slow->evaluated_ns = now_ns;
    const struct muster_run *run = muster_live_run_latest(live, peers);
    bool whole = run && muster_view_of_run(run, &view, NULL) == 0;
    if (whole) {
        muster_windows_take(&slow->windows, muster_run_since_unix_ns(run), &view);
        whole = muster_diagnose_slow(&view, findings, NULL) == 0;
        if (look)
            look(arg, &view);
        muster_view_free(&view);
    }
    for (size_t i = 0; i < findings->n; i++)
        muster_finding_line(&findings->finding[i].not_observable,
                            "judged while the job runs, by the latest operations of the ranks of "
                            "this host; what it cost counts in them alone");
    slow->apart_ns = muster_live_slow_apart_ns(findings);
    slow->rest_ns = EVALUATE_SHARE * (cpu_ns() - cost);
    return whole;
}
