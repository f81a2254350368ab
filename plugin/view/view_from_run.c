/* A view of everything that a loaded run holds. */
#include <stdlib.h>
#include <string.h>

#include "run/refresh.h"
#include "run/run_gpus.h"
#include "view/read_ahead.h"
#include "view/stretches.h"
#include "view/view_internal.h"

/* One communicator of one process. */
struct part {
    uint32_t uid;
    uint64_t id;
    int32_t rank;
    uint32_t nranks, nnodes;
    int32_t gpu_index;
    const char *name;
    const struct muster_seg_comm *entry; /* NULL: only the log knows it */
    uint32_t gpu;                        /* of the process, from 0 */
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

/* What log and segment know; the segment has more. By uid. */
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
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *comm = &process->segment->comm[i];
        if (!comm->uid)
            continue;
        struct part *known = find(part, logged, comm->uid);
        *(known ? known : &part[n++]) = (struct part){.uid = comm->uid,
                                                      .id = comm->id,
                                                      .rank = comm->rank,
                                                      .nranks = comm->nranks,
                                                      .nnodes = comm->nnodes,
                                                      .gpu_index = comm->gpu_index,
                                                      .name = comm->name,
                                                      .entry = comm};
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
    for (size_t i = 0; i < n; i++)
        part[i].gpu = on[i].gpu;
    return gpus;
}

/* RANK and its like name a process: with several GPUs in it, the largest communicator decides. */
static int32_t rank_of(const struct muster_process *process, const struct muster_gpu_part *on,
                       size_t n, uint32_t gpu, uint32_t gpus)
{
    return gpus == 1 && process->identity.rank >= 0 ? process->identity.rank
                                                    : muster_rank_of_gpu(on, n, gpu);
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

/* What the first communicator on it has of a GPU. */
static void name_gpu(struct muster_view_gpu *gpu, const struct part *part, size_t n, uint32_t which)
{
    gpu->gpu_index = -1;
    for (size_t i = 0; i < n; i++) {
        const struct muster_seg_comm *entry = part[i].entry;
        if (part[i].gpu != which || !entry || entry->gpu_index < 0)
            continue;
        gpu->gpu_index = entry->gpu_index;
        gpu->pci = or_null(entry->gpu_pci);
        gpu->uuid = or_null(entry->gpu_uuid);
        return;
    }
}

/* The facts of one of its GPUs. Where communicators name no GPU, as old interfaces let them, a
 * single one is known all the same. */
static void set_facts(struct muster_view_gpu *gpu, const struct muster_process *process,
                      const struct part *part, size_t n, uint32_t which, uint32_t gpus)
{
    const struct muster_facts *facts = &process->segment->facts;
    if (facts->head.state == MUSTER_FACTS_NONE)
        return;
    gpu->facts = facts;
    for (unsigned f = 0; f < MUSTER_FACT_GPUS && !gpu->fact; f++) {
        const struct muster_fact_gpu *fact = &facts->gpu[f];
        bool own = gpus == 1 && f == 0 && !facts->gpu[1].named;
        for (size_t i = 0; i < n && !own; i++) {
            own = part[i].gpu == which && part[i].entry && part[i].entry->gpu_pci[0] &&
                  strcmp(part[i].entry->gpu_pci, fact->pci) == 0;
        }
        if (own && fact->known) {
            gpu->fact = fact;
            gpu->use = &facts->use[f];
        }
    }
}

static uint64_t missing_of(const struct muster_process *process)
{
    return process->ops_missing +
           atomic_load_explicit(&process->segment->drops[MUSTER_DROP_NO_SLOT],
                                memory_order_relaxed);
}

static bool has_called(const struct muster_process *process)
{
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++)
        if (atomic_load_explicit(&process->segment->comm[i].calls, memory_order_relaxed))
            return true;
    return false;
}

static void add_gpus(struct muster_view *view, const struct muster_process *process, uint32_t p,
                     const struct part *part, const struct muster_gpu_part *on, size_t n,
                     uint32_t gpus)
{
    for (uint32_t g = 0; g < gpus; g++) {
        struct muster_view_gpu gpu = {
            .rank = rank_of(process, on, n, g, gpus),
            .host = process->identity.host,
            .process = p,
            .timing = (uint8_t)process->identity.timing,
            .host_times = process->identity.replay_speed != UINT32_MAX,
            .one_pace = process->identity.replay_speed <= 1,
            .whole_from_ns = muster_process_whole_from_ns(process),
            .unix_ns = (int64_t)(process->identity.begin_unix_ns - process->identity.begin_mono_ns),
            .policy = &process->segment->policy,
            .called = has_called(process),
            .missing = missing_of(process)};
        name_gpu(&gpu, part, n, g);
        set_facts(&gpu, process, part, n, g, gpus);
        muster_view_add_gpu(view, &gpu);
    }
}

static void add_part(struct muster_view *view, const struct part *part, uint32_t first_gpu)
{
    uint32_t handle = muster_view_add_member(view, first_gpu + part->gpu, part->id, part->rank,
                                             part->nranks, part->nnodes, part->name);
    if (handle == MUSTER_VIEW_NONE)
        return;
    view->index->feed[handle].uid = part->uid;
    view->index->feed[handle].entry = part->entry;
}

/* Its GPUs, and its part in communicators. */
static int add_process(struct muster_view *view, const struct muster_process *process, uint32_t p)
{
    size_t room = process->comms + MUSTER_SEG_COMMS;
    struct part *part = calloc(room + 1, sizeof *part);
    struct muster_gpu_part *on = calloc(room + 1, sizeof *on);
    size_t n = part && on ? collect(process, part) : 0;
    uint32_t gpus = part && on ? number_gpus(part, n, on) : 0;
    uint32_t first = (uint32_t)view->gpus;
    if (gpus)
        add_gpus(view, process, p, part, on, n, gpus);
    for (size_t i = 0; gpus && i < n; i++)
        add_part(view, &part[i], first);
    free(part);
    free(on);
    return gpus ? 0 : -1;
}

static uint32_t index_of(const struct muster_view *view, uint32_t p, uint32_t uid)
{
    const struct muster_view_member *own = muster_view_member_of(view, p, uid);
    return own ? (uint32_t)(own - view->member) : MUSTER_VIEW_NONE;
}

static void take_nets(struct muster_view *view, const struct muster_process *process, uint32_t p)
{
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++) {
        const struct muster_seg_net *net = &process->segment->net[i];
        uint32_t own = net->comm ? index_of(view, p, net->comm) : MUSTER_VIEW_NONE;
        if (own != MUSTER_VIEW_NONE)
            muster_view_add_net(view, own, net);
    }
}

struct taking {
    struct muster_view *view;
    struct muster_stretches *stretches;
    uint32_t process, uid, own; /* the member that `uid` is; MUSTER_VIEW_NONE: nobody */
};

/* Whether it is in a stretch that is looked at; what is not, is counted. */
static bool is_kept(const struct taking *taking, const struct muster_op *op)
{
    struct muster_view *view = taking->view;
    if (muster_stretches_keep(taking->stretches, view, taking->own, op))
        return true;
    struct muster_view_gpu *gpu = &view->gpu[view->member[taking->own].gpu];
    if (op->enqueue_ns >= gpu->whole_from_ns)
        gpu->whole_from_ns = op->enqueue_ns + 1;
    view->left_out++;
    return false;
}

static bool take_ops(void *to, const struct muster_op *op, size_t n)
{
    struct taking *taking = to;
    for (size_t i = 0; i < n; i++) {
        if (op[i].comm != taking->uid)
            taking->own = index_of(taking->view, taking->process, op[i].comm);
        taking->uid = op[i].comm;
        if (is_kept(taking, &op[i]))
            muster_view_put_op(taking->view, taking->own, &op[i]);
    }
    return !taking->view->failed;
}

/* How a run's operations are read. */
struct reading {
    struct muster_view *view;
    struct muster_stretches *stretches;
    struct muster_read_ahead *ahead; /* NULL: on this thread */
};

/* One process, the next, its members in by_uid[from, end). */
static int read_process(const struct reading *reading, uint32_t p, size_t from, size_t end,
                        struct muster_err *err)
{
    struct muster_view *view = reading->view;
    const struct muster_process *process = &view->run->process[p];
    struct taking taking = {
        .view = view, .stretches = reading->stretches, .process = p, .own = MUSTER_VIEW_NONE};
    size_t first = view->ops;
    if (reading->ahead ? muster_read_ahead_next(reading->ahead, take_ops, &taking, err)
                       : muster_process_read_ops(process, take_ops, &taking, err))
        return -1;
    take_nets(view, process, p);
    if (view->failed || muster_view_group_ops(view, first, view->by_uid + from, end - from))
        return muster_fail_memory(err, "the operations of all ranks");
    return 0;
}

static int read_each(const struct reading *reading, struct muster_err *err)
{
    const struct muster_view *view = reading->view;
    size_t from = 0;
    for (uint32_t p = 0; p < view->run->processes; p++) {
        size_t end = from;
        while (end < view->members && view->gpu[view->member[view->by_uid[end]].gpu].process == p)
            end++;
        if (read_process(reading, p, from, end, err))
            return -1;
        from = end;
    }
    return 0;
}

static int read_all(struct muster_view *view, struct muster_stretches *stretches,
                    struct muster_err *err)
{
    struct muster_read_ahead *ahead = muster_read_ahead_begin(view->run);
    const struct reading reading = {view, stretches, ahead};
    int result = read_each(&reading, err);
    muster_read_ahead_end(ahead);
    return result;
}

static int no_view(struct muster_view *view)
{
    muster_view_free(view);
    return -1;
}

/* First who there is, then what they did, process by process. */
int muster_view_of_run_within(const struct muster_run *run, uint64_t most, struct muster_view *view,
                              struct muster_err *err)
{
    *view = (struct muster_view){.run = run};
    for (uint32_t p = 0; p < run->processes; p++)
        view->failed |= add_process(view, &run->process[p], p) != 0;
    if (view->failed || muster_view_group_members(view, NULL)) {
        muster_fail_memory(err, "the operations of all ranks");
        return no_view(view);
    }
    struct muster_stretches stretches;
    if (muster_stretches_choose(&stretches, view, most, err))
        return no_view(view);
    view->every = stretches.every;
    int result = read_all(view, &stretches, err);
    muster_stretches_free(&stretches);
    if (result)
        return no_view(view);
    muster_view_index_free(view);
    return 0;
}

int muster_view_of_run_aligned(const struct muster_run *run, struct muster_view *view,
                               struct muster_err *err)
{
    uint64_t most = run->processes * MUSTER_VIEW_OPS_A_RANK;
    most = most < MUSTER_VIEW_OPS_MOST ? MUSTER_VIEW_OPS_MOST : most;
    most = most > MUSTER_VIEW_OPS_LARGEST ? MUSTER_VIEW_OPS_LARGEST : most;
    return muster_view_of_run_within(run, most, view, err);
}

int muster_view_of_run(const struct muster_run *run, struct muster_view *view,
                       struct muster_err *err)
{
    return muster_view_of_run_aligned(run, view, err) ? -1 : muster_view_find_times(view, err);
}
