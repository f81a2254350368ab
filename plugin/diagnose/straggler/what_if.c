#include "diagnose/straggler/what_if.h"

#include <string.h>

#include "diagnose/straggler/what_if_lanes.h"

#define WAITED 1.5 /* times what a host takes by itself from call to call: it waited */
#define LONGER 1.2 /* times what a receive takes where it waits for nobody: it waited */

/* Whether not all is known of what a GPU did between its units. Of one in step it is. */
static bool is_torn(const struct muster_graph *graph, size_t g)
{
    bool torn = false;
    if (!graph->view->gpu[g].in_step)
        for (uint32_t u = graph->first_unit[g]; u < graph->first_unit[g + 1] && !torn; u++)
            torn = is_free(graph, &graph->unit[u]);
    return torn;
}

/* Which communicators have timed operations of all ranks, and of which GPUs some were not. */
static void find_timed(struct muster_what_if *what_if, struct muster_arena *memory)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_view *view = graph->view;
    what_if->timed = muster_arena_array(memory, view->comms + 1, sizeof *what_if->timed);
    what_if->torn = muster_arena_array(memory, view->gpus + 1, sizeof *what_if->torn);
    for (size_t g = 0; g < view->gpus && !memory->failed; g++)
        what_if->torn[g] = is_torn(graph, g);
    for (size_t c = 0; c < view->comms && !memory->failed; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        uint32_t n = 0;
        for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++)
            n += graph->timed[m];
        what_if->timed[c] = n > 0 && n == comm->nranks;
    }
}

/* Whether any begin follows a call. */
static bool any_follows_call(const struct muster_graph *graph)
{
    bool any = false;
    for (size_t p = 0; p < graph->positions && !any; p++)
        any = graph->position[p].edge == MUSTER_EDGE_CALL || graph->position[p].host_runs;
    for (size_t s = 0; s < graph->seats && !any; s++)
        any = graph->seat[s].paced;
    return any;
}

/* Whether any unit follows a begin. */
static bool any_follows_begin(const struct muster_graph *graph)
{
    bool any = false;
    for (size_t p = 0; p < graph->positions && !any; p++)
        any = muster_edge_begins(graph->position[p].edge);
    return any;
}

/* Where all turns are over with their last, and nothing follows a begin, none is asked for once its
 * turn is over. */
static void make_times(struct muster_what_if *what_if, struct muster_arena *memory)
{
    const struct muster_graph *graph = what_if->graph;
    size_t units = graph->units + 1, turns = graph->turns + 1;
    size_t most = graph->view->members + 1; /* a member is in a turn once */
    what_if->unit = muster_arena_array(memory, most, sizeof *what_if->unit);
    what_if->last = muster_arena_array(memory, turns, sizeof *what_if->last);
    if (graph->any_apart || graph->untimed || any_follows_begin(graph))
        what_if->begin = muster_arena_array(memory, units, sizeof *what_if->begin);
    if (any_follows_call(graph))
        what_if->call = muster_arena_array(memory, units, sizeof *what_if->call);
    what_if->keeps = what_if->begin || what_if->call;
    if (what_if->keeps)
        what_if->first = muster_arena_array(memory, turns, sizeof *what_if->first);
}

void muster_what_if_begin(struct muster_what_if *what_if, const struct muster_graph *graph,
                          struct muster_arena *memory)
{
    size_t positions = graph->positions + 1;
    what_if->graph = graph;
    what_if->far_after.memory = &what_if->walk;
    make_times(what_if, memory);
    what_if->waited = muster_arena_array(memory, graph->view->gpus + 1, sizeof *what_if->waited);
    what_if->other = muster_arena_array(memory, positions, sizeof *what_if->other);
    what_if->least_ns = muster_arena_array(memory, positions, sizeof *what_if->least_ns);
    what_if->compared = muster_arena_array(memory, positions, sizeof *what_if->compared);
    what_if->usual = muster_arena_array(memory, graph->seats + 1, sizeof *what_if->usual);
    what_if->hastened = muster_arena_array(memory, graph->seats + 1, sizeof *what_if->hastened);
    find_timed(what_if, memory);
    for (size_t s = 0; s < graph->seats && !memory->failed; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        int64_t *least_ns = &what_if->least_ns[seat->position];
        *least_ns = !*least_ns || seat->least_ns < *least_ns ? seat->least_ns : *least_ns;
    }
}

void muster_what_if_end(struct muster_what_if *what_if, struct muster_arena *memory)
{
    muster_arena_end(&what_if->walk, memory);
}

static inline void come_unit(const struct muster_graph *graph, uint32_t u,
                             struct muster_lanes begin, int64_t slack_ns, struct coming *coming)
{
    if (is_known(begin))
        come(coming, begin, slack_ns, is_free(graph, &graph->unit[u]));
}

/* How much sooner the soonest of a unit's partners begins, or of theirs. */
static struct muster_lanes soonest_partner(const struct muster_what_if *what_if, uint32_t u,
                                           unsigned away)
{
    const struct muster_graph *graph = what_if->graph;
    struct muster_lanes found = not_yet;
    for (uint32_t i = graph->first_partner[u]; i < graph->first_partner[u + 1]; i++) {
        uint32_t partner = muster_partner(graph, i);
        if (!is_free(graph, &graph->unit[partner]))
            found = soonest(found, begin_of(what_if, partner));
        for (uint32_t k = graph->first_partner[partner];
             k < graph->first_partner[partner + 1] && away > 1; k++) {
            found = soonest(found, begin_of(what_if, muster_partner(graph, k)));
        }
    }
    return found;
}

/* What waits for its partners alone is over when all of them have come. Which of them it waited for
 * is not known: the one that is soonest now. Where it waited for none, nobody knows by how much
 * they were sooner; where they waited as long as it did, it was for theirs. */
static struct muster_lanes end_of_partners(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    int64_t length_ns = muster_unit_length_ns(graph, unit), transfer_ns = length_ns;
    int64_t least_ns = (int64_t)graph->turn[unit->turn].transfer_ns;
    for (uint32_t i = graph->first_partner[u]; i < graph->first_partner[u + 1]; i++) {
        uint32_t partner = muster_partner(graph, i);
        transfer_ns =
            muster_ns_least(transfer_ns, muster_unit_length_ns(graph, &graph->unit[partner]));
    }
    bool waited = length_ns - transfer_ns > MUSTER_GAP_NS;
    bool together = !waited && length_ns - least_ns > MUSTER_GAP_NS;
    struct coming coming = {.any = false};
    come_unit(graph, u, begin_of(what_if, u), length_ns - (together ? least_ns : transfer_ns),
              &coming);
    struct muster_lanes last =
        waited || together ? soonest_partner(what_if, u, together ? 2 : 1) : not_yet;
    if (is_known(last))
        come(&coming, last, 0, false);
    else if (waited || together)
        come_unseen(&coming);
    return came(&coming);
}

static inline bool knows_sender(const struct muster_graph *graph, uint32_t u)
{
    return graph->untimed && graph->untimed[u].sender != MUSTER_NO_UNIT;
}

/* What a turn takes whose ranks do not wait. */
static int64_t transfer_of(const struct muster_what_if *what_if, const struct muster_turn *turn)
{
    const struct muster_graph *graph = what_if->graph;
    int64_t transfer_ns = (int64_t)turn->transfer_ns;
    bool whole = muster_turn_is_whole(graph, turn);
    for (uint32_t i = 0; i < turn->units && !whole; i++) {
        uint32_t u = graph->of_turn[turn->first + i];
        const struct muster_seat *seat = &graph->seat[graph->unit[u].seat];
        int64_t least_ns = turn->p2p ? seat->least_ns : what_if->least_ns[seat->position];
        transfer_ns = muster_ns_least(transfer_ns, least_ns);
    }
    return transfer_ns;
}

/* Of a turn with a root, or whose ranks wait for nobody that was seen. */
static struct muster_lanes end_apart(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    const struct muster_turn *turn = &graph->turn[unit->turn];
    uint32_t root = graph->of_turn[turn->first];
    int64_t waited_ns = muster_unit_length_ns(graph, unit) - transfer_of(what_if, turn);
    if (turn->kind == MUSTER_TURN_APART || (turn->kind == MUSTER_TURN_FROM_ROOT && u == root) ||
        (turn->kind == MUSTER_TURN_TO_ROOT && u != root)) {
        bool whole = muster_turn_is_whole(graph, turn) || what_if->timed[turn->comm];
        return plus(begin_of(what_if, u), whole ? 0 : waited_ns);
    }
    struct muster_lanes last =
        turn->kind == MUSTER_TURN_FROM_ROOT ? begin_of(what_if, root) : what_if->last[unit->turn];
    struct muster_lanes own = plus(begin_of(what_if, u), waited_ns);
    return waited_ns > MUSTER_GAP_NS ? sooner(own, last) : own;
}

/* How much sooner a unit is over. */
static inline struct muster_lanes end_of(const struct muster_what_if *what_if, uint32_t u)
{
    uint32_t t = what_if->graph->unit[u].turn;
    const struct muster_turn *turn = &what_if->graph->turn[t];
    struct muster_lanes over = what_if->last[t];
    if (muster_turn_is_together(turn))
        return over;
    if (turn->kind == MUSTER_TURN_PARTNERS)
        return end_of_partners(what_if, u);
    bool last = knows_sender(what_if->graph, u) || !is_known(over);
    return last ? over : end_apart(what_if, u);
}

/* A unit that another one came after. */
struct before {
    uint32_t unit; /* MUSTER_NO_UNIT: none */
    struct muster_lanes over;
    int64_t gap_ns; /* from its end to the other's begin, as it was */
};

static inline struct before before_of(const struct muster_what_if *what_if,
                                      const struct muster_unit *unit, uint32_t before)
{
    const struct muster_graph *graph = what_if->graph;
    struct before own = {before, none, 0}; /* the job begins when it did */
    if (before != MUSTER_NO_UNIT) {
        own.over = end_of(what_if, before);
        own.gap_ns = (int64_t)(muster_unit_begin_ns(graph, unit) -
                               muster_unit_end_ns(graph, &graph->unit[before]));
    }
    return own;
}

/* Where its host had run by itself, and its GPU waited for the call, it is the call before that it
 * follows. */
static inline bool follows_call(const struct muster_graph *graph, const struct muster_unit *unit)
{
    const struct muster_position *position = &graph->position[graph->seat[unit->seat].position];
    return unit->edge == MUSTER_EDGE_CALL ||
           (position->host_runs && muster_unit_knows(graph, unit, MUSTER_EDGE_CALL) &&
            muster_unit_waited_for_call(graph, unit));
}

/* How much sooner its local edge lets the unit begin. */
static inline struct muster_lanes local(const struct muster_what_if *what_if, uint32_t u,
                                        const struct before *own)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    uint32_t from = muster_unit_before(graph, unit, unit->edge);
    if (from == MUSTER_NO_UNIT)
        return own->over;
    if (met_untimed(graph, u))
        return end_of(what_if, graph->untimed[u].before);
    bool known = unit->known >> unit->edge & 1;
    if (what_if->call && known && follows_call(graph, unit))
        return call_of(what_if, muster_unit_before(graph, unit, MUSTER_EDGE_CALL));
    if (known && muster_edge_begins(unit->edge))
        return begin_of(what_if, from);
    return from == own->unit ? own->over : end_of(what_if, from);
}

/* What was ready before its communicator was free: it needs as long as it usually does. */
static struct muster_lanes ready(const struct muster_what_if *what_if,
                                 const struct muster_unit *unit,
                                 const struct muster_position *position)
{
    const struct muster_graph *graph = what_if->graph;
    int64_t since = muster_unit_own(graph, unit, position->edge);
    uint32_t from = muster_unit_before(graph, unit, position->edge);
    return plus(muster_edge_begins(position->edge) ? begin_of(what_if, from)
                                                   : end_of(what_if, from),
                muster_ns_most(since - position->ready_ns, 0));
}

/* Of what a unit needs less, how much its host does. */
static int64_t host_share(const struct muster_graph *graph, const struct muster_unit *unit,
                          int64_t more_ns)
{
    int64_t host_ns = more_ns >= MUSTER_GAP_NS ? muster_unit_host_ns(graph, unit) : MUSTER_NO_OWN;
    bool all = follows_call(graph, unit) || host_ns == MUSTER_NO_OWN;
    return all ? more_ns : muster_ns_least(more_ns, muster_ns_most(host_ns, 0));
}

/* It waited for its GPU, not for its call, and begins as soon as that is free. */
static struct muster_lanes behind_gpu(const struct muster_graph *graph,
                                      const struct muster_unit *unit, const struct before *own,
                                      struct muster_lanes at)
{
    bool waited = unit->edge == MUSTER_EDGE_CALL && own->unit != MUSTER_NO_UNIT &&
                  !muster_unit_waited_for_call(graph, unit);
    return waited ? own->over : at;
}

/* No sooner than it is called. */
static struct muster_lanes once_called(const struct muster_graph *graph,
                                       const struct muster_unit *unit, struct muster_lanes call,
                                       struct muster_lanes at)
{
    bool known = muster_unit_knows_queued(graph, unit);
    return known ? sooner(at, plus(call, muster_unit_queued_ns(graph, unit))) : at;
}

/* A host calls sooner by what it called sooner before, and by what it waited since; `at`: if it had
 * waited. */
static struct muster_lanes paced(const struct muster_what_if *what_if, uint32_t u,
                                 struct muster_lanes at)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    const struct muster_seat *seat = &graph->seat[unit->seat];
    if (!seat->paced || !muster_unit_knows(graph, unit, MUSTER_EDGE_CALL))
        return at;
    int64_t took_ns = muster_unit_own(graph, unit, MUSTER_EDGE_CALL);
    bool waited = (double)took_ns > WAITED * (double)seat->host_ns;
    int64_t waited_ns = waited ? took_ns - seat->host_ns : 0;
    return sooner(at, plus(call_of(what_if, u - 1), waited_ns));
}

/* How much sooner it begins; *call: is called. */
static inline struct muster_lanes begin_unit(const struct muster_what_if *what_if, uint32_t u,
                                             struct muster_lanes *call)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    const struct muster_seat *seat = &graph->seat[unit->seat];
    struct before own = before_of(what_if, unit, unit->own);
    struct muster_lanes at = local(what_if, u, &own), more = none;
    *call = at;
    if (what_if->call) {
        *call = paced(what_if, u, at);
        at = behind_gpu(graph, unit, &own, at);
    }
    unsigned lanes = what_if->hastened[unit->seat];
    bool late = lanes > 0;
    int64_t excess_ns = late ? muster_ns_most(muster_unit_excess_ns(graph, unit), 0) : 0;
    int64_t least_ns = muster_view_is_pair(graph->view) ? INT64_MIN : 0;
    for (unsigned l = 0; l < MUSTER_LANES && late; l++) {
        int64_t ns = excess_ns - muster_ns_most(what_if->other[seat->position].ns[l], 0);
        more.ns[l] = lanes >> l & 1 ? muster_ns_most(ns, least_ns) : 0;
        at.ns[l] += more.ns[l];
        call->ns[l] += host_share(graph, unit, more.ns[l]);
    }
    int64_t waited_ns = unit->last ? muster_unit_waited_ns(graph, unit) : 0;
    if (waited_ns > 0) {
        /* It waited for what ended last: it need not if that ends sooner. */
        struct before last = before_of(what_if, unit, muster_unit_last(graph, unit));
        for (unsigned l = 0; l < MUSTER_LANES; l++)
            at.ns[l] = muster_ns_least(at.ns[l] + waited_ns, last.over.ns[l] + more.ns[l]);
    }
    if (own.unit != MUSTER_NO_UNIT) {
        const struct muster_position *position = &graph->position[seat->position];
        if (unit->edge == MUSTER_EDGE_OWN && unit->edge != position->edge)
            at = sooner(at, ready(what_if, unit, position));
        at = sooner(at, plus(own.over, muster_ns_most(own.gap_ns, 0)));
    }
    /* Else it begins no later after its call than it did. */
    bool later = what_if->call || late || waited_ns > 0;
    return later ? once_called(graph, unit, *call, at) : at;
}

/* Of a receive whose send was not timed, where others know what the sender did before. */
static struct muster_lanes end_of_received(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    struct muster_lanes begin = begin_of(what_if, u);
    struct muster_lanes sent = end_of(what_if, graph->untimed[u].sender);
    int64_t length_ns = muster_unit_length_ns(graph, unit);
    int64_t least_ns = graph->untimed[u].transfer_ns;
    bool waited = (double)length_ns > LONGER * (double)least_ns + MUSTER_GAP_NS;
    return waited && is_known(sent) ? sooner(plus(begin, length_ns - least_ns), sent) : begin;
}

/* Ranks that are never seen, or never timed, come first. */
static void end_turn(struct muster_what_if *what_if, uint32_t t, struct coming *coming)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_turn *turn = &graph->turn[t];
    uint32_t first = graph->of_turn[turn->first];
    if (what_if->timed[turn->comm] && !muster_turn_is_whole(graph, turn))
        come_unseen(coming);
    struct muster_lanes last = came(coming);
    for (uint32_t i = 1; i < turn->units && turn->kind == MUSTER_TURN_TO_ROOT; i++)
        last = soonest(i == 1 ? not_yet : last, what_if->unit[i].begin);
    if (knows_sender(graph, first))
        last = end_of_received(what_if, first);
    what_if->last[t] = is_known(last) ? last : not_yet;
}

/* Whether it is asked for what others take in such a turn. */
static bool is_compared(const struct muster_what_if *what_if, const struct muster_turn *turn)
{
    const struct muster_graph *graph = what_if->graph;
    if (!turn->alike || !turn->units)
        return true; /* its units are at several positions */
    uint32_t seat = graph->unit[graph->of_turn[turn->first]].seat;
    return what_if->compared[graph->seat[seat].position];
}

/* By turns another GPU of those that stay as they are. */
static void note_others(struct muster_what_if *what_if, const struct muster_turn *turn, uint32_t t)
{
    const struct muster_graph *graph = what_if->graph;
    if (!is_compared(what_if, turn))
        return;
    unsigned left = (1u << MUSTER_LANES) - 1;
    uint32_t i = turn->units ? t % turn->units : 0;
    for (uint32_t n = 0; n < turn->units && left; n++, i++) {
        i = i < turn->units ? i : 0;
        const struct muster_unit *unit = &graph->unit[graph->of_turn[turn->first + i]];
        const struct muster_seat *seat = &graph->seat[unit->seat];
        if (!unit->evaluated || seat->culprit)
            continue;
        unsigned stays = left & ~(unsigned)what_if->usual[unit->seat];
        for (unsigned l = 0; l < MUSTER_LANES && stays; l++) {
            int64_t *other_ns = &what_if->other[seat->position].ns[l];
            *other_ns = stays >> l & 1 ? muster_unit_excess_ns(graph, unit) : *other_ns;
        }
        left &= ~stays;
    }
}

/* From the end of a GPU's first unit to that of its last: all begin at about the same time. */
static int64_t ran_ns(const struct muster_graph *graph, size_t g)
{
    uint32_t first = graph->first_unit[g], end = graph->first_unit[g + 1];
    return (int64_t)(muster_unit_end_ns(graph, &graph->unit[end - 1]) -
                     muster_unit_end_ns(graph, &graph->unit[first]));
}

/* For who follows it once its turn is over; of the first of the turn so that is known. */
static void keep_begin(struct muster_what_if *what_if, uint32_t u, bool is_first,
                       struct muster_lanes at, struct muster_lanes call)
{
    struct muster_lanes *first = &what_if->first[what_if->graph->unit[u].turn];
    *first = is_first ? at : *first;
    if (what_if->begin)
        what_if->begin[u] = after(what_if, first, at);
    if (what_if->call)
        what_if->call[u] = after(what_if, first, call);
}

static void begin_turn(struct muster_what_if *what_if, uint32_t t, struct coming *coming)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_turn *turn = &graph->turn[t];
    bool any = false;
    int64_t transfer_ns = transfer_of(what_if, turn);
    for (uint32_t i = 0; i < turn->units; i++) {
        uint32_t u = graph->of_turn[turn->first + i];
        const struct muster_unit *unit = &graph->unit[u];
        int64_t length_ns = muster_unit_length_ns(graph, unit);
        muster_unit_ask_next(graph, unit);
        struct muster_lanes call, at = begin_unit(what_if, u, &call);
        what_if->unit[i] =
            (struct muster_what_if_unit){at, length_ns, muster_unit_gpu(graph, unit)};
        if (what_if->keeps)
            keep_begin(what_if, u, !any && is_known(at), at, call);
        any |= is_known(at);
        come_unit(graph, u, at, length_ns - transfer_ns, coming);
    }
}

/* As if nothing had begun. */
static void start(struct muster_what_if *what_if)
{
    const struct muster_graph *graph = what_if->graph;
    bool failed = what_if->walk.failed;
    muster_arena_free(&what_if->walk);
    what_if->walk.failed = failed;
    what_if->far_after = (struct muster_long_ns){.memory = &what_if->walk};
    for (size_t u = 0; u < graph->units && what_if->begin; u++)
        what_if->begin[u] = after_not_yet;
    for (size_t u = 0; u < graph->units && what_if->call; u++)
        what_if->call[u] = after_not_yet;
    for (size_t t = 0; t < graph->turns; t++)
        what_if->last[t] = not_yet;
    for (size_t t = 0; t < graph->turns && what_if->keeps; t++)
        what_if->first[t] = none;
    memset(what_if->other, 0, graph->positions * sizeof *what_if->other);
    memset(what_if->waited, 0, graph->view->gpus * sizeof *what_if->waited);
}

static void set_usual(struct muster_what_if *what_if, const uint8_t *group, const uint32_t *usual)
{
    const struct muster_graph *graph = what_if->graph;
    memset(what_if->compared, 0, graph->positions * sizeof *what_if->compared);
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        uint8_t own = group[seat->gpu];
        what_if->usual[s] = 0;
        for (unsigned l = 0; l < MUSTER_LANES && own < 32; l++)
            what_if->usual[s] |= (uint8_t)((usual[l] >> own & 1) << l);
        what_if->hastened[s] = seat->log_e > 0 || seat->hidden ? what_if->usual[s] : 0;
        what_if->compared[seat->position] |= what_if->hastened[s] > 0;
    }
}

/* Of the GPU that is sooner by most; not known: of none is it. */
static struct muster_lanes soonest_end(const struct muster_what_if *what_if)
{
    const struct muster_graph *graph = what_if->graph;
    struct muster_lanes most = not_yet;
    for (size_t g = 0; g < graph->view->gpus; g++)
        if (graph->first_unit[g] < graph->first_unit[g + 1])
            most = soonest(most, end_of(what_if, graph->first_unit[g + 1] - 1));
    return most;
}

/* When the last GPU is over. One of which not all was seen waits for the others before it ends. */
static struct muster_lanes end_of_all(const struct muster_what_if *what_if)
{
    const struct muster_graph *graph = what_if->graph;
    struct muster_lanes over = {{INT64_MIN, INT64_MIN}}, most = soonest_end(what_if);
    for (size_t g = 0; g < graph->view->gpus; g++) {
        if (graph->first_unit[g] == graph->first_unit[g + 1])
            continue;
        struct muster_lanes end = end_of(what_if, graph->first_unit[g + 1] - 1);
        end = what_if->torn[g] ? most : end;
        for (unsigned l = 0; l < MUSTER_LANES && is_known(end); l++)
            over.ns[l] = muster_ns_most(over.ns[l], ran_ns(graph, g) - end.ns[l]);
    }
    return over;
}

/* What a unit waits for the others, that waited so long for them. */
static inline void add_waits(int64_t waited_ns, struct muster_lanes begin, struct muster_lanes end,
                             struct muster_lanes *sum)
{
    for (unsigned l = 0; l < MUSTER_LANES && is_known(begin); l++)
        sum->ns[l] += muster_ns_most(waited_ns + begin.ns[l] - end.ns[l], 0);
}

/* Of a turn that is over with the last of its units. */
static void note_waits(struct muster_what_if *what_if, uint32_t t)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_turn *turn = &graph->turn[t];
    struct muster_lanes last = what_if->last[t];
    int64_t transfer_ns = (int64_t)turn->transfer_ns;
    for (uint32_t i = 0; i < turn->units && is_known(last); i++) {
        const struct muster_what_if_unit *unit = &what_if->unit[i];
        add_waits(unit->length_ns - transfer_ns, unit->begin, last, &what_if->waited[unit->gpu]);
    }
}

struct muster_lanes muster_what_if(struct muster_what_if *what_if, const uint8_t *group,
                                   const uint32_t usual[MUSTER_LANES])
{
    const struct muster_graph *graph = what_if->graph;
    start(what_if);
    set_usual(what_if, group, usual);
    for (size_t t = 0; t < graph->ordered; t++) {
        struct coming coming = {.any = false};
        const struct muster_turn *turn = &graph->turn[graph->order[t]];
        begin_turn(what_if, graph->order[t], &coming);
        note_others(what_if, turn, (uint32_t)t);
        end_turn(what_if, graph->order[t], &coming);
        if (muster_turn_is_together(turn))
            note_waits(what_if, graph->order[t]);
    }
    return end_of_all(what_if);
}

/* Of a unit whose turn is not over with the last: others tell only afterwards when it is. */
static void add_apart(const struct muster_what_if *what_if, uint32_t u, struct muster_lanes *sum)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_turn *turn = &graph->turn[graph->unit[u].turn];
    struct muster_lanes end = end_of(what_if, u);
    if (turn->kind != MUSTER_TURN_APART && is_known(end))
        add_waits(muster_unit_length_ns(graph, &graph->unit[u]) - (int64_t)turn->transfer_ns,
                  begin_of(what_if, u), end, sum);
}

void muster_what_if_waits(const struct muster_what_if *what_if, double *of_gpu)
{
    const struct muster_graph *graph = what_if->graph;
    size_t gpus = graph->view->gpus;
    for (size_t g = 0; g < gpus; g++) {
        struct muster_lanes sum = what_if->waited[g];
        uint32_t u = graph->first_unit[g], end = graph->first_unit[g + 1];
        for (; u < end && graph->any_apart; u++)
            if (!muster_turn_is_together(&graph->turn[graph->unit[u].turn]))
                add_apart(what_if, u, &sum);
        for (unsigned l = 0; l < MUSTER_LANES; l++)
            of_gpu[l * gpus + g] = (double)sum.ns[l];
    }
}
