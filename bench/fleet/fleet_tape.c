#include "fleet_tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "fleet_host.h"
#include "recording.h"
#include "run/run.h"

#define HALF_NS  (MUSTER_NS_PER_S / 2)
#define BEGIN_NS MUSTER_NS_PER_S /* the generator's */
#define OLD_NS                                                                                     \
    1800000000000000ull /* what its GPUs' clocks begin at; those of events begin with              \
                           the process */

/* All ranks, host by host. */
struct taping {
    struct fleet_tape *tape;
    struct fleet_rank *rank;
    struct fleet_rank **of_host; /* by host; those of host h begin at [first[h]] */
    unsigned ranks, *first;
    uint64_t *begin_ns; /* of each host: its clock when the tape begins */
};

static void *must(void *memory)
{
    if (memory)
        return memory;
    fprintf(stderr, "fleet_agents: out of memory\n");
    exit(2);
}

static struct taping taping_of(struct fleet_tape *tape)
{
    struct taping taping = {.tape = tape, .ranks = tape->ranks};
    tape->message = must(calloc((size_t)tape->halves * tape->hosts, sizeof *tape->message));
    taping.rank = must(calloc(tape->ranks, sizeof *taping.rank));
    taping.of_host = must(calloc(tape->ranks, sizeof(struct fleet_rank *)));
    taping.first = must(calloc(tape->hosts + 1, sizeof *taping.first));
    taping.begin_ns = must(calloc(tape->hosts, sizeof *taping.begin_ns));
    return taping;
}

static void free_taping(struct taping *taping)
{
    for (unsigned r = 0; r < taping->ranks; r++)
        free(taping->rank[r].op);
    free(taping->rank);
    free((void *)taping->of_host);
    free(taping->first);
    free(taping->begin_ns);
}

static void add_op(struct fleet_rank *rank, const struct muster_op *op, uint64_t over_ns)
{
    if (!muster_reserve(&rank->op, &rank->room, rank->n + 1, sizeof *rank->op))
        must(NULL);
    rank->op[rank->n++] = (struct fleet_op){*op, over_ns};
}

/* ---- messages ---- */

static int by_over(const void *left, const void *right)
{
    const struct fleet_op *a = left, *b = right;
    if (a->over_ns != b->over_ns)
        return a->over_ns < b->over_ns ? -1 : 1;
    return (a->op.begin_ns > b->op.begin_ns) - (a->op.begin_ns < b->op.begin_ns);
}

static void put_message(struct taping *taping, struct fleet_host *host, unsigned which,
                        unsigned half)
{
    struct fleet_tape *tape = taping->tape;
    struct fleet_message *message = &tape->message[(size_t)half * tape->hosts + which];
    uint64_t now_ns = taping->begin_ns[which] + (half + 1) * HALF_NS;
    fleet_host_go(host, now_ns - HALF_NS / 2);
    fleet_host_go(host, now_ns);
    struct fleet_body body = fleet_host_publish(host, now_ns);
    if (!muster_reserve(&tape->byte, &tape->room, tape->bytes + body.bytes + 1, 1))
        must(NULL);
    *message = (struct fleet_message){tape->bytes, body.bytes, (unsigned)body.processes,
                                      body.described, now_ns};
    memcpy(tape->byte + tape->bytes, body.byte, body.bytes);
    tape->bytes += body.bytes;
    free(body.byte);
}

static void put_all(struct taping *taping, fleet_begins *begins)
{
    const struct fleet_tape *tape = taping->tape;
    unsigned most = 0;
    for (unsigned h = 0; h < tape->hosts; h++) {
        unsigned n = taping->first[h + 1] - taping->first[h];
        most = n > most ? n : most;
    }
    struct fleet_host *host = fleet_host_new(most);
    for (unsigned h = 0; h < tape->hosts; h++) {
        struct fleet_rank **rank = taping->of_host + taping->first[h];
        unsigned n = taping->first[h + 1] - taping->first[h];
        for (unsigned r = 0; r < n; r++)
            if (rank[r]->n)
                qsort(rank[r]->op, rank[r]->n, sizeof *rank[r]->op, by_over);
        fleet_host_begin(host, rank, n);
        for (unsigned half = 0; half < tape->halves; half++) {
            if (half && begins && begins(h, half))
                fleet_host_restart(host);
            put_message(taping, host, h, half);
        }
        for (unsigned r = 0; r < n; r++) {
            free(rank[r]->op);
            rank[r]->op = NULL;
        }
    }
    fleet_host_free(host);
}

/* ---- of a generated job ---- */

static void take_rank(void *arg, unsigned rank, const char *host, enum job_timing timing,
                      int64_t unix_ns)
{
    struct taping *taping = arg;
    struct muster_seg_identity *who = &taping->rank[rank].who;
    uint64_t zero_ns = 1700000000ull * MUSTER_NS_PER_S - (uint64_t)unix_ns;
    (void)timing;
    taping->begin_ns[job_host(rank)] = zero_ns + BEGIN_NS;
    who->boot_hash = job_host(rank) + 1;
    who->start_ticks = 1;
    who->begin_mono_ns = zero_ns;
    who->pid = 1000 + rank % JOB_HOST_GPUS;
    who->uid = FLEET_TAPE_UID;
    who->rank = (int32_t)rank;
    who->local_rank = (int32_t)(rank % JOB_HOST_GPUS);
    who->world = (int32_t)taping->ranks;
    who->timing = MUSTER_TIMING_AUTO;
    memccpy(who->host, host, '\0', sizeof who->host - 1);
    memccpy(who->hostname, host, '\0', sizeof who->hostname - 1);
    snprintf(who->run_dir, sizeof who->run_dir, FLEET_TAPE_RUN);
    snprintf(who->file_stem, sizeof who->file_stem, "%.100s-%u", host, who->pid);
}

static void take_member(void *arg, unsigned rank, enum job_group group, uint64_t comm,
                        unsigned local, unsigned n, unsigned hosts)
{
    struct fleet_rank *of = &((struct taping *)arg)->rank[rank];
    struct muster_seg_comm *to = &of->comm[of->comms++];
    *to = (struct muster_seg_comm){.uid = (uint32_t)group + 1,
                                   .id = comm,
                                   .rank = (int32_t)local,
                                   .nranks = n,
                                   .nnodes = hosts,
                                   .gpu_index = (int32_t)(rank % JOB_HOST_GPUS)};
    snprintf(to->gpu_uuid, sizeof to->gpu_uuid, "GPU-%08x-0000-0000-0000-000000000000", rank);
}

static void take_op(void *arg, unsigned rank, enum job_group group, const struct muster_op *op,
                    double over_ns)
{
    struct taping *taping = arg;
    struct muster_op own = *op;
    uint64_t age_ns = (1 + rank % 60) * MUSTER_NS_PER_S;
    own.comm = (uint32_t)group + 1;
    if (muster_source_is_gpu(op->source)) {
        own.source = MUSTER_SOURCE_EVENT;
        own.begin_ns -= OLD_NS - age_ns;
        own.end_ns -= OLD_NS - age_ns;
    }
    if (over_ns < BEGIN_NS + (double)taping->tape->halves * HALF_NS)
        add_op(&taping->rank[rank], &own,
               taping->begin_ns[job_host(rank)] - BEGIN_NS + (uint64_t)over_ns);
}

static void take_net(void *arg, unsigned rank, enum job_group group,
                     const struct muster_seg_net *net)
{
    (void)arg, (void)rank, (void)group, (void)net; /* totals of the whole run */
}

void fleet_tape_make(const struct job *job, unsigned halves, fleet_begins *begins,
                     struct fleet_tape *tape)
{
    *tape = (struct fleet_tape){
        .ranks = job->ranks, .hosts = job->ranks / JOB_HOST_GPUS, .halves = halves};
    struct taping taping = taping_of(tape);
    const struct recording_sink sink = {&taping, take_rank, take_member, take_op, take_net};
    struct recorded recorded;
    for (unsigned r = 0; r < job->ranks; r++)
        taping.of_host[r] = &taping.rank[r];
    for (unsigned h = 0; h <= tape->hosts; h++)
        taping.first[h] = h * JOB_HOST_GPUS;
    recording_make(job, &sink, &recorded);
    put_all(&taping, begins);
    free_taping(&taping);
}

/* ---- of a recorded run ---- */

static void read_run(const char *dir, struct muster_run *run)
{
    const struct muster_run_query query = {.run = &dir, .runs = 1, .segment_dir = "/nonexistent"};
    struct muster_err err;
    if (muster_run_load(&query, run, &err) == 0)
        return;
    fprintf(stderr, "fleet_agents: %s\n", err.text);
    exit(2);
}

static uint64_t unix_of(const struct muster_seg_identity *who, uint64_t mono_ns)
{
    return mono_ns - who->begin_mono_ns + who->begin_unix_ns;
}

static void take_process(const struct muster_process *process, uint64_t salt,
                         struct fleet_rank *rank)
{
    rank->who = process->identity;
    rank->who.uid = FLEET_TAPE_UID;
    snprintf(rank->who.run_dir, sizeof rank->who.run_dir, FLEET_TAPE_RUN);
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && process->segment->comm[i].uid; i++) {
        struct muster_seg_comm *comm = &rank->comm[rank->comms++];
        memcpy(comm, &process->segment->comm[i], sizeof *comm);
        comm->seq = 0;
        comm->id ^= salt;
        comm->calls = 0;
        comm->called_ns = 0;
        comm->ended_ns = 0;
        comm->end_ns = 0;
        comm->launches = 0;
        comm->launches_ended = 0;
        comm->launches_probed = 0;
    }
    for (size_t k = 0; k < process->ops; k++) {
        const struct muster_op *op = &process->op[k];
        if (op->comm)
            add_op(rank, op, op->enqueue_ns + muster_op_duration_ns(op));
    }
}

/* Which host of the run a process is on; the first processes of hosts number them. */
static unsigned host_of(const struct muster_run *run, size_t process)
{
    unsigned hosts = 0;
    for (size_t i = 0; i < process; i++) {
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first &= strcmp(run->process[k].identity.host, run->process[i].identity.host) != 0;
        if (strcmp(run->process[i].identity.host, run->process[process].identity.host) == 0)
            return host_of(run, i);
        hosts += first;
    }
    return hosts;
}

static uint64_t begin_of(const struct muster_run *run)
{
    uint64_t begin = UINT64_MAX;
    for (size_t i = 0; i < run->processes; i++) {
        for (size_t k = 0; k < run->process[i].ops; k++) {
            uint64_t at = unix_of(&run->process[i].identity, run->process[i].op[k].enqueue_ns);
            begin = run->process[i].op[k].comm && at < begin ? at : begin;
        }
    }
    return begin;
}

void fleet_tape_of_run(const char *dir, uint64_t salt, unsigned halves, struct fleet_tape *tape)
{
    struct muster_run run;
    read_run(dir, &run);
    *tape = (struct fleet_tape){.ranks = (unsigned)run.processes, .halves = halves};
    for (size_t i = 0; i < run.processes; i++) {
        unsigned host = host_of(&run, i);
        tape->hosts = host >= tape->hosts ? host + 1 : tape->hosts;
    }
    struct taping taping = taping_of(tape);
    uint64_t begin_ns = begin_of(&run);
    tape->begin_unix_ns = begin_ns;
    unsigned n = 0;
    for (unsigned h = 0; h < tape->hosts; h++) {
        taping.first[h] = n;
        for (size_t i = 0; i < run.processes; i++) {
            const struct muster_seg_identity *who = &run.process[i].identity;
            if (host_of(&run, i) != h)
                continue;
            taping.begin_ns[h] = begin_ns - who->begin_unix_ns + who->begin_mono_ns;
            take_process(&run.process[i], salt, &taping.rank[i]);
            taping.of_host[n++] = &taping.rank[i];
        }
    }
    taping.first[tape->hosts] = n;
    muster_run_free(&run);
    put_all(&taping, NULL);
    free_taping(&taping);
}

void fleet_tape_free(struct fleet_tape *tape)
{
    free(tape->byte);
    free(tape->message);
}
