#include "wire_made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS 10000000ull /* of the job */
#define OWN_NS  3000000ull  /* what a rank does by itself between two operations */
#define SEND_NS 1000000ull

struct made *made_new(unsigned host, unsigned hosts)
{
    struct made *made = calloc(1, sizeof *made);
    struct muster_wire_message *message = &made->message;
    message->instance = 0x1000 + host;
    message->mono_ns = (100 + 7 * host) * MADE_SECOND;
    message->described = true;
    message->boot_hash = 77 + host;
    message->uid = 1000;
    snprintf(message->host, sizeof message->host, "node%u", host);
    snprintf(message->hostname, sizeof message->hostname, "node%u", host);
    snprintf(message->run_dir, sizeof message->run_dir, MADE_RUN);
    message->process = made->process;
    message->processes = MADE_RANKS;
    for (unsigned i = 0; i < MADE_RANKS; i++) {
        struct muster_wire_process *process = &made->process[i];
        int rank = (int)(host * MADE_RANKS + i);
        process->pid = 500 + i;
        process->start_ticks = 9000 + i;
        process->described = true;
        process->identity.rank = rank;
        process->identity.local_rank = (int)i;
        process->identity.world = (int)(hosts * MADE_RANKS);
        process->identity.begin_mono_ns = message->mono_ns - 20 * MADE_SECOND;
        process->identity.begin_unix_ns =
            (1000 + host * 5000) * MADE_SECOND; /* no clock is right */
        process->identity.timing = MUSTER_TIMING_AUTO;
        process->comm = &made->comm[i];
        process->comms = 1;
        process->class = &made->class[i];
        process->classes = 1;
        process->op = made->op[i];
        made->comm[i].described = true;
        made->comm[i].seg.uid = 1;
        made->comm[i].seg.id = MADE_COMM;
        made->comm[i].seg.rank = rank;
        made->comm[i].seg.nranks = hosts * MADE_RANKS;
        made->comm[i].seg.nnodes = hosts;
        made->comm[i].seg.gpu_index = (int)i;
        snprintf(made->comm[i].seg.name, sizeof made->comm[i].seg.name, "world");
        made->class[i] = (struct muster_wire_class){.id = 5,
                                                    .like = {.count = 1 << 18,
                                                             .comm = 1,
                                                             .peer = -1,
                                                             .func = MUSTER_FUNC_ALL_REDUCE,
                                                             .dtype = MUSTER_DTYPE_FLOAT32,
                                                             .algo = MUSTER_ALGO_RING,
                                                             .proto = MUSTER_PROTO_SIMPLE,
                                                             .channels = 8,
                                                             .source = MUSTER_SOURCE_EVENT}};
    }
    return made;
}

/* Operation n of the job: everybody begins when he is ready, and it ends when the last one came. */
static void make_op(struct made *made, unsigned i, uint64_t n, int late, struct muster_wire_op *op)
{
    int rank = made->process[i].identity.rank;
    uint64_t host_ns = made->process[i].identity.begin_mono_ns + n * STEP_NS;
    uint64_t jitter = (n * 7919 + (uint64_t)rank * 104729) % 20000;
    uint64_t begin = OWN_NS + jitter + (rank == late ? 4000000 : 0);
    uint64_t end = OWN_NS + 20000 + SEND_NS + (late >= 0 ? 4000000 : 0);
    uint64_t gpu = 1700000000ull * MADE_SECOND + (uint64_t)rank * 123456789 + n * STEP_NS;
    *op = (struct muster_wire_op){.class = 5,
                                  .number = n,
                                  .enqueue_ns = host_ns + begin - 500000,
                                  .begin_ns = gpu + begin,
                                  .end_ns = gpu + end};
}

void made_step(struct made *made, int late)
{
    struct muster_wire_message *message = &made->message;
    uint64_t calls = made->comm[0].seg.calls;
    enum { EACH = 50 };
    if (calls)
        message->sequence++;
    message->mono_ns = made->process[0].identity.begin_mono_ns + (calls + EACH) * STEP_NS;
    for (unsigned i = 0; i < MADE_RANKS; i++) {
        for (unsigned k = 0; k < EACH; k++)
            make_op(made, i, calls + k, late, &made->op[i][k]);
        made->process[i].ops = EACH;
        made->process[i].heartbeat_ns = message->mono_ns - 1000;
        made->comm[i].seg.calls = made->comm[i].seg.launches = calls + EACH;
        made->comm[i].seg.launches_ended = made->comm[i].seg.launches_probed = calls + EACH;
        made->comm[i].seg.called_ns = made->op[i][EACH - 1].enqueue_ns;
    }
}

void made_rest(struct made *made)
{
    made->message.sequence++;
    made->message.mono_ns += MADE_SECOND / 2;
    for (unsigned i = 0; i < MADE_RANKS; i++) {
        made->process[i].ops = 0;
        if (made->process[i].state != MUSTER_PROCESS_KILLED)
            made->process[i].heartbeat_ns = made->message.mono_ns - 1000;
    }
}

unsigned char *made_bytes(const struct made *made, size_t *bytes)
{
    struct muster_wire_out out = {0};
    muster_wire_write(&made->message, &out);
    *bytes = out.used;
    return out.failed ? NULL : out.byte;
}
