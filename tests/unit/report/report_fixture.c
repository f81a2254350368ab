#include "report_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "segment/totals.h"

static void *make(size_t n, size_t size)
{
    void *memory = calloc(n, size);
    assert_non_null(memory);
    return memory;
}

struct muster_run *fixture_run(size_t n)
{
    struct muster_run *run = make(1, sizeof *run);
    run->process = make(n, sizeof *run->process);
    run->processes = n;
    *(const char **)muster_arena_add(&run->memory, &run->source, &run->sources,
                                     sizeof *run->source) = "muster-test";
    for (size_t p = 0; p < n; p++) {
        struct muster_process *process = &run->process[p];
        process->state = MUSTER_PROCESS_FINALIZED;
        process->segment = aligned_alloc(64, (sizeof *process->segment + 63) / 64 * 64);
        assert_non_null(process->segment);
        memset(process->segment, 0, sizeof *process->segment);
        process->identity = (struct muster_seg_identity){
            .pid = 100 + (uint32_t)p,
            .rank = (int32_t)p,
            .local_rank = (int32_t)p,
            .world = (int32_t)n,
            .nccl = 22809,
            .timing = MUSTER_TIMING_FULL,
            .armed = 1,
            .host = "host",
            .hostname = "host",
        };
    }
    return run;
}

void fixture_free(struct muster_run *run)
{
    for (size_t p = 0; p < run->processes; p++) {
        free(run->process[p].segment);
        free(run->process[p].comm);
        free(run->process[p].op);
    }
    free(run->process);
    muster_arena_free(&run->memory);
    free(run);
}

struct muster_seg_comm *fixture_comm(struct muster_run *run, size_t p, uint32_t uid, uint64_t id,
                                     int32_t rank, uint32_t nranks)
{
    struct muster_seg_comm *comm = run->process[p].segment->comm;
    while (comm->uid)
        comm++;
    *comm = (struct muster_seg_comm){.uid = uid,
                                     .id = id,
                                     .rank = rank,
                                     .nranks = nranks,
                                     .nnodes = 1,
                                     .gpu_index = -1,
                                     .name = "world"};
    return comm;
}

struct muster_op fixture_op(uint32_t uid, uint64_t number, uint64_t duration_ns)
{
    return (struct muster_op){
        .number = number,
        .begin_ns = duration_ns ? 1000000 : 0,
        .end_ns = duration_ns ? 1000000 + duration_ns : 0,
        .count = 1 << 18,
        .comm = uid,
        .peer = -1,
        .func = MUSTER_FUNC_ALL_REDUCE,
        .dtype = MUSTER_DTYPE_FLOAT32,
        .algo = MUSTER_ALGO_RING,
        .proto = MUSTER_PROTO_SIMPLE,
        .channels = 8,
        .source = duration_ns ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE,
    };
}

static struct muster_seg_row *row_of(struct muster_segment *segment, const struct muster_op *op,
                                     uint8_t size)
{
    struct muster_seg_row *row = segment->row;
    while (row->comm &&
           (row->comm != op->comm || row->func != op->func || row->algo != op->algo ||
            row->proto != op->proto || row->size_log2 != size || row->peer != op->peer)) {
        row++;
    }
    return row;
}

void fixture_add_row(struct muster_run *run, size_t p, struct muster_op op)
{
    uint64_t bytes = muster_op_size_bytes(op.func, op.dtype, op.count, 1);
    uint8_t size = muster_size_log2(bytes);
    struct muster_seg_row *row = row_of(run->process[p].segment, &op, size);
    row->comm = op.comm;
    row->peer = op.peer;
    row->func = op.func;
    row->algo = op.algo;
    row->proto = op.proto;
    row->size_log2 = size;
    row->channels = op.channels;
    row->count++;
    row->bytes += bytes;
    row->graph += (op.flags & MUSTER_OP_GRAPH) != 0;
    row->api_only += (op.flags & MUSTER_OP_API_ONLY) != 0;
    row->timed += op.source == MUSTER_SOURCE_GPU;
    row->proxy_timed += op.source == MUSTER_SOURCE_PROXY;
    row->host_timed += op.source == MUSTER_SOURCE_HOST;
    if (op.source) {
        uint64_t ns = muster_op_duration_ns(&op);
        row->sum_ns += ns;
        row->hist.n[muster_hist_bucket(ns)]++;
    }
}

void fixture_add_list(struct muster_run *run, size_t p, struct muster_op op)
{
    struct muster_process *process = &run->process[p];
    process->op = reallocarray(process->op, process->ops + 1, sizeof *process->op);
    assert_non_null(process->op);
    process->op[process->ops++] = op;
}

void fixture_add(struct muster_run *run, size_t p, struct muster_op op)
{
    fixture_add_row(run, p, op);
    fixture_add_list(run, p, op);
}

struct muster_report fixture_report(const struct muster_run *run, enum muster_report_by by)
{
    struct muster_view view;
    struct muster_report report;
    struct muster_err err = {""};
    assert_int_equal(muster_view_of_run_aligned(run, &view, &err), 0);
    assert_int_equal(muster_report_build(&view, by, &report, &err), 0);
    muster_view_free(&view);
    return report;
}

bool fixture_gap(const struct muster_report *report, const char *text)
{
    for (size_t i = 0; i < report->gaps; i++)
        if (strstr(report->gap[i], text))
            return true;
    return false;
}
