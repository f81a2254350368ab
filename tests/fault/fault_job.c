/* The driven process of the fault tests: a small job on the stand-in, recorded by the plugin. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "fault_plan.h"
#include "standin.h"

static const struct standin_op ops[] = {
    {.func = "AllReduce", .count = 100},
    {.func = "AllGather", .count = 5000, .channels = 8},
    {.func = "Send", .count = 70, .root_or_peer = 1},
    {.func = "AllReduce",
     .count = 1000,
     .net_ops = 1,
     .net_peer = 1,
     .net_steps = 2,
     .net_chunk = 512,
     .net_send = true},
};

static void work(struct standin_comm *comm)
{
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        standin_call_times(comm, &ops[i], 5);
    standin_comm_sync(comm);
}

static struct standin_comm *start(struct standin *nccl, struct fault_plan *plan,
                                  const struct standin_comm_config *config)
{
    uint64_t begin = muster_now_ns();
    struct standin_comm *comm = standin_comm_init(nccl, config);
    plan->start_ns += muster_now_ns() - begin;
    return comm;
}

int main(int argc, char **argv)
{
    static struct standin nccl;
    const char *fd = getenv("FAULT_PLAN");
    struct fault_plan *plan =
        fd ? mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0)
           : MAP_FAILED;

    if (argc < 2 || plan == MAP_FAILED || !fault_enter) {
        fputs("fault_job: for the fault tests only\n", stderr);
        return 95;
    }
    standin_open(&nccl, (unsigned)atoi(argv[1]), &plan->ledger);
    plan->start_ns = 0;
    struct standin_comm *world =
        start(&nccl, plan, &(struct standin_comm_config){.hash = 0xa1, .nranks = 4, .nnodes = 2});
    work(world);
    /* Unloaded and loaded again in between. */
    standin_comm_destroy(world);
    world =
        start(&nccl, plan, &(struct standin_comm_config){.hash = 0xa2, .name = "dp", .nranks = 2});
    struct standin_comm *second =
        start(&nccl, plan, &(struct standin_comm_config){.hash = 0xa3, .nranks = 2});
    work(world);
    work(second);
    plan->done_at_ns = muster_now_ns();
    standin_comm_destroy(second);
    standin_comm_destroy(world);
    standin_close(&nccl);
    fault_enter();
    exit(0);
}
