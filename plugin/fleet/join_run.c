/* What a join holds, as a run. */
#include "fleet/join.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

static uint64_t since(uint64_t now, uint64_t begin)
{
    return now > begin ? now - begin : 0;
}

static void set_nets(struct muster_join_process *process)
{
    for (size_t i = 0; i < process->nets; i++) {
        const struct muster_seg_net *now = &process->net[i].reported,
                                    *begin = &process->net[i].begin;
        struct muster_seg_net *to = &process->segment->net[i];
        *to = *now;
        to->count = since(now->count, begin->count);
        to->bytes = since(now->bytes, begin->bytes);
        to->steps = since(now->steps, begin->steps);
        to->gpu_wait_ns = since(now->gpu_wait_ns, begin->gpu_wait_ns);
        to->credit_wait_ns = since(now->credit_wait_ns, begin->credit_wait_ns);
        to->net_wait_ns = since(now->net_wait_ns, begin->net_wait_ns);
        to->flush_ns = since(now->flush_ns, begin->flush_ns);
    }
}

static size_t ranks_claimed(const struct muster_segment *segment)
{
    int32_t most = segment->identity.world;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && segment->comm[i].uid; i++)
        if ((int32_t)segment->comm[i].nranks > most)
            most = (int32_t)segment->comm[i].nranks;
    return most > 0 ? (size_t)most : 0;
}

/* By its host's clock, when anything was called or ended last. */
static uint64_t moved_at(const struct muster_segment *segment)
{
    uint64_t at_ns = 0;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && segment->comm[i].uid; i++) {
        const struct muster_seg_comm *comm = &segment->comm[i];
        at_ns = comm->called_ns > at_ns ? comm->called_ns : at_ns;
        at_ns = comm->ended_ns > at_ns ? comm->ended_ns : at_ns;
    }
    return at_ns;
}

/* Whether it is heard; `near`: and looked at closely. */
static bool takes_part(const struct muster_join *join, const struct muster_join_process *process,
                       bool near, uint64_t now_ns)
{
    const struct muster_join_host *host = &join->host[process->host];
    return (!near || process->near) && host->instance != 0 && muster_join_hears(join, host, now_ns);
}

struct muster_join_coverage muster_join_coverage(const struct muster_join *join, uint64_t now_ns)
{
    struct muster_join_coverage is = {0};
    for (size_t i = 0; i < join->hosts; i++) {
        if (join->host[i].instance == 0)
            continue;
        is.hosts++;
        is.silent_hosts += !muster_join_hears(join, &join->host[i], now_ns);
    }
    for (size_t i = 0; i < join->processes; i++) {
        const struct muster_join_process *process = &join->process[i];
        const struct muster_join_host *host = &join->host[process->host];
        size_t claimed = ranks_claimed(process->segment);
        is.expected = claimed > is.expected ? claimed : is.expected;
        if (!takes_part(join, process, false, now_ns))
            continue;
        uint64_t moved_ns = moved_at(process->segment);
        if (moved_ns && moved_ns + (uint64_t)host->to_server_ns > is.moved_ns)
            is.moved_ns = moved_ns + (uint64_t)host->to_server_ns;
        is.ranks++;
        is.living += process->state == MUSTER_PROCESS_RUNNING;
    }
    is.expected = is.ranks > is.expected ? is.ranks : is.expected;
    return is;
}

static bool add_over(struct muster_join_process *process)
{
    size_t needed = process->ops + process->overs;
    if (!muster_reserve(&process->op, &process->room, needed + 1, sizeof *process->op))
        return false;
    if (process->overs)
        memcpy(process->op + process->ops, process->over, process->overs * sizeof *process->over);
    return true;
}

/* How many operations of the window come before that. */
static size_t ops_before(const struct muster_join *join, const struct muster_join_process *process,
                         uint64_t since_ns)
{
    uint64_t host_ns = since_ns - (uint64_t)join->host[process->host].to_server_ns;
    size_t n = 0;
    while (since_ns && n < process->ops && process->op[n].enqueue_ns < host_ns)
        n++;
    return n;
}

struct part {
    bool near, over;
    uint64_t since_ns; /* 0: all that is held */
};

static bool run_of(struct muster_join *join, uint64_t now_ns, struct part part,
                   struct muster_run *run)
{
    *run = (struct muster_run){.process = calloc(join->processes + 1, sizeof *run->process)};
    bool whole = run->process != NULL;
    for (size_t i = 0; whole && i < join->processes; i++) {
        struct muster_join_process *process = &join->process[i];
        const struct muster_join_host *host = &join->host[process->host];
        if (!takes_part(join, process, part.near, now_ns))
            continue;
        struct muster_seg_identity *who = &process->segment->identity;
        who->begin_unix_ns = who->begin_mono_ns + (uint64_t)host->to_server_ns;
        whole = !part.over || add_over(process);
        set_nets(process);
        size_t before = ops_before(join, process, part.since_ns);
        run->process[run->processes++] =
            (struct muster_process){.state = process->state,
                                    .segment = process->segment,
                                    .identity = *who,
                                    .op = process->op ? process->op + before : NULL,
                                    .ops = process->ops - before + (part.over ? process->overs : 0),
                                    .ops_missing = process->missing,
                                    .seen_ns = process->seen_ns};
    }
    if (!whole)
        muster_join_run_free(run);
    return whole;
}

bool muster_join_run(struct muster_join *join, uint64_t now_ns, bool over, struct muster_run *run)
{
    return run_of(join, now_ns, (struct part){.over = over}, run);
}

bool muster_join_run_near(struct muster_join *join, uint64_t now_ns, struct muster_run *run)
{
    return run_of(join, now_ns, (struct part){.near = true}, run);
}

bool muster_join_run_latest(struct muster_join *join, uint64_t now_ns, uint64_t since_ns,
                            struct muster_run *run)
{
    return run_of(join, now_ns, (struct part){.since_ns = since_ns}, run);
}

bool muster_join_reaches(const struct muster_join *join, uint64_t now_ns, uint64_t since_ns)
{
    for (size_t i = 0; i < join->processes; i++) {
        const struct muster_join_process *process = &join->process[i];
        uint64_t to_server_ns = (uint64_t)join->host[process->host].to_server_ns;
        if (process->ops && takes_part(join, process, false, now_ns) &&
            process->op[0].enqueue_ns + to_server_ns < since_ns)
            return true;
    }
    return false;
}

uint64_t muster_join_since_ns(const struct muster_join *join, uint64_t now_ns, bool near,
                              uint64_t *heard)
{
    uint64_t since_ns = 0;
    *heard = MUSTER_HASH_SEED;
    for (size_t i = 0; i < join->processes; i++) {
        const struct muster_join_process *process = &join->process[i];
        if (!takes_part(join, process, near, now_ns))
            continue;
        *heard = muster_hash(*heard, &i, sizeof i);
        since_ns = process->since_ns > since_ns ? process->since_ns : since_ns;
    }
    return since_ns;
}

void muster_join_run_free(struct muster_run *run)
{
    free(run->process);
    *run = (struct muster_run){0};
}
