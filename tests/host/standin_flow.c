#include "standin.h"

#include <string.h>

#include "base/clock.h"

static const struct {
    const char *word;
    unsigned bytes;
} dtypes[] = {{"ncclInt8", 1},     {"Unknown", 1},        {"ncclInt32", 4},
              {"ncclUint32", 4},   {"ncclInt64", 8},      {"ncclUint64", 8},
              {"ncclFloat16", 2},  {"ncclFloat32", 4},    {"ncclFloat64", 8},
              {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};

/* NCCL keeps these per thread and never resets them, so that a stop may come twice. */
static _Thread_local void *coll_api, *p2p_api;

static bool is(const struct standin_op *op, const char *func)
{
    return !strcmp(op->func, func);
}

bool standin_is_p2p(const struct standin_op *op)
{
    return is(op, "Send") || is(op, "Recv");
}

static const char *op_dtype(const struct standin_op *op)
{
    return op->dtype ? op->dtype : "ncclFloat32";
}

static uint64_t op_element(const struct standin_op *op)
{
    for (unsigned i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (!strcmp(dtypes[i].word, op_dtype(op)))
            return dtypes[i].bytes;
    return 0;
}

unsigned standin_op_channels(const struct standin_op *op)
{
    return op->channels ? op->channels : 2;
}

/* --- the ledger ------------------------------------------------------------------------------ */

/* nccl-tests' size. v3 alone says neither how many ranks there are nor the traffic. */
static uint64_t op_bytes(const struct standin_task *task)
{
    const struct standin_op *op = &task->op;
    bool gathers = is(op, "AllGather") || is(op, "ReduceScatter");
    unsigned ranks = gathers && task->comm->nccl->gen->api != 3 ? (unsigned)task->comm->nranks : 1;

    return op->count * op_element(op) * ranks;
}

static uint8_t word_index(const char *word, const char *(*words)(unsigned), unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!strcasecmp(words(i), word))
            return (uint8_t)i;
    return 0;
}

static void ledger_enter(const struct standin_task *task, bool api_only)
{
    const struct standin_op *op = &task->op;
    const struct standin *nccl = task->comm->nccl;
    bool gpu = nccl->full && nccl->gen->api >= 5 && !op->ce && !api_only && !op->aborted &&
               !task->drifted && op->silent_channels < standin_op_channels(op);
    bool plain = !standin_is_p2p(op) && !api_only && !op->ce;
    uint64_t bytes = op_bytes(task);
    uint64_t ns = task->gpu_end_ns - task->gpu_begin_ns;
    struct standin_ledger_entry add = {
        .comm = task->comm->hash,
        .rank = task->comm->rank,
        .peer = standin_is_p2p(op) ? op->root_or_peer : -1,
        .func = word_index(op->func, muster_func_name, MUSTER_FUNCS),
        .algo = plain ? word_index(op->algo ? op->algo : "RING", muster_algo_name, MUSTER_ALGOS)
                      : MUSTER_ALGO_UNKNOWN,
        .proto =
            plain ? word_index(op->proto ? op->proto : "SIMPLE", muster_proto_name, MUSTER_PROTOS)
                  : MUSTER_PROTO_UNKNOWN,
        .size_log2 = bytes ? (uint8_t)(63 - __builtin_clzll(bytes)) : 255,
        .count = 1,
        .bytes = bytes,
        .graph = task->replayed,
        .api_only = api_only,
        .host_timed = op->ce,
        .timed = gpu,
        .sum_ns = gpu ? ns : 0,
        .min_ns = ns,
        .max_ns = ns,
    };

    if (op->ce)
        add.algo = MUSTER_ALGO_CE;
    if (nccl->ledger && !op->unrecorded)
        standin_ledger_add(nccl->ledger, &add);
}

/* --- descriptors of an operation ------------------------------------------------------------- */

/* `api`: as the user said it; else as the kernel gets it. */
static struct standin_event op_event(const struct standin_task *task, enum standin_type type,
                                     bool api)
{
    const struct standin_op *op = &task->op;
    struct standin_comm *comm = task->comm;
    bool in_bytes = !api && (is(op, "AllGather") || is(op, "Broadcast"));
    uint64_t ranks = is(op, "AllGather") || is(op, "ReduceScatter") ? (uint64_t)comm->nranks
                     : is(op, "AllReduce")                          ? 2
                                                                    : 1;
    struct standin_event event = {
        .type = type,
        .rank = api ? 0 : comm->rank,
        .func = op->func,
        .dtype = in_bytes ? "ncclInt8" : op_dtype(op),
        .count = in_bytes ? op->count * op_element(op) : op->count,
        .root_or_peer = op->root_or_peer,
        .algo = op->algo ? op->algo : "RING",
        .proto = op->proto ? op->proto : "SIMPLE",
        .channels = standin_op_channels(op),
        .warps = 17,
        .seq = task->seq,
        .comm_hash = comm->hash,
        .comm_name = comm->name,
        .traffic = op->count * op_element(op) * ranks,
        .stream = comm->stream,
        .symmetric = op->symmetric,
        .user_tag = op->user_tag,
    };
    return event;
}

/* Whose NULL handles are stopped, and whose are left alone. */
static void stop_if(struct standin *nccl, void *handle, bool started)
{
    if (started && (handle || nccl->gen->stops_null))
        standin_stop(nccl, handle);
}

static void call_copy_engines(const struct standin_task *task)
{
    struct standin *nccl = task->comm->nccl;
    struct standin_event coll = op_event(task, STANDIN_CE_COLL, false);
    struct standin_event sync = {.type = STANDIN_CE_SYNC, .ce_n = task->comm->nranks};
    struct standin_event batch = {.type = STANDIN_CE_BATCH, .ce_n = 4, .ce_bytes = coll.count};
    unsigned mask = standin_mask(nccl);
    void *handle = NULL, *part = NULL;
    bool started = standin_delivers(nccl, STANDIN_CE_COLL, mask);

    coll.parent = task->api;
    if (started)
        standin_start(nccl, task->comm->context, &handle, &coll);
    sync.parent = batch.parent = handle;
    if (standin_delivers(nccl, STANDIN_CE_SYNC, mask)) {
        standin_start(nccl, task->comm->context, &part, &sync);
        stop_if(nccl, part, true);
    }
    if (standin_delivers(nccl, STANDIN_CE_BATCH, mask)) {
        standin_start(nccl, task->comm->context, &part, &batch);
        stop_if(nccl, part, true);
    }
    stop_if(nccl, handle, started);
}

/* Behind these the host looks for other works' stamps: no plugin should trust one of them. */
static void drift(struct standin_task *task)
{
    struct standin_comm *comm = task->comm;
    const struct standin_generation *gen = comm->nccl->gen;

    if (standin_is_p2p(&task->op) ? gen->profiler_thread || task->op.root_or_peer == comm->rank
                                  : gen->quiet_broadcast && is(&task->op, "Broadcast"))
        comm->drifted = true;
}

/* --- group begin, append, launch, end -------------------------------------------------------- */

void standin_group_begin(struct standin_group *group, struct standin *nccl)
{
    group->nccl = nccl;
    group->tasks = 0;
    group->api = NULL;
    group->captured = false;
}

static void start_group_api(struct standin_group *group, const struct standin_task *task)
{
    struct standin *nccl = group->nccl;
    struct standin_event event = {.type = STANDIN_GROUP_API, .depth = 1, .graph = group->captured};

    if (!standin_delivers(nccl, STANDIN_GROUP_API, task->mask))
        return;
    standin_start(nccl, task->comm->context, &group->api, &event);
    if (group->api)
        standin_record(nccl, group->api, 23, NULL);
}

static void call_api(struct standin_group *group, struct standin_task *task)
{
    struct standin *nccl = group->nccl;
    bool p2p = standin_is_p2p(&task->op);
    enum standin_type type = p2p ? STANDIN_P2P_API : STANDIN_COLL_API;
    void **handle = p2p ? &p2p_api : &coll_api;

    if (standin_delivers(nccl, type, task->mask)) {
        struct standin_event event = op_event(task, type, true);
        event.parent = group->api;
        event.graph = group->captured;
        standin_start(nccl, task->comm->context, handle, &event);
    }
    if (*handle)
        standin_stop(nccl, *handle);
    task->api = *handle;
}

static uint64_t next_seq(struct standin_comm *comm, const struct standin_op *op)
{
    static const char *const funcs[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                        "AllReduce"};

    for (unsigned i = 0; i < 5; i++)
        if (is(op, funcs[i]))
            return comm->seq[i]++;
    return 0;
}

void standin_group_call(struct standin_group *group, struct standin_comm *comm,
                        const struct standin_op *op)
{
    struct standin *nccl = group->nccl;

    if (!standin_is_p2p(op) && (op->count == 0 || comm->nranks == 1))
        return;
    if (op->ce && !nccl->gen->ce)
        return;
    if (group->tasks == STANDIN_MAX_TASKS)
        standin_die("group too large");
    struct standin_task *task = &group->task[group->tasks];
    *task = (struct standin_task){.comm = comm, .op = *op, .mask = standin_mask(nccl)};
    if (nccl->gen->api_events) {
        if (group->tasks == 0)
            start_group_api(group, task);
        call_api(group, task);
    }
    task->called_ns = muster_now_ns();
    if (!group->captured && !standin_is_p2p(op))
        drift(task);
    group->tasks++;
}

static bool api_only(const struct standin_task *task)
{
    const struct standin_generation *gen = task->comm->nccl->gen;

    return (task->op.symmetric && !gen->symmetric_coll) ||
           (is(&task->op, "Broadcast") && gen->quiet_broadcast);
}

bool standin_shown(const struct standin_task *task)
{
    return !task->op.ce && !api_only(task);
}

static bool planned(const struct standin_task *task, const struct standin_comm *comm)
{
    return task->comm == comm && standin_shown(task);
}

/* All works of one kernel share their stamps. */
static void stamp(struct standin_group *group, struct standin_comm *comm)
{
    uint64_t longest = 0, gap = 1024;

    for (unsigned i = 0; i < group->tasks; i++) {
        struct standin_op *op = &group->task[i].op;
        if (!op->gpu_ns)
            op->gpu_ns = 2048;
        if (planned(&group->task[i], comm) && op->gpu_ns > longest)
            longest = op->gpu_ns;
    }
    uint64_t free_ns = atomic_load(&comm->gpu->clock_ns), begin;
    do {
        uint64_t now = muster_now_ns() + comm->gpu->ahead_ns;
        begin = (free_ns > now ? free_ns : now) + gap;
    } while (!atomic_compare_exchange_weak(&comm->gpu->clock_ns, &free_ns, begin + longest));
    for (unsigned i = 0; i < group->tasks; i++) {
        if (planned(&group->task[i], comm)) {
            group->task[i].gpu_begin_ns = begin;
            group->task[i].gpu_end_ns = begin + longest;
        }
    }
    standin_device_launch(group, comm);
}

static void start_coll(struct standin_group *group, struct standin_task *task, void *plan,
                       unsigned group_mask)
{
    struct standin *nccl = group->nccl;
    enum standin_type type = standin_is_p2p(&task->op) ? STANDIN_P2P : STANDIN_COLL;
    unsigned mask = nccl->gen->mask_at_group ? group_mask : task->mask;
    struct standin_event event;

    task->coll = NULL;
    if (!standin_delivers(nccl, type, mask) || (nccl->gen->coll_needs_group && !plan))
        return;
    if (type == STANDIN_COLL && !task->replayed)
        task->seq = next_seq(task->comm, &task->op);
    event = op_event(task, type, false);
    event.parent = nccl->gen->api >= 5 ? task->api : plan;
    event.parent_group = plan;
    standin_start(nccl, task->comm->context, &task->coll, &event);
    task->called_ns = muster_now_ns();
}

/* A replay's kernel waits for the host node that shows it. */
static void run_replay(struct standin_group *group, struct standin_comm *comm)
{
    if (group->task[0].replayed)
        stamp(group, comm);
}

/* hostStreamPlanTask: one plan's Group event with its operations, and their proxy work. */
static void show_plan(struct standin_group *group, struct standin_comm *comm)
{
    struct standin *nccl = group->nccl;
    struct standin_event event = {.type = STANDIN_GROUP};
    unsigned mask = 0;
    void *plan = NULL;

    for (unsigned i = 0; i < group->tasks; i++)
        if (planned(&group->task[i], comm))
            mask |= group->task[i].mask;
    if (nccl->gen->mask_at_group)
        atomic_store(&nccl->group_mask, mask = standin_mask(nccl));
    bool started = standin_delivers(nccl, STANDIN_GROUP, mask);
    if (started)
        standin_start(nccl, comm->context, &plan, &event);
    for (unsigned i = 0; i < group->tasks; i++) {
        struct standin_task *task = &group->task[i];
        if (!planned(task, comm))
            continue;
        if (standin_is_p2p(&task->op) && (!group->captured || task->replayed))
            drift(task);
        task->drifted = comm->drifted;
        start_coll(group, task, plan,
                   nccl->gen->mask_at_group ? atomic_load(&nccl->group_mask) : mask);
    }
    run_replay(group, comm);
    for (unsigned i = 0; i < group->tasks; i++) {
        struct standin_task *task = &group->task[i];
        if (!planned(task, comm))
            continue;
        if (!group->captured || task->replayed)
            ledger_enter(task, false);
        standin_proxy_post(task);
    }
    standin_device_post(group, comm);
    for (unsigned i = 0; i < group->tasks; i++)
        if (planned(&group->task[i], comm))
            stop_if(nccl, group->task[i].coll, plan || !nccl->gen->coll_needs_group);
    stop_if(nccl, plan, started);
}

static uint64_t kernel_ns(const struct standin_group *group, const struct standin_comm *comm)
{
    uint64_t longest = 0;

    for (unsigned i = 0; i < group->tasks; i++)
        if (planned(&group->task[i], comm) && group->task[i].op.gpu_ns > longest)
            longest = group->task[i].op.gpu_ns;
    return longest;
}

static void launch_kernel(struct standin_group *group, struct standin_comm *comm, unsigned mask)
{
    struct standin *nccl = group->nccl;
    struct standin_event event = {
        .type = STANDIN_KERNEL_LAUNCH, .parent = group->api, .stream = comm->stream};
    bool shown = standin_delivers(nccl, STANDIN_KERNEL_LAUNCH, mask);
    void *handle = NULL;

    if (nccl->driver)
        nccl->driver->use_device(comm->gpu_index);
    if (shown)
        standin_start(nccl, comm->context, &handle, &event);
    if (nccl->driver)
        nccl->driver->launch(comm->stream, kernel_ns(group, comm));
    stop_if(nccl, handle, shown);
}

static bool first_of_comm(const struct standin_group *group, unsigned at)
{
    for (unsigned i = 0; i < at; i++)
        if (group->task[i].comm == group->task[at].comm)
            return false;
    return true;
}

static bool any_planned(const struct standin_group *group, const struct standin_comm *comm)
{
    for (unsigned i = 0; i < group->tasks; i++)
        if (planned(&group->task[i], comm))
            return true;
    return false;
}

/* Only plans with proxy work have a host node in a graph, which shows each replay. */
static bool host_node(const struct standin_group *group)
{
    for (unsigned i = 0; i < group->tasks; i++)
        if (group->task[i].op.net_ops > 0 || group->task[i].mask & STANDIN_KERNEL_CH)
            return true;
    return false;
}

static void launch(struct standin_group *group)
{
    for (unsigned i = 0; i < group->tasks; i++) {
        struct standin_task *task = &group->task[i];
        struct standin_comm *comm = task->comm;
        if (first_of_comm(group, i) && any_planned(group, comm)) {
            stamp(group, comm);
            launch_kernel(group, comm, task->mask);
            if (!group->captured || (comm->nccl->gen->late_init && !host_node(group)))
                show_plan(group, comm);
        } else if (first_of_comm(group, i)) {
            standin_device_launch(group, comm); /* broadcasts whose launch is not shown */
        }
        if (!group->captured && task->op.ce)
            call_copy_engines(task);
        if (!group->captured && (task->op.ce || api_only(task)))
            ledger_enter(task, !task->op.ce);
    }
}

static void launch_copy(void *argument)
{
    launch(argument);
}

void standin_group_end(struct standin_group *group)
{
    struct standin *nccl = group->nccl;

    if (group->tasks == 0)
        return;
    struct standin_comm *first = group->task[0].comm;
    if (group->api)
        standin_record(nccl, group->api, 24, NULL);
    if (first->blocking) {
        launch(group);
        stop_if(nccl, group->api, group->api != NULL);
        return;
    }
    /* The user's thread may leave the group before the group's own thread has begun. */
    stop_if(nccl, group->api, group->api != NULL);
    standin_worker_destroy(first->launcher);
    first->launcher = standin_worker_create("nccl-group");
    standin_worker_post(first->launcher, launch_copy, group, sizeof(*group));
}

void standin_call(struct standin_comm *comm, const struct standin_op *op)
{
    struct standin_group group;

    standin_group_begin(&group, comm->nccl);
    standin_group_call(&group, comm, op);
    standin_group_end(&group);
}

void standin_call_times(struct standin_comm *comm, const struct standin_op *op, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        standin_call(comm, op);
}

/* --- CUDA graphs ----------------------------------------------------------------------------- */

void standin_capture(struct standin_group *graph, struct standin_comm *comm,
                     const struct standin_op *ops, unsigned n)
{
    const struct fake_driver *driver = comm->nccl->driver;

    standin_group_begin(graph, comm->nccl);
    graph->captured = true;
    if (driver)
        driver->capture(comm->stream, true);
    for (unsigned i = 0; i < n; i++)
        standin_group_call(graph, comm, &ops[i]);
    standin_group_end(graph);
    if (driver)
        driver->capture(comm->stream, false);
}

static void replay_plans(void *argument)
{
    struct standin_group *graph = argument;

    for (unsigned i = 0; i < graph->tasks; i++) {
        struct standin_comm *comm = graph->task[i].comm;
        if (first_of_comm(graph, i) && any_planned(graph, comm))
            show_plan(graph, comm);
    }
}

void standin_replay(struct standin_group *graph)
{
    for (unsigned i = 0; i < graph->tasks; i++)
        graph->task[i].replayed = true;
    if (host_node(graph))
        standin_worker_post(graph->nccl->callbacks, replay_plans, graph, sizeof(*graph));
}
