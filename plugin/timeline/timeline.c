#include "timeline/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "timeline/tar_archive.h"
#include "timeline/timeline_internal.h"
#include "timeline/whole_file.h"
#include "view/aligned.h"

/* The rank with the shortest time came last, all others waited for it. */
static void find_waits_of_op(struct muster_timeline *timeline, const struct muster_joint *joint,
                             uint32_t *flow)
{
    struct muster_joint_span span = muster_joint_span(joint);
    uint32_t last = 0, longest = 0;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_op *op = joint->op[i];
        if (!op)
            continue;
        uint64_t ns = op->end_ns - op->begin_ns;
        last = ns == span.shortest_ns ? i : last;
        longest = ns == span.longest_ns ? i : longest;
    }
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        if (!joint->op[i])
            continue;
        struct muster_timeline_wait *wait = &timeline->wait[joint->op[i] - timeline->view->op];
        wait->wait_ns = joint->op[i]->end_ns - joint->op[i]->begin_ns - span.shortest_ns;
        wait->late = timeline->view->member[joint->comm->first_member + last].gpu;
    }
    if (last != longest) {
        ++*flow;
        timeline->wait[joint->op[last] - timeline->view->op].flow = *flow;
        timeline->wait[joint->op[longest] - timeline->view->op].flow = *flow;
    }
}

static void find_waits(struct muster_timeline *timeline)
{
    const struct muster_joint_rule rule = {.takes = muster_joint_takes_common_end, .least = 2};
    uint32_t flow = 0;
    for (uint32_t c = 0; c < timeline->view->comms; c++) {
        struct muster_joint joint;
        if (!muster_joint_possible(&timeline->view->comm[c]))
            continue;
        muster_joint_begin(&joint, timeline->view, c, &rule, &timeline->arena);
        while (muster_joint_next(&joint))
            find_waits_of_op(timeline, &joint, &flow);
    }
}

/* Each GPU's operations, which stand by begin, to their members. */
static void order_by_member(struct muster_timeline *timeline)
{
    const struct muster_view *view = timeline->view;
    uint32_t before = 0;
    for (uint32_t i = 0; i < view->gpus; i++)
        for (uint32_t j = 0; j < view->gpu[i].ordered; j++)
            timeline->member_end[view->op[view->gpu[i].order[j]].member]++;
    for (uint32_t m = 0; m < view->members; m++) {
        uint32_t n = timeline->member_end[m];
        timeline->member_end[m] = before;
        before += n;
    }
    for (uint32_t i = 0; i < view->gpus; i++)
        for (uint32_t j = 0; j < view->gpu[i].ordered; j++) {
            uint32_t at = view->gpu[i].order[j];
            timeline->of_member[timeline->member_end[view->op[at].member]++] = at;
        }
}

static void number_hosts(struct muster_timeline *timeline)
{
    const struct muster_view *view = timeline->view;
    uint64_t hosts = 0;
    for (uint32_t i = 0; i < view->gpus; i++) {
        for (uint32_t j = 0; j < i && !timeline->host[i]; j++)
            if (strcmp(view->gpu[i].host, view->gpu[j].host) == 0)
                timeline->host[i] = timeline->host[j];
        if (!timeline->host[i])
            timeline->host[i] = ++hosts;
    }
}

static void find_last(struct muster_timeline *timeline)
{
    const struct muster_view *view = timeline->view;
    for (uint32_t i = 0; i < view->gpus; i++) {
        if (!view->gpu[i].ordered)
            continue;
        const struct muster_view_op *op = &view->op[view->gpu[i].order[view->gpu[i].ordered - 1]];
        uint64_t end = muster_timeline_at(timeline, i, op->end_ns);
        timeline->last_ns = end > timeline->last_ns ? end : timeline->last_ns;
    }
}

static uint64_t of_unix(const struct muster_timeline *timeline, uint64_t unix_ns)
{
    uint32_t leader = timeline->clocks.leader;
    int64_t ahead = leader == MUSTER_VIEW_NONE ? 0 : timeline->view->gpu[leader].unix_ns;
    return unix_ns - (uint64_t)ahead;
}

uint64_t muster_timeline_of_unix(const struct muster_timeline *timeline, uint64_t unix_ns)
{
    return timeline->dated ? of_unix(timeline, unix_ns) : timeline->last_ns;
}

static bool is_near(uint64_t at_ns, uint64_t moment_ns)
{
    return at_ns + MUSTER_TIMELINE_BEFORE_S * MUSTER_NS_PER_S >= moment_ns &&
           at_ns <= moment_ns + MUSTER_TIMELINE_AFTER_S * MUSTER_NS_PER_S;
}

static bool is_near_finding(const struct muster_timeline *timeline, uint64_t at_ns)
{
    for (size_t i = 0; i < timeline->findings->n; i++) {
        uint64_t since = timeline->findings->finding[i].since_unix_ns;
        if (since && is_near(at_ns, of_unix(timeline, since)))
            return true;
    }
    return false;
}

/* A finding's moment is of the host's clock: where host times mean nothing (a replay at full
 * speed), or nothing was timed then, no operation is near. */
static bool any_near_finding(const struct muster_timeline *timeline)
{
    const struct muster_view *view = timeline->view;
    for (uint32_t g = 0; g < view->gpus; g++)
        for (uint32_t i = 0; i < view->gpu[g].ordered; i++) {
            uint64_t begin = view->op[view->gpu[g].order[i]].begin_ns;
            if (is_near_finding(timeline, muster_timeline_at(timeline, g, begin)))
                return true;
        }
    return false;
}

bool muster_timeline_shows(const struct muster_timeline *timeline, uint64_t at_ns)
{
    const uint64_t all = (MUSTER_TIMELINE_BEFORE_S + MUSTER_TIMELINE_AFTER_S) * MUSTER_NS_PER_S;
    if (timeline->whole)
        return true;
    return timeline->dated ? is_near_finding(timeline, at_ns) : at_ns + all >= timeline->last_ns;
}

int muster_timeline_prepare(struct muster_timeline *timeline, struct muster_err *err)
{
    const struct muster_view *view = timeline->view;
    struct muster_arena *arena = &timeline->arena;
    timeline->wait = muster_arena_array(arena, view->ops + 1, sizeof(*timeline->wait));
    timeline->of_member = muster_arena_array(arena, view->ops + 1, sizeof(*timeline->of_member));
    timeline->member_end =
        muster_arena_array(arena, view->members + 1, sizeof(*timeline->member_end));
    timeline->host = muster_arena_array(arena, view->gpus + 1, sizeof(*timeline->host));
    if (!arena->failed)
        find_waits(timeline);
    if (muster_arena_check(arena, err, "a timeline"))
        return -1;
    if (muster_gpu_clocks_align(view, &timeline->clocks, err))
        return -1;
    order_by_member(timeline);
    for (uint32_t i = 0; i < view->ops; i++)
        timeline->count->untimed += view->op[i].end_ns == 0;
    number_hosts(timeline);
    find_last(timeline);
    timeline->dated = any_near_finding(timeline);
    return 0;
}

void muster_timeline_free(struct muster_timeline *timeline)
{
    muster_gpu_clocks_free(&timeline->clocks);
    muster_arena_free(&timeline->arena);
}

/* Our trace alone, or in an archive with others. -1: no memory, or another cannot be read. */
static int write_trace(const struct muster_timeline *timeline,
                       const struct muster_timeline_request *request, FILE *out,
                       struct muster_err *err)
{
    char *trace = NULL;
    size_t bytes = 0;
    if (request->besides == 0)
        return muster_perfetto_write(timeline, out) ? 0 : muster_fail_memory(err, request->path);
    FILE *text = open_memstream(&trace, &bytes);
    bool good = text && muster_perfetto_write(timeline, text);
    good = muster_text_close(text, &trace) && good;
    int result = good ? muster_archive_write(timeline, trace, bytes, request->beside,
                                             request->besides, out, err)
                      : muster_fail_memory(err, request->path);
    free(trace);
    return result;
}

static int write_file(const struct muster_timeline *timeline,
                      const struct muster_timeline_request *request, struct muster_err *err)
{
    struct muster_whole_file file;
    if (muster_whole_begin(&file, request->path, err))
        return -1;
    int result = write_trace(timeline, request, file.out, err);
    return muster_whole_end(&file, result == 0, err) ? -1 : result;
}

int muster_timeline_write(const struct muster_view *view, const struct muster_findings *findings,
                          const struct muster_timeline_request *request,
                          struct muster_timeline_count *count, struct muster_err *err)
{
    struct muster_timeline timeline = {
        .view = view, .findings = findings, .whole = request->whole, .count = count};
    *count = (struct muster_timeline_count){0};
    int result = muster_timeline_prepare(&timeline, err);
    if (result == 0)
        result = write_file(&timeline, request, err);
    muster_timeline_free(&timeline);
    return result;
}
