#include "fleet_tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "fleet/gather.h"
#include "fleet/thinning.h"
#include "recording.h"

enum { CLASSES = 32, PLACES = 4 /* told in a half second: their bytes */, AGAIN = 40 };
#define HALF_NS  (MUSTER_NS_PER_S / 2)
#define BEGIN_NS MUSTER_NS_PER_S /* the generator's */

/* Where a rank was at the end of a half second. */
struct moment {
    uint32_t ops, calls[GROUPS];
    uint64_t called_ns;
};

struct lane {
    struct muster_wire_op *op;
    size_t n, room;
    struct moment now, *at; /* [half] */
    unsigned half;
    struct muster_thinning thinning;
    struct muster_wire_class class[CLASSES];
    unsigned classes, published; /* of them, since everything was said again */
    uint64_t comm[GROUPS];       /* 0: it has none */
    uint32_t rank[GROUPS], nranks[GROUPS], nnodes[GROUPS];
    unsigned turn;
};

struct taping {
    const struct job *job;
    struct fleet_tape *tape;
    struct lane *lane;
    uint64_t *host_ns; /* of each host: its clock when the job's is 0 */
};

static void *must(void *memory)
{
    if (memory)
        return memory;
    fprintf(stderr, "fleet_agents: out of memory\n");
    exit(2);
}

/* ---- recording ---- */

static void take_rank(void *arg, unsigned rank, const char *host, enum job_timing timing,
                      int64_t unix_ns)
{
    struct taping *taping = arg;
    (void)host, (void)timing;
    taping->host_ns[job_host(rank)] = 1700000000ull * MUSTER_NS_PER_S - (uint64_t)unix_ns;
}

static void take_member(void *arg, unsigned rank, enum job_group group, uint64_t comm,
                        unsigned local, unsigned n, unsigned hosts)
{
    struct lane *lane = &((struct taping *)arg)->lane[rank];
    lane->comm[group] = comm;
    lane->rank[group] = local;
    lane->nranks[group] = n;
    lane->nnodes[group] = hosts;
}

static uint32_t class_of(struct lane *lane, enum job_group group, const struct muster_op *op)
{
    struct muster_op like = *op;
    like.number = like.enqueue_ns = like.begin_ns = like.end_ns = 0;
    like.comm = (uint32_t)group + 1;
    like.source = MUSTER_SOURCE_EVENT;
    for (unsigned i = 0; i < lane->classes; i++)
        if (memcmp(&lane->class[i].like, &like, sizeof like) == 0)
            return i;
    if (lane->classes == CLASSES) {
        fprintf(stderr, "fleet_agents: a rank has more than %d kinds of operations\n", CLASSES);
        exit(2);
    }
    lane->class[lane->classes] = (struct muster_wire_class){.id = lane->classes, .like = like};
    return lane->classes++;
}

/* To the half second in which an operation is over. */
static void go_to(const struct taping *taping, struct lane *lane, double over_ns)
{
    double since_ns = over_ns > BEGIN_NS ? over_ns - BEGIN_NS : 0;
    while (lane->half < taping->tape->halves && since_ns >= (lane->half + 1.0) * HALF_NS) {
        lane->at[lane->half++] = lane->now;
        muster_thinning_turn(&lane->thinning, (lane->half + 1) * HALF_NS, MUSTER_GATHER_BYTES);
    }
}

static void take_op(void *arg, unsigned rank, enum job_group group, const struct muster_op *op,
                    double over_ns)
{
    struct taping *taping = arg;
    struct lane *lane = &taping->lane[rank];
    go_to(taping, lane, over_ns);
    lane->now.calls[group] += op->peer < 0;
    lane->now.called_ns = op->enqueue_ns;
    if (lane->half == taping->tape->halves || op->end_ns == 0 ||
        !muster_thinning_takes(&lane->thinning, lane->comm[group], op->number))
        return;
    if (!muster_reserve(&lane->op, &lane->room, lane->n + 1, sizeof *lane->op))
        must(NULL);
    lane->op[lane->n++] = (struct muster_wire_op){.class = class_of(lane, group, op),
                                                  .number = op->number,
                                                  .enqueue_ns = op->enqueue_ns,
                                                  .begin_ns = op->begin_ns,
                                                  .end_ns = op->end_ns};
    lane->now.ops = (uint32_t)lane->n;
}

static void take_net(void *arg, unsigned rank, enum job_group group,
                     const struct muster_seg_net *net)
{
    (void)arg, (void)rank, (void)group, (void)net; /* agents do not tell it */
}

/* ---- messages ---- */

struct draft {
    struct muster_wire_message message;
    struct muster_wire_process process[JOB_HOST_GPUS];
    struct muster_wire_comm comm[JOB_HOST_GPUS][GROUPS];
};

static void put_comm(const struct lane *lane, const struct moment *now, unsigned g, bool again,
                     unsigned rank, struct muster_wire_process *process)
{
    struct muster_wire_comm *to = &process->comm[process->comms++];
    memset(to, 0, sizeof *to);
    to->described = again;
    to->seg.uid = g + 1;
    to->seg.id = lane->comm[g];
    to->seg.rank = (int32_t)lane->rank[g];
    to->seg.nranks = lane->nranks[g];
    to->seg.nnodes = lane->nnodes[g];
    to->seg.gpu_index = (int32_t)(rank % JOB_HOST_GPUS);
    snprintf(to->seg.gpu_uuid, sizeof to->seg.gpu_uuid, "GPU-%08x-0000-0000-0000-000000000000",
             rank);
    to->seg.calls = to->seg.launches = to->seg.launches_ended = to->seg.launches_probed =
        now->calls[g];
    to->seg.called_ns = to->seg.ended_ns = now->called_ns;
}

static void put_rank(struct taping *taping, unsigned rank, unsigned half, bool again,
                     uint64_t mono_ns, struct muster_wire_process *process)
{
    struct lane *lane = &taping->lane[rank];
    const struct moment *now = &lane->at[half];
    size_t from = half ? lane->at[half - 1].ops : 0;
    process->pid = 1000 + rank % JOB_HOST_GPUS;
    process->start_ticks = 1;
    process->state = MUSTER_PROCESS_RUNNING;
    process->heartbeat_ns = mono_ns;
    process->described = again;
    process->identity.rank = (int32_t)rank;
    process->identity.local_rank = (int32_t)(rank % JOB_HOST_GPUS);
    process->identity.world = (int32_t)taping->job->ranks;
    process->identity.timing = MUSTER_TIMING_AUTO;
    process->identity.begin_mono_ns = taping->host_ns[job_host(rank)];
    for (unsigned k = 0, places = 0; k < GROUPS && (again || places < PLACES); k++) {
        unsigned g = (lane->turn + k) % GROUPS;
        if (!lane->comm[g])
            continue;
        put_comm(lane, now, g, again, rank, process);
        places++;
    }
    lane->turn = (lane->turn + PLACES) % GROUPS;
    lane->published = again ? 0 : lane->published;
    process->ops = now->ops - from;
    process->op = lane->op + from;
    unsigned needed = lane->published;
    for (size_t i = 0; i < process->ops; i++)
        needed = process->op[i].class >= needed ? process->op[i].class + 1 : needed;
    process->class = lane->class + lane->published;
    process->classes = needed - lane->published;
    lane->published = needed;
}

static void put_message(struct taping *taping, unsigned host, unsigned half, bool again,
                        struct draft *draft)
{
    struct fleet_tape *tape = taping->tape;
    size_t i = (size_t)half * tape->hosts + host;
    struct muster_wire_out out = {0};
    memset(draft, 0, sizeof *draft);
    draft->message.mono_ns = taping->host_ns[host] + BEGIN_NS + (half + 1) * HALF_NS;
    for (unsigned r = 0; r < JOB_HOST_GPUS; r++) {
        draft->process[r].comm = draft->comm[r];
        put_rank(taping, host * JOB_HOST_GPUS + r, half, again, draft->message.mono_ns,
                 &draft->process[r]);
        muster_wire_write_process(&draft->message, &draft->process[r], &out);
    }
    if (out.failed || !muster_reserve(&tape->byte, &tape->room, tape->bytes + out.used, 1))
        must(NULL);
    tape->at[i] = tape->bytes;
    tape->again[i] = again;
    tape->mono_ns[i] = draft->message.mono_ns;
    memcpy(tape->byte + tape->bytes, out.byte, out.used);
    tape->bytes += out.used;
    free(out.byte);
}

static void put_all(struct taping *taping, fleet_begins *begins)
{
    struct fleet_tape *tape = taping->tape;
    struct draft *draft = must(malloc(sizeof *draft));
    for (unsigned half = 0; half < tape->halves; half++)
        for (unsigned host = 0; host < tape->hosts; host++)
            put_message(taping, host, half, half % AGAIN == host % AGAIN || begins(host, half),
                        draft);
    tape->at[(size_t)tape->halves * tape->hosts] = tape->bytes;
    free(draft);
}

void fleet_tape_make(const struct job *job, unsigned halves, fleet_begins *begins,
                     struct fleet_tape *tape)
{
    struct taping taping = {.job = job, .tape = tape};
    const struct recording_sink sink = {&taping, take_rank, take_member, take_op, take_net};
    struct recorded recorded;
    *tape = (struct fleet_tape){.hosts = job->ranks / JOB_HOST_GPUS, .halves = halves};
    size_t n = (size_t)halves * tape->hosts + 1;
    tape->at = must(calloc(n, sizeof *tape->at));
    tape->again = must(calloc(n, sizeof *tape->again));
    tape->mono_ns = must(calloc(n, sizeof *tape->mono_ns));
    taping.lane = must(calloc(job->ranks, sizeof *taping.lane));
    taping.host_ns = must(calloc(tape->hosts, sizeof *taping.host_ns));
    for (unsigned r = 0; r < job->ranks; r++)
        taping.lane[r].at = must(calloc(halves + 1, sizeof(struct moment)));
    recording_make(job, &sink, &recorded);
    for (unsigned r = 0; r < job->ranks; r++)
        go_to(&taping, &taping.lane[r], (halves + 2.0) * HALF_NS + BEGIN_NS);
    put_all(&taping, begins);
    for (unsigned r = 0; r < job->ranks; r++) {
        free(taping.lane[r].op);
        free(taping.lane[r].at);
    }
    free(taping.lane);
    free(taping.host_ns);
}

void fleet_tape_free(struct fleet_tape *tape)
{
    free(tape->byte);
    free(tape->at);
    free(tape->again);
    free(tape->mono_ns);
}
