#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report_fixture.h"

#define assert_near(a, b, by) assert_true(fabs((a) - (b)) <= (by))

static void wait_and_lateness_come_from_durations(void **state)
{
    struct muster_run *run = fixture_run(2);
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        fixture_comm(run, p, 1, 0xabc, (int32_t)p, 2);
        for (uint64_t i = 0; i < 3; i++)
            fixture_add(run, p, fixture_op(1, i, p ? 80 * US : 100 * US));
    }
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.ranks, 2);
    assert_int_equal(report.joint, 3);
    assert_near(report.rank[0].busy_us, 300, 1e-9);
    assert_near(report.rank[0].wait_us, 60, 1e-9);
    assert_near(report.rank[0].late_us, 0, 1e-9);
    assert_near(report.rank[1].busy_us, 240, 1e-9);
    assert_near(report.rank[1].wait_us, 0, 1e-9);
    assert_near(report.rank[1].late_us, 60, 1e-9);
    assert_int_equal(report.ops, 1);
    assert_int_equal(report.op[0].count, 6);
    assert_near(report.op[0].transfer_p50_us, 80, 1e-9);
    assert_string_equal(report.op[0].source, "gpu");
    assert_int_equal(report.gaps, 0);
    muster_report_free(&report);
    fixture_free(run);
}

static void part_of_the_ranks_gives_only_relative_lateness(void **state)
{
    struct muster_run *run = fixture_run(2);
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        fixture_comm(run, p, 1, 0xabc, (int32_t)p, 4);
        run->process[p].identity.world = 4;
        fixture_add(run, p, fixture_op(1, 0, p ? 80 * US : 100 * US));
    }
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_true(isnan(report.rank[0].wait_us));
    assert_true(isnan(report.op[0].transfer_p50_us));
    assert_near(report.rank[1].late_us, 20, 1e-9);
    assert_true(fixture_gap(&report, "0000000000000abc (world)"));
    assert_true(fixture_gap(&report, "not observed of the job's 4: ranks 2-3"));
    muster_report_free(&report);
    fixture_free(run);
}

static void a_rank_alone_is_compared_with_nobody(void **state)
{
    struct muster_run *run = fixture_run(1);
    (void)state;
    fixture_comm(run, 0, 1, 0xabc, 0, 4);
    fixture_add(run, 0, fixture_op(1, 0, 80 * US));
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_true(isnan(report.rank[0].late_us));
    assert_int_equal(report.rank[0].joint_ops, 0);
    muster_report_free(&report);
    fixture_free(run);
}

/* An all-to-all of two ranks: half of it stays where it is. */
static void what_a_rank_sends_to_itself_is_not_missed_among_the_timed(void **state)
{
    struct muster_run *run = fixture_run(1);
    (void)state;
    fixture_comm(run, 0, 1, 0xabc, 1, 2);
    for (uint64_t i = 0; i < 8; i++) {
        struct muster_op op = fixture_op(1, i / 4, i % 2 && i != 7 ? 80 * US : 0);
        op.func = i % 4 < 2 ? MUSTER_FUNC_SEND : MUSTER_FUNC_RECV;
        op.peer = i % 2 ? 0 : 1;
        fixture_add(run, 0, op);
    }
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.rank[0].ops, 8);
    assert_int_equal(report.rank[0].to_itself, 4);
    assert_int_equal(report.rank[0].timed_ops, 3);
    assert_true(report.rank[0].share == 0.75); /* the one that was not timed between ranks */
    muster_report_free(&report);
    fixture_free(run);
}

/* Adds the operation on rank 0, and on rank 1 with half the duration, changed by `change`. */
static struct muster_report pair(struct muster_run **run, void (*change)(struct muster_op *op))
{
    *run = fixture_run(2);
    for (size_t p = 0; p < 2; p++) {
        struct muster_op op = fixture_op(1, 5, p ? 50 * US : 100 * US);
        fixture_comm(*run, p, 1, 0xabc, (int32_t)p, 2);
        if (p)
            change(&op);
        fixture_add(*run, p, op);
    }
    return fixture_report(*run, MUSTER_BY_OP);
}

static void unscored(struct muster_op *op)
{
    op->flags |= MUSTER_OP_UNSCORED;
}

static void of_a_graph(struct muster_op *op)
{
    op->flags |= MUSTER_OP_GRAPH;
}

static void untimed(struct muster_op *op)
{
    *op = fixture_op(1, 5, 0);
}

static void by_proxy(struct muster_op *op)
{
    op->source = MUSTER_SOURCE_PROXY;
}

static void another_number(struct muster_op *op)
{
    op->number++;
}

static void another_function(struct muster_op *op)
{
    op->func = MUSTER_FUNC_REDUCE_SCATTER;
}

static void another_count(struct muster_op *op)
{
    op->count++;
}

static void only_the_same_timed_operation_is_compared(void **state)
{
    static void (*const changes[])(struct muster_op *) = {
        unscored, of_a_graph, untimed, by_proxy, another_number, another_function, another_count};
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct muster_run *run;
        struct muster_report report = pair(&run, changes[i]);
        bool mismatch = changes[i] == another_function || changes[i] == another_count;
        assert_int_equal(report.joint, 0);
        assert_true(isnan(report.rank[0].late_us));
        assert_true(isnan(report.rank[1].wait_us));
        assert_int_equal(report.mismatched, mismatch);
        assert_int_equal(fixture_gap(&report, "at the same place ranks called different"),
                         mismatch);
        muster_report_free(&report);
        fixture_free(run);
    }
}

static void rooted_and_paired_operations_are_not_compared(void **state)
{
    static const uint8_t funcs[] = {MUSTER_FUNC_BROADCAST, MUSTER_FUNC_REDUCE, MUSTER_FUNC_SEND,
                                    MUSTER_FUNC_RECV};
    (void)state;
    for (size_t i = 0; i < sizeof funcs; i++) {
        struct muster_run *run = fixture_run(2);
        for (size_t p = 0; p < 2; p++) {
            struct muster_op op = fixture_op(1, 0, p ? 50 * US : 100 * US);
            op.func = funcs[i];
            op.peer = 0;
            fixture_comm(run, p, 1, 0xabc, (int32_t)p, 2);
            fixture_add(run, p, op);
        }
        struct muster_report report = fixture_report(run, MUSTER_BY_OP);
        assert_int_equal(report.joint, 0);
        assert_near(report.rank[0].busy_us, 100, 1e-9);
        muster_report_free(&report);
        fixture_free(run);
    }
}

static void a_rank_recorded_twice_is_not_compared(void **state)
{
    struct muster_run *run = fixture_run(3);
    (void)state;
    for (size_t p = 0; p < 3; p++) {
        fixture_comm(run, p, 1, 0xabc, p ? 1 : 0, 2);
        fixture_add(run, p, fixture_op(1, 0, (p + 1) * 10 * US));
    }
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.joint, 0);
    assert_true(fixture_gap(&report, "was recorded twice"));
    muster_report_free(&report);
    fixture_free(run);
}

static void an_operation_met_twice_is_not_compared_with_itself(void **state)
{
    struct muster_run *run = fixture_run(2);
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        fixture_comm(run, p, 1, 0xabc, (int32_t)p, 2);
        fixture_add(run, 0, fixture_op(1, 5, (p + 1) * 10 * US));
    }
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.joint, 0);
    assert_true(isnan(report.rank[0].late_us));
    muster_report_free(&report);
    fixture_free(run);
}

static void numbers_of_any_size_are_matched(void **state)
{
    static const uint64_t numbers[] = {UINT64_MAX, 0, 1ull << 40, 256, 3};
    struct muster_run *run = fixture_run(2);
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        fixture_comm(run, p, 1, 0xabc, (int32_t)p, 2);
        for (size_t i = 0; i < 5; i++)
            fixture_add(run, p, fixture_op(1, numbers[p ? i : 4 - i], (p + 1) * 10 * US));
    }
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.joint, 5);
    assert_near(report.rank[0].late_us, 50, 1e-9);
    muster_report_free(&report);
    fixture_free(run);
}

static struct muster_report hundred(struct muster_run **run, bool all_known)
{
    *run = fixture_run(1);
    fixture_comm(*run, 0, 1, 0xabc, 0, 1);
    for (uint64_t i = 1; i <= 100; i++) {
        fixture_add_row(*run, 0, fixture_op(1, i, i * 10 * US));
        if (all_known || i > 50)
            fixture_add_list(*run, 0, fixture_op(1, i, i * 10 * US));
    }
    return fixture_report(*run, MUSTER_BY_OP);
}

static void percentiles_are_exact_where_all_is_known(void **state)
{
    struct muster_run *run;
    (void)state;
    struct muster_report report = hundred(&run, true);
    assert_near(report.op[0].p50_us, 500, 1e-9);
    assert_near(report.op[0].p99_us, 990, 1e-9);
    assert_near(report.rank[0].p50_us, 500, 1e-9);
    muster_report_free(&report);
    fixture_free(run);
}

static void percentiles_come_from_the_histogram_otherwise(void **state)
{
    struct muster_run *run;
    (void)state;
    struct muster_report report = hundred(&run, false);
    /* from the half that is known it would be 750 */
    assert_near(report.op[0].p50_us, 500, 500.0 / 16);
    assert_near(report.rank[0].p99_us, 990, 990.0 / 16);
    muster_report_free(&report);
    fixture_free(run);
}

static void bandwidth_is_that_of_nccl_tests(void **state)
{
    struct muster_run *run = fixture_run(1);
    struct muster_op send = fixture_op(1, 0, 100 * US);
    (void)state;
    fixture_comm(run, 0, 1, 0xabc, 2, 4);
    fixture_add(run, 0, fixture_op(1, 0, 200 * US));
    send.func = MUSTER_FUNC_SEND;
    send.peer = 3;
    fixture_add(run, 0, send);
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.ops, 2);
    assert_int_equal(report.op[0].size, 1 << 20);
    assert_near(report.op[0].algbw_gbs, 5.24288, 1e-5);
    assert_near(report.op[0].busbw_gbs, 5.24288 * 2 * 3 / 4, 1e-5);
    assert_string_equal(report.op[1].func, "Send");
    assert_near(report.op[1].busbw_gbs, 10.48576, 1e-5);
    assert_int_equal(report.op[1].rank, 2);
    assert_int_equal(report.op[1].peer, 3);
    assert_int_equal(report.op[0].peer, -1);
    muster_report_free(&report);
    fixture_free(run);
}

static void several_gpus_of_a_process_are_several_ranks(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        struct muster_run *run = fixture_run(1);
        for (uint32_t gpu = 0; gpu < 3; gpu++) {
            struct muster_seg_comm *comm =
                fixture_comm(run, 0, gpu + 1, 0xabc, (int32_t)gpu + 4, 8);
            comm->gpu_index = known ? 2 - (int32_t)gpu : -1;
            for (uint32_t i = 0; i <= gpu; i++)
                fixture_add(run, 0, fixture_op(gpu + 1, i, 10 * US));
        }
        struct muster_report report = fixture_report(run, MUSTER_BY_OP);
        assert_int_equal(report.ranks, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(report.rank[i].rank, (int)i + 4);
            assert_string_equal(report.rank[i].rank_source, "comm");
            assert_int_equal(report.rank[i].ops, i + 1);
            assert_int_equal(report.rank[i].gpu_index, known ? 2 - (int)i : -1);
        }
        assert_int_equal(report.rank[0].joint_ops, 1);
        muster_report_free(&report);
        fixture_free(run);
    }
}

static void communicators_of_one_gpu_are_one_rank(void **state)
{
    struct muster_run *run = fixture_run(1);
    (void)state;
    run->process[0].identity.rank = -1;
    fixture_comm(run, 0, 1, 0xabc, 1, 2)->gpu_index = 6;
    fixture_comm(run, 0, 2, 0xdef, 5, 8)->gpu_index = 6;
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.ranks, 1);
    assert_int_equal(report.rank[0].rank, 5); /* in the larger one */
    assert_string_equal(report.rank[0].rank_source, "comm");
    muster_report_free(&report);
    fixture_free(run);
}

static void captured_calls_without_replays_are_said(void **state)
{
    struct muster_run *run = fixture_run(1);
    (void)state;
    fixture_comm(run, 0, 8, 0xdef, 0, 4)->captured = 3;
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.rank[0].captured, 3);
    assert_true(fixture_gap(&report, "3 calls were recorded into CUDA graphs and no replay"));
    muster_report_free(&report);
    fixture_free(run);
}

static void what_auto_left_out_is_said_with_its_reason(void **state)
{
    struct muster_run *run = fixture_run(1);
    (void)state;
    run->process[0].identity.timing = MUSTER_TIMING_AUTO;
    struct muster_seg_comm *comm = fixture_comm(run, 0, 1, 0xabc, 0, 2);
    fixture_add(run, 0, fixture_op(1, 0, 30 * US));
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_false(fixture_gap(&report, "timed since"));
    muster_report_free(&report);
    comm->calls = 20000;
    comm->timing = muster_seg_timing_pack(3, 14208, 31000);
    report = fixture_report(run, MUSTER_BY_OP);
    assert_true(fixture_gap(&report, "communicator 0000000000000abc: 1 in 8 blocks timed since "
                                     "operation 14208: 31000 operations a second in the process"));
    muster_report_free(&report);
    comm->timing = muster_seg_timing_pack(0, 19008, 300);
    report = fixture_report(run, MUSTER_BY_OP);
    assert_true(fixture_gap(&report, "every block timed only since operation 19008"));
    muster_report_free(&report);
    comm->calls = 0; /* a pipeline */
    report = fixture_report(run, MUSTER_BY_OP);
    assert_true(fixture_gap(&report, "every block timed only since group of sends 19008"));
    muster_report_free(&report);
    fixture_free(run);
}

/* Two GPUs of one process: each rank's own. */
static struct muster_run *two_gpus(void)
{
    struct muster_run *run = fixture_run(1);
    for (int32_t r = 0; r < 2; r++) {
        struct muster_seg_comm *comm = fixture_comm(run, 0, (uint32_t)r + 1, 0xabc, r, 2);
        comm->gpu_index = r;
        snprintf(comm->gpu_pci, sizeof comm->gpu_pci, "0000:0%d:00.0", r + 1);
        fixture_add(run, 0, fixture_op((uint32_t)r + 1, 0, 30 * US));
    }
    return run;
}

static void a_level_is_told_of_the_rank_whose_it_is(void **state)
{
    struct muster_run *run = two_gpus();
    (void)state;
    run->process[0].segment->comm[1].calls = 20000;
    run->process[0].segment->comm[1].timing = muster_seg_timing_pack(3, 14208, 31000);
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.ranks, 2);
    assert_false(fixture_gap(&report, "rank 0, communicator 0000000000000abc: 1 in 8"));
    assert_true(fixture_gap(&report, "rank 1, communicator 0000000000000abc: 1 in 8"));
    muster_report_free(&report);
    fixture_free(run);
}

static void what_timing_cost_is_told_of_each_rank(void **state)
{
    struct muster_run *run = two_gpus();
    struct muster_segment *segment = run->process[0].segment;
    (void)state;
    run->process[0].identity.begin_mono_ns = 1000000000;
    segment->heartbeat_mono_ns = 21000000000;
    segment->timing_cost_ns = 400000000; /* 0.1 s of a communicator that has no entry any more */
    segment->comm[0].timing_cost_ns = 100000000;
    segment->comm[1].timing_cost_ns = 200000000;
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_near(report.rank[0].cost_s, 0.2, 1e-9);
    assert_near(report.rank[0].cost_share, 0.01, 1e-9);
    assert_near(report.rank[1].cost_s, 0.2, 1e-9);
    muster_report_free(&report);
    run->process[0].identity.replay_speed = 1;
    report = fixture_report(run, MUSTER_BY_OP);
    assert_true(isnan(report.rank[0].cost_s));
    assert_true(isnan(report.rank[1].cost_share));
    muster_report_free(&report);
    fixture_free(run);
}

static void without_times_there_are_no_zeros(void **state)
{
    struct muster_run *run = fixture_run(1);
    (void)state;
    run->process[0].identity.timing = MUSTER_TIMING_AUTO;
    fixture_comm(run, 0, 1, 0xabc, 0, 1);
    fixture_add(run, 0, fixture_op(1, 0, 0));
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.rank[0].ops, 1);
    assert_true(isnan(report.rank[0].busy_us));
    assert_true(isnan(report.rank[0].p50_us));
    assert_true(isnan(report.op[0].algbw_gbs));
    assert_string_equal(report.rank[0].source, "none");
    assert_true(fixture_gap(&report, "no launch was seen to its end"));
    muster_report_free(&report);
    fixture_free(run);
}

static void rows_fold_by_communicator_and_by_size(void **state)
{
    struct muster_run *run = fixture_run(1);
    struct muster_op tree = fixture_op(2, 0, 30 * US);
    (void)state;
    tree.algo = MUSTER_ALGO_TREE;
    fixture_comm(run, 0, 1, 0xabc, 0, 4);
    fixture_comm(run, 0, 2, 0xdef, 0, 4);
    fixture_add(run, 0, fixture_op(1, 0, 10 * US));
    fixture_add(run, 0, fixture_op(2, 0, 20 * US));
    fixture_add(run, 0, tree);
    struct muster_report report = fixture_report(run, MUSTER_BY_COMM);
    assert_int_equal(report.ops, 2);
    assert_true(report.op[0].comm == 0xdef);
    assert_int_equal(report.op[0].count, 2);
    muster_report_free(&report);
    report = fixture_report(run, MUSTER_BY_SIZE);
    assert_int_equal(report.ops, 1);
    assert_int_equal(report.op[0].count, 3);
    assert_near(report.op[0].p50_us, 20, 1e-9);
    assert_int_equal(report.op[0].nranks, 4);
    muster_report_free(&report);
    fixture_free(run);
}

/* As a JAX program whose all-reduces are small: its communicators are there and nothing else. */
static void a_job_whose_communicators_did_nothing_says_what_nccl_does_not_show(void **state)
{
    struct muster_run *run = fixture_run(1);
    (void)state;
    fixture_comm(run, 0, 1, 0xabc, 0, 2);
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_true(fixture_gap(&report, "no operation ran in 0000000000000abc (world)"));
    muster_report_free(&report);
    fixture_comm(run, 0, 2, 0xdef, 0, 2);
    fixture_add(run, 0, fixture_op(2, 0, 0));
    report = fixture_report(run, MUSTER_BY_OP);
    assert_false(fixture_gap(&report, "no operation ran"));
    muster_report_free(&report);
    fixture_free(run);
}

static void gaps_name_what_was_lost(void **state)
{
    struct muster_run *run = fixture_run(4);
    (void)state;
    for (size_t p = 0; p < 4; p++) {
        fixture_comm(run, p, 1, 0xabc, (int32_t)p, 4);
        fixture_comm(run, p, 2, 0x100 + p, 0, 1);
        fixture_add(run, p, fixture_op(1, 0, 10 * US));
    }
    for (size_t p = 1; p < 4; p++)
        run->process[p].segment->drops[MUSTER_DROP_NO_SLOT] = 2;
    run->process[2].segment->lost_log = 9;
    run->process[0].ops_missing = 5;
    struct muster_seg_comm *other = &run->process[0].segment->comm[MUSTER_SEG_COMMS];
    *other = (struct muster_seg_comm){.uid = 99, .rank = -1, .folded = 3};
    *(const char **)muster_arena_add(&run->memory, &run->note, &run->notes, sizeof *run->note) =
        "x.log: cut short";
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_true(fixture_gap(&report, "6 operations not recorded"));
    assert_true(fixture_gap(&report, "(no_slot) (ranks 1-3)"));
    assert_true(fixture_gap(&report, "9 operations did not fit"));
    assert_true(fixture_gap(&report, "5 operations are in the totals"));
    assert_true(fixture_gap(&report, "3 communicators had no entry"));
    assert_true(fixture_gap(&report, "4 communicators of a single rank"));
    assert_true(fixture_gap(&report, "x.log: cut short"));
    assert_int_equal(report.rank[1].drops_total, 2);
    muster_report_free(&report);
    fixture_free(run);
}

static void unarmed_ranks_say_why(void **state)
{
    struct muster_run *run = fixture_run(2);
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        fixture_comm(run, p, 1, 0xabc, (int32_t)p, 2);
        fixture_add(run, p, fixture_op(1, 0, 0));
        run->process[p].identity.armed = 0;
        strcpy(run->process[p].identity.why_not_armed, "NCCL 2.27.7 times kernels unsafely");
    }
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_true(fixture_gap(&report, "ranks 0-1: NCCL 2.27.7 times kernels unsafely"));
    assert_int_equal(report.gaps, 1);
    muster_report_free(&report);
    fixture_free(run);
}

static void network_waits_without_steps_are_absent(void **state)
{
    struct muster_run *run = fixture_run(1);
    struct muster_seg_net *net = run->process[0].segment->net;
    (void)state;
    fixture_comm(run, 0, 1, 0xabc, 3, 4);
    net[0] = (struct muster_seg_net){
        .comm = 1, .peer = 0, .send = 1, .count = 5, .bytes = 50, .steps = 2, .gpu_wait_ns = 7000};
    net[1] = (struct muster_seg_net){.comm = 1, .peer = 2, .count = 6, .gpu_wait_ns = 7000};
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_int_equal(report.nets, 2);
    assert_int_equal(report.net[0].rank, 3);
    assert_near(report.net[0].gpu_wait_us, 7, 1e-9);
    assert_true(isnan(report.net[0].flush_us)); /* only receives flush */
    assert_true(isnan(report.net[1].gpu_wait_us));
    muster_report_free(&report);
    fixture_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_and_lateness_come_from_durations),
        cmocka_unit_test(part_of_the_ranks_gives_only_relative_lateness),
        cmocka_unit_test(a_rank_alone_is_compared_with_nobody),
        cmocka_unit_test(what_a_rank_sends_to_itself_is_not_missed_among_the_timed),
        cmocka_unit_test(only_the_same_timed_operation_is_compared),
        cmocka_unit_test(rooted_and_paired_operations_are_not_compared),
        cmocka_unit_test(a_rank_recorded_twice_is_not_compared),
        cmocka_unit_test(an_operation_met_twice_is_not_compared_with_itself),
        cmocka_unit_test(numbers_of_any_size_are_matched),
        cmocka_unit_test(percentiles_are_exact_where_all_is_known),
        cmocka_unit_test(percentiles_come_from_the_histogram_otherwise),
        cmocka_unit_test(bandwidth_is_that_of_nccl_tests),
        cmocka_unit_test(several_gpus_of_a_process_are_several_ranks),
        cmocka_unit_test(communicators_of_one_gpu_are_one_rank),
        cmocka_unit_test(captured_calls_without_replays_are_said),
        cmocka_unit_test(what_auto_left_out_is_said_with_its_reason),
        cmocka_unit_test(a_level_is_told_of_the_rank_whose_it_is),
        cmocka_unit_test(what_timing_cost_is_told_of_each_rank),
        cmocka_unit_test(without_times_there_are_no_zeros),
        cmocka_unit_test(rows_fold_by_communicator_and_by_size),
        cmocka_unit_test(a_job_whose_communicators_did_nothing_says_what_nccl_does_not_show),
        cmocka_unit_test(gaps_name_what_was_lost),
        cmocka_unit_test(unarmed_ranks_say_why),
        cmocka_unit_test(network_waits_without_steps_are_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
