/* A view of everything that a loaded run holds. */
#include <stdlib.h>
#include <string.h>

#include "diagnose/view.h"
#include "segment/gpus.h"

/* One communicator of one process. */
struct part {
    uint32_t uid;
    uint64_t id;
    int32_t rank;
    uint32_t nranks, nnodes;
    int32_t gpu_index;
    const char *name;
    const char *pci;
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
                                  .name = comm->name,
                                  .pci = ""};
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
                                                      .name = comm->name,
                                                      .pci = comm->gpu_pci};
    }
    qsort(part, n, sizeof *part, by_uid);
    return n;
}

/* Sets `gpu` of the parts; `on` has room for as many. Returns how many GPUs; 0: no memory. */
static uint32_t number_gpus(struct part *part, size_t n, struct muster_gpu_part *on)
{
    for (size_t i = 0; i < n; i++) {
        on[i] = (struct muster_gpu_part){.id = part[i].id,
                                         .rank = part[i].rank,
                                         .nranks = part[i].nranks,
                                         .gpu_index = part[i].gpu_index};
    }
    uint32_t gpus = muster_number_gpus(on, n);
    for (size_t i = 0; i < n; i++) {
        part[i].gpu = on[i].gpu;
    }
    return gpus;
}

/* RANK and its like name a process: with several GPUs in it, the largest communicator tells. */
static int32_t rank_of(const struct muster_process *process, const struct muster_gpu_part *on,
                       size_t n, uint32_t gpu, uint32_t gpus)
{
    return gpus == 1 && process->identity.rank >= 0 ? process->identity.rank
                                                    : muster_rank_of_gpu(on, n, gpu);
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

/* The facts of one of its GPUs. Where only the log is left, communicators name no GPU: a single one
 * is known all the same. */
static void set_facts(struct muster_view_gpu *gpu, const struct muster_process *process,
                      const struct part *part, size_t n, uint32_t which, uint32_t gpus)
{
    const struct muster_facts *facts = process->segment ? &process->segment->facts : NULL;
    if (!facts || facts->head.state == MUSTER_FACTS_NONE) {
        return;
    }
    gpu->facts = facts;
    for (unsigned f = 0; f < MUSTER_FACT_GPUS && !gpu->fact; f++) {
        const struct muster_fact_gpu *fact = &facts->gpu[f];
        bool own = gpus == 1 && f == 0 && !facts->gpu[1].named;
        for (size_t i = 0; i < n && !own; i++) {
            own = part[i].gpu == which && part[i].pci[0] && strcmp(part[i].pci, fact->pci) == 0;
        }
        if (own && fact->known) {
            gpu->fact = fact;
            gpu->use = &facts->use[f];
        }
    }
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

static const struct muster_seg_policy *policy_of(const struct muster_process *process)
{
    return process->segment && process->policy_known ? &process->segment->policy : NULL;
}

static bool has_called(const struct muster_process *process)
{
    for (unsigned i = 0; process->segment && i < MUSTER_SEG_COMMS; i++) {
        if (atomic_load_explicit(&process->segment->comm[i].calls, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static int add_process(struct muster_view *view, const struct muster_process *process, uint32_t p)
{
    size_t room = process->comms + (process->segment ? MUSTER_SEG_COMMS : 0);
    struct part *part = calloc(room + 1, sizeof *part);
    struct muster_gpu_part *on = calloc(room + 1, sizeof *on);
    size_t n = part && on ? collect(process, part) : 0;
    uint32_t gpus = part && on ? number_gpus(part, n, on) : 0;
    if (!gpus) {
        free(part);
        free(on);
        return -1;
    }
    uint32_t first = (uint32_t)view->gpus;
    for (uint32_t g = 0; g < gpus; g++) {
        struct muster_view_gpu gpu = {
            .rank = rank_of(process, on, n, g, gpus),
            .gpu_index = index_of(part, n, g),
            .host = process->identity.host,
            .process = p,
            .timing = (uint8_t)process->identity.timing,
            .host_times = process->identity.replay_speed != UINT32_MAX,
            .unix_ns = (int64_t)(process->identity.begin_unix_ns - process->identity.begin_mono_ns),
            .policy = policy_of(process),
            .called = has_called(process),
            .missing = missing_of(process)};
        set_facts(&gpu, process, part, n, g, gpus);
        muster_view_add_gpu(view, &gpu);
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
    free(on);
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
