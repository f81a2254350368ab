#include "view/aligned.h"

bool muster_joint_possible(const struct muster_view_comm *comm)
{
    return comm->id && comm->members >= 2 && !comm->duplicate_rank;
}

bool muster_joint_takes_common_end(const struct muster_view *view, const struct muster_view_op *op)
{
    (void)view;
    return muster_view_scored(op) && muster_joint_ends_together(op->func);
}

/* Of `joint->members` members, from `first` on, `apart` from each other. */
static void begin(struct muster_joint *joint, uint32_t first, uint32_t apart,
                  const struct muster_joint_rule *rule, struct muster_arena *memory)
{
    const struct muster_view *view = joint->view;
    if (rule)
        joint->rule = *rule;
    uint32_t most = (3 * joint->members + 3) / 4;
    if (!joint->rule.least)
        joint->rule.least = most < 2 ? 2 : most;
    joint->memory = memory;
    size_t members = joint->members + 1u;
    joint->row = muster_arena_array(memory, members, sizeof *joint->row);
    joint->op = muster_arena_array(memory, members, sizeof(const struct muster_view_op *));
    for (uint32_t i = 0; i < joint->members && view->op && !memory->failed; i++) {
        const struct muster_view_member *member = &view->member[first + i * apart];
        const struct muster_view_op *op = view->op + member->first_op;
        joint->row[i] = (struct muster_joint_row){op, op + member->ops};
    }
}

void muster_joint_begin(struct muster_joint *joint, const struct muster_view *view, uint32_t comm,
                        const struct muster_joint_rule *rule, struct muster_arena *memory)
{
    const struct muster_view_comm *of = &view->comm[comm];
    *joint = (struct muster_joint){.view = view, .comm = of, .members = of->members};
    begin(joint, of->first_member, 1, rule, memory);
}

void muster_joint_begin_two(struct muster_joint *joint, const struct muster_view *view, uint32_t a,
                            uint32_t b, const struct muster_joint_rule *rule,
                            struct muster_arena *memory)
{
    *joint = (struct muster_joint){
        .view = view, .comm = &view->comm[view->member[a].comm], .members = 2};
    begin(joint, a < b ? a : b, a < b ? b - a : a - b, rule, memory);
}

/* Eager before replayed, then by number. */
static uint64_t place_of(const struct muster_view_op *op)
{
    return (uint64_t)((op->flags & MUSTER_OP_GRAPH) != 0) << 40 | op->number;
}

static bool takes(const struct muster_joint *joint, const struct muster_view_op *op)
{
    bool own = joint->rule.takes ? joint->rule.takes(joint->view, op) : muster_view_scored(op);
    return own && !muster_func_is_p2p(op->func);
}

/* The next collective of a row that takes part, which is passed; NULL at its end. */
static inline const struct muster_view_op *pass(const struct muster_joint *joint,
                                                struct muster_joint_row *row)
{
    while (row->at < row->end) {
        const struct muster_view_op *op = row->at++;
        if (takes(joint, op))
            return op;
    }
    return NULL;
}

static bool is_like(const struct muster_view_op *a, const struct muster_view_op *b)
{
    return a->func == b->func && a->count == b->count;
}

/* Where not all members had the same operation next: those that had a later one have that still.
 * Returns whether the others called the same in `any`. */
static bool sort_out(struct muster_joint *joint)
{
    bool alike = true;
    for (uint32_t i = 0; i < joint->members; i++) {
        if (joint->op[i] && place_of(joint->any) < place_of(joint->op[i])) {
            joint->row[i].at = joint->op[i];
            joint->op[i] = NULL;
            joint->present--;
        }
        alike = alike && (!joint->op[i] || is_like(joint->op[i], joint->any));
    }
    return alike;
}

/* Sets op[] to the lowest operation that any member has next. Ranks' operations lie far apart, each
 * in a cache line of its own: where all have the same next, as nearly always, they are looked at
 * once. */
static bool line_up(struct muster_joint *joint)
{
    uint32_t n = joint->members;
    const struct muster_view_op *lowest = NULL;
    uint64_t least = 0; /* the lowest one's place */
    bool same = true, alike = true;
    joint->present = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct muster_view_op *op = joint->op[i] = pass(joint, &joint->row[i]);
        if (!op)
            continue;
        joint->present++;
        /* By the time all ranks had their turn it is there. */
        __builtin_prefetch(op + 2);
        uint64_t place = place_of(op);
        bool lower = !lowest || place < least;
        same = same && (!lowest || place == least);
        lowest = lower ? op : lowest;
        least = lower ? place : least;
        alike = alike && is_like(op, lowest);
    }
    joint->any = lowest;
    joint->alike = same || !lowest ? alike : sort_out(joint);
    return lowest;
}

bool muster_joint_next(struct muster_joint *joint)
{
    while (!joint->memory->failed && line_up(joint)) {
        if (joint->present < joint->rule.least)
            continue;
        if (joint->alike || joint->rule.unlike)
            return true;
    }
    return false;
}

struct muster_joint_span muster_joint_span(const struct muster_joint *joint)
{
    struct muster_joint_span span = {.shortest_ns = UINT64_MAX};
    for (uint32_t i = 0; i < joint->members; i++) {
        if (!joint->op[i])
            continue;
        uint64_t ns = joint->op[i]->end_ns - joint->op[i]->begin_ns;
        span.shortest_ns = ns < span.shortest_ns ? ns : span.shortest_ns;
        span.longest_ns = ns > span.longest_ns ? ns : span.longest_ns;
    }
    return span;
}

struct muster_sends muster_sends_of(const struct muster_view *view, uint32_t from, uint32_t to)
{
    const struct muster_view_member *sender = &view->member[from], *receiver = &view->member[to];
    return (struct muster_sends){
        .view = view,
        .out = muster_view_stream(view, sender, MUSTER_FUNC_SEND, receiver->rank),
        .in = muster_view_stream(view, receiver, MUSTER_FUNC_RECV, sender->rank),
    };
}
