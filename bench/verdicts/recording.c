#include "recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"
#include "maxplus.h"

enum {
    EAGER_MOST = 1 << 19,
    BLOCK = 64,
    LEVEL_MAX = 8,
    PEERS = JOB_RANKS_MAX < 16 ? JOB_RANKS_MAX : 16
};
static const double HIT_NS = 20e3; /* less than a launch shows nothing */

struct place {
    uint64_t launches;
    uint64_t number, replayed; /* collectives */
    uint64_t passed[PEERS][2]; /* sends to and receives from */
    double transfer_ns;        /* of its collectives, for the network's totals */
    uint64_t transfers, bytes;
};

struct writer {
    const struct job *job;
    const struct recording_sink *sink;
    struct recorded *recorded;
    struct place (*place)[GROUPS];
    double skew[JOB_RANKS_MAX], drift[JOB_RANKS_MAX];
    double host_skew[JOB_RANKS_MAX / JOB_HOST_GPUS];
};

static uint64_t bits_of(const struct writer *writer, uint64_t what, uint64_t who, uint64_t when)
{
    return chance_at(writer->job->seed ^ 0x7ec0, what, who, when);
}

uint64_t recording_comm(const struct job *job, enum job_group group, unsigned first)
{
    return chance_at(job->seed, 0xc0, (uint64_t)group, first) | 1;
}

/* The sparsest level that times the block, a pure function of the communicator's size and the
 * block: of two neighbouring blocks, runs, runs of runs it takes one. The first block is timed at
 * every level. */
static unsigned level_of(uint64_t size, uint64_t block)
{
    unsigned level = 0;
    while (level < LEVEL_MAX &&
           (block >> level & 1) == (chance_at(size, 0xb10c, level, block >> (level + 1)) & 1))
        level++;
    return block == 0 ? LEVEL_MAX : level;
}

static bool is_timed(const struct writer *writer, unsigned rank, enum job_group group,
                     uint64_t launch)
{
    const struct job *job = writer->job;
    uint64_t level = job->level;
    if (job->timing[rank] != TIMED_AUTO)
        return job->timing[rank] == TIMED_FULL;
    if (job->level_differs && level < LEVEL_MAX)
        level += bits_of(writer, 4, rank, 0) & 1;
    return level_of(job->shape[group].n, launch / BLOCK) >= level;
}

/* Clocks of GPUs go in steps of 32 ns; CUDA events are exact to half a microsecond. */
static uint64_t stamp(const struct writer *writer, unsigned rank, double ns, uint64_t when)
{
    double own = 1.8e15 + writer->skew[rank] + ns * (1 + writer->drift[rank]);
    if (writer->job->by_events)
        own += 500 * (chance_unit(bits_of(writer, 5, rank, when)) - 0.5);
    return (uint64_t)own / 32 * 32;
}

static uint64_t host_stamp(const struct writer *writer, unsigned rank, double ns)
{
    return (uint64_t)(ns + writer->host_skew[job_host(rank)]);
}

static void emit(struct writer *writer, const struct launch *launch, bool timed, uint64_t *number,
                 unsigned func, int32_t peer)
{
    const struct action *action = launch->action;
    unsigned rank = launch->rank;
    bool graph = writer->job->graph;
    uint64_t when = (uint64_t)launch->begin_ns, peer_bits = (uint64_t)(peer + 1) << 1 | (func & 1);
    struct muster_op op = {
        .number = (*number)++,
        .enqueue_ns = host_stamp(writer, rank, launch->call_ns),
        .begin_ns = timed ? stamp(writer, rank, launch->begin_ns, when) : 0,
        .end_ns = timed ? stamp(writer, rank, launch->end_ns, when + 1) : 0,
        .count = peer >= 0 && writer->job->eager && action->count > EAGER_MOST ? EAGER_MOST
                                                                               : action->count,
        .peer = peer,
        .func = (uint8_t)func,
        .dtype = MUSTER_DTYPE_FLOAT32,
        .algo = MUSTER_ALGO_RING,
        .proto = MUSTER_PROTO_SIMPLE,
        .channels = 8,
        .source = timed ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE,
    };
    op.flags = (uint16_t)((timed ? MUSTER_OP_IN_WINDOW : 0) | (graph ? MUSTER_OP_GRAPH : 0) |
                          (op.number < MUSTER_WARM_UP ? MUSTER_OP_UNSCORED : 0));
    if (chance_unit(bits_of(writer, 9, rank, when + peer_bits)) < writer->job->lost)
        return;
    writer->recorded->ops++;
    writer->sink->op(writer->sink->arg, rank, action->group, &op, launch->end_ns);
}

static void emit_pair(struct writer *writer, const struct launch *launch, bool timed, unsigned peer,
                      bool send)
{
    struct place *place = &writer->place[launch->rank][launch->action->group];
    emit(writer, launch, timed, &place->passed[peer][send],
         send ? MUSTER_FUNC_SEND : MUSTER_FUNC_RECV, (int32_t)peer);
}

static void emit_launch(struct writer *writer, const struct launch *launch, bool timed)
{
    const struct action *action = launch->action;
    const struct job *job = writer->job;
    struct place *place = &writer->place[launch->rank][action->group];
    unsigned n = job->shape[action->group].n;
    unsigned own = job_local(job, action->group, launch->rank);
    if (action->kind == ACT_LEGS) {
        for (unsigned i = 0; i < action->legs; i++) {
            const struct action_leg *leg = &launch->program->leg[action->leg + i];
            emit_pair(writer, launch, timed, leg->peer, leg->send);
        }
    } else if (action->kind == ACT_RING) {
        emit_pair(writer, launch, timed, (own + 1) % n, true);
        emit_pair(writer, launch, timed, (own + n - 1) % n, false);
    } else if (action->by_sends) {
        for (unsigned i = 0; i < 2 * n; i++)
            if (i / 2 != own)
                emit_pair(writer, launch, timed, i / 2, i & 1);
    } else {
        uint64_t *number = job->graph ? &place->replayed : &place->number;
        emit(writer, launch, timed, number, action->func, -1);
        place->transfers++;
        place->transfer_ns += launch->transfer_ns;
        place->bytes += 8 * action->count;
    }
}

static void count_hits(struct writer *writer, const struct launch *launch, unsigned first)
{
    const struct job *job = writer->job;
    for (unsigned f = 0; f < job->faults; f++) {
        const struct fault *fault = &job->fault[f];
        bool own = launch->rank >= fault->first && launch->rank < fault->first + fault->ranks;
        bool now = launch->step >= fault->from && launch->step < fault->until;
        /* Once a transfer: of sends, of who sends. */
        bool sends = launch->action->kind == ACT_LEGS;
        bool link = (sends ? job_host(launch->rank) == fault->first : launch->rank == first) &&
                    simulate_slows(job, fault, launch->action, launch->rank);
        writer->recorded->hits[f] += now && ((own && launch->late_ns >= HIT_NS) || link);
    }
}

static void write_launch(void *arg, const struct launch *launch)
{
    struct writer *writer = arg;
    enum job_group group = launch->action->group;
    struct place *place = &writer->place[launch->rank][group];
    unsigned first = job_first(writer->job, group, launch->rank);
    uint64_t number = place->launches++;
    if (!writer->job->seen[launch->rank])
        return;
    bool timed = is_timed(writer, launch->rank, group, number);
    emit_launch(writer, launch, timed && !writer->job->blind);
    if (timed && number >= MUSTER_WARM_UP)
        count_hits(writer, launch, first);
}

static bool is_used(const struct job *job, enum job_group group)
{
    for (unsigned s = 0; s < job->stages; s++) {
        for (unsigned i = 0; i < job->program[s].n; i++) {
            const struct action *action = &job->program[s].action[i];
            bool talks =
                action->kind == ACT_CALL || action->kind == ACT_RING || action->kind == ACT_LEGS;
            if (talks && action->group == group)
                return true;
        }
    }
    return false;
}

static unsigned hosts_of(const struct job *job, enum job_group group, unsigned first)
{
    const struct job_shape *shape = &job->shape[group];
    unsigned hosts = 1;
    for (unsigned i = 1; i < shape->n; i++)
        hosts += job_host(first + i * shape->stride) != job_host(first + (i - 1) * shape->stride);
    return hosts;
}

static void open_ranks(struct writer *writer)
{
    const struct job *job = writer->job;
    char host[32];
    for (unsigned h = 0; h < (job->ranks + JOB_HOST_GPUS - 1) / JOB_HOST_GPUS; h++)
        writer->host_skew[h] = 1e12 * chance_unit(bits_of(writer, 1, h, 0));
    for (unsigned r = 0; r < job->ranks; r++) {
        double far = chance_unit(bits_of(writer, 2, r, 0));
        writer->skew[r] = (far < 0.5 ? -1 : 1) * (0.1e6 + 0.9e6 * far);
        writer->drift[r] = 50e-6 * (chance_unit(bits_of(writer, 3, r, 0)) - 0.5);
        if (!job->seen[r])
            continue;
        /* What hosts think the time is differs by milliseconds. */
        double error = 5e6 * chance_bell(bits_of(writer, 6, job_host(r), 0));
        double unix_ns = 1.7e18 - writer->host_skew[job_host(r)] + error;
        snprintf(host, sizeof host, "node%u", job_host(r));
        writer->sink->rank(writer->sink->arg, r, host, job->timing[r], (int64_t)unix_ns);
    }
    for (unsigned g = 0; g < GROUPS; g++) {
        for (unsigned r = 0; is_used(job, g) && r < job->ranks; r++) {
            unsigned first = job_first(job, g, r);
            if (job->seen[r]) {
                writer->sink->member(writer->sink->arg, r, g, recording_comm(job, g, first),
                                     job_local(job, g, r), job->shape[g].n,
                                     hosts_of(job, g, first));
            }
        }
    }
}

/* What the proxy of a sender between two hosts waited for the network: most of the time where its
 * link is slow; where another one is, hardly. */
static double waited(const struct writer *writer, enum job_group group, unsigned rank, unsigned to)
{
    const struct job *job = writer->job;
    double any = chance_unit(bits_of(writer, 8, rank, (uint64_t)group));
    unsigned first = job_first(job, group, rank);
    bool slow = false;
    for (unsigned f = 0; f < job->faults; f++) {
        const struct fault *fault = &job->fault[f];
        if (!simulate_is_slow(job, fault, group, first))
            continue;
        if (job_host(rank) == fault->first && job_host(to) == fault->to)
            return 1 - (0.3 + 0.3 * any) / fault->factor;
        slow = true;
    }
    return slow ? 0.08 * any : 0.3 + 0.3 * any;
}

/* Totals of the links between hosts, as senders see them: rings in the order of ranks. */
static void write_nets(struct writer *writer, enum job_group group)
{
    const struct job *job = writer->job;
    unsigned n = job->shape[group].n;
    for (unsigned r = 0; r < job->ranks; r++) {
        const struct place *place = &writer->place[r][group];
        unsigned next = (job_local(job, group, r) + 1) % (n ? n : 1);
        unsigned to = job_member(job, group, job_first(job, group, r), next);
        if (!job->seen[r] || !place->transfers || job_host(r) == job_host(to))
            continue;
        struct muster_seg_net net = {
            .peer = (int32_t)next,
            .send = 1,
            .count = place->transfers,
            .bytes = place->bytes,
            .steps = place->transfers + (place->bytes >> 19),
            .net_wait_ns = (uint64_t)(place->transfer_ns * waited(writer, group, r, to)),
        };
        net.gpu_wait_ns = (uint64_t)place->transfer_ns - net.net_wait_ns;
        writer->sink->net(writer->sink->arg, r, group, &net);
    }
}

void recording_make(const struct job *job, const struct recording_sink *sink,
                    struct recorded *recorded)
{
    struct writer *writer = calloc(1, sizeof *writer);
    struct place(*place)[GROUPS] = calloc(job->ranks, sizeof *place);
    if (!writer || !place) {
        fprintf(stderr, "verdicts: out of memory\n");
        exit(2);
    }
    writer->job = job;
    writer->sink = sink;
    writer->recorded = recorded;
    writer->place = place;
    memset(recorded, 0, sizeof *recorded);
    open_ranks(writer);
    recorded->run_ns = simulate(job, (1u << job->faults) - 1, job->steps, write_launch, writer);
    for (unsigned g = 0; g < GROUPS; g++)
        if (is_used(job, g))
            write_nets(writer, g);
    free(place);
    free(writer);
}
