#include "replay/replay_play.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "replay/replay_mask.h"
#include "replay/replay_plan.h"

struct player {
    const struct muster_trace *trace;
    const struct muster_driver *driver;
    const struct muster_play *play;
    struct muster_plan plan;
    void **context;      /* by number; the plugin's */
    unsigned group_mask; /* interfaces 1 and 2: read at the latest group's start, by all */
};

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / MUSTER_NS_PER_S),
                          .tv_nsec = (long)(at_ns % MUSTER_NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

/* A busy machine wakes late: the plugin is given when the call came. */
static void wait_for(const struct muster_play *play, uint64_t t_ns)
{
    if (play->speed && t_ns > play->epoch_ns) {
        uint64_t at = play->start_ns + (t_ns - play->epoch_ns) / play->speed;
        if (at > muster_now_ns())
            sleep_until(at);
        if (play->replay_ns)
            *play->replay_ns = at;
    }
}

static struct muster_plan_event *event_at(struct player *player, uint32_t number)
{
    return number == MUSTER_PLAN_NONE ? NULL : &player->plan.event[number];
}

/* What the plugin asks for now. It may be changed by threads of the plugin at any time. */
static unsigned live_mask(const struct player *player)
{
    return (unsigned)__atomic_load_n(player->play->mask, __ATOMIC_RELAXED);
}

/* From v5 on a group's mask is that of its first operation with one: all read it when they were
 * called. Without any (the trace ends there) the current one is the best guess. */
static unsigned mask_of_members(struct player *player, const struct muster_plan_event *group)
{
    struct muster_plan_event *member = event_at(player, group->first_member);
    if (!member)
        return live_mask(player);
    for (; member; member = event_at(player, member->next_member)) {
        const struct muster_plan_event *api = event_at(player, member->parent);
        unsigned mask = api ? api->mask : live_mask(player);
        if (mask)
            return mask;
    }
    return 0;
}

/* The first operation of a group call shares the reading that its GroupApi event was made of. */
static unsigned mask_of_call(struct player *player, struct muster_plan_event *group_api)
{
    unsigned mask = live_mask(player);
    if (!group_api)
        return mask;
    mask = group_api->fresh ? group_api->mask : mask;
    group_api->fresh = false;
    group_api->op_mask = group_api->op_mask ? group_api->op_mask : mask;
    return mask;
}

static unsigned mask_of_group(struct player *player, const struct muster_plan_event *event)
{
    if (player->driver->api >= 5)
        return mask_of_members(player, event);
    /* v3 and v4 read it a little earlier, when the operation was called, which those traces do not
     * show. */
    player->group_mask = live_mask(player);
    return player->group_mask;
}

static unsigned mask_of_operation(struct player *player, const struct muster_plan_event *event)
{
    const struct muster_plan_event *parent = event_at(player, event->parent);
    if (player->driver->api <= 2)
        return player->group_mask;
    return parent ? parent->mask : live_mask(player);
}

/* The mask that NCCL goes by at this start, read where this generation reads it. */
static unsigned mask_at_start(struct player *player, struct muster_plan_event *event)
{
    struct muster_plan_event *parent = event_at(player, event->parent);
    switch (event->kind) {
    case MUSTER_EVENT_GROUP_API:
        event->fresh = true;
        return live_mask(player);
    case MUSTER_EVENT_COLL_API:
    case MUSTER_EVENT_P2P_API:
        return mask_of_call(player, parent);
    case MUSTER_EVENT_KERNEL_LAUNCH:
        return parent ? parent->op_mask : live_mask(player);
    case MUSTER_EVENT_GROUP:
        return mask_of_group(player, event);
    case MUSTER_EVENT_COLL:
    case MUSTER_EVENT_P2P:
        return mask_of_operation(player, event);
    case MUSTER_EVENT_PROXY_OP:
    case MUSTER_EVENT_PROXY_STEP:
    case MUSTER_EVENT_NET_PLUGIN:
    case MUSTER_EVENT_KERNEL_CH:
    case MUSTER_EVENT_KERNEL_PHASE:
        return parent ? parent->mask : live_mask(player);
    default:
        return live_mask(player);
    }
}

static bool is_operation(const struct muster_plan_event *event)
{
    return event->kind == MUSTER_EVENT_COLL || event->kind == MUSTER_EVENT_P2P;
}

static bool is_delivered(struct player *player, struct muster_plan_event *event)
{
    unsigned api = player->driver->api;
    const struct muster_plan_event *parent = event_at(player, event->parent);
    const struct muster_plan_event *group = event_at(player, event->group);
    event->mask = mask_at_start(player, event);
    if (!muster_mask_wants(api, event->mask, event->kind))
        return false;
    if (is_operation(event))
        return api >= 5 || (group && group->handle);
    if (event->kind == MUSTER_EVENT_PROXY_STEP)
        return api >= 5 || (parent && parent->handle);
    return true;
}

static void *handle_of(const struct muster_plan_event *event)
{
    return event ? event->handle : NULL;
}

/* The event as this process sees it: its own pid, and the plugin's handles. */
static struct muster_event translate(struct player *player, const struct muster_trace_call *call,
                                     const struct muster_plan_event *event)
{
    struct muster_event to = call->event;
    to.parent = handle_of(event_at(player, event->parent));
    if (is_operation(event) && player->driver->api >= 5)
        to.op.parent_group = handle_of(event_at(player, event->group));
    if (event->kind == MUSTER_EVENT_PROXY_OP && to.proxy_op.pid == player->plan.pid)
        to.proxy_op.pid = getpid();
    return to;
}

/* An operation is its call; what runs without one begins where it is shown. */
static bool begins_operation(struct player *player, const struct muster_plan_event *event)
{
    if (event->kind == MUSTER_EVENT_COLL_API)
        return !event->captured;
    if (event->kind == MUSTER_EVENT_P2P)
        return true;
    const struct muster_plan_event *parent = event_at(player, event->parent);
    bool is_launch = parent && parent->kind == MUSTER_EVENT_COLL_API && !parent->captured;
    return event->kind == MUSTER_EVENT_COLL && !is_launch;
}

static void play_start(struct player *player, size_t at)
{
    const struct muster_trace_call *call = &player->trace->call[at];
    struct muster_plan_event *event = &player->plan.event[player->plan.event_of[at]];
    uint32_t context = player->plan.context_of[at];
    if (!is_delivered(player, event))
        return;
    struct muster_event translated = translate(player, call, event);
    event->captured = event->kind == MUSTER_EVENT_COLL_API && call->event.op.graph;
    struct muster_play_progress *progress =
        begins_operation(player, event) ? player->play->progress : NULL;
    /* Relaxed: whoever reads the counts does so when this process is gone. */
    if (progress)
        atomic_fetch_add_explicit(&progress->entered, 1, memory_order_relaxed);
    muster_driver_start(player->driver,
                        context == MUSTER_PLAN_NONE ? NULL : player->context[context],
                        &event->handle, &translated);
    if (progress)
        atomic_fetch_add_explicit(&progress->returned, 1, memory_order_relaxed);
}

static void play_state(struct player *player, size_t at)
{
    const struct muster_trace_call *call = &player->trace->call[at];
    const struct muster_plan_event *event = &player->plan.event[player->plan.event_of[at]];
    if (event->handle)
        muster_driver_state(player->driver, event->handle, call->state, &call->args);
}

static void play_stop(struct player *player, size_t at)
{
    const struct muster_plan_event *event = &player->plan.event[player->plan.event_of[at]];
    /* 2.23 to 2.25 stop all operations of a group that has a handle, whether or not they have one.
     */
    bool stops_null = player->driver->api <= 2 && is_operation(event) &&
                      handle_of(event_at(player, event->group)) &&
                      muster_mask_wants(player->driver->api, player->group_mask, event->kind);
    if (event->handle || stops_null)
        muster_driver_stop(player->driver, event->handle);
}

static int play_init(struct player *player, size_t at, struct muster_err *err)
{
    const struct muster_trace_call *call = &player->trace->call[at];
    int result = muster_driver_init(player->driver, &player->context[player->plan.event_of[at]],
                                    player->play->mask, &call->init);
    return result ? muster_fail(err, "%s: init returned %d", player->driver->name, result) : 0;
}

/* From 2.28 on contexts that are NULL are not finalized. */
static void play_fini(struct player *player, size_t at)
{
    void *context = player->context[player->plan.event_of[at]];
    if (context || player->driver->api < 5)
        muster_driver_fini(player->driver, context);
}

static int play_call(struct player *player, size_t at, struct muster_err *err)
{
    wait_for(player->play, player->trace->call[at].t_ns);
    switch (player->trace->call[at].op) {
    case MUSTER_TRACE_INIT:
        return play_init(player, at, err);
    case MUSTER_TRACE_START:
        play_start(player, at);
        break;
    case MUSTER_TRACE_STATE:
        play_state(player, at);
        break;
    case MUSTER_TRACE_STOP:
        play_stop(player, at);
        break;
    case MUSTER_TRACE_FINI:
        play_fini(player, at);
        break;
    }
    return 0;
}

/* Where the finalizing begins with which the trace ends. */
static size_t find_leaving(const struct muster_trace *trace)
{
    size_t at = trace->calls;
    while (at > 0 && trace->call[at - 1].op == MUSTER_TRACE_FINI)
        at--;
    return at;
}

static int play_all(struct player *player, struct muster_err *err)
{
    size_t leaving = find_leaving(player->trace);
    int failed = 0;
    for (size_t at = 0; !failed && at < player->trace->calls; at++) {
        if (at == leaving && player->play->hold_ns)
            sleep_until(muster_now_ns() + player->play->hold_ns);
        failed = play_call(player, at, err);
    }
    if (!failed && leaving == player->trace->calls && player->play->hold_ns)
        sleep_until(muster_now_ns() + player->play->hold_ns);
    return failed;
}

int muster_trace_play(const struct muster_trace *trace, const struct muster_driver *driver,
                      const struct muster_play *play, struct muster_err *err)
{
    struct player player = {.trace = trace, .driver = driver, .play = play};
    if (muster_plan_make(&player.plan, trace, err))
        return -1;
    struct muster_arena *memory = &player.plan.memory;
    player.context = muster_arena_array(memory, player.plan.contexts + 1, sizeof *player.context);
    int failed = muster_arena_check(memory, err, "the player") ? -1 : play_all(&player, err);
    muster_plan_free(&player.plan);
    return failed;
}
