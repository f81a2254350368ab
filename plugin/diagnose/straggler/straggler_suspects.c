#include "diagnose/straggler/straggler_suspects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "diagnose/straggler/e_process.h"
#include "diagnose/straggler/hash_index.h"

#define ALIKE    0.3  /* of the rank that is late most: late alike */
#define LEANS    20.0 /* e-value of a rank that is late with others, of whom some are suspects */
#define DIFFER   0.04 /* of the time: by so much GPUs of a kind and their hosts differ */
#define PARTLY   0.33 /* of its lateness */
#define PARTNERS 2.0  /* times as late as who was waited for, at most: late because of that one */

enum {
    SEVERAL = 2, /* others as late: no rank stands out */
    /* Late in each of these parts of its time, a quarter as often as in all of them at least, is
     * who always is. */
    PARTS = 8,
    QUIET = 4,
};

/* What was compared of a GPU, and how much later than usual it was in all of that. */
struct compared {
    uint32_t turns, seats;
    double excess_ns;
};

static void count_compared(const struct muster_graph *graph, struct compared *compared)
{
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        struct compared *own = &compared[seat->gpu];
        own->turns += seat->turns;
        own->seats += seat->windows > 0;
        own->excess_ns += seat->excess_ns;
    }
}

/* Of each GPU, where it is late most, over all positions with evidence. */
static void collect(const struct muster_graph *graph, struct muster_suspect *of_gpu)
{
    for (size_t g = 0; g < graph->view->gpus; g++)
        of_gpu[g] = (struct muster_suspect){.gpu = (uint32_t)g, .seat = MUSTER_NO_UNIT};
    for (uint32_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        struct muster_suspect *own = &of_gpu[seat->gpu];
        if (!seat->culprit || !seat->late)
            continue;
        bool most =
            own->seat == MUSTER_NO_UNIT || seat->excess_ns > graph->seat[own->seat].excess_ns;
        own->seat = most ? s : own->seat;
        own->excess_ns += seat->excess_ns;
    }
}

/* By the mean of a GPU's e-values, which is one. */
static bool leans(const struct muster_seat *seat, const struct compared *compared)
{
    return seat->log_e >= log(LEANS * compared[seat->gpu].seats);
}

/* The same of those that are no suspects and lean to it. */
static void collect_leaning(const struct muster_graph *graph, const struct compared *compared,
                            struct muster_suspect *of_gpu)
{
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        struct muster_suspect *own = &of_gpu[seat->gpu];
        if (own->seat == MUSTER_NO_UNIT && seat->late && leans(seat, compared))
            own->excess_ns += seat->excess_ns;
    }
}

/* ---- who came late because it had waited for a partner, where that was not timed ---- */

/* One position of a communicator that not all of the job's ranks are in. */
struct inner {
    uint32_t comm, compared, culprits;
    uint32_t seat; /* a culprit's */
};

struct inners {
    struct muster_arena memory;
    struct inner *inner;
    size_t n;
    struct muster_places culprit; /* by position and GPU: its seat, if it is a culprit's */
    uint32_t *lone; /* of each communicator: the seat of the one of its ranks that is late there */
};

static double mean_excess_ns(const struct muster_seat *seat)
{
    return seat->turns ? seat->excess_ns / seat->turns : 0;
}

static uint64_t place_of(uint32_t position, uint32_t other)
{
    return muster_hash_number(muster_hash_number(MUSTER_HASH_SEED, position), other);
}

static bool is_inner(const struct muster_graph *graph, const struct muster_seat *seat)
{
    const struct muster_turn *turn = muster_seat_turn(graph, seat);
    const struct muster_view_comm *comm = &graph->view->comm[turn->comm];
    return seat->windows && !turn->p2p && comm->members == comm->nranks &&
           comm->members < graph->view->gpus;
}

static void find_inners(const struct muster_graph *graph, struct inners *inners)
{
    struct muster_places at = {.memory = &inners->memory};
    inners->culprit.memory = &inners->memory;
    for (uint32_t s = 0; s < graph->seats && !inners->memory.failed; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        if (seat->culprit && seat->late)
            *muster_places_at(&inners->culprit, place_of(seat->position, seat->gpu)) = s + 1;
        if (!is_inner(graph, seat))
            continue;
        uint32_t comm = muster_seat_turn(graph, seat)->comm;
        uint32_t *place = muster_places_at(&at, place_of(seat->position, comm));
        if (!*place) {
            struct inner *inner =
                muster_arena_add(&inners->memory, &inners->inner, &inners->n, sizeof *inner);
            *inner = (struct inner){.comm = comm};
            *place = (uint32_t)inners->n;
        }
        if (inners->memory.failed)
            return;
        struct inner *inner = &inners->inner[*place - 1];
        inner->compared++;
        inner->culprits += seat->culprit;
        inner->seat = seat->culprit ? s : inner->seat;
    }
}

/* By most. */
static void find_lone(const struct muster_graph *graph, struct inners *inners)
{
    const struct muster_view *view = graph->view;
    inners->lone = muster_arena_array(&inners->memory, view->comms + 1, sizeof *inners->lone);
    for (size_t c = 0; c < view->comms && inners->lone; c++)
        inners->lone[c] = MUSTER_NO_UNIT;
    for (size_t i = 0; i < inners->n && inners->lone; i++) {
        const struct inner *inner = &inners->inner[i];
        uint32_t *lone = &inners->lone[inner->comm];
        bool alone = inner->culprits == 1 && inner->compared == view->comm[inner->comm].members;
        if (alone && (*lone == MUSTER_NO_UNIT || mean_excess_ns(&graph->seat[inner->seat]) >
                                                     mean_excess_ns(&graph->seat[*lone])))
            *lone = inner->seat;
    }
}

/* Whether a partner's lateness in their communicator explains that of a seat: they are as late
 * there, and no later than it was. */
static bool is_explained(const struct muster_graph *graph, const struct inners *inners,
                         const struct muster_seat *lone, const struct muster_seat *seat)
{
    uint32_t place = muster_places_find(&inners->culprit, place_of(seat->position, lone->gpu));
    double ns = mean_excess_ns(seat);
    return place && muster_seat_turn(graph, seat)->comm != muster_seat_turn(graph, lone)->comm &&
           mean_excess_ns(&graph->seat[place - 1]) * PARTNERS >= ns &&
           mean_excess_ns(lone) * PARTNERS >= ns;
}

/* Of each GPU the seat of a partner that is late where it is not; MUSTER_NO_UNIT: of none. */
static void find_partners(const struct muster_graph *graph, struct inners *inners,
                          uint32_t *partner)
{
    const struct muster_view *view = graph->view;
    find_inners(graph, inners);
    find_lone(graph, inners);
    for (size_t m = 0; m < view->members && !inners->memory.failed; m++) {
        uint32_t lone = inners->lone[view->member[m].comm], g = view->member[m].gpu;
        if (lone != MUSTER_NO_UNIT && graph->seat[lone].gpu != g)
            partner[g] = lone;
    }
}

/* Those whose lateness that of their partner does not explain have none. */
static void drop_unexplained(const struct muster_graph *graph, const struct compared *compared,
                             const struct inners *inners, uint32_t *partner)
{
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        uint32_t *own = &partner[seat->gpu];
        bool late = seat->late && (seat->culprit || leans(seat, compared));
        if (late && *own != MUSTER_NO_UNIT &&
            !is_explained(graph, inners, &graph->seat[*own], seat))
            *own = MUSTER_NO_UNIT;
    }
}

/* Ranks wait for each other in their communicator. Where one of them is late and that was not
 * timed, all come late to what follows: because of that one, so that they are no suspects. */
static void excuse_partners(const struct muster_graph *graph, const struct compared *compared,
                            struct muster_suspect *of_gpu, uint32_t *because)
{
    size_t gpus = graph->view->gpus;
    struct inners inners = {.n = 0};
    bool any = false;
    for (size_t g = 0; g < gpus; g++) {
        because[g] = MUSTER_NO_UNIT;
        any |= of_gpu[g].seat != MUSTER_NO_UNIT;
    }
    if (!any)
        return;
    uint32_t *partner = muster_arena_array(&inners.memory, gpus + 1, sizeof *partner);
    if (partner) {
        memcpy(partner, because, gpus * sizeof *partner);
        find_partners(graph, &inners, partner);
        if (!inners.memory.failed)
            drop_unexplained(graph, compared, &inners, partner);
        for (size_t g = 0; g < gpus && !inners.memory.failed; g++) {
            if (partner[g] == MUSTER_NO_UNIT || of_gpu[g].excess_ns <= 0)
                continue;
            because[g] = graph->seat[partner[g]].gpu;
            of_gpu[because[g]].seat = partner[g];
            of_gpu[g].seat = MUSTER_NO_UNIT;
            of_gpu[g].excess_ns = 0;
        }
    }
    muster_arena_end(&inners.memory, graph->memory);
}

/* The ranks of one host. */
struct host {
    uint32_t ranks, late, first;
    uint32_t seat; /* of a suspect; MUSTER_NO_UNIT: none is */
    double least_ns, most_ns, sum_ns;
    double least_mean_ns, most_mean_ns; /* of a turn that was compared */
};

static void add_to_hosts(const struct muster_view *view, const struct muster_suspect *of_gpu,
                         const struct compared *compared, const uint32_t *host_of,
                         struct host *host)
{
    for (uint32_t g = 0; g < view->gpus; g++) {
        struct host *own = &host[host_of[g]];
        double ns = of_gpu[g].excess_ns;
        double mean_ns = compared[g].turns ? compared[g].excess_ns / compared[g].turns : 0;
        if (own->ranks++ == 0)
            *own = (struct host){.ranks = 1,
                                 .first = g,
                                 .seat = MUSTER_NO_UNIT,
                                 .least_ns = ns,
                                 .least_mean_ns = mean_ns};
        own->late += ns > 0;
        own->seat = own->seat == MUSTER_NO_UNIT ? of_gpu[g].seat : own->seat;
        own->least_ns = fmin(own->least_ns, ns);
        own->most_ns = fmax(own->most_ns, ns);
        own->least_mean_ns = fmin(own->least_mean_ns, mean_ns);
        own->most_mean_ns = fmax(own->most_mean_ns, mean_ns);
        own->sum_ns += ns;
    }
}

/* By about as much; or, as ranks are not timed alike, of each turn. */
static bool is_late_alike(const struct host *host)
{
    return host->least_ns >= ALIKE * host->most_ns ||
           host->least_mean_ns >= ALIKE * host->most_mean_ns;
}

/* Where all ranks of a host are late alike, and one at least is a suspect, and there are other
 * hosts, the host is. `host`: zeroed, room for as many as GPUs. */
static void join_hosts(const struct muster_view *view, const uint32_t *host_of,
                       const struct compared *compared, struct host *host,
                       struct muster_suspect *of_gpu)
{
    add_to_hosts(view, of_gpu, compared, host_of, host);
    for (uint32_t g = 0; g < view->gpus; g++) {
        const struct host *own = &host[host_of[g]];
        if (own->ranks < 2 || own->late < own->ranks || own->ranks == view->gpus ||
            own->seat == MUSTER_NO_UNIT || !is_late_alike(own)) {
            continue;
        }
        of_gpu[g].host = g == own->first;
        of_gpu[g].seat = of_gpu[g].host ? own->seat : MUSTER_NO_UNIT;
        of_gpu[g].excess_ns = own->sum_ns;
    }
}

static bool is_always_late(const struct muster_graph *graph, uint32_t s)
{
    const struct muster_seat *seat = &graph->seat[s];
    uint32_t late[PARTS] = {0}, all = 0, turn = 0;
    for (uint32_t u = graph->first_unit[seat->gpu]; u < graph->first_unit[seat->gpu + 1]; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (unit->seat != s || !unit->evaluated)
            continue;
        int64_t excess_ns = muster_unit_excess_ns(graph, unit);
        int64_t usual_ns = muster_unit_own_ns(graph, unit) - excess_ns;
        bool is = excess_ns > muster_seat_limit_ns(usual_ns);
        late[(uint64_t)turn++ * PARTS / seat->turns] += is;
        all += is;
    }
    bool always = all > 0;
    for (unsigned p = 0; p < PARTS; p++)
        always &= QUIET * PARTS * late[p] >= all;
    return always;
}

/* Of a suspect: its seats where it is a culprit, and how many others are late alike there. */
struct beside {
    uint32_t *seat; /* of each position, + 1; 0: none */
    uint32_t *alike;
};

/* Others are those of other hosts where there are any: who shares a slow host is late with it. */
static void find_beside(const struct muster_graph *graph, uint32_t gpu, struct beside *beside)
{
    bool hosts = muster_graph_spans_hosts(graph);
    for (size_t s = 0; s < graph->seats; s++)
        if (graph->seat[s].gpu == gpu && graph->seat[s].culprit)
            beside->seat[graph->seat[s].position] = (uint32_t)s + 1;
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        bool other = hosts ? graph->host[seat->gpu] != graph->host[gpu] : seat->gpu != gpu;
        if (!seat->culprit || !other || !beside->seat[seat->position])
            continue;
        const struct muster_seat *own = &graph->seat[beside->seat[seat->position] - 1];
        beside->alike[seat->position] +=
            seat->excess_ns * own->turns >= ALIKE * own->excess_ns * seat->turns;
    }
}

/* Whether it is late by little in all, and a third of that where it always is as one of several: so
 * GPUs of a kind are spread. A culprit that moves is another one at each time. */
static bool is_in_spread(const struct muster_graph *graph, const struct muster_view_span *span,
                         const struct muster_suspect *own)
{
    if (own->host || own->excess_ns >= DIFFER * (double)span[own->gpu].covered_ns)
        return false;
    double all_ns = 0, several_ns = 0;
    struct muster_arena scratch = {0};
    struct beside beside = {
        muster_arena_array(&scratch, graph->positions + 1, sizeof *beside.seat),
        muster_arena_array(&scratch, graph->positions + 1, sizeof *beside.alike)};
    if (!scratch.failed)
        find_beside(graph, own->gpu, &beside);
    for (size_t p = 0; p < graph->positions && !scratch.failed; p++) {
        uint32_t s = beside.seat[p];
        double ns = s ? graph->seat[s - 1].excess_ns : 0;
        all_ns += ns;
        several_ns += beside.alike[p] >= SEVERAL && is_always_late(graph, s - 1) ? ns : 0;
    }
    muster_arena_end(&scratch, graph->memory);
    return several_ns > 0 && several_ns >= PARTLY * all_ns;
}

static int by_excess(const void *left, const void *right)
{
    const struct muster_suspect *a = left, *b = right;
    if (a->excess_ns != b->excess_ns)
        return a->excess_ns > b->excess_ns ? -1 : 1;
    return a->gpu < b->gpu ? -1 : a->gpu > b->gpu;
}

/* The most late first. */
void muster_suspects_choose(const struct muster_graph *graph, const struct muster_view_span *span,
                            struct muster_suspects *suspects)
{
    const struct muster_view *view = graph->view;
    struct muster_arena scratch = {0};
    struct muster_suspect *of_gpu = muster_arena_array(&scratch, view->gpus + 1, sizeof *of_gpu);
    struct host *host = muster_arena_array(&scratch, view->gpus + 1, sizeof *host);
    struct compared *compared = muster_arena_array(&scratch, view->gpus + 1, sizeof *compared);
    if (!scratch.failed) {
        count_compared(graph, compared);
        collect(graph, of_gpu);
        collect_leaning(graph, compared, of_gpu);
        excuse_partners(graph, compared, of_gpu, suspects->because);
        join_hosts(view, graph->host, compared, host, of_gpu);
        if (view->gpus)
            qsort(of_gpu, view->gpus, sizeof *of_gpu, by_excess);
    }
    for (size_t g = 0; g < view->gpus && suspects->n < MUSTER_SUSPECTS && !scratch.failed; g++)
        if (of_gpu[g].seat != MUSTER_NO_UNIT && !is_in_spread(graph, span, &of_gpu[g]))
            suspects->suspect[suspects->n++] = of_gpu[g];
    muster_arena_end(&scratch, graph->memory);
}
