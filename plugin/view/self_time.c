/*
 * Self time: from the latest end of this GPU's earlier operations, in any communicator, to the
 * start of this one, on that GPU's own clock (docs/diagnosis.md). What came before is known only
 * where the call before was timed too: the first operation of a timed window has no self time, nor
 * has what follows a hole in the numbers. What a rank sends to itself runs beside the rest of its
 * group, which is timed: it hides nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "base/sort.h"
#include "view/call_order.h"
#include "view/view_internal.h"

enum { UNKNOWN }; /* mark of struct muster_keyed: what ran before it */

/* In the order of the calls: whether what ran before is known. Leaves those with GPU times, keyed
 * by begin. *in_step: those are all, none is missing between them, and so they began. */
static size_t keep_timed(const struct muster_view *view, struct muster_keyed *item, size_t n,
                         bool *in_step)
{
    size_t kept = 0;
    struct muster_call_holes holes = {.fewest_sends = 1};
    bool known = false, steady = true;
    uint64_t begin_ns = 0;
    for (size_t i = 0; i < n; i++) {
        struct muster_keyed own = item[i];
        const struct muster_view_op *op = &view->op[own.value];
        bool missing = muster_calls_missing(&holes, &own), unknown = !known || missing;
        bool timed = muster_source_is_gpu(op->source);
        steady = steady && timed && !missing && op->begin_ns >= begin_ns;
        begin_ns = op->begin_ns;
        known = timed || (known && muster_view_to_itself(view, op));
        if (timed)
            item[kept++] = (struct muster_keyed){op->begin_ns, own.value, {[UNKNOWN] = unknown}};
    }
    *in_step = steady;
    return kept;
}

/* What an operation covers: from the end of all before to its own; 0: it ended within. */
static uint64_t covered_by(const struct muster_view_op *op, uint64_t before_ns)
{
    if (op->end_ns <= before_ns)
        return 0;
    bool from_begin = !before_ns || (!op->self_known && op->begin_ns > before_ns);
    return op->end_ns - (from_begin ? op->begin_ns : before_ns);
}

/* The operations of a GPU by begin, up to now. */
struct so_far {
    uint32_t *order, ordered;
    uint64_t covered_ns, end_ns; /* end_ns: of all of them */
};

/* known: what ran before it is. */
static void add_ordered(struct muster_view *view, struct so_far *so_far, uint32_t value, bool known)
{
    struct muster_view_op *op = &view->op[value];
    so_far->order[so_far->ordered++] = value;
    op->self_known = known && so_far->end_ns > 0;
    so_far->covered_ns += covered_by(op, so_far->end_ns);
    so_far->end_ns = op->end_ns > so_far->end_ns ? op->end_ns : so_far->end_ns;
}

static void set_ordered(const struct muster_view *view, const struct so_far *all,
                        struct muster_view_gpu *gpu)
{
    gpu->ordered = all->ordered;
    gpu->covered_ns = all->covered_ns;
    gpu->length_ns = all->ordered ? all->end_ns - view->op[all->order[0]].begin_ns : 0;
}

static void set_self(struct muster_view *view, struct muster_view_gpu *gpu,
                     const struct muster_keyed *item, size_t items)
{
    struct so_far so_far = {.order = gpu->order};
    for (size_t i = 0; i < items; i++)
        add_ordered(view, &so_far, item[i].value, !item[i].mark[UNKNOWN]);
    set_ordered(view, &so_far, gpu);
}

/* ---- in step: what most GPUs of a run that was timed as a whole are ---- */

enum { ROWS = 8 }; /* communicators of a GPU: with more of them to look at sorting is quicker */

/* The operations of a member: those from `at` on are not in order yet. */
struct row {
    uint32_t first, at, end;
};

/* The row whose next call comes first, of equals the first: as sorting by call gives. */
static struct row *first_called(const struct muster_view_op *op, struct row *row, size_t n)
{
    struct row *first = &row[0];
    for (size_t i = 1; i < n; i++)
        if (row[i].at < row[i].end &&
            (first->at == first->end || op[row[i].at].enqueue_ns < op[first->at].enqueue_ns))
            first = &row[i];
    return first;
}

/* Whether the next one is a collective that was timed, with none missing before it in its row. */
static bool is_whole(const struct muster_view_op *op, bool first)
{
    if (!muster_source_is_gpu(op->source) || muster_func_is_p2p(op->func))
        return false;
    if (first)
        return op->number == 0;
    return op->number == op[-1].number + 1ull && op->number != MUSTER_VIEW_NO_NUMBER &&
           op->enqueue_ns >= op[-1].enqueue_ns && !((op->flags ^ op[-1].flags) & MUSTER_OP_GRAPH);
}

/* Without sorting, where its members' rows are whole, and what it called it began in the order of
 * the calls. False: that is not so, or they are too many, and the GPU is as it was. */
static bool set_in_step(struct muster_view *view, struct muster_view_gpu *gpu,
                        const uint32_t *members, size_t n, size_t ops)
{
    struct row row[ROWS];
    struct so_far so_far = {.order = gpu->order};
    uint64_t begin_ns = 0;
    if (n == 0 || n > ROWS)
        return false;
    for (size_t m = 0; m < n; m++) {
        const struct muster_view_member *own = &view->member[members[m]];
        row[m] = (struct row){own->first_op, own->first_op, own->first_op + own->ops};
    }
    while (so_far.ordered < ops) {
        struct row *next = first_called(view->op, row, n);
        const struct muster_view_op *op = &view->op[next->at];
        if (op->begin_ns < begin_ns || !is_whole(op, next->at == next->first))
            return false;
        begin_ns = op->begin_ns;
        add_ordered(view, &so_far, next->at++, true);
    }
    set_ordered(view, &so_far, gpu);
    gpu->in_step = true;
    return true;
}

/* room: for twice its operations. */
static void one_gpu(struct muster_view *view, struct muster_view_gpu *gpu, const uint32_t *members,
                    size_t n, struct muster_keyed *room)
{
    size_t ops = muster_view_ops_of(view, members, n);
    if (set_in_step(view, gpu, members, n, ops))
        return;
    size_t items = muster_calls_collect(view, members, n, room);
    struct muster_keyed *by_call = muster_sort_keyed(room, room + ops, items);
    items = keep_timed(view, by_call, items, &gpu->in_step);
    const struct muster_keyed *item =
        muster_sort_keyed(by_call, by_call == room ? room + ops : room, items);
    set_self(view, gpu, item, items);
}

const size_t *muster_view_members_by_gpu(const struct muster_view *view, uint32_t *members,
                                         struct muster_arena *memory)
{
    size_t *first = muster_arena_array(memory, view->gpus + 2, sizeof *first);
    if (memory->failed)
        return NULL;
    for (size_t m = 0; m < view->members; m++)
        first[view->member[m].gpu + 2]++;
    for (size_t g = 0; g < view->gpus; g++)
        first[g + 2] += first[g + 1];
    for (size_t m = 0; m < view->members; m++)
        members[first[view->member[m].gpu + 1]++] = (uint32_t)m;
    return first;
}

int muster_view_self_times(struct muster_view *view)
{
    struct muster_arena memory = {0};
    uint32_t *members = muster_arena_array(&memory, view->members + 1, sizeof *members);
    const size_t *first = muster_view_members_by_gpu(view, members, &memory);
    size_t most = 0;
    for (size_t g = 0; g < view->gpus && first; g++) {
        size_t ops = muster_view_ops_of(view, members + first[g], first[g + 1] - first[g]);
        most = ops > most ? ops : most;
    }
    struct muster_keyed *room = muster_arena_array(&memory, 2 * most + 1, sizeof *room);
    size_t bytes = (view->ops + 1) * sizeof *view->order, at = 0;
    view->order = malloc(muster_pages_whole(bytes));
    bool whole = first && room && view->order;
    if (whole)
        muster_pages_ask_big(view->order, bytes);
    for (size_t g = 0; g < view->gpus && whole; g++) {
        size_t n = first[g + 1] - first[g];
        view->gpu[g].order = view->order + at;
        one_gpu(view, &view->gpu[g], members + first[g], n, room);
        at += muster_view_ops_of(view, members + first[g], n);
    }
    muster_arena_free(&memory);
    return whole ? 0 : -1;
}

uint32_t *muster_view_ended_before(const struct muster_view *view)
{
    uint32_t *before = malloc((view->ops + 1) * sizeof *before);
    if (!before)
        return NULL;
    memset(before, 0xff, view->ops * sizeof *before);
    for (size_t g = 0; g < view->gpus; g++) {
        const struct muster_view_gpu *gpu = &view->gpu[g];
        uint64_t end_ns = 0;
        uint32_t ended = MUSTER_VIEW_NONE;
        for (uint32_t i = 0; i < gpu->ordered; i++) {
            uint32_t own = gpu->order[i];
            const struct muster_view_op *op = &view->op[own];
            if (op->self_known)
                before[own] = ended;
            ended = op->end_ns > end_ns ? own : ended;
            end_ns = op->end_ns > end_ns ? op->end_ns : end_ns;
        }
    }
    return before;
}
