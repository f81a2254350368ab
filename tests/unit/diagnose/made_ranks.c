#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

void ranks_begin(struct ranks *ranks, unsigned n)
{
    memset(ranks, 0, sizeof *ranks);
    ranks->n = n;
    for (unsigned r = 0; r < n; r++) {
        const struct muster_view_gpu gpu = {.rank = (int32_t)r,
                                            .gpu_index = (int32_t)r,
                                            .host = "host",
                                            .timing = MUSTER_TIMING_FULL,
                                            .host_times = true,
                                            .one_pace = true};
        assert_int_equal(muster_view_add_gpu(&ranks->view, &gpu), r);
        ranks->skew_ns[r] = 1000 * MS * (r + 1) + 137 * r;
        ranks->call_ns[r] = 1000 * MS;
        ranks->arrived_ns[r] = 1000 * MS;
    }
    memset(ranks->member, 0xff, sizeof ranks->member);
}

void ranks_comm(struct ranks *ranks, unsigned comm, unsigned first, unsigned stride, unsigned seen,
                unsigned nranks)
{
    for (unsigned i = 0; i < seen; i++) {
        unsigned rank = first + i * stride;
        ranks->member[comm][rank] =
            muster_view_add_member(&ranks->view, rank, 0x100 + comm, (int32_t)i, nranks, 1, "comm");
    }
}

void ranks_work(struct ranks *ranks, unsigned rank, uint64_t ns)
{
    ranks->arrived_ns[rank] += ns;
}

void ranks_do(struct ranks *ranks, unsigned comm, uint64_t count, uint64_t transfer_ns, bool timed,
              uint16_t flags)
{
    uint64_t last_ns = 0;
    for (unsigned r = 0; r < ranks->n; r++)
        if (ranks->member[comm][r] != MUSTER_VIEW_NONE && ranks->arrived_ns[r] > last_ns)
            last_ns = ranks->arrived_ns[r];
    for (unsigned r = 0; r < ranks->n; r++) {
        if (ranks->member[comm][r] == MUSTER_VIEW_NONE)
            continue;
        ranks->call_ns[r] += 10 * US;
        struct muster_op op = {
            .number = ranks->number[comm],
            .enqueue_ns = ranks->call_ns[r],
            .count = count,
            .peer = -1,
            .func = MUSTER_FUNC_ALL_REDUCE,
            .dtype = MUSTER_DTYPE_FLOAT32,
            .algo = MUSTER_ALGO_RING,
            .proto = MUSTER_PROTO_SIMPLE,
            .channels = 8,
            .flags = flags,
        };
        if (timed) {
            op.begin_ns = ranks->arrived_ns[r] + ranks->skew_ns[r];
            op.end_ns = last_ns + transfer_ns + ranks->skew_ns[r];
            op.source = MUSTER_SOURCE_GPU;
        }
        muster_view_add_op(&ranks->view, ranks->member[comm][r], &op);
        ranks->arrived_ns[r] = last_ns + transfer_ns;
    }
    ranks->number[comm]++;
}

const struct muster_view *ranks_view(struct ranks *ranks)
{
    struct muster_err err = {""};
    assert_int_equal(muster_view_finish(&ranks->view, &err), 0);
    return &ranks->view;
}

struct muster_findings ranks_diagnose(struct ranks *ranks)
{
    struct muster_findings findings = {0};
    struct muster_err err = {""};
    const struct muster_view *view = ranks_view(ranks);
    assert_int_equal(muster_straggler_find(view, &findings, &err), 0);
    assert_int_equal(muster_diagnose_transfer(view, &findings, &err), 0);
    return findings;
}

void ranks_end(struct ranks *ranks)
{
    muster_view_free(&ranks->view);
}

bool ranks_has_line(const struct muster_finding_lines *lines, const char *text)
{
    for (unsigned i = 0; i < lines->n; i++)
        if (strstr(lines->line[i], text))
            return true;
    return false;
}

struct muster_op made_op(uint64_t number, uint64_t begin_us, uint64_t end_us)
{
    return (struct muster_op){.number = number,
                              .enqueue_ns = (number + 1) * 10 * US,
                              .begin_ns = begin_us * US,
                              .end_ns = end_us * US,
                              .count = 1024,
                              .peer = -1,
                              .func = MUSTER_FUNC_ALL_REDUCE,
                              .dtype = MUSTER_DTYPE_FLOAT32,
                              .source = end_us ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE};
}
