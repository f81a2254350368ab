#include "diagnose/straggler/job_stamps.h"

enum {
    MENDED_NS = 50000, /* ends of a collective differ by less from rank to rank, on one host */
    REACH = 8,         /* collectives that a common one is looked for among */
};

/* Nobody waits so long in an exchange: these times are of different ones. */
#define MENDED_MOST_NS 10000000000ll

/* Of each unit the collective before and after it on its GPU that all its ranks were seen to leave.
 */
struct meetings {
    uint32_t *before, *after;
};

static bool is_meeting(const struct muster_graph *graph, uint32_t u)
{
    uint32_t t = graph->unit[u].turn;
    return t != MUSTER_NO_UNIT && graph->turn[t].kind == MUSTER_TURN_ALL &&
           muster_turn_is_whole(graph, &graph->turn[t]);
}

static uint32_t met(const struct muster_graph *graph, uint32_t last, uint32_t u)
{
    bool same = last != MUSTER_NO_UNIT && muster_unit_gpu_by_op(graph, &graph->unit[last]) ==
                                              muster_unit_gpu_by_op(graph, &graph->unit[u]);
    return is_meeting(graph, u) ? u : same ? last : MUSTER_NO_UNIT;
}

/* The units of a GPU follow each other, in the order of its calls. False: no memory. */
static bool find_meetings(const struct muster_graph *graph, struct muster_arena *memory,
                          struct meetings *meetings)
{
    meetings->before = muster_arena_array(memory, graph->units + 1, sizeof *meetings->before);
    meetings->after = muster_arena_array(memory, graph->units + 1, sizeof *meetings->after);
    if (memory->failed)
        return false;
    uint32_t last = MUSTER_NO_UNIT;
    for (uint32_t u = 0; u < graph->units; u++)
        last = meetings->before[u] = met(graph, last, u);
    last = MUSTER_NO_UNIT;
    for (uint32_t u = (uint32_t)graph->units; u-- > 0;)
        last = meetings->after[u] = met(graph, last, u);
    return true;
}

/* The next collective of the GPU that is further away than `u`. */
static uint32_t further(const struct muster_graph *graph, const uint32_t *meeting, uint32_t u,
                        int step)
{
    int64_t next = (int64_t)u + step;
    bool inside = next >= 0 && next < (int64_t)graph->units;
    uint32_t found = inside ? meeting[next] : MUSTER_NO_UNIT;
    bool same = found != MUSTER_NO_UNIT && muster_unit_gpu_by_op(graph, &graph->unit[found]) ==
                                               muster_unit_gpu_by_op(graph, &graph->unit[u]);
    return same ? found : MUSTER_NO_UNIT;
}

/* A GPU's collectives on one side of a unit, the nearest first: those that were asked for. */
struct near {
    uint32_t unit[REACH];
    unsigned n;
};

/* The k-th; those before it were asked for. MUSTER_NO_UNIT: there is none. */
static uint32_t nearest(const struct muster_graph *graph, const uint32_t *meeting, int step,
                        uint32_t u, struct near *near, unsigned k)
{
    if (k == near->n)
        near->unit[near->n++] = k ? further(graph, meeting, near->unit[k - 1], step) : meeting[u];
    return near->unit[k];
}

/* The sender's clock less the receiver's, by the nearest collective that both left together. */
static bool clocks_apart(const struct muster_graph *graph, const uint32_t *meeting, int step,
                         const struct muster_tie *tie, int64_t *apart_ns)
{
    struct near near = {.n = 0};
    uint32_t a = meeting[tie->send], b;
    for (unsigned i = 0; i < REACH && a != MUSTER_NO_UNIT; i++) {
        uint32_t turn = graph->unit[a].turn;
        for (unsigned k = 0; k < REACH; k++) {
            b = nearest(graph, meeting, step, tie->recv, &near, k);
            if (b == MUSTER_NO_UNIT)
                break;
            if (graph->unit[b].turn == turn) {
                *apart_ns = (int64_t)(muster_unit_end_ns(graph, &graph->unit[a]) -
                                      muster_unit_end_ns(graph, &graph->unit[b]));
                return true;
            }
        }
        a = further(graph, meeting, a, step);
    }
    return false;
}

/* When the send began, on the receiver's clock: the sooner of what the collective before and the
 * one after say. False: nothing ties the clocks. */
static bool sent_at(const struct muster_graph *graph, const struct meetings *meetings,
                    const struct muster_tie *tie, uint64_t *at_ns)
{
    int64_t before = 0, after = 0,
            begin = (int64_t)muster_unit_begin_ns(graph, &graph->unit[tie->send]);
    bool known_before = clocks_apart(graph, meetings->before, -1, tie, &before);
    bool known_after = clocks_apart(graph, meetings->after, 1, tie, &after);
    int64_t apart = !known_before || (known_after && after > before) ? after : before;
    *at_ns = (uint64_t)(begin - apart);
    return known_before || known_after;
}

static void mend(struct muster_graph *graph, const struct meetings *meetings,
                 const struct muster_tie *tie)
{
    struct muster_unit *recv = &graph->unit[tie->recv];
    uint64_t at_ns;
    bool known = sent_at(graph, meetings, tie, &at_ns);
    int64_t early_ns = (int64_t)(at_ns - muster_unit_end_ns(graph, recv));
    if (!known || early_ns < MENDED_NS || early_ns > MENDED_MOST_NS)
        return;
    int64_t sent = muster_unit_length_ns(graph, &graph->unit[tie->send]);
    int64_t shown = muster_unit_length_ns(graph, recv);
    struct muster_unit_group *own = muster_unit_own_group(graph, recv);
    if (own)
        own->end_ns = at_ns + (uint64_t)(sent < shown ? sent : shown);
}

void muster_graph_mend_ends(struct muster_graph *graph, const struct muster_tie *tie, size_t ties,
                            struct muster_arena *memory)
{
    struct meetings meetings;
    bool known = find_meetings(graph, memory, &meetings);
    for (size_t i = 0; i < ties && known; i++)
        mend(graph, &meetings, &tie[i]);
}
