/* What a run came out of: a long wait for one rank, and calls that did not match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/past/past.h"

#define S  1000000000ull
#define MS 1000000ull

enum { RANKS = 4, COMMS = 2, STEPS = 200, NOBODY = 99 };

/* A job of two communicators of all ranks. Host `h` has clock offsets of its own; no operation has
 * GPU times. */
struct job {
    struct muster_view view;
    uint32_t member[COMMS + 1][RANKS]; /* of the last: only what a test makes */
    uint64_t at_ns[RANKS];             /* when its host calls next */
    uint64_t number[COMMS + 1];
    uint16_t flags; /* of what is called from now on: enum muster_op_flags */
    uint64_t skew_ns[RANKS];
};

static void begin(struct job *job)
{
    memset(job, 0, sizeof *job);
    for (unsigned r = 0; r < RANKS; r++) {
        job->at_ns[r] = 100 * S;
        job->skew_ns[r] = r < 2 ? 0 : 5000 * S;
        const struct muster_view_gpu gpu = {.rank = (int32_t)r,
                                            .gpu_index = (int32_t)r % 2,
                                            .host = r < 2 ? "node0" : "node1",
                                            .host_times = true,
                                            .one_pace = true,
                                            .unix_ns = -(int64_t)job->skew_ns[r]};
        uint32_t g = muster_view_add_gpu(&job->view, &gpu);
        for (unsigned c = 0; c < COMMS; c++)
            job->member[c][r] =
                muster_view_add_member(&job->view, g, 0x100 + c, (int32_t)r, RANKS, 2, "");
    }
}

static void call(struct job *job, unsigned comm, unsigned rank, unsigned func, unsigned dtype,
                 uint64_t count)
{
    const struct muster_op op = {.number = job->number[comm],
                                 .enqueue_ns = job->at_ns[rank] + job->skew_ns[rank],
                                 .count = count,
                                 .peer = -1,
                                 .func = (uint8_t)func,
                                 .dtype = (uint8_t)dtype,
                                 .flags = job->flags};
    muster_view_add_op(&job->view, job->member[comm][rank], &op);
}

/* All do one operation; then each host waits for it before it goes on. */
static void step(struct job *job, unsigned comm)
{
    uint64_t last = 0;
    for (unsigned r = 0; r < RANKS; r++) {
        call(job, comm, r, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT32, 1000);
        last = job->at_ns[r] > last ? job->at_ns[r] : last;
    }
    for (unsigned r = 0; r < RANKS; r++)
        job->at_ns[r] = last + (10 + r) * MS;
    job->number[comm]++;
}

static void steps(struct job *job, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        step(job, i % COMMS);
}

static struct muster_findings waits(struct job *job)
{
    struct muster_findings findings = {0};
    struct muster_err err;
    assert_int_equal(muster_view_finish(&job->view, &err), 0);
    assert_int_equal(muster_past_waits(&job->view, 10 * S, &findings, &err), 0);
    return findings;
}

static void end(struct job *job, struct muster_findings *findings)
{
    muster_findings_free(findings);
    muster_view_free(&job->view);
}

static void a_single_long_wait_names_who_came_late(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    steps(&job, STEPS);
    job.at_ns[2] += 13 * S;
    steps(&job, STEPS);
    struct muster_findings findings = waits(&job);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->kind, MUSTER_FINDING_LATE_RANK);
    assert_int_equal(finding->mode, MUSTER_MODE_ONCE);
    assert_int_equal(finding->ranks, 1);
    assert_int_equal(finding->rank[0], 2);
    assert_string_equal(finding->host, "node1");
    assert_int_equal(finding->victims, 3);
    assert_int_equal(finding->op.index, STEPS / 2);
    assert_true(finding->cost_s > 12.9 && finding->cost_s < 13.1);
    assert_true(finding->since_unix_ns > 100 * S && finding->since_unix_ns < 110 * S);
    char text[500];
    muster_finding_sentence(finding, text, sizeof text);
    assert_non_null(strstr(text, "came 13 s late to AllReduce #100"));
    assert_non_null(strstr(text, "ranks 0, 1, 3 waited for it"));
    end(&job, &findings);
}

/* Of a run that is watched: what a rank called meanwhile may be among what is not kept any more. */
static void a_wait_among_calls_that_are_not_all_known_names_nobody(void **state)
{
    (void)state;
    static const uint64_t known_from_ns[] = {1 * S, 1000 * S, UINT64_MAX};
    for (unsigned i = 0; i < 3; i++) {
        struct job job;
        begin(&job);
        job.view.gpu[1].whole_from_ns = known_from_ns[i];
        steps(&job, STEPS);
        job.at_ns[2] += 13 * S;
        steps(&job, STEPS);
        struct muster_findings findings = waits(&job);
        assert_int_equal(findings.n, i == 0);
        end(&job, &findings);
    }
}

static void who_is_late_again_and_again_is_one_finding(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    for (int i = 0; i < 3; i++) {
        steps(&job, STEPS);
        job.at_ns[0] += 20 * S;
    }
    steps(&job, STEPS);
    struct muster_findings findings = waits(&job);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].rank[0], 0);
    assert_int_equal(findings.finding[0].mode, MUSTER_MODE_INTERMITTENT);
    assert_true(findings.finding[0].cost_s > 59 && findings.finding[0].cost_s < 61);
    end(&job, &findings);
}

static void shorter_waits_and_pauses_of_all_name_nobody(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    steps(&job, STEPS);
    job.at_ns[2] += 9 * S;
    steps(&job, STEPS);
    for (unsigned r = 0; r < RANKS; r++)
        job.at_ns[r] += 60 * S;
    steps(&job, STEPS);
    struct muster_findings findings = waits(&job);
    assert_int_equal(findings.n, 0);
    end(&job, &findings);
}

/* Ranks 0 and 1 never wait for anybody: they went ahead, and go on. */
static void who_goes_on_calling_does_not_wait(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    steps(&job, STEPS);
    uint64_t number = job.number[1];
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned r = 0; r < RANKS; r++) {
            job.number[0] = STEPS / 2 + i;
            if (r != 2)
                call(&job, 0, r, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT32, 1000);
            job.at_ns[r] += 200 * MS;
        }
    }
    for (unsigned i = 0; i < 100; i++) {
        job.number[0] = STEPS / 2 + i;
        job.at_ns[2] += 1 * MS;
        call(&job, 0, 2, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT32, 1000);
    }
    job.number[0]++;
    assert_int_equal(job.number[1], number);
    steps(&job, STEPS);
    struct muster_findings findings = waits(&job);
    assert_int_equal(findings.n, 0);
    end(&job, &findings);
}

static void nobody_is_named(struct job *job)
{
    struct muster_findings findings = waits(job);
    assert_int_equal(findings.n, 0);
    end(job, &findings);
}

/* Its call came when the others had something else to do anyway. */
static void who_was_not_waited_for_is_not_named(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    steps(&job, STEPS);
    job.at_ns[2] += 13 * S;
    step(&job, 0);
    for (unsigned r = 0; r < RANKS; r++)
        job.at_ns[r] += r == 2 ? 0 : 8 * S;
    steps(&job, STEPS);
    nobody_is_named(&job);
}

/* The first operation is as early as the slowest process starts. */
static void a_slow_start_names_nobody(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    job.at_ns[2] += 13 * S;
    steps(&job, STEPS);
    nobody_is_named(&job);
}

/* Of a replay NCCL shows when it ran, not when it was called. */
static void a_replay_of_a_graph_names_nobody(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    steps(&job, STEPS);
    job.at_ns[2] += 13 * S;
    job.flags = MUSTER_OP_GRAPH;
    step(&job, 0);
    job.flags = 0;
    steps(&job, STEPS);
    nobody_is_named(&job);
}

/* Rank 3 keeps rank 2 waiting in the second communicator, and rank 2 then the others in a third
 * one, which rank 3 is not in. */
static void who_waited_for_another_is_not_named(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    for (unsigned r = 0; r < 3; r++)
        job.member[COMMS][r] =
            muster_view_add_member(&job.view, r, 0x100 + COMMS, (int32_t)r, 3, 2, "");
    steps(&job, STEPS);
    for (unsigned r = 0; r < 3; r++)
        call(&job, COMMS, r, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT32, 1000);
    job.number[COMMS]++;
    uint64_t now = job.at_ns[0] + 50 * MS;
    for (unsigned r = 0; r < RANKS; r++) {
        job.at_ns[r] = now + (r == 3 ? 15 * S : r * MS);
        call(&job, 1, r, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT32, 1000);
    }
    job.number[1]++;
    for (unsigned r = 0; r < 3; r++) {
        job.at_ns[r] = now + (r == 2 ? 15 * S + 5 * MS : 10 * MS);
        call(&job, COMMS, r, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT32, 1000);
    }
    for (unsigned r = 0; r < RANKS; r++)
        job.at_ns[r] = now + 15 * S + (10 + r) * MS;
    steps(&job, STEPS);
    struct muster_findings findings = waits(&job);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], 3);
    end(&job, &findings);
}

/* ---- calls that do not match ---- */

static struct muster_findings mismatches(struct job *job)
{
    struct muster_findings findings = {0};
    struct muster_err err;
    assert_int_equal(muster_view_finish(&job->view, &err), 0);
    assert_int_equal(muster_past_mismatches(&job->view, &findings, &err), 0);
    return findings;
}

static void odd_step(struct job *job, unsigned odd, unsigned func, unsigned dtype, uint64_t count,
                     unsigned odd_dtype, uint64_t odd_count)
{
    for (unsigned r = 0; r < RANKS; r++) {
        bool is_odd = odd >> r & 1;
        call(job, 0, r, func, is_odd ? odd_dtype : dtype, is_odd ? odd_count : count);
        job->at_ns[r] += 10 * MS;
    }
    job->number[0]++;
}

static void another_type_is_a_mismatch_though_nothing_hung(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    steps(&job, STEPS);
    for (int i = 0; i < 3; i++)
        odd_step(&job, 1 << 1, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT16, 1000,
                 MUSTER_DTYPE_BFLOAT16, 1000);
    steps(&job, STEPS);
    struct muster_findings findings = mismatches(&job);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->kind, MUSTER_FINDING_MISMATCH);
    assert_int_equal(finding->ranks, 1);
    assert_int_equal(finding->rank[0], 1);
    assert_int_equal(finding->op.index, STEPS / 2);
    assert_true(finding->confidence > 0.9);
    char text[500];
    muster_finding_sentence(finding, text, sizeof text);
    assert_non_null(strstr(text, "mismatch: rank 1 (host node0, GPU 1) called something else"));
    assert_non_null(strstr(text, "no rank hung"));
    bool counted = false;
    for (unsigned i = 0; i < finding->evidence.n; i++)
        counted |= strstr(finding->evidence.line[i], "3 of 203 operations") != NULL;
    assert_true(counted);
    end(&job, &findings);
}

/* Rank 1 alone has another function, or another root. */
static void another_function_or_root_is_a_mismatch(void **state)
{
    (void)state;
    for (unsigned root = 0; root < 2; root++) {
        struct job job;
        begin(&job);
        steps(&job, STEPS);
        for (unsigned r = 0; r < RANKS; r++) {
            const struct muster_op op = {.number = job.number[0],
                                         .enqueue_ns = job.at_ns[r] + job.skew_ns[r],
                                         .count = 1000,
                                         .peer = root && r == 1 ? 3 : 0,
                                         .func = !root && r == 1 ? MUSTER_FUNC_REDUCE
                                                                 : MUSTER_FUNC_BROADCAST,
                                         .dtype = MUSTER_DTYPE_FLOAT32};
            muster_view_add_op(&job.view, job.member[0][r], &op);
        }
        struct muster_findings findings = mismatches(&job);
        assert_int_equal(findings.n, 1);
        assert_int_equal(findings.finding[0].ranks, 1);
        assert_int_equal(findings.finding[0].rank[0], 1);
        end(&job, &findings);
    }
}

/* Replays are not in the order of calls: what stands beside each other need not belong together. */
static void replays_of_graphs_are_not_compared(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    steps(&job, STEPS);
    job.flags = MUSTER_OP_GRAPH;
    odd_step(&job, 1 << 1, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT16, 1000,
             MUSTER_DTYPE_BFLOAT16, 1000);
    struct muster_findings findings = mismatches(&job);
    assert_int_equal(findings.n, 0);
    end(&job, &findings);
}

static void what_is_only_moved_matches_by_its_bytes(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    steps(&job, STEPS);
    odd_step(&job, 1 << 1, MUSTER_FUNC_ALL_GATHER, MUSTER_DTYPE_FLOAT16, 1000, MUSTER_DTYPE_INT8,
             2000);
    struct muster_findings findings = mismatches(&job);
    assert_int_equal(findings.n, 0);
    end(&job, &findings);
}

static void half_against_half_names_all_and_says_so(void **state)
{
    (void)state;
    struct job job;
    begin(&job);
    odd_step(&job, 3, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT32, 1000, MUSTER_DTYPE_FLOAT32,
             500);
    struct muster_findings findings = mismatches(&job);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 4);
    assert_true(findings.finding[0].confidence <= 0.5);
    end(&job, &findings);
}

static void what_hung_is_not_told_twice(void **state)
{
    (void)state;
    struct job job;
    struct muster_err err;
    begin(&job);
    odd_step(&job, 1, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT32, 1000, MUSTER_DTYPE_FLOAT32,
             500);
    struct muster_findings findings = {0};
    struct muster_finding *hang = muster_findings_add(&findings);
    hang->kind = MUSTER_FINDING_HANG_MISMATCH;
    hang->comm = 0x100;
    assert_int_equal(muster_view_finish(&job.view, &err), 0);
    assert_int_equal(muster_past_mismatches(&job.view, &findings, &err), 0);
    assert_int_equal(findings.n, 1);
    end(&job, &findings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_long_wait_names_who_came_late),
        cmocka_unit_test(a_wait_among_calls_that_are_not_all_known_names_nobody),
        cmocka_unit_test(who_is_late_again_and_again_is_one_finding),
        cmocka_unit_test(shorter_waits_and_pauses_of_all_name_nobody),
        cmocka_unit_test(who_goes_on_calling_does_not_wait),
        cmocka_unit_test(who_was_not_waited_for_is_not_named),
        cmocka_unit_test(a_slow_start_names_nobody),
        cmocka_unit_test(a_replay_of_a_graph_names_nobody),
        cmocka_unit_test(who_waited_for_another_is_not_named),
        cmocka_unit_test(another_type_is_a_mismatch_though_nothing_hung),
        cmocka_unit_test(another_function_or_root_is_a_mismatch),
        cmocka_unit_test(replays_of_graphs_are_not_compared),
        cmocka_unit_test(what_is_only_moved_matches_by_its_bytes),
        cmocka_unit_test(half_against_half_names_all_and_says_so),
        cmocka_unit_test(what_hung_is_not_told_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
