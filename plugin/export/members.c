/* Which communicators and ranks a run holds, and which process plays which rank of what. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/build.h"
#include "segment/gpus.h"

static void add_log(struct muster_build *build, uint32_t process, const struct muster_log_comm *log)
{
    build->member[build->members++] = (struct muster_member){
        .id = log->id,
        .process = process,
        .uid = log->uid,
        .rank = log->rank,
        .nranks = log->nranks,
        .nnodes = log->nnodes,
        .gpu_index = -1,
        .name = log->name[0] ? log->name : NULL,
    };
}

static void add_segment(struct muster_build *build, uint32_t process, size_t first,
                        const struct muster_seg_comm *seg, bool other)
{
    struct muster_member *member = NULL;
    for (size_t i = first; i < build->members && !member; i++) {
        if (build->member[i].uid == seg->uid) {
            member = &build->member[i];
        }
    }
    if (!member) {
        member = &build->member[build->members++];
    }
    *member = (struct muster_member){
        .id = seg->id,
        .process = process,
        .uid = seg->uid,
        .rank = seg->rank,
        .nranks = seg->nranks,
        .nnodes = seg->nnodes,
        .gpu_index = seg->gpu_index,
        .gpu_pci = seg->gpu_pci[0] ? seg->gpu_pci : NULL,
        .gpu_uuid = seg->gpu_uuid[0] ? seg->gpu_uuid : NULL,
        .name = seg->name[0] ? seg->name : NULL,
        .segment = seg,
        .other = other,
    };
}

static int collect(struct muster_build *build)
{
    const struct muster_run *run = build->run;
    size_t room = 1;
    for (size_t p = 0; p < run->processes; p++) {
        room += run->process[p].comms + (run->process[p].segment ? MUSTER_SEG_COMMS + 1 : 0);
    }
    build->member = calloc(room, sizeof *build->member);
    build->first_member = calloc(run->processes + 1, sizeof *build->first_member);
    if (!build->member || !build->first_member) {
        return -1;
    }
    for (uint32_t p = 0; p < run->processes; p++) {
        const struct muster_process *process = &run->process[p];
        size_t first = build->first_member[p] = build->members;
        for (size_t i = 0; i < process->comms; i++) {
            add_log(build, p, &process->comm[i]);
        }
        for (size_t i = 0; process->segment && i <= MUSTER_SEG_COMMS; i++) {
            if (process->segment->comm[i].uid) {
                add_segment(build, p, first, &process->segment->comm[i], i == MUSTER_SEG_COMMS);
            }
        }
    }
    build->first_member[run->processes] = build->members;
    return 0;
}

/* By communicator, then rank. Communicators without an id are nobody else's. */
static int by_comm(const void *left, const void *right)
{
    const struct muster_member *a = *(const struct muster_member *const *)left;
    const struct muster_member *b = *(const struct muster_member *const *)right;
    if (a->id != b->id) {
        return a->id < b->id ? -1 : 1;
    }
    if (a->id && a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    if (a->process != b->process) {
        return a->process < b->process ? -1 : 1;
    }
    return a->uid < b->uid ? -1 : a->uid > b->uid;
}

static int by_uid(const void *left, const void *right)
{
    const struct muster_member *a = left;
    const struct muster_member *b = right;
    if (a->process != b->process) {
        return a->process < b->process ? -1 : 1;
    }
    return a->uid < b->uid ? -1 : a->uid > b->uid;
}

static void join_comm(struct muster_report_comm *comm, const struct muster_member *member,
                      const struct muster_member *before)
{
    bool again = before && before->rank == member->rank;
    comm->twice |= again && comm->id;
    comm->seen += !again;
    comm->name = comm->name ? comm->name : member->name;
    comm->nranks = comm->nranks ? comm->nranks : member->nranks;
    comm->nnodes = comm->nnodes ? comm->nnodes : member->nnodes;
}

static int group_comms(struct muster_build *build)
{
    struct muster_report *report = build->report;
    struct muster_member **order = malloc((build->members + 1) * sizeof *order);
    report->comm = calloc(build->members + 1, sizeof *report->comm);
    if (!order || !report->comm) {
        free(order);
        return -1;
    }
    for (size_t i = 0; i < build->members; i++) {
        order[i] = &build->member[i];
    }
    qsort(order, build->members, sizeof *order, by_comm);
    report->comm[0] = (struct muster_report_comm){.name = "other"};
    report->comms = 1;
    for (size_t i = 0; i < build->members; i++) {
        struct muster_member *member = order[i];
        struct muster_report_comm *comm = &report->comm[report->comms - 1];
        if (member->other) {
            member->comm = 0;
            continue;
        }
        bool same = report->comms > 1 && member->id && comm->id == member->id;
        if (!same) {
            comm = &report->comm[report->comms++];
            comm->id = member->id;
        }
        member->comm = (uint32_t)(comm - report->comm);
        join_comm(comm, member, same ? order[i - 1] : NULL);
        comm->full = comm->nranks && comm->seen == comm->nranks;
    }
    free(order);
    return 0;
}

/* The GPU of each member of one process, numbered from 0, in `entry`. `*gpus`: how many; `*on`, the
 * caller's to free, has them for muster_rank_of_gpu. */
static int number_gpus(struct muster_member *member, size_t n, struct muster_gpu_part **on,
                       uint32_t *gpus)
{
    struct muster_gpu_part *part = calloc(n + 1, sizeof *part);
    for (size_t i = 0; part && i < n; i++) {
        part[i] = (struct muster_gpu_part){.id = member[i].id,
                                           .rank = member[i].rank,
                                           .nranks = member[i].nranks,
                                           .gpu_index = member[i].gpu_index};
    }
    *gpus = part ? muster_number_gpus(part, n) : 0;
    if (!*gpus) {
        free(part);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        member[i].entry = part[i].gpu;
    }
    *on = part;
    return 0;
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static const char *exit_word(enum muster_process_state state)
{
    static const char *const words[] = {
        [MUSTER_PROCESS_RUNNING] = "running",
        [MUSTER_PROCESS_FINALIZED] = "finalized",
        [MUSTER_PROCESS_EXITED] = "exited",
        [MUSTER_PROCESS_KILLED] = "killed",
    };
    return words[state];
}

static const char *host_text(const struct muster_seg_identity *who)
{
    size_t n = strlen(who->hostname);
    return n && strncmp(who->host, who->hostname, n) == 0 ? who->hostname : who->host;
}

static void describe(struct muster_report_rank *rank, const struct muster_process *process)
{
    const struct muster_seg_identity *who = &process->identity;
    *rank = (struct muster_report_rank){
        .rank = who->rank,
        .rank_source = who->rank_source == MUSTER_RANK_FROM_ENV ? "env" : "comm",
        .host = or_null(who->host),
        .host_text = or_null(host_text(who)),
        .pid = who->pid,
        .local_rank = who->local_rank,
        .gpu_index = -1,
        .busy_us = NAN,
        .wait_us = NAN,
        .late_us = NAN,
        .p50_us = NAN,
        .p99_us = NAN,
        .share = NAN,
        .exit = exit_word(process->state),
        .process = process,
    };
}

/* Pointers into the row itself: to be called where the row stays. */
static void describe_text(struct muster_report_rank *rank)
{
    uint32_t nccl = rank->process->identity.nccl;
    uint32_t speed = rank->process->identity.replay_speed;
    if (nccl) {
        snprintf(rank->nccl_text, sizeof rank->nccl_text, "%u.%u.%u", nccl / 10000,
                 nccl / 100 % 100, nccl % 100);
        rank->nccl = rank->nccl_text;
    }
    if (speed == UINT32_MAX) {
        rank->replay = "max";
    } else if (speed) {
        snprintf(rank->replay_text, sizeof rank->replay_text, "%u", speed);
        rank->replay = rank->replay_text;
    }
}

static void describe_gpu(struct muster_report_rank *rank, const struct muster_member *member,
                         size_t n, uint32_t entry)
{
    for (size_t i = 0; i < n; i++) {
        if (member[i].entry == entry && member[i].gpu_index >= 0) {
            rank->gpu_index = member[i].gpu_index;
            rank->gpu_pci = member[i].gpu_pci;
            rank->gpu_uuid = member[i].gpu_uuid;
            return;
        }
    }
}

static int make_ranks(struct muster_build *build)
{
    const struct muster_run *run = build->run;
    struct muster_report *report = build->report;
    report->rank = calloc(build->members + run->processes + 1, sizeof *report->rank);
    build->first_entry = calloc(run->processes + 1, sizeof *build->first_entry);
    if (!report->rank || !build->first_entry) {
        return -1;
    }
    for (size_t p = 0; p < run->processes; p++) {
        struct muster_member *member = &build->member[build->first_member[p]];
        size_t n = build->first_member[p + 1] - build->first_member[p];
        struct muster_gpu_part *on;
        uint32_t gpus;
        if (number_gpus(member, n, &on, &gpus)) {
            return -1;
        }
        uint32_t base = build->first_entry[p] = (uint32_t)report->ranks;
        for (uint32_t gpu = 0; gpu < gpus; gpu++) {
            struct muster_report_rank *rank = &report->rank[report->ranks++];
            describe(rank, &run->process[p]);
            describe_text(rank);
            rank->first_of_process = gpu == 0;
            describe_gpu(rank, member, n, gpu);
            /* With several GPUs, or without a RANK-like variable. */
            if (gpus > 1 || rank->rank < 0) {
                rank->rank = muster_rank_of_gpu(on, n, gpu);
                rank->rank_source = "comm";
            }
        }
        free(on);
        for (size_t i = 0; i < n; i++) {
            member[i].entry += base;
        }
    }
    return 0;
}

int muster_build_members(struct muster_build *build)
{
    if (collect(build)) {
        return -1;
    }
    qsort(build->member, build->members, sizeof *build->member, by_uid);
    return group_comms(build) || make_ranks(build) ? -1 : 0;
}

const struct muster_member *muster_build_member(const struct muster_build *build, size_t process,
                                                uint32_t uid)
{
    size_t low = build->first_member[process];
    size_t high = build->first_member[process + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (build->member[middle].uid < uid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < build->first_member[process + 1] && build->member[low].uid == uid;
    return found ? &build->member[low] : NULL;
}
