/* What is known of a job's processes, put together for the screen. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hashmap.h"
#include "base/text.h"
#include "top/top_job.h"

/* Shorter than this an operation may just have been called on one rank and be on its way on
 * another. */
#define WAITS_S 0.5

static const struct muster_top_part *part_in(const struct muster_top_process *process, uint64_t id)
{
    for (size_t i = 0; i < process->parts; i++)
        if (process->part[i].id == id)
            return &process->part[i];
    return NULL;
}

/* A rank of a communicator as people know it; as it stands there, if its process is elsewhere. */
static int32_t global_rank(const struct muster_top_job *job, uint64_t id, int32_t rank)
{
    for (size_t i = 0; i < job->processes; i++) {
        const struct muster_top_part *part = part_in(&job->process[i], id);
        if (part && part->rank == rank)
            return job->process[i].who.rank;
    }
    return rank;
}

static void name_send(const struct muster_top_job *job, const struct muster_top_part *part,
                      char *to, size_t room)
{
    const struct muster_top_send *send = &part->send;
    char size[32];
    muster_text_bytes(size, sizeof size, send->count * muster_dtype_bytes(send->dtype));
    if (send->func == MUSTER_FUNC_UNKNOWN)
        snprintf(to, room, "a send or receive");
    else
        snprintf(to, room, "%s %" PRId32 " #%" PRIu64 " (%s)",
                 send->func == MUSTER_FUNC_SEND ? "Send to" : "Recv from",
                 global_rank(job, part->id, send->peer), send->number, size);
}

static void name_collective(const struct muster_top_part *part, char *to, size_t room)
{
    char size[32];
    muster_text_bytes(size, sizeof size, part->call.count * muster_dtype_bytes(part->call.dtype));
    snprintf(to, room, "%s #%" PRIu64 " (%s)",
             part->call.func ? muster_func_name(part->call.func) : "collective", part->calls - 1,
             size);
}

static void fill_call(const struct muster_top_job *job, const struct muster_top_process *process,
                      struct muster_top_rank *rank)
{
    const struct muster_top_part *part = muster_top_process_newest(process);
    if (!part || (!part->calls && !part->sends))
        return;
    if (part->sends)
        name_send(job, part, rank->call, sizeof rank->call);
    else
        name_collective(part, rank->call, sizeof rank->call);
    if (!part->called_ns || part->called_ns > process->seen_ns)
        return;
    rank->since_s = (double)(process->seen_ns - part->called_ns) / 1e9;
    for (size_t i = 0; !part->sends && rank->since_s >= WAITS_S && i < job->processes; i++) {
        const struct muster_top_part *other = part_in(&job->process[i], part->id);
        if (!other || other->calls >= part->calls)
            continue;
        rank->waits_more += rank->waits >= 0;
        rank->waits = rank->waits >= 0 ? rank->waits : job->process[i].who.rank;
    }
}

static void fill_rank(const struct muster_top_job *job, const struct muster_top_process *process,
                      struct muster_top_rank *rank)
{
    *rank = (struct muster_top_rank){.rank = process->who.rank,
                                     .gpu = process->gpu,
                                     .pid = process->who.pid,
                                     .alive = process->alive,
                                     .since_s = NAN,
                                     .waits = -1,
                                     .ops_s = process->alive ? process->ops_s : 0,
                                     .compared = process->compared.operations,
                                     .made_wait_ns = process->compared.late_ns,
                                     .waited_ns = process->compared.wait_ns,
                                     .trends = process->trends};
    muster_text_copy(rank->host, sizeof rank->host, process->who.host);
    memcpy(rank->trend, process->trend, sizeof rank->trend);
    fill_call(job, process, rank);
}

static struct muster_top_comm *comm_of(struct muster_top_filled *filled, struct muster_top *top,
                                       struct muster_hashmap *map,
                                       const struct muster_top_part *part)
{
    size_t at = muster_hashmap_find(map, &part->id);
    if (at != SIZE_MAX)
        return &filled->comm[at];
    struct muster_arena *memory = &filled->memory;
    if (memory->failed)
        return NULL;
    struct muster_top_comm *comm =
        muster_arena_add(memory, &filled->comm, &top->comms, sizeof *comm);
    *comm = (struct muster_top_comm){
        .id = part->id, .nranks = part->nranks, .behind = -1, .since_s = NAN};
    memcpy(comm->name, part->name, sizeof comm->name);
    memory->failed = memory->failed || !muster_hashmap_put(map, &part->id, top->comms - 1);
    return comm;
}

static void fill_comms(struct muster_top_filled *filled, const struct muster_top_job *job,
                       struct muster_top *top)
{
    struct muster_hashmap map = {.key_bytes = sizeof(uint64_t)};
    for (size_t i = 0; i < job->processes; i++) {
        const struct muster_top_process *process = &job->process[i];
        for (size_t p = 0; p < process->parts; p++) {
            const struct muster_top_part *part = &process->part[p];
            struct muster_top_comm *comm = comm_of(filled, top, &map, part);
            if (!comm)
                continue;
            double since = part->called_ns && process->seen_ns > part->called_ns
                               ? (double)(process->seen_ns - part->called_ns) / 1e9
                               : NAN;
            comm->here++;
            comm->since_s = fmin(comm->since_s, since);
            comm->ops_s = fmax(comm->ops_s, process->alive ? part->ops_s : 0);
            comm->calls = part->calls > comm->calls ? part->calls : comm->calls;
        }
    }
    for (size_t i = 0; i < job->processes; i++)
        for (size_t p = 0; p < job->process[i].parts; p++) {
            const struct muster_top_part *part = &job->process[i].part[p];
            size_t at = muster_hashmap_find(&map, &part->id);
            struct muster_top_comm *comm =
                filled->comm && at < top->comms ? &filled->comm[at] : NULL;
            if (!comm || comm->calls - part->calls <= comm->behind_by)
                continue;
            comm->behind = job->process[i].who.rank;
            comm->behind_by = comm->calls - part->calls;
        }
    muster_hashmap_free(&map);
}

static void add_class(struct muster_top_filled *filled, struct muster_top *top,
                      struct muster_hashmap *map, const struct muster_top_class *from)
{
    const uint8_t key[] = {from->func, from->algo, from->proto, from->size_log2};
    size_t at = muster_hashmap_find(map, key);
    if (at == SIZE_MAX) {
        struct muster_arena *memory = &filled->memory;
        if (memory->failed)
            return;
        struct muster_top_class *class =
            muster_arena_add(memory, &filled->class, &top->classes, sizeof *class);
        *class = *from;
        memory->failed = memory->failed || !muster_hashmap_put(map, key, top->classes - 1);
        return;
    }
    if (!filled->class || at >= top->classes)
        return;
    struct muster_top_class *class = &filled->class[at];
    class->count += from->count;
    class->bytes += from->bytes;
    class->timed += from->timed;
    class->sum_ns += from->sum_ns;
    class->max_ns = from->max_ns > class->max_ns ? from->max_ns : class->max_ns;
}

static int by_time(const void *left, const void *right)
{
    const struct muster_top_class *a = left, *b = right;
    if (a->sum_ns != b->sum_ns)
        return a->sum_ns > b->sum_ns ? -1 : 1;
    return (a->count < b->count) - (a->count > b->count);
}

static void fill_classes(struct muster_top_filled *filled, const struct muster_top_job *job,
                         struct muster_top *top)
{
    struct muster_hashmap map = {.key_bytes = 4};
    uint64_t count = 0, timed = 0;
    for (size_t i = 0; i < job->processes; i++)
        for (size_t c = 0; c < job->process[i].classes; c++) {
            const struct muster_top_class *class = &job->process[i].class[c];
            count += class->count;
            timed += class->timed;
            add_class(filled, top, &map, class);
        }
    muster_hashmap_free(&map);
    top->timed_share = count ? (double)timed / (double)count : NAN;
    if (filled->class)
        qsort(filled->class, top->classes, sizeof *filled->class, by_time);
}

struct gather {
    struct muster_finding *finding;
    size_t n;
};

static void gather_finding(void *arg, const struct muster_finding *finding)
{
    struct gather *gather = arg;
    if (gather->n < MUSTER_TOP_FINDINGS)
        gather->finding[gather->n++] = *finding;
}

/* Kinds are numbered with the worst first. */
static int by_weight(const void *left, const void *right)
{
    const struct muster_finding *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->cost_s < b->cost_s) - (a->cost_s > b->cost_s);
}

static void fill_findings(struct muster_top_filled *filled, const struct muster_top_job *job,
                          struct muster_top *top)
{
    struct gather gather = {.finding = filled->finding};
    muster_agent_job_findings(job->evaluator, gather_finding, &gather);
    top->finding = filled->finding;
    top->findings = gather.n;
    if (gather.n)
        qsort(filled->finding, gather.n, sizeof *filled->finding, by_weight);
    for (size_t f = 0; f < gather.n; f++) {
        const struct muster_finding *finding = &filled->finding[f];
        bool names = muster_finding_rows[finding->kind].scope != MUSTER_SCOPE_PATH;
        for (unsigned i = 0; names && i < finding->ranks; i++)
            for (size_t r = 0; r < top->ranks; r++)
                filled->rank[r].culprit |= filled->rank[r].rank == finding->rank[i];
    }
}

static void fill_header(const struct muster_top_job *job, struct muster_top *top)
{
    uint64_t moved = 0, begin = UINT64_MAX, seen = 0;
    top->ranks_expected = -1;
    for (size_t i = 0; i < job->processes; i++) {
        const struct muster_top_process *process = &job->process[i];
        uint64_t compared = process->compared.operations;
        top->compared = compared > top->compared ? compared : top->compared;
        top->ranks_alive += process->alive;
        top->ops_s += process->alive ? process->ops_s : 0;
        top->nccl = process->who.nccl ? process->who.nccl : top->nccl;
        begin = process->who.begin_mono_ns < begin ? process->who.begin_mono_ns : begin;
        seen = process->seen_ns > seen ? process->seen_ns : seen;
        if (process->who.world > top->ranks_expected)
            top->ranks_expected = process->who.world;
        for (size_t p = 0; p < process->parts; p++) {
            const struct muster_top_part *part = &process->part[p];
            moved = part->moved_ns > moved ? part->moved_ns : moved;
            if ((int32_t)part->nranks > top->ranks_expected)
                top->ranks_expected = (int32_t)part->nranks;
        }
    }
    top->up_s = seen > begin ? (double)(seen - begin) / 1e9 : 0;
    top->progress_s = moved ? (double)(seen > moved ? seen - moved : 0) / 1e9 : NAN;
}

void muster_top_filled_free(struct muster_top_filled *filled)
{
    muster_arena_free(&filled->memory);
    filled->rank = NULL;
    filled->comm = NULL;
    filled->class = NULL;
}

void muster_top_fill(const struct muster_top_job *job, struct muster_top_filled *filled,
                     struct muster_top *top)
{
    muster_top_filled_free(filled);
    top->state = job->alive ? MUSTER_TOP_RUNS : MUSTER_TOP_ENDED;
    muster_text_copy(top->run, sizeof top->run, job->who.run_dir);
    filled->rank = muster_arena_array(&filled->memory, job->processes + 1, sizeof *filled->rank);
    for (size_t i = 0; filled->rank && i < job->processes; i++)
        fill_rank(job, &job->process[i], &filled->rank[top->ranks++]);
    fill_header(job, top);
    fill_comms(filled, job, top);
    fill_classes(filled, job, top);
    fill_findings(filled, job, top);
    top->rank = filled->rank;
    top->comm = filled->comm;
    top->class = filled->class;
}
