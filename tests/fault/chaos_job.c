#include "chaos.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fault_hostile.h"
#include "standin.h"

enum { COMMS = 6, DEADLINE_S = 60 };

struct life {
    struct chaos_job *job;
    uint64_t random;
    struct standin nccl;
    struct standin_comm *comm[COMMS];
};

static unsigned below(struct life *life, unsigned n)
{
    return (unsigned)(hostile_random(&life->random) % n);
}

static void open_one(struct life *life)
{
    unsigned i = below(life, COMMS);
    if (life->comm[i])
        return;
    /* Few hashes, so that some come again. */
    struct standin_comm_config config = {.hash = 0xc0de + below(life, 12),
                                         .name = below(life, 2) ? "dp" : NULL,
                                         .rank = (int)below(life, 2),
                                         .nranks = 2 + (int)below(life, 7),
                                         .nnodes = 1 + (int)below(life, 2)};
    struct standin_comm *other = life->comm[below(life, COMMS)];
    if (below(life, 4) == 0)
        config.share_proxy = other;
    life->comm[i] = standin_comm_init(&life->nccl, &config);
    atomic_fetch_add(&life->job->communicators, 1);
}

static void close_one(struct life *life, unsigned i)
{
    if (life->comm[i])
        standin_comm_destroy(life->comm[i]);
    life->comm[i] = NULL;
}

static void reload(struct life *life)
{
    for (unsigned i = 0; i < COMMS; i++)
        close_one(life, i);
    atomic_fetch_add(&life->job->reloads, 1);
    open_one(life);
}

static struct standin_op any_op(struct life *life)
{
    /* No broadcast: some generations show it as a call only, which counts when time has passed. */
    static const char *const funcs[] = {"AllReduce", "AllGather", "ReduceScatter", "Send", "Recv"};
    struct standin_op op = {.func = funcs[below(life, 5)],
                            .count = 1 + below(life, 100000),
                            .root_or_peer = 1,
                            .channels = 1 + below(life, 8),
                            .unrecorded = true};
    if (op.func[0] == 'A' && below(life, 8) == 0) {
        op.net_ops = 1;
        op.net_peer = 1;
        op.net_steps = 2;
        op.net_chunk = 512;
        op.net_send = below(life, 2);
    }
    return op;
}

static void call_some(struct life *life)
{
    struct standin_comm *comm = life->comm[below(life, COMMS)];
    if (!comm)
        return;
    struct standin_op op = any_op(life);
    for (unsigned n = 1 + below(life, 150); n > 0; n--) {
        atomic_fetch_add(&life->job->begun, 1);
        standin_call(comm, &op);
        atomic_fetch_add(&life->job->done, 1);
    }
    if (below(life, 2))
        standin_comm_sync(comm);
}

/* As a data loader's worker: it leaves at once, by exit handlers, by a signal, or calls on. */
static void child_main(struct life *life)
{
    void *handle;
    struct standin_comm *comm = life->comm[below(life, COMMS)];
    struct standin_event event = {
        .type = STANDIN_COLL, .func = "AllReduce", .dtype = "ncclFloat32", .count = 7};
    switch (below(life, 4)) {
    case 0:
        _exit(0);
    case 1:
        raise(SIGKILL);
        break;
    case 2:
        break;
    default:
        for (unsigned i = 0; comm && i < 20; i++) {
            standin_start(&life->nccl, comm->context, &handle, &event);
            standin_stop(&life->nccl, handle);
        }
        if (comm)
            standin_finalize(&life->nccl, comm->context);
    }
    exit(0);
}

static void fork_one(struct life *life)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        child_main(life);
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status && status != SIGKILL)
        standin_die("a forked child left with %#x", status);
    atomic_fetch_add(&life->job->forks, 1);
}

static void act(struct life *life)
{
    switch (below(life, 16)) {
    case 0:
        close_one(life, below(life, COMMS));
        break;
    case 1:
        fork_one(life);
        break;
    case 2:
        reload(life);
        break;
    case 3:
        /* Some generations unload the plugin then, from under the others. */
        if (!life->nccl.gen->late_init || life->nccl.refs == 0)
            standin_comm_init_failing(&life->nccl);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        open_one(life);
        break;
    default:
        call_some(life);
    }
}

void chaos_job_main(struct chaos_job *job)
{
    static struct life life;
    alarm(DEADLINE_S);
    life.job = job;
    life.random = job->seed;
    job->api = job->plain ? 5 : 1 + below(&life, standin_generations_n);
    standin_open(&life.nccl, job->api, NULL);
    open_one(&life);
    for (unsigned n = job->plain ? 0 : 3 + below(&life, 25); n > 0; n--)
        act(&life);
    /* Half of them leave their communicators as they are. */
    if (below(&life, 2))
        for (unsigned i = 0; i < COMMS; i++)
            close_one(&life, i);
    job->leaves_ns = muster_now_ns();
    exit(0);
}
