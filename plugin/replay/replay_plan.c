#include "replay/replay_plan.h"

struct maker {
    struct muster_plan *plan;
    const struct muster_trace *trace;
    struct muster_ids handles, contexts;
};

static bool is_operation(unsigned kind)
{
    return kind == MUSTER_EVENT_COLL || kind == MUSTER_EVENT_P2P;
}

/* Interfaces below v5 have no API events: there the parent is the group. */
static uint32_t group_of(const struct maker *maker, const struct muster_trace_call *call)
{
    if (!is_operation(call->kind))
        return MUSTER_PLAN_NONE;
    return muster_ids_get(&maker->handles,
                          maker->trace->meta.api >= 5 ? call->parent_group : call->parent);
}

static void join_group(struct muster_plan_event *event, uint32_t member, uint32_t group)
{
    if (group == MUSTER_PLAN_NONE || event[group].kind != MUSTER_EVENT_GROUP)
        return;
    if (event[group].last_member == MUSTER_PLAN_NONE)
        event[group].first_member = member;
    else
        event[event[group].last_member].next_member = member;
    event[group].last_member = member;
}

static bool add_event(struct maker *maker, size_t at)
{
    const struct muster_trace_call *call = &maker->trace->call[at];
    struct muster_plan *plan = maker->plan;
    uint32_t number = plan->events++;
    struct muster_plan_event *event = &plan->event[number];
    *event = (struct muster_plan_event){
        .parent = muster_ids_get(&maker->handles, call->parent),
        .group = group_of(maker, call),
        .first_member = MUSTER_PLAN_NONE,
        .last_member = MUSTER_PLAN_NONE,
        .next_member = MUSTER_PLAN_NONE,
        .kind = (uint8_t)call->kind,
    };
    join_group(plan->event, number, event->group);
    if (call->kind == MUSTER_EVENT_PROXY_OP && event->parent != MUSTER_PLAN_NONE && !plan->pid)
        plan->pid = call->event.proxy_op.pid;
    plan->event_of[at] = number;
    plan->context_of[at] = muster_ids_get(&maker->contexts, call->ctx);
    return muster_ids_put(&maker->handles, call->handle, number);
}

static bool add_call(struct maker *maker, size_t at)
{
    const struct muster_trace_call *call = &maker->trace->call[at];
    struct muster_plan *plan = maker->plan;
    switch (call->op) {
    case MUSTER_TRACE_INIT:
        plan->event_of[at] = plan->contexts;
        return muster_ids_put(&maker->contexts, call->ctx, plan->contexts++);
    case MUSTER_TRACE_START:
        return add_event(maker, at);
    case MUSTER_TRACE_STATE:
    case MUSTER_TRACE_STOP:
        plan->event_of[at] = muster_ids_get(&maker->handles, call->handle);
        return true;
    case MUSTER_TRACE_FINI:
        plan->event_of[at] = muster_ids_get(&maker->contexts, call->ctx);
        return true;
    }
    return false;
}

static size_t count_starts(const struct muster_trace *trace)
{
    size_t starts = 0;
    for (size_t i = 0; i < trace->calls; i++)
        starts += trace->call[i].op == MUSTER_TRACE_START;
    return starts;
}

int muster_plan_make(struct muster_plan *plan, const struct muster_trace *trace,
                     struct muster_err *err)
{
    struct muster_plan made = {0};
    struct muster_arena *memory = &made.memory;
    struct maker maker = {.plan = &made, .trace = trace};
    made.event_of = muster_arena_array(memory, trace->calls + 1, sizeof *made.event_of);
    made.context_of = muster_arena_array(memory, trace->calls + 1, sizeof *made.context_of);
    made.event = muster_arena_array(memory, count_starts(trace) + 1, sizeof *made.event);
    for (size_t i = 0; !memory->failed && i < trace->calls; i++)
        memory->failed = !add_call(&maker, i);
    muster_ids_free(&maker.handles);
    muster_ids_free(&maker.contexts);
    int result = muster_arena_check(memory, err, "the trace's events");
    if (result)
        muster_plan_free(&made);
    else
        *plan = made;
    return result;
}

void muster_plan_free(struct muster_plan *plan)
{
    muster_arena_free(&plan->memory);
    *plan = (struct muster_plan){0};
}
