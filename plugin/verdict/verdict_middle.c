#include "verdict/verdict_middle.h"

#include <inttypes.h>
#include <stdio.h>

/* Collectives that a member called and that are known one by one. */
static uint64_t calls_of(const struct muster_view *view, const struct muster_view_member *member)
{
    uint64_t n = 0;
    for (uint32_t i = member->first_op; i < member->first_op + member->ops; i++)
        n += !muster_func_is_p2p(view->op[i].func) && !(view->op[i].flags & MUSTER_OP_GRAPH);
    return n;
}

struct short_fall {
    const struct muster_view_comm *comm;
    const struct muster_view_gpu *least_gpu; /* whose rank called least; of several one that died */
    uint64_t least, most;
    bool least_died;
    int32_t died[MUSTER_VERDICT_RANKS_SHOWN]; /* global ranks that were killed or crashed */
    size_t deaths;
};

static void add_member(struct short_fall *found, const struct muster_view_gpu *gpu, uint64_t calls,
                       bool died)
{
    if (died && found->deaths < MUSTER_VERDICT_RANKS_SHOWN)
        found->died[found->deaths] = gpu->rank;
    found->deaths += died;
    found->most = calls > found->most ? calls : found->most;
    if (calls < found->least || (calls == found->least && died && !found->least_died)) {
        found->least = calls;
        found->least_gpu = gpu;
        found->least_died = died;
    }
}

static bool calls_differ(const struct muster_view *view, const struct muster_view_comm *comm,
                         struct short_fall *found)
{
    *found = (struct short_fall){.comm = comm, .least = UINT64_MAX};
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_view_member *member = &view->member[comm->first_member + i];
        const struct muster_view_gpu *gpu = &view->gpu[member->gpu];
        enum muster_process_state state = view->run->process[gpu->process].state;
        if (gpu->missing || state == MUSTER_PROCESS_RUNNING)
            return false;
        add_member(found, gpu, calls_of(view, member), state == MUSTER_PROCESS_KILLED);
    }
    return found->least < found->most;
}

static bool find(const struct muster_view *view, struct short_fall *found)
{
    for (size_t c = 0; c < view->comms && view->run; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        if (comm->id && !comm->duplicate_rank && comm->members >= 2 &&
            comm->members == comm->nranks && calls_differ(view, comm, found)) {
            return true;
        }
    }
    return false;
}

static void put_calls(struct muster_verdict_writer *writer, const struct short_fall *found)
{
    muster_verdict_put(writer,
                       "This job ended, or hung, in the middle: rank %" PRId32 " made %" PRIu64
                       " of the %" PRIu64 " calls that others made in communicator %016" PRIx64 ".",
                       found->least_gpu->rank, found->least, found->most, found->comm->id);
    muster_verdict_put(
        writer, "Ended in the middle: rank %" PRId32 " made %" PRIu64 " calls, others %" PRIu64 ".",
        found->least_gpu->rank, found->least, found->most);
    muster_verdict_end_line(writer);
}

static void put_calls_next(struct muster_verdict_writer *writer, const struct short_fall *found)
{
    muster_verdict_put(
        writer, "Next: if it hung, run `muster diagnose --live` while it hangs (of a recording: "
                "`muster replay --hold 20`); that tells why.");
    muster_verdict_put(writer,
                       "Next: read the end of rank %" PRId32 "'s own output; if it hangs again, "
                       "`muster diagnose --live` tells why.",
                       found->least_gpu->rank);
    muster_verdict_put(writer, "Next: `muster diagnose --live` while it hangs.");
    muster_verdict_end_line(writer);
}

static void put_one_death(struct muster_verdict_writer *writer, const struct short_fall *found)
{
    const struct muster_view_gpu *gpu = found->least_gpu;
    muster_verdict_put(writer,
                       "Rank %" PRId32 " (%s) was killed or crashed, and the job ended: it made "
                       "%" PRIu64 " of the %" PRIu64
                       " calls that others made in communicator %016" PRIx64 ".",
                       gpu->rank, gpu->host, found->least, found->most, found->comm->id);
    muster_verdict_put(writer,
                       "Rank %" PRId32 " (%s) was killed or crashed after %" PRIu64
                       " calls; others made %" PRIu64 ".",
                       gpu->rank, gpu->host, found->least, found->most);
    muster_verdict_put(writer, "Rank %" PRId32 " was killed or crashed.", gpu->rank);
    muster_verdict_end_line(writer);
}

static void put_deaths(struct muster_verdict_writer *writer, const struct short_fall *found)
{
    char ranks[64];
    muster_verdict_put_ranks(ranks, sizeof ranks, "R", found->died, found->deaths);
    muster_verdict_put(writer,
                       "%s were killed or crashed, and the job ended: rank %" PRId32
                       " (%s) made %" PRIu64 " of the %" PRIu64
                       " calls that others made in communicator %016" PRIx64 ".",
                       ranks, found->least_gpu->rank, found->least_gpu->host, found->least,
                       found->most, found->comm->id);
    muster_verdict_put(writer, "%s were killed or crashed.", ranks);
    muster_verdict_end_line(writer);
}

static void put_death_next(struct muster_verdict_writer *writer, const struct short_fall *found)
{
    muster_verdict_put(writer,
                       "Next: give what the job printed to `muster doctor --log FILE`, and look "
                       "on %s into `dmesg` for the out-of-memory killer and GPU errors (Xid).",
                       found->least_gpu->host);
    muster_verdict_put(writer, "Next: `muster doctor --log FILE` of its output; `dmesg` on %s.",
                       found->least_gpu->host);
    muster_verdict_put(writer, "Next: `muster doctor --log FILE`.");
    muster_verdict_end_line(writer);
}

bool muster_verdict_write_middle(struct muster_verdict_writer *writer,
                                 const struct muster_view *view, bool clean)
{
    struct short_fall found;
    if (!find(view, &found))
        return false;
    /* Launchers kill all that is left once one has failed: where all died nobody was first. */
    bool death = found.least_died && found.deaths < found.comm->members;
    if (death && found.deaths == 1)
        put_one_death(writer, &found);
    else if (death)
        put_deaths(writer, &found);
    else
        put_calls(writer, &found);
    if (clean) {
        muster_verdict_put(writer, "Before that nobody held it back.");
        muster_verdict_end_line(writer);
    }
    if (death)
        put_death_next(writer, &found);
    else
        put_calls_next(writer, &found);
    return true;
}
