#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "report/report_internal.h"

static double us(uint64_t ns)
{
    return (double)ns / (double)MUSTER_NS_PER_US;
}

/* Sums of a sample as they would be of all operations: each class by the mean of those of it that
 * were timed, waits by how many of the operations were compared. */
static void estimate(struct muster_report_rank *rank, const struct muster_totals *totals)
{
    if (!totals->source || isnan(rank->busy_us))
        return;
    bool sampled = rank->share < 0.995 && totals->common > rank->joint_ops && rank->joint_ops;
    double factor = sampled ? (double)totals->common / (double)rank->joint_ops : 1;
    rank->busy_run_us = rank->share < 0.995 ? totals->run_ns / 1e3 : rank->busy_us;
    rank->wait_run_us = rank->wait_us * factor;
    rank->late_run_us = rank->late_us * factor;
}

/* From the process's first communicator to its last sign of life. */
static double seen_s(const struct muster_process *process)
{
    uint64_t begin = process->identity.begin_mono_ns;
    uint64_t end = process->segment->heartbeat_mono_ns;
    return begin && end > begin ? (double)(end - begin) / (double)MUSTER_NS_PER_S : NAN;
}

static void finish_ranks(struct muster_build *build)
{
    struct muster_report *report = build->report;
    for (uint32_t r = 0; r < report->ranks; r++) {
        struct muster_arena memory = {0};
        struct muster_report_rank *rank = &report->rank[r];
        const struct muster_totals *totals = &build->rank[r];
        rank->ops = totals->count;
        rank->bytes = totals->bytes;
        rank->graph_ops = totals->graph;
        rank->api_only = totals->api_only;
        rank->source = muster_source_name(totals->source);
        rank->timed_ops = totals->source ? totals->timed[totals->source] : 0;
        rank->to_itself = totals->to_itself;
        uint64_t could_be = rank->ops - rank->to_itself;
        rank->share = could_be ? (double)rank->timed_ops / (double)could_be : NAN;
        rank->busy_us = totals->source ? us(totals->sum_ns[totals->source]) : NAN;
        estimate(rank, totals);
        rank->cost_share = rank->cost_s / seen_s(rank->process);
        struct muster_times times = muster_build_rank_times(build, r, &memory);
        muster_totals_quantiles(totals, times.value, times.n, &rank->p50_us, &rank->p99_us);
        muster_arena_end(&memory, &build->memory);
        for (size_t d = 0; d < MUSTER_DROPS; d++)
            rank->drops_total += rank->drops[d];
    }
}

static void finish_op(const struct muster_build *build, const struct muster_class *class,
                      struct muster_report_op *op)
{
    const struct muster_class_key *key = &class->key;
    const struct muster_totals *totals = &class->totals;
    enum muster_report_by by = build->report->by;
    *op = (struct muster_report_op){
        .func = by == MUSTER_BY_COMM ? NULL : muster_func_name(key->func),
        .size = key->size_log2 < 64 ? 1ull << key->size_log2 : 0,
        .algo = by == MUSTER_BY_OP ? muster_algo_name(key->algo) : NULL,
        .proto = by == MUSTER_BY_OP ? muster_proto_name(key->proto) : NULL,
        .channels = class->channels,
        .rank = key->rank,
        .peer = key->peer,
        .count = totals->count,
        .bytes = totals->bytes,
        .graph_ops = totals->graph,
        .api_only = totals->api_only,
        .source = muster_source_name(totals->source),
        .timed_ops = totals->source ? totals->timed[totals->source] : 0,
        .total_us = totals->source ? us(totals->sum_ns[totals->source]) : NAN,
        .algbw_gbs = NAN,
        .busbw_gbs = NAN,
        .transfer_p50_us = NAN,
    };
    if (by == MUSTER_BY_RANK_SIZE) {
        const struct muster_report_rank *rank = &build->report->rank[key->rank];
        op->rank = rank->rank;
        op->host = rank->host_text;
    }
    if (key->comm != MUSTER_NO_COMM) {
        const struct muster_report_comm *comm = &build->report->comm[key->comm];
        op->comm = comm->id;
        op->comm_name = comm->name;
        op->nranks = comm->nranks;
        op->nnodes = comm->nnodes;
        op->ranks_seen = comm->seen;
    } else if (!class->mixed) {
        op->nranks = class->nranks;
    }
}

/* Bandwidth as nccl-tests defines it: the mean size over the median time. */
static void set_bandwidth(const struct muster_class *class, enum muster_report_by by,
                          struct muster_report_op *op)
{
    if (by == MUSTER_BY_COMM || !op->count || !(op->p50_us > 0))
        return;
    op->algbw_gbs = (double)op->bytes / (double)op->count / (op->p50_us * 1e3);
    if (op->nranks || muster_func_is_p2p(class->key.func))
        op->busbw_gbs = op->algbw_gbs * muster_busbw_factor(class->key.func, (uint32_t)op->nranks);
}

static int by_cost(const void *left, const void *right)
{
    const struct muster_report_op *a = left;
    const struct muster_report_op *b = right;
    double cost_a = isnan(a->total_us) ? -1 : a->total_us;
    double cost_b = isnan(b->total_us) ? -1 : b->total_us;
    if (cost_a != cost_b)
        return cost_a > cost_b ? -1 : 1;
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

static void fill_ops(struct muster_build *build, struct muster_arena *memory)
{
    struct muster_report *report = build->report;
    struct muster_sample_groups own = muster_build_class_times(build, memory);
    struct muster_sample_groups transfer =
        muster_samples_group(&build->transfer, build->classes, memory);
    report->op = muster_arena_array(&report->memory, build->classes + 1, sizeof *report->op);
    if (!report->op || memory->failed)
        return;
    for (size_t c = 0; c < build->classes; c++) {
        const struct muster_class *class = &build->class[c];
        struct muster_report_op *op = &report->op[c];
        size_t n = transfer.first[c + 1] - transfer.first[c];
        finish_op(build, class, op);
        muster_totals_quantiles(&class->totals, own.value + own.first[c],
                                own.first[c + 1] - own.first[c], &op->p50_us, &op->p99_us);
        set_bandwidth(class, report->by, op);
        if (n) {
            op->transfer_p50_us =
                us(muster_quantile_exact(transfer.value + transfer.first[c], n, 0.5));
        }
    }
    report->ops = build->classes;
    qsort(report->op, report->ops, sizeof *report->op, by_cost);
}

static void finish_ops(struct muster_build *build)
{
    struct muster_arena memory = {0};
    fill_ops(build, &memory);
    muster_arena_end(&memory, &build->memory);
}

static void add_net(struct muster_build *build, uint32_t p, const struct muster_seg_net *net)
{
    struct muster_report *report = build->report;
    struct muster_place place = muster_build_place(build, p, net->comm);
    const struct muster_report_comm *comm = &report->comm[place.comm];
    bool steps = net->steps;
    struct muster_report_net *row =
        muster_arena_add(&report->memory, &report->net, &report->nets, sizeof *row);
    *row = (struct muster_report_net){
        .comm = comm->id,
        .comm_name = comm->name,
        .rank = place.rank,
        .peer = net->peer,
        .send = net->send,
        .count = net->count,
        .bytes = net->bytes,
        .gpu_wait_us = steps ? us(net->gpu_wait_ns) : NAN,
        .credit_wait_us = steps && net->send ? us(net->credit_wait_ns) : NAN,
        .net_wait_us = steps ? us(net->net_wait_ns) : NAN,
        .flush_us = steps && !net->send ? us(net->flush_ns) : NAN,
    };
}

static void finish_nets(struct muster_build *build)
{
    const struct muster_run *run = build->run;
    for (uint32_t p = 0; p < run->processes; p++) {
        for (size_t i = 0; i < MUSTER_SEG_NETS; i++)
            if (run->process[p].segment->net[i].comm)
                add_net(build, p, &run->process[p].segment->net[i]);
    }
}

static void fill(struct muster_build *build)
{
    if (!muster_build_members(build))
        return;
    muster_build_tally(build);
    finish_ranks(build);
    finish_ops(build);
    finish_nets(build);
    muster_build_tags(build);
    muster_build_gaps(build);
}

int muster_report_build(const struct muster_view *view, enum muster_report_by by,
                        struct muster_report *report, struct muster_err *err)
{
    *report = (struct muster_report){.run = view->run, .by = by};
    struct muster_build build = {.run = view->run, .view = view, .report = report};
    fill(&build);
    muster_hashmap_free(&build.class_at);
    muster_arena_end(&build.memory, &report->memory);
    int result = muster_arena_check(&report->memory, err, "the report");
    if (result)
        muster_report_free(report);
    return result;
}

void muster_report_free(struct muster_report *report)
{
    muster_arena_free(&report->memory);
    *report = (struct muster_report){0};
}
