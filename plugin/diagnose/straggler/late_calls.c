#include "diagnose/straggler/late_calls.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/sort.h"
#include "diagnose/straggler/e_process.h"
#include "diagnose/straggler/hash_index.h"
#include "diagnose/straggler/late_calls_describe.h"
#include "view/aligned.h"

#define WAITS 0.8  /* of the changes if hosts had gone on by themselves: they waited in between */
#define WORTH 0.01 /* of the time: it rests on less than what GPU times show */
/* Times as often as its GPU's rarest place that is no exception, at most: once a step */
#define RARELY    1.25
#define EXCEPTION 0.01 /* of a GPU's calls */
#define OFTEN     0.25 /* of the place where hosts wait most often: another one, of the same step */
#define MUCH      3.0  /* times as late as the next one of its host: hosts differ by nature */
enum {
    FLOOR_NS = 16000,   /* as of other late ranks */
    GRAIN_NS = 4000,    /* changes below are nothing */
    RANKS_LEAST = 3,    /* of a host: of two nobody knows what is usual */
    CHANGES_LEAST = 20, /* of lags, to tell whether hosts wait */
    ROUNDS_LEAST = 20,  /* from wait to wait */
    AHEAD = 4,          /* calls that tell a place of the step */
};

/* Whether hosts wait between a collective and the next call. Where they go on by themselves a lag
 * stays, so that what comes after changes from turn to turn as what was before; where they wait
 * nothing of it is left. Sums of logs, so that one long pause counts for little. */
struct place {
    uint64_t label;
    uint32_t comm;
    double stays, fresh; /* what the lag after changed beyond the one before; at all */
    uint32_t changes;
    uint32_t turns; /* of the rank that was there most often */
};

/* Of a rank at a place: its lags, the last time, and how often it was there. */
struct last {
    int64_t ended, began;
    uint32_t turns;
};

/* Of a communicator. */
struct wait {
    size_t place;
    uint32_t places;
    uint32_t most; /* changes there */
};

/* Members of a communicator on one host. */
struct group {
    uint32_t *member;
    uint32_t n;
    bool holds; /* has waited before */
};

struct groups {
    struct group *at;
    uint32_t *member;                   /* of all of them */
    struct muster_keyed *keyed, *spare; /* scratch */
};

/* A collective that a group's ranks called, and what each called next: how much later than the
 * usual one of them, both times. */
struct moment {
    uint64_t label;
    int64_t *ended, *began;
    const struct muster_view_op *const *op; /* of each of the group */
};

struct search {
    const struct muster_view *view;
    struct muster_arena *memory;
    uint32_t *next; /* of each operation its GPU's next call; MUSTER_VIEW_NONE: none */
    struct muster_places places, seats;
    struct place *place;
    size_t n_places;
    struct wait *wait; /* of each communicator */
    struct last *last; /* of each place and member */
    size_t n_last;
    struct muster_late_caller *caller; /* of each member of the view */
    int64_t *held;                     /* of each member: how late it went on after the last wait */
    /* Of one group; scratch. */
    const struct muster_view_op **op;
    int64_t *ended, *began, *sorted;
    double *run_ns;   /* of each GPU, from its first call to its last */
    uint32_t *rarest; /* how often it was at the place of a step where it was most rarely */
};

typedef void look(struct search *search, struct group *group, const struct moment *moment);

/* ---- the calls of each GPU in their order ---- */

static bool is_blind(const struct muster_view_gpu *gpu)
{
    return gpu->ordered == 0 && gpu->host_times;
}

static bool is_call(const struct muster_view *view, const struct muster_view_op *op)
{
    return op->enqueue_ns > 0 && !(op->flags & MUSTER_OP_GRAPH) &&
           !muster_view_to_itself(view, op) && is_blind(&view->gpu[view->member[op->member].gpu]);
}

static uint64_t kind_of(const struct muster_view *view, const struct muster_view_op *op)
{
    uint64_t nranks = view->comm[view->member[op->member].comm].nranks;
    return nranks << 16 | (uint64_t)op->func << 8 | view->class[op->class].size_log2;
}

/* Of the calls from this one on. 0: there are not as many. */
static uint64_t label_of(const struct search *search, const struct muster_view_op *op)
{
    const struct muster_view *view = search->view;
    uint64_t label = muster_hash_number(view->member[op->member].comm + 1ull, 0);
    uint32_t o = (uint32_t)(op - view->op);
    for (unsigned i = 0; i < AHEAD; i++) {
        if (o == MUSTER_VIEW_NONE)
            return 0;
        label = muster_hash_number(label, kind_of(view, &view->op[o]));
        o = search->next[o];
    }
    return label;
}

/* Once a step, or a little less. */
static uint32_t rarest_of(const struct search *search, const struct muster_keyed *call, size_t n)
{
    struct muster_arena scratch = {0};
    struct muster_places places = {.memory = &scratch};
    uint32_t *count = muster_arena_array(&scratch, n + 1, sizeof *count), rarest = 0, used = 0;
    for (size_t i = 0; i < n && count && !scratch.failed; i++) {
        uint64_t label = label_of(search, &search->view->op[call[i].value]);
        uint32_t *at = muster_places_at(&places, label);
        *at = *at ? *at : ++used;
        count[*at - 1]++;
    }
    for (uint32_t k = 0; k < used; k++) {
        bool exception = count[k] < EXCEPTION * (double)n;
        rarest = !exception && (!rarest || count[k] < rarest) ? count[k] : rarest;
    }
    muster_arena_end(&scratch, search->memory);
    return rarest;
}

static void link_calls(struct search *search, size_t gpu, const uint32_t *member, size_t members,
                       struct muster_keyed *keyed, struct muster_keyed *spare)
{
    const struct muster_view *view = search->view;
    size_t n = 0;
    for (size_t m = 0; m < members; m++) {
        const struct muster_view_member *own = &view->member[member[m]];
        for (uint32_t o = own->first_op; o < own->first_op + own->ops; o++)
            if (is_call(view, &view->op[o]))
                keyed[n++] = (struct muster_keyed){view->op[o].enqueue_ns, o, {0}};
    }
    const struct muster_keyed *sorted = muster_sort_keyed(keyed, spare, n);
    for (size_t i = 0; i + 1 < n; i++)
        search->next[sorted[i].value] = sorted[i + 1].value;
    if (n > 0) {
        search->run_ns[gpu] = (double)(sorted[n - 1].key - sorted[0].key);
        search->rarest[gpu] = rarest_of(search, sorted, n);
    }
}

static void link_all(struct search *search)
{
    const struct muster_view *view = search->view;
    struct muster_arena scratch = {0};
    uint32_t *member = muster_arena_array(&scratch, view->members + 1, sizeof *member);
    const size_t *first = member ? muster_view_members_by_gpu(view, member, &scratch) : NULL;
    size_t most = 0;
    search->next = muster_arena_array(search->memory, view->ops + 1, sizeof *search->next);
    for (size_t o = 0; o < view->ops && search->next; o++)
        search->next[o] = MUSTER_VIEW_NONE;
    for (size_t g = 0; g < view->gpus && first; g++) {
        size_t ops = 0;
        for (size_t m = first[g]; m < first[g + 1]; m++)
            ops += view->member[member[m]].ops;
        most = is_blind(&view->gpu[g]) && ops > most ? ops : most;
    }
    struct muster_keyed *keyed = muster_arena_array(&scratch, most + 1, sizeof *keyed);
    struct muster_keyed *spare = muster_arena_array(&scratch, most + 1, sizeof *spare);
    for (size_t g = 0; g < view->gpus && first && search->next && !scratch.failed; g++)
        if (is_blind(&view->gpu[g]))
            link_calls(search, g, member + first[g], first[g + 1] - first[g], keyed, spare);
    muster_arena_end(&scratch, search->memory);
}

/* ---- moments ---- */

/* From times to lags behind the usual one: the lower median, as half may be late together. */
static void to_lags(int64_t *at, uint32_t n, int64_t *sorted)
{
    memcpy(sorted, at, n * sizeof *at);
    muster_sort_i64(sorted, n);
    for (uint32_t i = 0; i < n; i++)
        at[i] -= sorted[(n - 1) / 2];
}

/* All of the group have it, and then do the same. */
static bool make_moment(struct search *search, const struct group *group,
                        const struct muster_joint *joint, struct moment *moment)
{
    const struct muster_view *view = search->view;
    *moment = (struct moment){0, search->ended, search->began, search->op};
    for (uint32_t i = 0; i < group->n; i++) {
        const struct muster_view_op *op = joint->op[group->member[i] - joint->comm->first_member];
        uint64_t label = op ? label_of(search, op) : 0;
        if (!label || (i && label != moment->label))
            return false;
        moment->label = label;
        search->op[i] = op;
        search->ended[i] = (int64_t)op->enqueue_ns;
        search->began[i] = (int64_t)view->op[search->next[op - view->op]].enqueue_ns;
    }
    to_lags(search->ended, group->n, search->sorted);
    to_lags(search->began, group->n, search->sorted);
    return true;
}

static bool takes(const struct muster_view *view, const struct muster_view_op *op)
{
    return is_call(view, op) && muster_joint_ends_together(op->func);
}

/* The members of a communicator that are compared with each other, host by host; nobody where one
 * is timed, who shows what is waited for better than calls do. Returns how many groups; room for
 * as many as members. */
static size_t find_groups(const struct search *search, const struct muster_view_comm *comm,
                          const uint32_t *host_of, struct groups *groups)
{
    const struct muster_view *view = search->view;
    size_t blind = 0, n = 0, used = 0;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++) {
        uint32_t gpu = view->member[m].gpu;
        if (is_blind(&view->gpu[gpu]))
            groups->keyed[blind++] = (struct muster_keyed){host_of[gpu], m, {0}};
        else if (view->gpu[gpu].ordered)
            return 0;
    }
    const struct muster_keyed *sorted = muster_sort_keyed(groups->keyed, groups->spare, blind);
    for (size_t first = 0, end; first < blind; first = end) {
        for (end = first; end < blind && sorted[end].key == sorted[first].key; end++)
            groups->member[used + end - first] = sorted[end].value;
        if (end - first >= RANKS_LEAST) {
            groups->at[n++] = (struct group){groups->member + used, (uint32_t)(end - first), false};
            used += end - first;
        }
    }
    return n;
}

/* Moments of one communicator, in their order. */
static void each_moment(struct search *search, uint32_t comm, struct group *group, size_t n,
                        look *look_at)
{
    const struct muster_joint_rule rule = {.takes = takes, .least = RANKS_LEAST};
    struct muster_arena scratch = {0};
    struct muster_joint joint;
    muster_joint_begin(&joint, search->view, comm, &rule, &scratch);
    while (muster_joint_next(&joint)) {
        for (size_t g = 0; g < n; g++) {
            struct moment moment;
            if (make_moment(search, &group[g], &joint, &moment))
                look_at(search, &group[g], &moment);
        }
    }
    muster_arena_end(&scratch, search->memory);
}

static void each_comm(struct search *search, const uint32_t *host_of, look *look_at)
{
    const struct muster_view *view = search->view;
    size_t room = view->members + 1;
    struct muster_arena scratch = {0};
    struct groups groups = {muster_arena_array(&scratch, room, sizeof *groups.at),
                            muster_arena_array(&scratch, room, sizeof *groups.member),
                            muster_arena_array(&scratch, room, sizeof *groups.keyed),
                            muster_arena_array(&scratch, room, sizeof *groups.spare)};
    for (uint32_t c = 0; c < view->comms && !scratch.failed && !search->memory->failed; c++) {
        if (muster_joint_possible(&view->comm[c])) {
            size_t n = find_groups(search, &view->comm[c], host_of, &groups);
            if (n > 0)
                each_moment(search, c, groups.at, n, look_at);
        }
    }
    muster_arena_end(&scratch, search->memory);
}

/* ---- where hosts wait ---- */

static struct place *place_of(struct search *search, uint32_t comm, uint64_t label)
{
    uint32_t *at = muster_places_at(&search->places, label);
    if (!*at) {
        struct place *own = muster_arena_add(search->memory, &search->place, &search->n_places,
                                             sizeof *search->place);
        *own = (struct place){.label = label, .comm = comm};
        *at = (uint32_t)search->n_places;
    }
    return search->memory->failed ? NULL : &search->place[*at - 1];
}

static void learn(struct search *search, struct group *group, const struct moment *moment)
{
    uint32_t comm = search->view->member[group->member[0]].comm;
    struct place *place = place_of(search, comm, moment->label);
    for (uint32_t i = 0; i < group->n && place; i++) {
        uint64_t key = muster_hash_number(moment->label, group->member[i] + 1ull);
        uint32_t *at = muster_places_at(&search->seats, key);
        if (search->memory->failed)
            return;
        if (*at) {
            const struct last *last = &search->last[*at - 1];
            double before = (double)(moment->ended[i] - last->ended);
            double after = (double)(moment->began[i] - last->began);
            place->stays += log(GRAIN_NS + fabs(after - before));
            place->fresh += log(GRAIN_NS + fabs(after));
            place->changes++;
        } else {
            muster_arena_add(search->memory, &search->last, &search->n_last, sizeof *search->last);
            *at = (uint32_t)search->n_last;
        }
        if (!search->memory->failed) {
            struct last *last = &search->last[*at - 1];
            *last = (struct last){moment->ended[i], moment->began[i], last->turns + 1};
            place->turns = last->turns > place->turns ? last->turns : place->turns;
        }
    }
}

static bool waits(const struct place *place)
{
    return place->changes >= CHANGES_LEAST &&
           place->fresh - place->stays < log(WAITS) * place->changes;
}

/* Where the hosts of a communicator wait. They do so once a step; who waits oftener is as far ahead
 * as it may be, and waits for its own GPU alone. */
static void choose_waits(struct search *search)
{
    search->wait =
        muster_arena_array(search->memory, search->view->comms + 1, sizeof *search->wait);
    if (!search->wait)
        return;
    for (size_t p = 0; p < search->n_places; p++) {
        const struct place *own = &search->place[p];
        struct wait *wait = &search->wait[own->comm];
        wait->most = waits(own) && own->changes > wait->most ? own->changes : wait->most;
    }
    for (size_t p = 0; p < search->n_places; p++) {
        const struct place *own = &search->place[p];
        struct wait *wait = &search->wait[own->comm];
        if (waits(own) && own->changes >= OFTEN * wait->most) {
            wait->place = p;
            wait->places++;
        }
    }
}

/* ---- who is late ---- */

/* How late each was from one wait to the next, at both ends. */
static void count_round(struct search *search, const struct group *group,
                        const struct moment *moment)
{
    for (uint32_t i = 0; i < group->n; i++) {
        int64_t began = search->held[group->member[i]];
        search->sorted[i] = moment->ended[i] < began ? moment->ended[i] : began;
    }
    for (uint32_t i = 0; i < group->n; i++) {
        struct muster_late_caller *own = &search->caller[group->member[i]];
        int64_t next = 0, late = search->sorted[i];
        for (uint32_t k = 0; k < group->n; k++)
            next = k != i && search->sorted[k] > next ? search->sorted[k] : next;
        own->member = group->member[0];
        own->ranks = group->n;
        own->run_ns = search->run_ns[search->view->member[group->member[i]].gpu];
        own->rounds++;
        if ((double)late > FLOOR_NS + MUCH * (double)next) {
            own->hits++;
            own->late_ns += (double)late;
            own->next_ns += (double)next;
            own->first = own->first ? own->first : moment->op[i];
            own->last = moment->op[i];
        }
        own->gain_ns += late > next ? (double)(late - next) : 0;
    }
}

static void count(struct search *search, struct group *group, const struct moment *moment)
{
    const struct wait *wait = &search->wait[search->view->member[group->member[0]].comm];
    const struct place *place = &search->place[wait->place];
    uint32_t rarest = search->rarest[search->view->member[group->member[0]].gpu];
    if (wait->places != 1 || place->label != moment->label || place->turns > RARELY * rarest)
        return;
    if (group->holds)
        count_round(search, group, moment);
    group->holds = true;
    for (uint32_t i = 0; i < group->n; i++)
        search->held[group->member[i]] = moment->began[i];
}

/* ---- who is named ---- */

/* Of the ranks that are compared with each other, by the first of them. */
struct pool {
    double hits, rounds;
};

static void weigh(struct search *search, struct pool *pool, double *sorted, size_t *n)
{
    const struct muster_view *view = search->view;
    for (size_t m = 0; m < view->members; m++) {
        const struct muster_late_caller *own = &search->caller[m];
        pool[own->member].hits += own->hits;
        pool[own->member].rounds += own->rounds;
    }
    for (size_t m = 0; m < view->members; m++) {
        struct muster_late_caller *own = &search->caller[m];
        const struct pool *all = &pool[own->member];
        double p = muster_rate_most(all->hits - own->hits, all->rounds - own->rounds);
        own->log_e = muster_log_e(own->hits, own->rounds, p);
        if (own->rounds >= ROUNDS_LEAST)
            sorted[(*n)++] = own->log_e;
    }
}

static bool is_worth(const struct muster_late_caller *caller)
{
    return caller->rounds >= ROUNDS_LEAST && caller->hits > 0 &&
           caller->gain_ns >= WORTH * caller->run_ns && caller->gain_ns <= caller->run_ns;
}

/* Of the communicators of a GPU the one where it cost most. */
static bool is_most(const struct search *search, size_t m, double least)
{
    const struct muster_view *view = search->view;
    const struct muster_late_caller *own = &search->caller[m];
    for (size_t k = 0; k < view->members; k++) {
        const struct muster_late_caller *other = &search->caller[k];
        bool same = k != m && view->member[k].gpu == view->member[m].gpu;
        bool more = other->gain_ns > own->gain_ns || (other->gain_ns >= own->gain_ns && k < m);
        if (same && more && is_worth(other) && other->log_e >= least)
            return false;
    }
    return true;
}

static void name(struct search *search, struct muster_arena *memory,
                 struct muster_findings *findings)
{
    const struct muster_view *view = search->view;
    struct pool *pool = muster_arena_array(memory, view->members + 1, sizeof *pool);
    double *sorted = muster_arena_array(memory, view->members + 1, sizeof *sorted);
    size_t n = 0;
    if (memory->failed)
        return;
    weigh(search, pool, sorted, &n);
    double least = muster_least_e(sorted, n, muster_false_share(view));
    for (size_t m = 0; m < view->members; m++) {
        struct muster_late_caller *own = &search->caller[m];
        if (is_worth(own) && own->log_e >= least && is_most(search, m, least)) {
            struct muster_late_caller found = *own;
            found.member = (uint32_t)m;
            muster_late_calls_describe(view, &found, findings);
        }
    }
}

static void put_limits(const struct search *search, struct muster_arena *memory,
                       struct muster_findings *findings)
{
    const struct muster_view *view = search->view;
    bool *compared = muster_arena_array(memory, view->gpus + 1, sizeof *compared);
    uint32_t blind = 0, seen = 0;
    for (size_t m = 0; m < view->members && compared; m++)
        compared[view->member[m].gpu] |= search->caller[m].rounds >= ROUNDS_LEAST;
    for (size_t g = 0; g < view->gpus && compared; g++) {
        blind += is_blind(&view->gpu[g]) && search->run_ns[g] > 0;
        seen += compared[g];
    }
    muster_late_calls_limits(blind, seen, &findings->not_observable);
}

static bool any_blind(const struct muster_view *view)
{
    for (size_t g = 0; g < view->gpus; g++)
        if (is_blind(&view->gpu[g]))
            return true;
    return false;
}

static bool make_room(struct search *search)
{
    size_t n = search->view->members + 1;
    struct muster_arena *memory = search->memory;
    search->places.memory = search->seats.memory = memory;
    search->caller = muster_arena_array(memory, n, sizeof *search->caller);
    search->op = muster_arena_array(memory, n, sizeof *search->op);
    search->ended = muster_arena_array(memory, n, sizeof *search->ended);
    search->began = muster_arena_array(memory, n, sizeof *search->began);
    search->held = muster_arena_array(memory, n, sizeof *search->held);
    search->sorted = muster_arena_array(memory, n, sizeof *search->sorted);
    search->rarest = muster_arena_array(memory, search->view->gpus + 1, sizeof *search->rarest);
    search->run_ns = muster_arena_array(memory, search->view->gpus + 1, sizeof *search->run_ns);
    return !memory->failed;
}

void muster_late_calls_find(const struct muster_view *view, struct muster_arena *memory,
                            struct muster_findings *findings)
{
    struct muster_arena scratch = {0};
    struct search search = {.view = view, .memory = &scratch};
    const uint32_t *host_of = NULL;
    if (any_blind(view) && make_room(&search))
        host_of = muster_view_hosts(view, &scratch);
    if (host_of) {
        link_all(&search);
        each_comm(&search, host_of, learn);
        choose_waits(&search);
    }
    if (host_of && search.wait) {
        if (search.place)
            each_comm(&search, host_of, count);
        name(&search, &scratch, findings);
        put_limits(&search, &scratch, findings);
    }
    muster_arena_end(&scratch, memory);
}
