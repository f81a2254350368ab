#include "fleet/picture.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/nccl_types.h"
#include "base/text.h"

struct shown_rank {
    const struct muster_join_process *process;
    struct muster_rank_cost cost;
    bool heard;
};

struct shown_comm {
    uint64_t id, calls, least, called_ns; /* called: how long ago, of the newest */
    const char *name;
    uint32_t nranks, here;
    int32_t behind;
};

struct picture {
    struct muster_arena memory; /* without it there is less */
    const struct muster_join *join;
    uint64_t now_ns, server_ns;
    struct shown_rank *rank;
    size_t ranks;
    struct shown_comm *comm;
    size_t comms;
    struct muster_hashmap by_id;
    uint64_t up_ns, progress_ns, compared, calls;
    uint32_t nccl;
};

/* How long ago something was on a host's clock: what passed until it sent that, and since then. */
static uint64_t ago(const struct picture *picture, const struct muster_join_process *process,
                    uint64_t at_ns)
{
    const struct muster_join_host *host = &picture->join->host[process->host];
    uint64_t then = process->seen_ns > at_ns ? process->seen_ns - at_ns : 0;
    return then + (picture->server_ns > host->heard_ns ? picture->server_ns - host->heard_ns : 0);
}

/* ---- what there is ---- */

static struct shown_comm *comm_of(struct picture *picture, const struct muster_seg_comm *from)
{
    size_t at = muster_hashmap_find(&picture->by_id, &from->id);
    if (at != SIZE_MAX)
        return &picture->comm[at];
    struct muster_arena *memory = &picture->memory;
    if (memory->failed)
        return NULL;
    struct shown_comm *comm =
        muster_arena_add(memory, &picture->comm, &picture->comms, sizeof *comm);
    *comm = (struct shown_comm){.id = from->id,
                                .name = from->name,
                                .least = UINT64_MAX,
                                .called_ns = UINT64_MAX,
                                .behind = -1};
    memory->failed =
        memory->failed || !muster_hashmap_put(&picture->by_id, &from->id, picture->comms - 1);
    return comm;
}

static void take_comm(struct picture *picture, const struct muster_join_process *process,
                      const struct muster_seg_comm *from)
{
    struct shown_comm *comm = comm_of(picture, from);
    uint64_t since = from->called_ns ? ago(picture, process, from->called_ns) : UINT64_MAX;
    uint64_t ended = from->ended_ns ? ago(picture, process, from->ended_ns) : UINT64_MAX;
    picture->progress_ns = since < picture->progress_ns ? since : picture->progress_ns;
    picture->progress_ns = ended < picture->progress_ns ? ended : picture->progress_ns;
    if (!comm)
        return;
    comm->here++;
    comm->nranks = from->nranks > comm->nranks ? from->nranks : comm->nranks;
    comm->called_ns = since < comm->called_ns ? since : comm->called_ns;
    comm->calls = from->calls > comm->calls ? from->calls : comm->calls;
    if (from->calls < comm->least) {
        comm->least = from->calls;
        comm->behind = process->segment->identity.rank;
    }
}

static uint64_t calls_of(const struct muster_join_process *process)
{
    uint64_t calls = 0;
    for (unsigned c = 0; c < MUSTER_SEG_COMMS && process->segment->comm[c].uid; c++)
        calls += process->segment->comm[c].calls;
    return calls;
}

static void take_process(struct picture *picture, const struct muster_rank_costs *costs, size_t i)
{
    const struct muster_join_process *process = &picture->join->process[i];
    const struct muster_join_host *host = &picture->join->host[process->host];
    const struct muster_seg_identity *who = &process->segment->identity;
    if (host->instance == 0)
        return;
    struct shown_rank *rank = &picture->rank[picture->ranks++];
    *rank =
        (struct shown_rank){.process = process,
                            .cost = i < costs->n ? costs->cost[i] : (struct muster_rank_cost){0},
                            .heard = muster_join_hears(picture->join, host, picture->now_ns)};
    picture->calls += calls_of(process);
    uint64_t up = process->seen_ns > who->begin_mono_ns ? process->seen_ns - who->begin_mono_ns : 0;
    picture->up_ns = up > picture->up_ns ? up : picture->up_ns;
    picture->nccl = who->nccl ? who->nccl : picture->nccl;
    picture->compared =
        rank->cost.operations > picture->compared ? rank->cost.operations : picture->compared;
    for (unsigned c = 0; rank->heard && c < MUSTER_SEG_COMMS && process->segment->comm[c].uid; c++)
        if (process->segment->comm[c].end_ns == 0)
            take_comm(picture, process, &process->segment->comm[c]);
}

/* The costliest first; where none costs, who fell silent or ended. */
static int by_cost(const void *left, const void *right)
{
    const struct shown_rank *a = left, *b = right;
    if (a->cost.late_ns != b->cost.late_ns)
        return a->cost.late_ns > b->cost.late_ns ? -1 : 1;
    if (a->heard != b->heard)
        return a->heard ? 1 : -1;
    int32_t ra = a->process->segment->identity.rank, rb = b->process->segment->identity.rank;
    return (ra > rb) - (ra < rb);
}

/* Those whose ranks are farthest apart first, then the largest. */
static int by_distance(const void *left, const void *right)
{
    const struct shown_comm *a = left, *b = right;
    uint64_t far_a = a->calls - a->least, far_b = b->calls - b->least;
    if (far_a != far_b)
        return far_a > far_b ? -1 : 1;
    if (a->nranks != b->nranks)
        return a->nranks > b->nranks ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* ---- as JSON ---- */

static void write_age(struct muster_json *json, const char *name, uint64_t ns)
{
    if (ns == UINT64_MAX)
        muster_json_null(json, name);
    else
        muster_json_real(json, name, (double)ns / 1e9, 3);
}

/* The newest operation that it sent: of a busy job one of a sample. */
static void write_call(const struct picture *picture, const struct muster_join_process *process,
                       struct muster_json *json)
{
    char call[64], size[32];
    uint64_t newest = 0;
    for (unsigned c = 0; c < MUSTER_SEG_COMMS && process->segment->comm[c].uid; c++)
        if (process->segment->comm[c].called_ns > newest)
            newest = process->segment->comm[c].called_ns;
    if (process->ops == 0)
        return;
    const struct muster_op *op = &process->op[process->ops - 1];
    muster_text_bytes(size, sizeof size, op->count * muster_dtype_bytes(op->dtype));
    snprintf(call, sizeof call, "%s #%llu (%s)", muster_func_name(op->func),
             (unsigned long long)op->number, size);
    muster_json_str(json, "call", call);
    write_age(json, "since_s", newest ? ago(picture, process, newest) : UINT64_MAX);
}

static void write_rank(const struct picture *picture, const struct shown_rank *rank,
                       struct muster_json *json)
{
    const struct muster_seg_identity *who = &rank->process->segment->identity;
    muster_json_object(json, NULL);
    muster_json_i64(json, "rank", who->rank);
    muster_json_str(json, "host", who->host);
    muster_json_i64(json, "gpu",
                    rank->process->segment->comm[0].uid ? rank->process->segment->comm[0].gpu_index
                                                        : -1);
    muster_json_u64(json, "pid", who->pid);
    muster_json_bool(json, "alive", rank->heard && rank->process->state == MUSTER_PROCESS_RUNNING);
    muster_json_u64(json, "calls", calls_of(rank->process));
    muster_json_u64(json, "compared", rank->cost.operations);
    muster_json_u64(json, "made_wait_ns", rank->cost.late_ns);
    muster_json_u64(json, "waited_ns", rank->cost.wait_ns);
    write_call(picture, rank->process, json);
    muster_json_end(json);
}

static void write_comm(const struct shown_comm *comm, struct muster_json *json)
{
    char id[32];
    snprintf(id, sizeof id, "%016llx", (unsigned long long)comm->id);
    muster_json_object(json, NULL);
    muster_json_str(json, "id", id);
    muster_json_str(json, "name", comm->name);
    muster_json_u64(json, "nranks", comm->nranks);
    muster_json_u64(json, "heard", comm->here);
    muster_json_u64(json, "calls", comm->calls);
    muster_json_i64(json, "behind", comm->calls > comm->least ? comm->behind : -1);
    muster_json_u64(json, "behind_by", comm->calls - comm->least);
    write_age(json, "since_s", comm->called_ns);
    muster_json_end(json);
}

static void write_all(const struct picture *picture, struct muster_json *json)
{
    muster_json_u64(json, "at_ns", picture->server_ns);
    write_age(json, "up_s", picture->up_ns);
    write_age(json, "progress_s", picture->progress_ns);
    muster_json_u64(json, "nccl", picture->nccl);
    muster_json_u64(json, "compared", picture->compared);
    muster_json_u64(json, "calls", picture->calls);
    muster_json_array(json, "ranks_shown");
    for (size_t i = 0; picture->rank && i < picture->ranks && i < MUSTER_PICTURE_RANKS; i++)
        write_rank(picture, &picture->rank[i], json);
    muster_json_end(json);
    muster_json_array(json, "communicators");
    for (size_t i = 0; picture->comm && i < picture->comms && i < MUSTER_PICTURE_COMMS; i++)
        write_comm(&picture->comm[i], json);
    muster_json_end(json);
}

void muster_picture_write(const struct muster_join *join, const struct muster_rank_costs *costs,
                          uint64_t now_ns, struct muster_json *json)
{
    struct picture picture = {.join = join,
                              .now_ns = now_ns,
                              .server_ns = muster_join_server_ns(join, now_ns),
                              .by_id = {.key_bytes = sizeof(uint64_t)},
                              .progress_ns = UINT64_MAX};
    picture.rank = muster_arena_array(&picture.memory, join->processes + 1, sizeof *picture.rank);
    for (size_t i = 0; picture.rank && i < join->processes; i++)
        take_process(&picture, costs, i);
    if (picture.rank && picture.ranks)
        qsort(picture.rank, picture.ranks, sizeof *picture.rank, by_cost);
    if (picture.comm && picture.comms)
        qsort(picture.comm, picture.comms, sizeof *picture.comm, by_distance);
    write_all(&picture, json);
    muster_hashmap_free(&picture.by_id);
    muster_arena_free(&picture.memory);
}
