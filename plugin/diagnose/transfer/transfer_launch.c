/* Launches of sends and receives: what one carried, and how much of its time may be the transfer.
 */
#include "diagnose/transfer/transfer_internal.h"

/* When a launch ran, by its GPU's clock: no two of a member run at the same time. */
struct span {
    uint64_t begin_ns, end_ns;
};

static uint64_t part_of_load(const struct muster_view *view, const struct muster_view_op *op)
{
    uint64_t bytes = (uint64_t)op->count * muster_dtype_bytes(view->class[op->class].dtype);
    uint64_t mixed = (bytes + op->func + 1) * 0x9e3779b97f4a7c15ull;
    return mixed ^ mixed >> 32;
}

static size_t place_of(const struct muster_view *view, const struct muster_launches *launches,
                       const struct muster_view_op *op)
{
    uint32_t own = op->member - view->comm[launches->comm].first_member;
    struct span span = {op->begin_ns, op->end_ns};
    return muster_hashmap_find(&launches->of_member[own], &span);
}

static bool has_times(const struct muster_view_op *op)
{
    return muster_func_is_p2p(op->func) && op->end_ns > op->begin_ns;
}

static void add(const struct muster_view *view, const struct muster_view_op *op,
                struct muster_arena *memory, struct muster_launches *launches)
{
    uint32_t own = op->member - view->comm[launches->comm].first_member;
    size_t place = place_of(view, launches, op);
    if (place == SIZE_MAX) {
        struct span span = {op->begin_ns, op->end_ns};
        struct muster_launch *fresh =
            muster_arena_add(memory, &launches->at, &launches->n, sizeof *fresh);
        fresh->least_ns = op->end_ns - op->begin_ns;
        place = launches->n - 1;
        memory->failed |= !muster_hashmap_put(&launches->of_member[own], &span, place);
    }
    if (!memory->failed)
        launches->at[place].load += part_of_load(view, op);
}

static void note_shorter(struct muster_launch *launch, uint64_t ns)
{
    launch->least_ns = ns < launch->least_ns ? ns : launch->least_ns;
}

static uint64_t length_of(const struct muster_view_op *op)
{
    return op->end_ns - op->begin_ns;
}

/* What both sides of each of the pair's sends took; `far`: where they carry the same, what the
 * least of either is by now. */
static void note_pair(const struct muster_view *view, uint32_t from, uint32_t to, bool far,
                      struct muster_launches *launches)
{
    struct muster_sends pair = muster_sends_of(view, from, to);
    while (muster_sends_next(&pair)) {
        if (!has_times(pair.send) || !has_times(pair.receive))
            continue;
        struct muster_launch *a = &launches->at[place_of(view, launches, pair.send)];
        struct muster_launch *b = &launches->at[place_of(view, launches, pair.receive)];
        if (!far || a->load == b->load) {
            note_shorter(a, far ? b->least_ns : length_of(pair.receive));
            note_shorter(b, far ? a->least_ns : length_of(pair.send));
        }
    }
}

static void note_partners(const struct muster_view *view, uint32_t from, bool far,
                          struct muster_launches *launches)
{
    const struct muster_view_comm *comm = &view->comm[launches->comm];
    const struct muster_view_member *member = &view->member[from];
    int64_t peer = -1;
    for (uint32_t i = member->first_op; i < member->first_op + member->ops; i++) {
        const struct muster_view_op *op = &view->op[i];
        /* Sorted by peer. */
        if (op->func == MUSTER_FUNC_SEND && op->peer != peer && op->peer >= 0 &&
            (uint64_t)op->peer < comm->members) {
            peer = op->peer;
            note_pair(view, from, comm->first_member + (uint32_t)peer, far, launches);
        }
    }
}

/* In a ring each may wait for the next one: who came last, for whom all the others waited, is as
 * far away as half of the ring. There and back again it is passed on to all of them. */
static void note_far_partners(const struct muster_view *view, struct muster_launches *launches)
{
    const struct muster_view_comm *comm = &view->comm[launches->comm];
    for (uint32_t m = 0; m < comm->members; m++)
        note_partners(view, comm->first_member + m, true, launches);
    for (uint32_t m = comm->members; m > 0; m--)
        note_partners(view, comm->first_member + m - 1, true, launches);
}

void muster_launches_of(const struct muster_view *view, uint32_t c, struct muster_arena *memory,
                        struct muster_launches *launches)
{
    const uint32_t sends = 1u << MUSTER_FUNC_SEND | 1u << MUSTER_FUNC_RECV;
    const struct muster_view_comm *comm = &view->comm[c];
    *launches = (struct muster_launches){.comm = c};
    launches->of_member = muster_arena_array(memory, comm->members, sizeof *launches->of_member);
    for (uint32_t m = 0; m < comm->members && !memory->failed; m++) {
        const struct muster_view_member *member = &view->member[comm->first_member + m];
        launches->of_member[m].key_bytes = sizeof(struct span);
        uint32_t ops = member->funcs & sends ? member->ops : 0;
        for (uint32_t i = 0; i < ops && !memory->failed; i++) {
            const struct muster_view_op *op = &view->op[member->first_op + i];
            if (has_times(op))
                add(view, op, memory, launches);
        }
    }
    for (uint32_t m = 0; m < comm->members && launches->n && !memory->failed; m++)
        note_partners(view, comm->first_member + m, false, launches);
    if (launches->n && !memory->failed)
        note_far_partners(view, launches);
}

const struct muster_launch *muster_launch_of(const struct muster_view *view,
                                             const struct muster_launches *launches,
                                             const struct muster_view_op *op)
{
    size_t place = place_of(view, launches, op);
    return place == SIZE_MAX ? NULL : &launches->at[place];
}

void muster_launches_free(const struct muster_view *view, struct muster_launches *launches)
{
    for (uint32_t m = 0; launches->of_member && m < view->comm[launches->comm].members; m++)
        muster_hashmap_free(&launches->of_member[m]);
}
