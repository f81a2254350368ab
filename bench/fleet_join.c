/*
 * What a worker of a fleet costs, and how soon it names a late rank: messages as the agents of many
 * hosts would tell them, joined and evaluated, without NATS in between.
 *
 * usage: fleet_join [HOSTS [SECONDS]]    8 ranks a host: a communicator of each host, one of equal
 * ranks of all hosts, one of all; half way through one rank becomes late by a tenth of a step.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "fleet/evaluator.h"
#include "fleet/join.h"
#include "fleet/wire.h"

enum { RANKS = 8, COMMS = 3, STEPS = 3 /* a half second, of COMMS operations each */ };
#define STEP_NS  (MUSTER_NS_PER_S / 2 / STEPS)
#define OWN_NS   (STEP_NS / 4) /* a rank's own work before each operation */
#define SEND_NS  MUSTER_NS_PER_MS
#define DELAY_NS (STEP_NS / 10)
#define RUN      "/scratch/muster-bench"

struct host {
    struct muster_wire_message message;
    struct muster_wire_process process[RANKS];
    struct muster_wire_comm comm[RANKS][COMMS];
    struct muster_wire_class class[RANKS][COMMS];
    struct muster_wire_op op[RANKS][STEPS * COMMS];
};

struct noted {
    unsigned right, wrong;
    int late;
    double first_s, now_s;
};

static void note(void *arg, const struct muster_finding *finding)
{
    struct noted *noted = arg;
    if (finding->resolved)
        return;
    bool right = finding->kind == MUSTER_FINDING_LATE_RANK && finding->rank[0] == noted->late;
    noted->first_s = right && noted->right == 0 ? noted->now_s : noted->first_s;
    noted->right += right;
    noted->wrong += !right;
}

static void describe(struct host *host, unsigned h, unsigned hosts)
{
    struct muster_wire_message *message = &host->message;
    message->instance = h + 1;
    message->uid = 1000;
    message->boot_hash = h;
    snprintf(message->host, sizeof message->host, "node%u", h);
    memcpy(message->hostname, message->host, sizeof message->hostname);
    snprintf(message->run_dir, sizeof message->run_dir, RUN);
    message->process = host->process;
    message->processes = RANKS;
    for (unsigned i = 0; i < RANKS; i++) {
        struct muster_wire_process *process = &host->process[i];
        *process = (struct muster_wire_process){.pid = 100 + i,
                                                .start_ticks = 1,
                                                .comm = host->comm[i],
                                                .comms = COMMS,
                                                .class = host->class[i],
                                                .op = host->op[i]};
        process->identity.rank = (int32_t)(h * RANKS + i);
        process->identity.local_rank = (int32_t)i;
        process->identity.world = (int32_t)(hosts * RANKS);
        process->identity.timing = MUSTER_TIMING_AUTO;
        const uint64_t ids[COMMS] = {0x10000 + h, 0x100 + i, 0x1};
        const uint32_t nranks[COMMS] = {RANKS, hosts, hosts * RANKS};
        const int32_t ranks[COMMS] = {(int32_t)i, (int32_t)h, (int32_t)(h * RANKS + i)};
        for (unsigned c = 0; c < COMMS; c++) {
            struct muster_seg_comm *comm = &host->comm[i][c].seg;
            comm->uid = c + 1;
            comm->id = ids[c];
            comm->rank = ranks[c];
            comm->nranks = nranks[c];
            comm->gpu_index = (int32_t)i;
            host->class[i][c] = (struct muster_wire_class){.id = c,
                                                           .like = {.count = 1u << (16 + c),
                                                                    .comm = c + 1,
                                                                    .peer = -1,
                                                                    .func = MUSTER_FUNC_ALL_REDUCE,
                                                                    .dtype = MUSTER_DTYPE_FLOAT32,
                                                                    .source = MUSTER_SOURCE_EVENT}};
        }
    }
}

/* Everybody waits for the late rank in the communicator of all. */
static void make_op(struct muster_wire_op *op, uint64_t n, unsigned c, int rank, int late,
                    uint64_t shift_ns, uint64_t begin_mono_ns)
{
    uint64_t at = n * STEP_NS + c * (STEP_NS / COMMS) + shift_ns;
    uint64_t jitter = (n * 7919 + (uint64_t)rank * 104729 + c * 31) % (OWN_NS / 50);
    uint64_t delay = late >= 0 && c == COMMS - 1 ? DELAY_NS : 0;
    uint64_t own = OWN_NS + jitter + (rank == late ? delay : 0);
    uint64_t end = OWN_NS + OWN_NS / 50 + SEND_NS + delay;
    uint64_t gpu = 1700000000ull * MUSTER_NS_PER_S + (uint64_t)rank * 999999937u;
    *op = (struct muster_wire_op){.class = c,
                                  .number = n,
                                  .enqueue_ns = begin_mono_ns + at + own - OWN_NS / 2,
                                  .begin_ns = gpu + at + own,
                                  .end_ns = gpu + at + end};
}

static void step(struct host *host, uint64_t half, uint64_t late_from, int late)
{
    uint64_t shift = half < late_from ? 0 : (half - late_from) * STEPS * DELAY_NS;
    bool again = half % 40 == 0;
    uint64_t begin = (1000 + host->message.instance) * MUSTER_NS_PER_S;
    host->message.described = again;
    host->message.sequence = half;
    host->message.mono_ns = begin + (half + 1) * (MUSTER_NS_PER_S / 2) + shift;
    for (unsigned i = 0; i < RANKS; i++) {
        struct muster_wire_process *process = &host->process[i];
        process->described = again;
        process->classes = again ? COMMS : 0;
        process->identity.begin_mono_ns = begin;
        process->heartbeat_ns = host->message.mono_ns;
        process->ops = 0;
        for (unsigned s = 0; s < STEPS; s++)
            for (unsigned c = 0; c < COMMS; c++)
                make_op(&host->op[i][process->ops++], half * STEPS + s, c, process->identity.rank,
                        half < late_from ? -1 : late, shift + s * (half < late_from ? 0 : DELAY_NS),
                        begin);
        for (unsigned c = 0; c < COMMS; c++) {
            struct muster_seg_comm *comm = &host->comm[i][c].seg;
            host->comm[i][c].described = again;
            comm->calls = comm->launches = comm->launches_ended = (half + 1) * STEPS;
            comm->launches_probed = comm->launches;
            comm->called_ns = host->message.mono_ns - 1000;
        }
    }
}

struct cost {
    uint64_t take_ns, evaluate_ns, bytes, longest_ns;
};

static void play_half(struct host *host, unsigned hosts, uint64_t half, uint64_t late_from,
                      int late, struct muster_join *join, struct cost *cost)
{
    for (unsigned h = 0; h < hosts; h++) {
        struct muster_wire_out out = {0};
        struct muster_err err;
        memset(host, 0, sizeof *host);
        describe(host, h, hosts);
        step(host, half, late_from, late);
        muster_wire_write(&host->message, &out);
        uint64_t begin = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t at = (half + 1) * (MUSTER_NS_PER_S / 2);
        if (out.failed || muster_join_take(join, out.byte, out.used, at, at, &err) != 0) {
            fprintf(stderr, "fleet_join: %s\n", err.text);
            exit(1);
        }
        cost->take_ns += muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
        cost->bytes += out.used;
        free(out.byte);
    }
}

int main(int argc, char **argv)
{
    unsigned hosts = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 16;
    unsigned seconds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 20;
    char name[MUSTER_FLEET_NAME];
    muster_fleet_name(name, 1000, RUN);
    struct muster_join *join = muster_join_new(name);
    struct muster_evaluator *evaluator = muster_evaluator_new(10 * MUSTER_NS_PER_S);
    struct host *host = calloc(1, sizeof *host);
    struct noted noted = {.late = (int)(hosts / 2 * RANKS + 3)};
    struct cost cost = {0};
    mallopt(M_MMAP_MAX, 0); /* as a worker does */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (!join || !evaluator || !host || hosts == 0) {
        free(host);
        return 1;
    }
    for (uint64_t half = 0; half < 2 * seconds; half++) {
        noted.now_s = ((double)half + 1) / 2;
        play_half(host, hosts, half, seconds, noted.late, join, &cost);
        uint64_t begin = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        muster_evaluator_look(evaluator, join, (half + 1) * (MUSTER_NS_PER_S / 2), note, &noted);
        uint64_t took = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
        cost.evaluate_ns += took;
        cost.longest_ns = took > cost.longest_ns ? took : cost.longest_ns;
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("%u ranks on %u hosts, %u s: named after %.1f s, %u other findings\n", hosts * RANKS,
           hosts, seconds, noted.right ? noted.first_s - seconds / 2.0 : -1.0, noted.wrong);
    printf("  join %.3f, judge %.3f of a processor, one judgement at most %.2f s; %.0f bytes a "
           "second and rank; %ld MB\n",
           (double)cost.take_ns / 1e9 / seconds, (double)cost.evaluate_ns / 1e9 / seconds,
           (double)cost.longest_ns / 1e9, (double)cost.bytes / seconds / (hosts * RANKS),
           use.ru_maxrss / 1024);
    free(host);
    muster_evaluator_free(evaluator);
    muster_join_free(join);
    return noted.right == 1 && noted.wrong == 0 ? 0 : 1;
}
