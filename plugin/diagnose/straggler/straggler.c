#include "diagnose/straggler/straggler.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "diagnose/straggler/e_process.h"
#include "diagnose/straggler/late_calls.h"
#include "diagnose/straggler/straggler_describe.h"
#include "diagnose/straggler/straggler_links.h"
#include "diagnose/straggler/straggler_nobody.h"
#include "diagnose/straggler/straggler_suspects.h"
#include "diagnose/straggler/what_if.h"

/* ---- from suspects to culprits: whose lateness cost the job time ---- */

#define WORTH    0.005 /* of the time: less is not worth a finding */
#define PAIR     0.04  /* the same of two ranks: by so much hosts and GPUs differ anyway */
#define ALONE    0.2   /* of that: without anybody else's help */
#define HELPED   2.0 /* times that: who costs nothing by itself, or is as slow as any GPU may be */
#define MUCH     2.0 /* times as much as another rank of its communicator */
#define OFTENER  2.0 /* times as often late as the others there: else the work is uneven */
#define UNEVEN   4.0 /* times the worth: so much uneven work does not cost */
#define ORDINARY 0.015 /* of a GPU's time, all over the step: by so much GPUs of a kind differ */
#define MOSTLY   0.6   /* of the time */
#define PLACES   2.5   /* a step: several */
#define MUTUAL   3.0   /* times as late as the other of two ranks: else each is the other's usual */
enum { NOBODY = 255, SHAPLEY_MOST = 4 };

static int by_gain(const void *left, const void *right)
{
    const struct muster_suspect *a = left, *b = right;
    if (a->gain_ns != b->gain_ns)
        return a->gain_ns > b->gain_ns ? -1 : 1;
    return a->gpu < b->gpu ? -1 : a->gpu > b->gpu;
}

static void set_groups(const struct muster_graph *graph, struct muster_suspects *suspects)
{
    size_t gpus = graph->view->gpus;
    memset(suspects->group, NOBODY, gpus);
    memset(suspects->bound, NOBODY, gpus);
    for (size_t s = 0; s < suspects->n; s++) {
        const struct muster_suspect *own = &suspects->suspect[s];
        for (size_t g = 0; g < gpus; g++)
            if (g == own->gpu || (own->host && graph->host[g] == graph->host[own->gpu]))
                suspects->group[g] = suspects->bound[g] = (uint8_t)s;
            else if (suspects->because[g] == own->gpu)
                suspects->bound[g] = (uint8_t)s;
    }
}

/* Exact for the first few; of others the mean of what they add first and last. */
static void set_gains_of_many(struct muster_what_if *what_if, struct muster_suspects *suspects)
{
    uint32_t all = (1u << suspects->n) - 1;
    struct muster_lanes ends = muster_what_if(what_if, suspects->bound, (const uint32_t[]){0, all});
    for (size_t s = 0; s < suspects->n; s++) {
        struct muster_lanes own =
            muster_what_if(what_if, suspects->bound, (const uint32_t[]){1u << s, all & ~(1u << s)});
        double alone_ns = (double)ends.ns[0] - (double)own.ns[0];
        double last_ns = (double)own.ns[1] - (double)ends.ns[1];
        suspects->suspect[s].gain_ns = (alone_ns + last_ns) / 2;
        suspects->suspect[s].alone_ns = alone_ns;
        suspects->suspect[s].last_ns = last_ns;
    }
}

/* Shapley: the mean of what each adds, over all orders in which they could become as usual. */
static void set_gains(struct muster_what_if *what_if, struct muster_suspects *suspects)
{
    static const double weight[SHAPLEY_MOST + 1][SHAPLEY_MOST] = {
        {0}, {1}, {0.5, 0.5}, {1 / 3.0, 1 / 6.0, 1 / 3.0}, {0.25, 1 / 12.0, 1 / 12.0, 0.25}};
    double over[1 << SHAPLEY_MOST] = {0};
    uint32_t all = (1u << suspects->n) - 1;
    if (suspects->n > SHAPLEY_MOST) {
        set_gains_of_many(what_if, suspects);
        return;
    }
    for (uint32_t set = 0; set <= all; set += MUSTER_LANES) {
        struct muster_lanes ends =
            muster_what_if(what_if, suspects->bound, (const uint32_t[]){set, set + 1});
        over[set] = (double)ends.ns[0];
        over[set + 1] = (double)ends.ns[1];
    }
    for (size_t s = 0; s < suspects->n; s++) {
        suspects->suspect[s].alone_ns = over[0] - over[1u << s];
        suspects->suspect[s].last_ns = over[all & ~(1u << s)] - over[all];
        for (uint32_t set = 0; set <= all; set++) {
            if (!(set >> s & 1)) {
                suspects->suspect[s].gain_ns += weight[suspects->n][__builtin_popcount(set)] *
                                                (over[set] - over[set | 1u << s]);
            }
        }
    }
}

/* Whether it is late much oftener than others are at the same places. Where all of them are late
 * in every third step, as sequences differ in length, one of them is so a little oftener by chance.
 */
static bool is_oftener(const struct muster_graph *graph, uint32_t gpu, struct muster_arena *memory)
{
    bool *at = muster_arena_array(memory, graph->positions + 1, sizeof *at);
    double late[2] = {0}, turns[2] = {0}; /* the others', its own */
    for (size_t s = 0; s < graph->seats && at; s++)
        if (graph->seat[s].gpu == gpu && graph->seat[s].culprit)
            at[graph->seat[s].position] = true;
    for (size_t s = 0; s < graph->seats && at; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        if (at[seat->position] && seat->culprit == (seat->gpu == gpu)) {
            late[seat->gpu == gpu] += seat->late;
            turns[seat->gpu == gpu] += seat->turns;
        }
    }
    return !at || late[1] * turns[0] >= OFTENER * late[0] * turns[1];
}

/* Among ranks that send to each other who waited for another is told less well from who is late:
 * one must have cost something by itself, or twice as much beside the others. So must who is as
 * slow as any GPU may be. */
static void keep_worthy(const struct muster_graph *graph, const struct muster_view_span *span,
                        struct muster_suspects *suspects)
{
    struct muster_arena scratch = {0};
    bool sends = graph->first_partner != NULL;
    double worth = suspects->worth;
    size_t kept = 0;
    for (size_t s = 0; s < suspects->n; s++) {
        struct muster_suspect *own = &suspects->suspect[s];
        double covered = (double)span[own->gpu].covered_ns;
        own->share = covered > 0 ? own->gain_ns / covered : 0;
        bool sure =
            !sends || own->alone_ns >= ALONE * worth * covered || own->share >= HELPED * worth;
        sure = sure && (!own->ordinary || own->share >= HELPED * worth);
        sure = sure && (!sends || own->host || own->share >= UNEVEN * worth ||
                        is_oftener(graph, own->gpu, &scratch));
        if (own->share >= worth && own->last_ns >= worth * covered && sure)
            suspects->suspect[kept++] = *own;
    }
    suspects->n = kept;
    muster_arena_end(&scratch, graph->memory);
}

/* The suspects of one communicator, if all of its ranks are. */
struct uneven {
    uint8_t suspect[MUSTER_SUSPECTS];
    size_t n;
    double least_ns, most_ns; /* gains */
};

static bool are_all_suspects(const struct muster_view *view, const struct muster_view_comm *comm,
                             const struct muster_suspects *suspects, struct uneven *all)
{
    bool is = comm->members == comm->nranks && comm->members > 1;
    *all = (struct uneven){.least_ns = INFINITY};
    for (uint32_t m = 0; m < comm->members && is; m++) {
        uint8_t s = suspects->group[view->member[comm->first_member + m].gpu];
        is = s < suspects->n && !suspects->suspect[s].host && all->n < MUSTER_SUSPECTS;
        if (is) {
            all->least_ns = fmin(all->least_ns, suspects->suspect[s].gain_ns);
            all->most_ns = fmax(all->most_ns, suspects->suspect[s].gain_ns);
            all->suspect[all->n++] = s;
        }
    }
    return is;
}

/* When suspects are late: each is looked up once, whatever communicators it is in. */
struct whens {
    struct muster_when of[MUSTER_SUSPECTS];
    bool known[MUSTER_SUSPECTS];
};

static bool is_moving(const struct muster_graph *graph, const struct muster_suspects *suspects,
                      const struct uneven *all, struct whens *whens)
{
    struct muster_when when[MUSTER_SUSPECTS];
    for (size_t i = 0; i < all->n; i++) {
        uint8_t s = all->suspect[i];
        if (!whens->known[s])
            muster_when_of(graph, suspects, s, &whens->of[s]);
        whens->known[s] = true;
        when[i] = whens->of[s];
    }
    return muster_when_moves(when, all->n);
}

/* Where all ranks of a communicator are suspects, each is late at other places than the others are:
 * their work is uneven. Only who costs much more than another of them is named. Those that are late
 * one after the other are a culprit that moves. */
static void drop_uneven(const struct muster_graph *graph, struct muster_suspects *suspects)
{
    const struct muster_view *view = graph->view;
    bool dropped[MUSTER_SUSPECTS] = {false};
    struct whens whens = {.known = {false}};
    struct uneven all;
    for (size_t c = 0; c < view->comms; c++) {
        if (!are_all_suspects(view, &view->comm[c], suspects, &all) ||
            is_moving(graph, suspects, &all, &whens)) {
            continue;
        }
        for (size_t i = 0; i < all.n; i++) {
            double gain_ns = suspects->suspect[all.suspect[i]].gain_ns;
            dropped[all.suspect[i]] |=
                gain_ns < MUCH * all.least_ns || gain_ns * MUCH < all.most_ns;
        }
    }
    size_t kept = 0;
    for (size_t s = 0; s < suspects->n; s++)
        if (!dropped[s])
            suspects->suspect[kept++] = suspects->suspect[s];
    suspects->n = kept;
}

/* How late a suspect is in a turn where there is evidence of it, and the others there. */
struct beside {
    double excess_ns[2], turns[2]; /* the others', its own */
};

static struct beside beside_of(const struct muster_graph *graph, const bool *at, uint32_t gpu)
{
    struct beside beside = {{0}, {0}};
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        beside.excess_ns[seat->gpu == gpu] += at[seat->position] ? seat->excess_ns : 0;
        beside.turns[seat->gpu == gpu] += at[seat->position] ? seat->turns : 0;
    }
    return beside;
}

/* Of two ranks each of which is late about as much as the other none is to blame: each is the
 * other's usual. Stages do different things, and are no such two. */
static void drop_mutual(const struct muster_graph *graph, struct muster_suspects *suspects)
{
    struct muster_arena scratch = {0};
    bool *at = muster_arena_array(&scratch, graph->positions + 1, sizeof *at);
    size_t kept = 0;
    for (size_t i = 0; i < suspects->n && !scratch.failed; i++) {
        const struct muster_suspect own = suspects->suspect[i];
        memset(at, 0, graph->positions * sizeof *at);
        for (size_t s = 0; s < graph->seats; s++) {
            const struct muster_seat *seat = &graph->seat[s];
            at[seat->position] |= seat->gpu == own.gpu && seat->culprit && !seat->stage;
        }
        struct beside beside = beside_of(graph, at, own.gpu);
        bool mutual = beside.turns[0] > 0 && beside.excess_ns[1] * beside.turns[0] <
                                                 MUTUAL * beside.excess_ns[0] * beside.turns[1];
        if (!mutual)
            suspects->suspect[kept++] = own;
    }
    suspects->n = kept;
    muster_arena_end(&scratch, graph->memory);
}

/* How often what a GPU does is met, by what is met once a step: the median. */
static double steps_of(const struct muster_graph *graph, uint32_t gpu, struct muster_arena *memory)
{
    uint64_t *turns = muster_arena_array(memory, graph->seats + 1, sizeof *turns);
    size_t n = 0;
    for (size_t s = 0; s < graph->seats && turns; s++)
        if (graph->seat[s].gpu == gpu && graph->seat[s].turns)
            turns[n++] = graph->seat[s].turns;
    return n ? (double)muster_upper_median_u64(turns, n) : 1;
}

/* Whether it is as slow as any GPU may be: late at several places of the step, most of the time,
 * and by little in all. */
static bool is_ordinary(const struct muster_graph *graph, const struct muster_view_span *span,
                        const struct muster_suspect *own, struct muster_arena *memory)
{
    double windows = 0, hits = 0, turns = 0;
    if (own->host || own->excess_ns >= ORDINARY * (double)span[own->gpu].covered_ns)
        return false;
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        if (seat->gpu == own->gpu && seat->culprit) {
            windows += seat->windows;
            hits += seat->hits;
            turns += seat->turns;
        }
    }
    return hits >= MOSTLY * windows && turns >= PLACES * steps_of(graph, own->gpu, memory);
}

/* Beside one that is later than any GPU is by design, those that are not are no suspects: what they
 * cost shows only once that one is as usual. */
static void drop_ordinary(const struct muster_graph *graph, const struct muster_view_span *span,
                          struct muster_suspects *suspects)
{
    struct muster_suspect kept[MUSTER_SUSPECTS] = {{0}};
    struct muster_arena scratch = {0};
    size_t n = 0;
    for (size_t s = 0; s < suspects->n; s++) {
        struct muster_suspect *own = &suspects->suspect[s];
        own->ordinary = is_ordinary(graph, span, own, &scratch);
        if (!own->ordinary)
            kept[n++] = *own;
    }
    suspects->n = n ? n : suspects->n;
    memcpy(suspects->suspect, kept, n * sizeof *kept);
    muster_arena_end(&scratch, graph->memory);
}

/* What each GPU waits less if the suspect is as usual. `played`: the last walk was of nobody, and
 * of the one suspect that there is. */
static void set_waits(struct muster_what_if *what_if, bool played, struct muster_suspects *suspects)
{
    size_t gpus = what_if->graph->view->gpus, questions = suspects->n + 1;
    struct muster_arena *memory = what_if->graph->memory;
    /* If nobody is, and then of each suspect. */
    double *waits =
        muster_arena_array(memory, (questions + MUSTER_LANES) * gpus + 1, sizeof *waits);
    if (memory->failed)
        return;
    for (size_t q = 0; q < questions; q += MUSTER_LANES) {
        const uint32_t usual[MUSTER_LANES] = {q == 0 ? 0 : 1u << (q - 1), 1u << q};
        if (q > 0 || !played)
            muster_what_if(what_if, suspects->bound, usual);
        muster_what_if_waits(what_if, &waits[q * gpus]);
    }
    suspects->waits = &waits[gpus];
    for (size_t s = 0; s < suspects->n; s++)
        for (size_t g = 0; g < gpus; g++)
            suspects->waits[s * gpus + g] = waits[g] - suspects->waits[s * gpus + g];
}

/* ---- what a suspect cost the whole run, what was not timed included ----
 *
 * What was timed stands for what was not, half of the way to what was timed before and after, as
 * more is timed at some times than at others. By operations: by these blocks are drawn, and while
 * the rank is late fewer pass in a second. Of few blocks that may come to more than the run, which
 * is the most that it is.
 */

/* Numbers of a stream that stand together in what is said of the whole run. */
enum { BLOCK = 64 };

/* Operations of one stream whose numbers follow each other: what was timed of them. */
struct block {
    uint64_t first, last; /* numbers */
    uint32_t ops;
    uint32_t units, compared; /* where the rank is late, and of these those that would show it */
    double excess_ns;
};

/* What is known of the run, stream by stream: a communicator's collectives, or what goes to a peer,
 * or comes from it. */
struct in_run {
    const struct muster_graph *graph;
    const struct muster_keyed *late; /* by operation: a GPU's units where it is late */
    size_t lates, at;
    double timed_ns, run_ns;
    uint64_t from; /* numbers of the stream that nothing stands for yet */
    struct block before, own;
};

/* Those without numbers stand for themselves. */
static void stand_for(struct in_run *run, uint64_t to)
{
    const struct block *block = &run->before;
    if (!block->ops)
        return;
    uint64_t numbers = to - run->from > block->ops ? to - run->from : block->ops;
    double seen = block->compared ? (double)block->units / block->compared : 1;
    run->run_ns += block->excess_ns * seen * (double)numbers / block->ops;
    run->from = to;
}

/* A block that tells nothing of the rank leaves its numbers to its neighbours. */
static void end_block(struct in_run *run)
{
    const struct block *own = &run->own;
    if (own->ops && (own->compared || !own->units)) {
        stand_for(run, run->before.last + (own->first - run->before.last + 1) / 2);
        run->before = *own;
    }
    run->own = (struct block){0};
}

/* Whether it would have shown if it was late: it did, what it followed and others of its turn were
 * timed, or it was ready before its communicator was. */
static bool is_compared(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    const struct muster_position *position = &graph->position[graph->seat[unit->seat].position];
    bool beside = graph->turn[unit->turn].units > 1 ||
                  (graph->first_partner && graph->first_partner[u] < graph->first_partner[u + 1]);
    bool ready = unit->edge == MUSTER_EDGE_OWN && unit->edge != position->edge;
    return unit->evaluated || ready || (beside && muster_unit_own_ns(graph, unit) != MUSTER_NO_OWN);
}

static void add_op(struct in_run *run, uint32_t op)
{
    const struct muster_graph *graph = run->graph;
    const struct muster_view_op *own = &graph->view->op[op];
    struct block *block = &run->own;
    if (!muster_source_is_gpu(own->source))
        return;
    if (block->ops && block->first / BLOCK != own->number / BLOCK)
        end_block(run);
    block->first = block->ops++ ? block->first : own->number;
    block->last = own->number;
    if (run->at == run->lates || run->late[run->at].key != op)
        return;
    uint32_t u = run->late[run->at++].value;
    const struct muster_unit *unit = &graph->unit[u];
    int64_t excess_ns = unit->evaluated ? muster_unit_excess_ns(graph, unit) : 0;
    block->units++;
    block->compared += is_compared(graph, u);
    block->excess_ns += excess_ns > 0 ? (double)excess_ns : 0;
    run->timed_ns += excess_ns > 0 ? (double)excess_ns : 0;
}

static void add_member(struct in_run *run, const struct muster_view_member *member)
{
    const struct muster_view_op *op = run->graph->view->op;
    uint32_t i = member->first_op, end = i + member->ops;
    run->at = 0; /* members stand in no order of their operations */
    while (run->at < run->lates && run->late[run->at].key < i)
        run->at++;
    while (i < end) {
        uint32_t first = i;
        run->from = op[first].number;
        run->before = (struct block){0};
        for (; i < end && muster_view_same_stream(&op[first], &op[i]); i++)
            add_op(run, i);
        end_block(run);
        stand_for(run, op[i - 1].number + 1);
    }
}

static void add_gpu(struct in_run *run, uint32_t gpu, struct muster_arena *memory)
{
    const struct muster_graph *graph = run->graph;
    uint32_t first = graph->first_unit[gpu], end = graph->first_unit[gpu + 1];
    struct muster_keyed *late = muster_arena_array(memory, end - first + 1, sizeof *late);
    struct muster_keyed *room = muster_arena_array(memory, end - first + 1, sizeof *room);
    run->at = run->lates = 0;
    for (uint32_t u = first; u < end && !memory->failed; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (graph->seat[unit->seat].culprit)
            late[run->lates++] =
                (struct muster_keyed){.key = muster_unit_op(graph, unit), .value = u};
    }
    run->late = memory->failed ? late : muster_sort_keyed(late, room, run->lates);
    for (size_t m = 0; m < graph->view->members && !memory->failed; m++)
        if (graph->view->member[m].gpu == gpu)
            add_member(run, &graph->view->member[m]);
}

/* Sets run_ns of suspect s, whose gain is known, as is the group of each GPU. */
static void set_run_cost(const struct muster_graph *graph, const struct muster_view_span *span,
                         struct muster_suspects *suspects, size_t s)
{
    struct muster_suspect *own = &suspects->suspect[s];
    struct in_run run = {.graph = graph};
    struct muster_arena scratch = {0};
    for (uint32_t g = 0; g < graph->view->gpus; g++)
        if (suspects->group[g] == s)
            add_gpu(&run, g, &scratch);
    double run_ns = own->gain_ns * (run.timed_ns > 0 ? run.run_ns / run.timed_ns : 1);
    double most_ns = (double)span[own->gpu].run_ns;
    own->run_ns = run_ns < most_ns ? run_ns : most_ns;
    muster_arena_end(&scratch, graph->memory);
}

static void look_for(const struct muster_graph *graph, const struct muster_view_span *span,
                     struct muster_what_if *what_if, struct muster_suspects *suspects)
{
    muster_suspects_choose(graph, span, suspects);
    if (muster_view_is_pair(graph->view))
        drop_mutual(graph, suspects);
    drop_ordinary(graph, span, suspects);
    bool alone = suspects->n == 1;
    if (suspects->n) {
        set_groups(graph, suspects);
        set_gains(what_if, suspects);
        drop_uneven(graph, suspects);
        keep_worthy(graph, span, suspects);
        qsort(suspects->suspect, suspects->n, sizeof *suspects->suspect, by_gain);
    }
    set_groups(graph, suspects);
    for (size_t s = 0; s < suspects->n; s++)
        set_run_cost(graph, span, suspects, s);
    if (suspects->n)
        set_waits(what_if, alone, suspects);
}

/* Those that are worth naming, by their gain; in the graph's memory. */
static void find_suspects(const struct muster_graph *graph, const struct muster_view_span *span,
                          struct muster_suspects *suspects)
{
    size_t gpus = graph->view->gpus;
    struct muster_arena scratch = {0};
    struct muster_what_if what_if = {0};
    suspects->n = 0;
    suspects->group = muster_arena_array(graph->memory, gpus + 1, sizeof *suspects->group);
    suspects->bound = muster_arena_array(graph->memory, gpus + 1, sizeof *suspects->bound);
    suspects->because = muster_arena_array(graph->memory, gpus + 1, sizeof *suspects->because);
    muster_what_if_begin(&what_if, graph, &scratch);
    if (!scratch.failed && !graph->memory->failed)
        look_for(graph, span, &what_if, suspects);
    muster_what_if_end(&what_if, &scratch);
    muster_arena_end(&scratch, graph->memory);
}

/* ---- all of it ---- */

static void put_duplicates(const struct muster_view *view, struct muster_finding_lines *to)
{
    for (size_t c = 0; c < view->comms; c++) {
        if (view->comm[c].id && view->comm[c].duplicate_rank) {
            muster_finding_line(to,
                                "communicator %016" PRIx64 ": a rank was recorded twice, its ranks "
                                "are not compared",
                                view->comm[c].id);
        }
    }
}

int muster_straggler_find(const struct muster_view *view, struct muster_findings *findings,
                          struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct muster_graph graph;
    struct muster_suspects suspects = {.worth = muster_view_is_pair(view) ? PAIR : WORTH};
    struct muster_view_span *span = muster_view_spans(view, &memory);
    muster_graph_make(&graph, view, &memory);
    if (!memory.failed) {
        muster_graph_add_bridged(&graph, span);
        muster_seats_evaluate(&graph);
        muster_graph_hidden(&graph);
    }
    if (!memory.failed)
        find_suspects(&graph, span, &suspects);
    if (!memory.failed)
        muster_straggler_describe(&graph, &suspects, span, findings);
    if (!memory.failed)
        muster_straggler_links(&graph, &suspects, span, findings);
    /* Who waits for a late rank calls late, too. */
    if (!memory.failed && !suspects.n)
        muster_late_calls_find(view, &memory, findings);
    if (!memory.failed && !suspects.n)
        muster_straggler_alike(&graph, span, findings);
    if (!memory.failed && !suspects.n)
        muster_straggler_uneven(&graph, span, findings);
    if (!memory.failed) {
        put_duplicates(view, &findings->not_observable);
        muster_straggler_describe_clean(&graph, &suspects, span, findings);
    }
    int result = muster_arena_check(&memory, err, "looking for late ranks");
    muster_arena_free(&memory);
    return result;
}
