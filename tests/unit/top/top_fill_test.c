/* From what stands in segments to what is shown. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "top/top_job.h"

enum { RANKS = 3 };
#define BEGIN_NS (100 * MUSTER_NS_PER_S)

struct made {
    struct muster_top_job job;
    struct muster_live_table table[RANKS];
    struct muster_top_filled filled;
    struct muster_top top;
};

static struct muster_segment *segment_of(struct made *made, unsigned rank)
{
    return (void *)made->table[rank].bytes;
}

static int setup(void **state)
{
    struct made *made = aligned_alloc(64, (sizeof *made + 63) / 64 * 64);
    memset(made, 0, sizeof *made);
    made->job.process = calloc(RANKS, sizeof *made->job.process);
    made->job.processes = made->job.alive = RANKS;
    strcpy(made->job.who.run_dir, "/jobs/muster-7");
    made->job.evaluator = muster_agent_job_new(&made->job.who, 1000, 10 * MUSTER_NS_PER_S);
    for (unsigned r = 0; r < RANKS; r++) {
        struct muster_seg_comm *comm = &segment_of(made, r)->comm[0];
        made->job.process[r].who = (struct muster_seg_identity){.rank = (int32_t)r,
                                                                .pid = 1000 + r,
                                                                .world = 4,
                                                                .nccl = 22809,
                                                                .begin_mono_ns = BEGIN_NS,
                                                                .host = "node0"};
        comm->uid = 1;
        comm->id = 0xabc;
        comm->rank = (int32_t)r;
        comm->nranks = 4;
        comm->gpu_index = (int32_t)r;
        strcpy(comm->name, "d\tp"); /* whatever the job called it */
    }
    *state = made;
    return 0;
}

static int teardown(void **state)
{
    struct made *made = *state;
    for (unsigned r = 0; r < RANKS; r++)
        muster_top_process_free(&made->job.process[r]);
    free(made->job.process);
    muster_agent_job_free(made->job.evaluator);
    muster_top_filled_free(&made->filled);
    free(made);
    return 0;
}

/* The rank has called so many; the newest at that time. */
static void call(struct made *made, unsigned rank, uint64_t calls, uint64_t called_ns)
{
    struct muster_seg_comm *comm = &segment_of(made, rank)->comm[0];
    comm->calls = comm->retired = calls;
    comm->called_ns = called_ns;
    comm->call[(calls - 1) % MUSTER_SEG_CALLS] =
        (struct muster_seg_call){.count = 1 << 20,
                                 .func = MUSTER_FUNC_ALL_REDUCE,
                                 .dtype = MUSTER_DTYPE_FLOAT32,
                                 .number = (uint16_t)(calls - 1)};
}

static void look(struct made *made, uint64_t now_ns)
{
    for (unsigned r = 0; r < RANKS; r++)
        assert_true(muster_top_process_take(&made->job.process[r], segment_of(made, r), 2, now_ns));
    made->top = (struct muster_top){0};
    muster_top_fill(&made->job, &made->filled, &made->top);
    if (!made->top.rank || !made->top.comm)
        abort();
}

static void calls_are_named_and_counted(void **state)
{
    struct made *made = *state;
    for (unsigned r = 0; r < RANKS; r++)
        call(made, r, 70000, BEGIN_NS + 1); /* the number's high bits are not in the segment */
    look(made, BEGIN_NS + MUSTER_NS_PER_S);
    assert_string_equal(made->top.rank[1].call, "AllReduce #69999 (4 MiB)");
    assert_int_equal(made->top.rank[1].gpu, 1);
    assert_true(made->top.ops_s < 0.5); /* one look tells no pace */
    for (unsigned r = 0; r < RANKS; r++)
        call(made, r, 70050, BEGIN_NS + 2 * MUSTER_NS_PER_S);
    look(made, BEGIN_NS + 2 * MUSTER_NS_PER_S);
    assert_true(made->top.rank[1].ops_s > 49.9 && made->top.rank[1].ops_s < 50.1);
    assert_true(made->top.ops_s > 149.9 && made->top.ops_s < 150.1);
    assert_int_equal(made->top.ranks_alive, RANKS);
    assert_int_equal(made->top.ranks_expected, 4);
    assert_true(made->top.progress_s < 0.1);
    assert_true(isnan(made->top.timed_share));
    assert_string_equal(made->top.comm[0].name, "d?p");
    assert_int_equal(made->top.comm[0].behind, -1);
}

static void who_has_not_come_is_waited_for(void **state)
{
    struct made *made = *state;
    call(made, 0, 10, BEGIN_NS);
    call(made, 1, 9, BEGIN_NS);
    call(made, 2, 10, BEGIN_NS);
    look(made, BEGIN_NS + MUSTER_NS_PER_MS); /* it may be on its way */
    assert_int_equal(made->top.rank[0].waits, -1);
    look(made, BEGIN_NS + 3 * MUSTER_NS_PER_S);
    assert_int_equal(made->top.rank[0].waits, 1);
    assert_int_equal(made->top.rank[0].waits_more, 0);
    assert_int_equal(made->top.rank[1].waits, -1);
    assert_int_equal(made->top.comm[0].behind, 1);
    assert_int_equal(made->top.comm[0].behind_by, 1);
    assert_true(made->top.progress_s > 2.9);
}

/* A send of 1 MiB to rank 2 of the communicator, as it is in flight or retired. */
static struct muster_op send_op(uint64_t number, uint64_t called_ns)
{
    return (struct muster_op){.comm = 1,
                              .number = number,
                              .enqueue_ns = called_ns,
                              .count = 1 << 18,
                              .peer = 2,
                              .func = MUSTER_FUNC_SEND,
                              .dtype = MUSTER_DTYPE_FLOAT32};
}

static void sends_are_calls_too(void **state)
{
    struct made *made = *state;
    struct muster_segment *flight = aligned_alloc(64, sizeof *flight);
    struct muster_top_process *process = &made->job.process[0];
    memset(flight, 0, sizeof *flight);
    made->job.process[2].who.rank = 12; /* named as people know it */
    call(made, 1, 3, BEGIN_NS);
    segment_of(made, 0)->comm[0].called_ns = BEGIN_NS + 1;
    look(made, BEGIN_NS + MUSTER_NS_PER_S);
    assert_true(muster_top_process_asks(process));
    struct muster_op op = send_op(4, BEGIN_NS + 1);
    muster_top_process_take_sends(process, flight, &op, 1);
    assert_false(muster_top_process_asks(process));
    look(made, BEGIN_NS + MUSTER_NS_PER_S);
    assert_string_equal(made->top.rank[0].call, "Send to 12 #4 (1 MiB)");
    assert_int_equal(made->top.rank[0].waits, -1);  /* though rank 1 has called a collective */
    assert_false(muster_top_process_asks(process)); /* nothing was called since */
    segment_of(made, 0)->comm[0].called_ns = BEGIN_NS + 2;
    look(made, BEGIN_NS + MUSTER_NS_PER_S);
    assert_true(muster_top_process_asks(process));
    flight->slot[7] = (struct muster_seg_slot){.comm = 1,
                                               .number = 5,
                                               .enqueue_ns = BEGIN_NS + 2,
                                               .count = 3,
                                               .peer = 9,
                                               .func = MUSTER_FUNC_RECV,
                                               .dtype = MUSTER_DTYPE_INT8};
    flight->slot_state[7] = MUSTER_SLOT_LAUNCHED;
    muster_top_process_take_sends(process, flight, &op, 1);
    look(made, BEGIN_NS + MUSTER_NS_PER_S);
    assert_string_equal(made->top.rank[0].call, "Recv from 9 #5 (3 B)");
    call(made, 0, 1, BEGIN_NS + 3); /* a collective is newer */
    look(made, BEGIN_NS + MUSTER_NS_PER_S);
    assert_string_equal(made->top.rank[0].call, "AllReduce #0 (4 MiB)");
    free(flight);
}

static void a_send_that_nobody_saw_is_one_all_the_same(void **state)
{
    struct made *made = *state;
    struct muster_segment *flight = aligned_alloc(64, sizeof *flight);
    memset(flight, 0, sizeof *flight);
    segment_of(made, 0)->comm[0].called_ns = BEGIN_NS + 1;
    look(made, BEGIN_NS + 2);
    muster_top_process_take_sends(&made->job.process[0], flight, NULL, 0);
    look(made, BEGIN_NS + 2);
    assert_string_equal(made->top.rank[0].call, "a send or receive");
    free(flight);
}

static void what_it_cost_is_a_trend(void **state)
{
    struct made *made = *state;
    struct muster_top_process *process = &made->job.process[2];
    struct muster_rank_cost compared = {0};
    for (unsigned i = 0; i < MUSTER_TOP_TREND + 5; i++) {
        compared.operations += 10;
        compared.late_ns += 10 * 1000 * i;
        muster_top_process_compare(process, &compared);
        muster_top_process_compare(process, &compared); /* nothing new */
    }
    assert_int_equal(process->trends, MUSTER_TOP_TREND);
    assert_true(fabs(process->trend[MUSTER_TOP_TREND - 1] - (MUSTER_TOP_TREND + 4)) < 0.01);
    assert_true(fabs(process->trend[0] - 5) < 0.01);
}

static void sums_are_of_all_ranks(void **state)
{
    struct made *made = *state;
    struct muster_segment *segment = aligned_alloc(64, sizeof *segment);
    memset(segment, 0, sizeof *segment);
    for (unsigned i = 0; i < 2; i++) {
        struct muster_seg_row *row = &segment->row[i];
        row->comm = 1;
        row->func = MUSTER_FUNC_ALL_REDUCE;
        row->algo = MUSTER_ALGO_RING;
        row->size_log2 = 22;
        row->count = 10;
        row->event_timed = i ? 0 : 10; /* the second's durations are the host's */
        row->sum_ns = 1000;
        row->hist.n[5] = 10;
    }
    look(made, BEGIN_NS + 1);
    for (unsigned r = 0; r < RANKS; r++)
        assert_true(muster_top_process_take_rows(&made->job.process[r], segment));
    look(made, BEGIN_NS + 2);
    free(segment);
    assert_int_equal(made->top.classes, 1);
    if (!made->top.class)
        abort();
    assert_int_equal(made->top.class[0].count, 20 * RANKS);
    assert_int_equal(made->top.class[0].timed, 10 * RANKS);
    assert_int_equal(made->top.class[0].sum_ns, 1000 * RANKS);
    assert_true(fabs(made->top.timed_share - 0.5) < 0.01);
}

static void an_odd_table_is_shown_as_unknown(void **state)
{
    struct made *made = *state;
    call(made, 0, 5, UINT64_MAX); /* torn, or not muster's */
    struct muster_seg_comm *comm = &segment_of(made, 0)->comm[0];
    comm->call[4].func = 200;
    comm->call[4].dtype = 200;
    memset(comm->name, 'x', sizeof comm->name);
    look(made, BEGIN_NS);
    assert_string_equal(made->top.rank[0].call, "collective #4 (0 B)");
    assert_true(isnan(made->top.rank[0].since_s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_are_named_and_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(who_has_not_come_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(sends_are_calls_too, setup, teardown),
        cmocka_unit_test_setup_teardown(a_send_that_nobody_saw_is_one_all_the_same, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_it_cost_is_a_trend, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_are_of_all_ranks, setup, teardown),
        cmocka_unit_test_setup_teardown(an_odd_table_is_shown_as_unknown, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
