/* What the ranks of a case do, operation by operation, on an ideal clock; and what each GPU's own
 * clock makes of it. */
#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"
#include "draw.h"
#include "generate.h"

enum { BLOCK = 64, ONE_IN = 34, GROUPS = 3 };

/* One communicator of one rank. */
struct part {
    uint32_t member;
    bool seen;
    uint64_t number;
    uint64_t id;
};

struct rank {
    uint32_t gpu;
    bool seen;
    unsigned base;   /* whose deviations in the recording it has */
    double end_ns;   /* of its last operation */
    double ready_ns; /* overlap: of the computing before the next operation */
    double work_ns;  /* overlap: computing of the step so far, without delays */
    double host_ns;  /* host-bound: its last call */
    struct speed speed;
    double skew_ns, drift, lead_ns;
    uint64_t last_call_ns;
    bool used[GROUPS];
    struct part part[GROUPS];
};

struct play {
    const struct scenario *scenario;
    const struct sink *sink;
    struct outcome *outcome;
    struct draw draw;
    struct rank *rank;
    unsigned step;
    double *begin_ns;
    bool *hit;
    uint64_t link_wait_ns[2]; /* the two links between the nodes, by turns */
    double slow_ns;           /* sum of transfers */
    uint64_t net_ops;
    struct deviations *deviations; /* of each position */
    unsigned unlucky, burst_left;
};

/* Communicator of the rank in the group: who is in it is a range with a stride. */
static void members_of(const struct scenario *s, enum group group, unsigned rank, unsigned *first,
                       unsigned *stride, unsigned *n)
{
    *first = group == GROUP_TP ? rank / 2 * 2 : group == GROUP_DP ? rank % 2 : 0;
    *stride = group == GROUP_DP ? 2 : 1;
    *n = group == GROUP_TP ? 2 : group == GROUP_DP ? s->ranks / 2 : s->ranks;
}

static bool is_culprit(const struct scenario *s, unsigned rank)
{
    return rank == s->culprit[0] || (s->n_culprits > 1 && rank == s->culprit[1]);
}

static void hide(struct play *play)
{
    const struct scenario *s = play->scenario;
    unsigned left = s->hidden;
    for (unsigned r = 0; r < s->ranks; r++)
        play->rank[r].seen = true;
    if (s->culprit_hidden && left) {
        play->rank[s->culprit[0]].seen = false;
        left--;
    }
    for (unsigned r = s->ranks; r-- > 0 && left;) {
        if (s->fault != FAULT_LATE || !is_culprit(s, r)) {
            play->rank[r].seen = false;
            left--;
        }
    }
}

static void set_up(struct play *play)
{
    const struct scenario *s = play->scenario;
    unsigned turn = draw_below(&play->draw, BASE_RANKS);
    hide(play);
    for (unsigned r = 0; r < s->ranks; r++) {
        struct rank *rank = &play->rank[r];
        rank->base = (r + turn) % BASE_RANKS;
        rank->end_ns = 1e9;
        rank->skew_ns = 1e6 * (draw_unit(&play->draw) - 0.5) * 2;
        rank->drift = 50e-6 * (draw_unit(&play->draw) - 0.5) * 2;
        rank->lead_ns = draw_log(&play->draw, 20e3, 5e6);
        rank->host_ns = rank->end_ns + draw_log(&play->draw, 5e6, 60e6);
        speed_draw(&play->draw, &rank->speed);
        rank->gpu = rank->seen ? play->sink->gpu(play->sink->arg, r) : 0;
    }
    for (unsigned r = 0; r < s->ranks; r++) {
        struct rank *rank = &play->rank[r];
        for (unsigned p = 0; p < s->model->positions; p++)
            rank->used[s->model->position[p].group] = true;
        for (unsigned g = 0; g < GROUPS; g++) {
            unsigned first, stride, n;
            members_of(s, g, r, &first, &stride, &n);
            rank->part[g].id = s->seed << 32 | (g + 1) << 16 | (first + 1);
            if (rank->used[g] && rank->seen) {
                rank->part[g].member =
                    play->sink->member(play->sink->arg, rank->gpu, rank->part[g].id,
                                       (r - first) / stride, n, s->model->sockets ? 2 : 1);
            }
        }
    }
}

/* How long the rank is busy before the operation, as the recording has it: what all ranks did in
 * `step`, and this rank's deviation there, or for ranks beyond the recording's in another step. */
static double self_ns(struct play *play, unsigned rank, unsigned step, unsigned p)
{
    const struct model *model = play->scenario->model;
    const int64_t *own = model->self_ns[step * model->positions + p];
    if (rank < BASE_RANKS)
        return (double)own[play->rank[rank].base];
    unsigned other = draw_below(&play->draw, model->steps);
    const int64_t *there = model->self_ns[other * model->positions + p];
    int64_t low = there[0];
    int64_t low_own = own[0];
    for (unsigned r = 1; r < BASE_RANKS; r++) {
        low = there[r] < low ? there[r] : low;
        low_own = own[r] < low_own ? own[r] : low_own;
    }
    return (double)(low_own + there[play->rank[rank].base] - low);
}

static bool in_block(const struct part *part)
{
    uint64_t block = part->number / BLOCK;
    struct draw draw = {.state = part->id + block / ONE_IN * 7919};
    uint64_t place = block < ONE_IN ? 0 : draw_u64(&draw) % ONE_IN;
    return block % ONE_IN == place;
}

/* What tells NCCL to time is one for the whole process: a block times the neighbours, too. */
static bool timed(const struct scenario *s, const struct rank *rank)
{
    bool any = !s->blocks;
    for (unsigned g = 0; g < GROUPS && !any; g++)
        any = rank->used[g] && in_block(&rank->part[g]);
    return any;
}

static uint64_t stamp(const struct rank *rank, double ns)
{
    double own = 1.8e18 / 1e3 + rank->skew_ns + ns * (1 + rank->drift);
    return (uint64_t)own / 32 * 32;
}

static void emit(struct play *play, unsigned r, const struct position *position, double begin_ns,
                 double end_ns, double lead_ns)
{
    const struct scenario *s = play->scenario;
    struct rank *rank = &play->rank[r];
    struct part *part = &rank->part[position->group];
    bool gpu = timed(s, rank);
    uint64_t call_ns = (uint64_t)(begin_ns - lead_ns);
    call_ns = call_ns > rank->last_call_ns ? call_ns : rank->last_call_ns + 1000;
    struct muster_op op = {
        .number = part->number++,
        .enqueue_ns = call_ns,
        .begin_ns = gpu ? stamp(rank, begin_ns) : 0,
        .end_ns = gpu ? stamp(rank, end_ns) : 0,
        .count = position->count,
        .peer = -1,
        .func = position->func,
        .dtype = MUSTER_DTYPE_FLOAT32,
        .algo = MUSTER_ALGO_RING,
        .proto = MUSTER_PROTO_SIMPLE,
        .channels = 8,
        .source = gpu ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE,
        .flags = (uint16_t)((gpu ? MUSTER_OP_IN_WINDOW : 0) |
                            (part->number <= 3 ? MUSTER_OP_UNSCORED : 0)),
    };
    rank->last_call_ns = call_ns;
    if (r == (s->fault == FAULT_LATE ? s->culprit[0] : 0)) {
        play->outcome->timed += gpu;
        play->outcome->affected += gpu && play->hit[r];
        play->outcome->hits += play->hit[r];
    }
    play->outcome->length_ns = fmax(play->outcome->length_ns, end_ns);
    if (rank->seen && !draw_chance(&play->draw, s->dropped))
        play->sink->op(play->sink->arg, part->member, &op);
}

/* `everywhere` false: only one class of the communicator is slow. */
static bool slowed(const struct play *play, unsigned p, unsigned first)
{
    const struct scenario *s = play->scenario;
    return s->fault == FAULT_SLOWED && play->step >= s->slow_from && play->step < s->slow_to &&
           s->model->position[p].group == s->slow_group && first == s->slow_first &&
           (s->everywhere || p == s->position);
}

static double transfer_ns(struct play *play, unsigned step, unsigned p, unsigned first)
{
    const struct scenario *s = play->scenario;
    double own = (double)s->model->transfer_ns[step * s->model->positions + p];
    if (s->fault == FAULT_SLOW && s->model->position[p].count > 4096)
        own *= s->factor;
    return slowed(play, p, first) ? own * s->factor : own;
}

/* What the network proxies would have waited: on the slow link the sender for the network. */
static void wait_on_links(struct play *play, double ns)
{
    const struct scenario *s = play->scenario;
    for (unsigned link = 0; link < 2; link++) {
        unsigned sender = link ? s->ranks - 1 : s->ranks / 2 - 1;
        bool slow = s->fault == FAULT_SLOW && s->culprit[0] == sender;
        double share = slow                     ? 0.7 + 0.2 * draw_unit(&play->draw)
                       : s->fault == FAULT_SLOW ? 0.08 * draw_unit(&play->draw)
                                                : 0.3 + 0.3 * draw_unit(&play->draw);
        play->link_wait_ns[link] += (uint64_t)(share * ns);
    }
    play->slow_ns += ns;
    play->net_ops++;
}

static void collective(struct play *play, unsigned step, unsigned p, unsigned first,
                       unsigned stride, unsigned n)
{
    const struct scenario *s = play->scenario;
    const struct position *position = &s->model->position[p];
    double last = 0;
    for (unsigned i = 0; i < n; i++)
        last = fmax(last, play->begin_ns[first + i * stride]);
    double transfer = transfer_ns(play, step, p, first);
    if (s->model->sockets)
        wait_on_links(play, transfer);
    for (unsigned i = 0; i < n; i++) {
        unsigned r = first + i * stride;
        double spread = s->model->sockets ? 0.15 * transfer : 1500;
        double end = last + transfer + spread * draw_unit(&play->draw);
        double lead = s->host && play->hit[r] ? 6000 : play->rank[r].lead_ns;
        emit(play, r, position, play->begin_ns[r], end, lead);
        play->rank[r].end_ns = end;
    }
}

static bool can_hit(const struct scenario *s, unsigned p)
{
    return s->everywhere || p == s->position;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* How far the ranks are from their median; a few of them tell. */
static void note_deviations(struct play *play, unsigned p)
{
    enum { FEW = 16 };
    double sorted[FEW];
    unsigned n = play->scenario->ranks < FEW ? play->scenario->ranks : FEW;
    for (unsigned r = 0; r < n; r++)
        sorted[r] = play->rank[r].work_ns;
    qsort(sorted, n, sizeof *sorted, by_value);
    double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    for (unsigned r = 0; r < n; r++)
        deviations_add(&play->deviations[p], play->rank[r].work_ns - median);
}

/* The call of a host that is as fast as every other one, but for a pause now and then, and so far
 * ahead of its GPU at most. */
static double host_call(struct play *play, struct rank *rank, unsigned step, unsigned p)
{
    const struct model *model = play->scenario->model;
    size_t at = (size_t)step * model->positions + p;
    double pace = 50e3 + 1.2 * ((double)model->self_ns[at][0] + (double)model->transfer_ns[at]);
    rank->host_ns += pace * (1 + 0.05 * (draw_unit(&play->draw) - 0.5));
    if (draw_chance(&play->draw, 1 / 1500.0))
        rank->host_ns += draw_log(&play->draw, 5e6, 50e6);
    rank->host_ns = fmax(rank->host_ns, rank->end_ns - 100e6);
    return rank->host_ns;
}

/* When the rank begins, having computed for so long. */
static double begin(struct play *play, struct rank *rank, unsigned step, unsigned p, double self)
{
    const struct scenario *s = play->scenario;
    double from = rank->end_ns + self;
    if (s->overlap) {
        rank->ready_ns = (p == 0 ? rank->end_ns : rank->ready_ns) + self;
        from = fmax(rank->ready_ns, rank->end_ns + 4000);
    }
    if (s->host_bound) {
        double call = host_call(play, rank, step, p);
        from = fmax(from, call + 6000);
        rank->lead_ns = from - call;
    }
    return from;
}

static void begin_all(struct play *play, unsigned step, unsigned p)
{
    const struct scenario *s = play->scenario;
    double *self = play->begin_ns;
    for (unsigned r = 0; r < s->ranks; r++) {
        struct rank *rank = &play->rank[r];
        self[r] = self_ns(play, r, step, p);
        self[r] *= speed_at(&play->draw, &rank->speed, rank->end_ns);
        rank->work_ns = self[r] + (s->overlap && p ? rank->work_ns : 0);
    }
    note_deviations(play, p);
    for (unsigned r = 0; r < s->ranks; r++) {
        bool own = s->fault == FAULT_LATE && is_culprit(s, r) && can_hit(s, p) &&
                   draw_chance(&play->draw, s->share);
        bool jitter = s->jitter && p == s->position && r == play->unlucky;
        play->hit[r] = own || jitter;
        if (play->hit[r]) {
            double delay = (double)s->delay_ns * (0.9 + 0.2 * draw_unit(&play->draw));
            self[r] += r == s->culprit[1] && s->n_culprits > 1 ? 0.8 * delay : delay;
        }
        play->begin_ns[r] = begin(play, &play->rank[r], step, p, self[r]);
    }
}

static void pause_all(struct play *play)
{
    double common = draw_log(&play->draw, 20e6, 2e9);
    for (unsigned r = 0; r < play->scenario->ranks; r++)
        play->rank[r].end_ns += common * (1 + 0.1 * draw_unit(&play->draw));
}

static void one_step(struct play *play, unsigned number)
{
    const struct scenario *s = play->scenario;
    play->step = number;
    unsigned step = draw_below(&play->draw, s->model->steps);
    if (play->burst_left-- == 0) {
        play->unlucky =
            draw_chance(&play->draw, 0.5) ? draw_below(&play->draw, s->ranks) : RANKS_MAX;
        play->burst_left = s->burst ? s->burst - 1 : 0;
    }
    if (s->pause_every && number % s->pause_every == s->pause_every - 1)
        pause_all(play);
    for (unsigned p = 0; p < s->model->positions; p++) {
        begin_all(play, step, p);
        for (unsigned r = 0; r < s->ranks; r++) {
            unsigned first, stride, n;
            members_of(s, s->model->position[p].group, r, &first, &stride, &n);
            if (r == first)
                collective(play, step, p, first, stride, n);
        }
    }
}

static void emit_links(struct play *play)
{
    const struct scenario *s = play->scenario;
    unsigned half = s->ranks / 2;
    for (unsigned link = 0; link < 2; link++) {
        unsigned from = link ? s->ranks - 1 : half - 1;
        unsigned to = link ? 0 : half;
        struct muster_seg_net net = {.peer = (int32_t)to,
                                     .send = 1,
                                     .count = play->net_ops,
                                     .bytes = play->net_ops << 23,
                                     .steps = play->net_ops * 8,
                                     .gpu_wait_ns = (uint64_t)play->slow_ns / 2,
                                     .net_wait_ns = play->link_wait_ns[link]};
        if (play->rank[from].seen)
            play->sink->net(play->sink->arg, play->rank[from].part[GROUP_WORLD].member, &net);
        net.peer = (int32_t)from;
        net.send = 0;
        net.net_wait_ns = (uint64_t)(play->slow_ns * 0.9);
        if (play->rank[to].seen)
            play->sink->net(play->sink->arg, play->rank[to].part[GROUP_WORLD].member, &net);
    }
}

void scenario_play(const struct scenario *s, const struct sink *sink, struct outcome *outcome)
{
    struct play play = {.scenario = s, .sink = sink, .outcome = outcome};
    play.draw.state = s->seed * 0x9e3779b97f4a7c15ull + 17;
    play.rank = calloc(s->ranks + 1, sizeof *play.rank);
    play.begin_ns = calloc(s->ranks + 1, sizeof *play.begin_ns);
    play.hit = calloc(s->ranks + 1, sizeof *play.hit);
    play.deviations = calloc(s->model->positions, sizeof *play.deviations);
    memset(outcome, 0, sizeof *outcome);
    if (!play.rank || !play.begin_ns || !play.hit || !play.deviations)
        exit(2);
    set_up(&play);
    for (unsigned step = 0; step < s->steps; step++)
        one_step(&play, step);
    for (unsigned p = 0; p < s->model->positions; p++) {
        uint64_t p99_ns = deviations_p99(&play.deviations[p]);
        outcome->p99_ns = can_hit(s, p) && p99_ns > outcome->p99_ns ? p99_ns : outcome->p99_ns;
    }
    if (s->model->sockets)
        emit_links(&play);
    free(play.rank);
    free(play.begin_ns);
    free(play.hit);
    free(play.deviations);
}

/* ---- into a view ---- */

static uint32_t add_gpu(void *arg, unsigned rank)
{
    return muster_view_add_gpu(arg, &(struct muster_view_gpu){.rank = (int32_t)rank,
                                                              .gpu_index = (int32_t)rank % 8,
                                                              .host = "host",
                                                              .timing = MUSTER_TIMING_FULL,
                                                              .host_times = true,
                                                              .one_pace = true});
}

static uint32_t add_member(void *arg, uint32_t gpu, uint64_t id, unsigned rank, unsigned nranks,
                           unsigned nnodes)
{
    return muster_view_add_member(arg, gpu, id, (int32_t)rank, nranks, nnodes, "");
}

static void add_op(void *arg, uint32_t member, const struct muster_op *op)
{
    muster_view_add_op(arg, member, op);
}

static void add_net(void *arg, uint32_t member, const struct muster_seg_net *net)
{
    muster_view_add_net(arg, member, net);
}

struct sink sink_of_view(struct muster_view *view)
{
    return (struct sink){view, add_gpu, add_member, add_op, add_net};
}

void drop_checkpoints(const struct scenario *s, struct muster_findings *findings)
{
    size_t kept = 0;
    for (size_t f = 0; f < findings->n; f++) {
        bool pause = s->pause_every && findings->finding[f].kind == MUSTER_FINDING_ALL_WAIT;
        if (!pause)
            findings->finding[kept++] = findings->finding[f];
    }
    findings->n = kept;
}
