/* Which communicators and ranks a run holds, as the view has them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/nccl_types.h"
#include "report/report_internal.h"
#include "segment/identity.h"

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

/* ---- communicators ---- */

/* In the run's memory. */
static const char *name_of(const struct muster_build *build, const struct muster_view_member *own)
{
    const struct muster_view_gpu *gpu = &build->view->gpu[own->gpu];
    if (own->entry)
        return or_null(own->entry->name);
    const struct muster_log_comm *comm =
        muster_process_comm(&build->run->process[gpu->process], own->uid);
    return comm ? or_null(comm->name) : NULL;
}

/* The report's communicator c + 1 is the view's c; the first is `other`. */
static bool make_comms(struct muster_build *build)
{
    const struct muster_view *view = build->view;
    struct muster_report *report = build->report;
    report->comm = muster_arena_array(&report->memory, view->comms + 1, sizeof *report->comm);
    if (!report->comm)
        return false;
    report->comm[0] = (struct muster_report_comm){.name = "other"};
    report->comms = view->comms + 1;
    for (size_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *from = &view->comm[c];
        struct muster_report_comm *comm = &report->comm[c + 1];
        *comm = (struct muster_report_comm){.id = from->id,
                                            .nranks = from->nranks,
                                            .nnodes = from->nnodes,
                                            .duplicate_rank = from->id && from->duplicate_rank};
        for (uint32_t i = 0; i < from->members; i++) {
            const struct muster_view_member *own = &view->member[from->first_member + i];
            comm->seen += i == 0 || own[-1].rank != own->rank;
            comm->name = comm->name ? comm->name : name_of(build, own);
        }
        comm->full = comm->nranks && comm->seen == comm->nranks;
    }
    return true;
}

/* ---- ranks ---- */

static const char *exit_name(enum muster_process_state state)
{
    static const char *const words[] = {
        [MUSTER_PROCESS_RUNNING] = "running",
        [MUSTER_PROCESS_FINALIZED] = "finalized",
        [MUSTER_PROCESS_EXITED] = "exited",
        [MUSTER_PROCESS_KILLED] = "killed",
    };
    return words[state];
}

/* `alone`: its process drives no other GPU. */
static void describe(struct muster_report_rank *rank, const struct muster_view_gpu *gpu,
                     const struct muster_process *process, bool alone)
{
    const struct muster_seg_identity *who = &process->identity;
    bool from_env = alone && who->rank >= 0 && who->rank_source == MUSTER_RANK_FROM_ENV;
    *rank = (struct muster_report_rank){
        .rank = gpu->rank,
        .rank_source = from_env ? "env" : "comm",
        .host = or_null(who->host),
        .host_text = or_null(muster_identity_host_text(who)),
        .pid = who->pid,
        .local_rank = who->local_rank,
        .gpu_index = gpu->gpu_index,
        .gpu_pci = gpu->pci,
        .gpu_uuid = gpu->uuid,
        .slurm_job = or_null(who->slurm_job),
        .slurm_step = or_null(who->slurm_step),
        .recorded_by = or_null(who->recorded_by),
        .busy_us = NAN,
        .wait_us = NAN,
        .late_us = NAN,
        .busy_run_us = NAN,
        .wait_run_us = NAN,
        .late_run_us = NAN,
        .p50_us = NAN,
        .p99_us = NAN,
        .share = NAN,
        .cost_s = who->replay_speed ? NAN : 0,
        .cost_share = NAN,
        .exit = exit_name(process->state),
        .process = process,
    };
}

/* Pointers into the row itself: to be called where the row stays. */
static void describe_text(struct muster_report_rank *rank)
{
    uint32_t nccl = rank->process->identity.nccl;
    uint32_t speed = rank->process->identity.replay_speed;
    if (rank->gpu_uuid) {
        snprintf(rank->gpu_uuid_start, sizeof rank->gpu_uuid_start, "%.12s", rank->gpu_uuid);
        rank->gpu_uuid_text = rank->gpu_uuid_start;
    }
    if (nccl) {
        muster_nccl_version_text(rank->nccl_text, sizeof rank->nccl_text, nccl);
        rank->nccl = rank->nccl_text;
    }
    if (speed == UINT32_MAX) {
        rank->replay = "max";
    } else if (speed) {
        snprintf(rank->replay_text, sizeof rank->replay_text, "%u", speed);
        rank->replay = rank->replay_text;
    }
}

/* The report's ranks are the view's GPUs, in their order. */
static bool make_ranks(struct muster_build *build)
{
    struct muster_arena *memory = &build->memory;
    size_t processes = build->run->processes;
    const struct muster_view *view = build->view;
    struct muster_report *report = build->report;
    report->rank = muster_arena_array(&report->memory, view->gpus + 1, sizeof *report->rank);
    build->rank = muster_arena_array(memory, view->gpus + 1, sizeof *build->rank);
    build->first_entry = muster_arena_array(memory, processes + 1, sizeof *build->first_entry);
    build->first_member = muster_arena_array(memory, processes + 2, sizeof *build->first_member);
    if (!report->rank || memory->failed)
        return false;
    for (size_t m = 0; m < view->members; m++)
        build->first_member[view->gpu[view->member[m].gpu].process + 1]++;
    for (size_t p = 0; p < processes; p++)
        build->first_member[p + 1] += build->first_member[p];
    report->ranks = view->gpus;
    for (uint32_t g = 0; g < view->gpus; g++) {
        uint32_t p = view->gpu[g].process;
        bool first = g == 0 || view->gpu[g - 1].process != p;
        bool last = g + 1 == view->gpus || view->gpu[g + 1].process != p;
        describe(&report->rank[g], &view->gpu[g], &build->run->process[p], first && last);
        describe_text(&report->rank[g]);
        report->rank[g].first_of_process = first;
        build->first_entry[p] = first ? g : build->first_entry[p];
    }
    return true;
}

bool muster_build_members(struct muster_build *build)
{
    return make_comms(build) && make_ranks(build);
}

struct muster_place muster_build_place(const struct muster_build *build, uint32_t process,
                                       uint32_t uid)
{
    const struct muster_view_member *own = muster_view_member_of(build->view, process, uid);
    if (!own) {
        return (struct muster_place){
            .rank = -1, .entry = build->first_entry[process], .stray = uid != MUSTER_SEG_OTHER_UID};
    }
    return (struct muster_place){
        .comm = own->comm + 1, .rank = own->rank, .nranks = own->nranks, .entry = own->gpu};
}
