/*
 * ops_of DIR: every operation of a run that is known one by one, a line of JSON each: rank in its
 * communicator, function, number, peer, count, source, and times in nanoseconds.
 */
#include <inttypes.h>
#include <stdio.h>

#include "run/run.h"

static void print_ops(const struct muster_process *process)
{
    for (size_t i = 0; i < process->ops; i++) {
        const struct muster_op *op = &process->op[i];
        const struct muster_log_comm *comm = muster_process_comm(process, op->comm);
        printf("{\"rank\":%d,\"func\":\"%s\",\"number\":%" PRIu64 ",\"peer\":%d,\"count\":%" PRIu64
               ",\"channels\":%u,\"source\":%u,\"enqueue\":%" PRIu64 ",\"begin\":%" PRIu64
               ",\"end\":%" PRIu64 "}\n",
               comm ? comm->rank : -1, muster_func_name(op->func), op->number, op->peer, op->count,
               op->channels, op->source, op->enqueue_ns, op->begin_ns, op->end_ns);
    }
}

int main(int argc, char **argv)
{
    struct muster_run run;
    struct muster_err err;
    if (argc != 2) {
        fputs("usage: ops_of DIR\n", stderr);
        return 2;
    }
    const char *dir = argv[1];
    struct muster_run_query query = {.run = &dir, .runs = 1};
    if (muster_run_load(&query, &run, &err)) {
        fprintf(stderr, "ops_of: %s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < run.processes; i++)
        print_ops(&run.process[i]);
    muster_run_free(&run);
    return 0;
}
