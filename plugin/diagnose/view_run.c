/* A view of everything that a loaded run holds. */
#include <stdlib.h>
#include <string.h>

#include "diagnose/view.h"

/* One communicator of one process. */
struct part {
    uint32_t uid;
    uint64_t id;
    int32_t rank;
    uint32_t nranks, nnodes;
    int32_t gpu_index;
    const char *name;
    uint32_t gpu;    /* of the process, from 0 */
    uint32_t handle; /* in the view */
};

static int by_uid(const void *left, const void *right)
{
    const struct part *a = left;
    const struct part *b = right;
    return a->uid < b->uid ? -1 : a->uid > b->uid;
}

static struct part *find(struct part *part, size_t n, uint32_t uid)
{
    struct part key = {.uid = uid};
    return n ? bsearch(&key, part, n, sizeof *part, by_uid) : NULL;
}

/* What log and segment know; the segment says more. By uid. */
static size_t collect(const struct muster_process *process, struct part *part)
{
    size_t n = 0;
    for (size_t i = 0; i < process->comms; i++) {
        const struct muster_log_comm *comm = &process->comm[i];
        part[n++] = (struct part){.uid = comm->uid,
                                  .id = comm->id,
                                  .rank = comm->rank,
                                  .nranks = comm->nranks,
                                  .nnodes = comm->nnodes,
                                  .gpu_index = -1,
                                  .name = comm->name};
    }
    qsort(part, n, sizeof *part, by_uid);
    size_t logged = n;
    for (unsigned i = 0; process->segment && i < MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *comm = &process->segment->comm[i];
        if (!comm->uid) {
            continue;
        }
        struct part *known = find(part, logged, comm->uid);
        *(known ? known : &part[n++]) = (struct part){.uid = comm->uid,
                                                      .id = comm->id,
                                                      .rank = comm->rank,
                                                      .nranks = comm->nranks,
                                                      .nnodes = comm->nnodes,
                                                      .gpu_index = comm->gpu_index,
                                                      .name = comm->name};
    }
    qsort(part, n, sizeof *part, by_uid);
    return n;
}

/* Place among the ranks that one process has in the same communicator. */
static uint32_t place(const struct part *part, size_t n, const struct part *own)
{
    uint32_t before = 0;
    for (size_t i = 0; i < n && own->id; i++) {
        before += part[i].id == own->id && part[i].rank < own->rank;
    }
    return before;
}

/* CUDA ordinals tell a process's GPUs apart; where they are not known, several ranks of one
 * communicator do. Returns how many there are. */
static uint32_t number_gpus(struct part *part, size_t n)
{
    uint32_t gpus = 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0;
        while (part[i].gpu_index >= 0 && part[same].gpu_index != part[i].gpu_index) {
            same++;
        }
        part[i].gpu = part[i].gpu_index < 0 ? place(part, n, &part[i])
                      : same < i            ? part[same].gpu
                                            : gpus;
        gpus = part[i].gpu >= gpus ? part[i].gpu + 1 : gpus;
    }
    return gpus;
}

/* RANK and its like name a process: with several GPUs in it, the largest communicator tells. */
static int32_t rank_of(const struct muster_process *process, const struct part *part, size_t n,
                       uint32_t gpu, uint32_t gpus)
{
    int32_t rank = -1;
    uint32_t nranks = 0;
    if (gpus == 1 && process->identity.rank >= 0) {
        return process->identity.rank;
    }
    for (size_t i = 0; i < n; i++) {
        if (part[i].gpu == gpu && part[i].rank >= 0 && (rank < 0 || part[i].nranks > nranks)) {
            rank = part[i].rank;
            nranks = part[i].nranks;
        }
    }
    return rank;
}

static int32_t index_of(const struct part *part, size_t n, uint32_t gpu)
{
    for (size_t i = 0; i < n; i++) {
        if (part[i].gpu == gpu && part[i].gpu_index >= 0) {
            return part[i].gpu_index;
        }
    }
    return -1;
}

static uint64_t missing_of(const struct muster_process *process)
{
    uint64_t missing = process->ops_missing;
    if (process->segment) {
        missing += atomic_load_explicit(&process->segment->drops[MUSTER_DROP_NO_SLOT],
                                        memory_order_relaxed);
    }
    return missing;
}

static int add_process(struct muster_view *view, const struct muster_process *process, uint32_t p)
{
    size_t room = process->comms + (process->segment ? MUSTER_SEG_COMMS : 0);
    struct part *part = calloc(room + 1, sizeof *part);
    if (!part) {
        return -1;
    }
    size_t n = collect(process, part);
    uint32_t gpus = number_gpus(part, n);
    uint32_t first = (uint32_t)view->gpus;
    for (uint32_t g = 0; g < gpus; g++) {
        muster_view_add_gpu(view, &(struct muster_view_gpu){
                                      .rank = rank_of(process, part, n, g, gpus),
                                      .gpu_index = index_of(part, n, g),
                                      .host = process->identity.host,
                                      .process = p,
                                      .timing = (uint8_t)process->identity.timing,
                                      .host_times = process->identity.replay_speed != UINT32_MAX,
                                      .missing = missing_of(process)});
    }
    for (size_t i = 0; i < n; i++) {
        part[i].handle = muster_view_add_member(view, first + part[i].gpu, part[i].id, part[i].rank,
                                                part[i].nranks, part[i].nnodes, part[i].name);
    }
    const struct part *last = NULL;
    for (size_t i = 0; i < process->ops; i++) {
        const struct muster_op *op = &process->op[i];
        last = last && last->uid == op->comm ? last : find(part, n, op->comm);
        muster_view_add_op(view, last ? last->handle : MUSTER_VIEW_NONE, op);
    }
    for (unsigned i = 0; process->segment && i < MUSTER_SEG_NETS; i++) {
        const struct muster_seg_net *net = &process->segment->net[i];
        const struct part *own = net->comm ? find(part, n, net->comm) : NULL;
        if (own) {
            muster_view_add_net(view, own->handle, net);
        }
    }
    free(part);
    return 0;
}

int muster_view_of_run(const struct muster_run *run, struct muster_view *view,
                       struct muster_err *err)
{
    memset(view, 0, sizeof *view);
    for (uint32_t p = 0; p < run->processes; p++) {
        view->failed |= add_process(view, &run->process[p], p) != 0;
    }
    return muster_view_finish(view, err);
}
