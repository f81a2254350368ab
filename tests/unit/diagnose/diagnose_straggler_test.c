/* Who is named late, and who is not. */
#include "made_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 30 };

/* Everybody works for a millisecond, then two operations. */
static void step(struct ranks *ranks, unsigned comm)
{
    for (unsigned r = 0; r < ranks->n; r++)
        ranks_work(ranks, r, 1 * MS);
    ranks_do(ranks, comm, 1 << 20, 100 * US, true, 0);
    ranks_do(ranks, comm, 256, 10 * US, true, 0);
}

static struct ranks four(void)
{
    struct ranks ranks;
    ranks_begin(&ranks, 4);
    ranks_comm(&ranks, 0, 0, 1, 4, 4);
    return ranks;
}

/* Sampling that left nothing out limits nothing. */
static void test_sampling_is_said_where_it_left_something_out(void **state)
{
    (void)state;
    for (unsigned untimed = 0; untimed < 2; untimed++) {
        struct ranks ranks = four();
        for (unsigned r = 0; r < 4; r++)
            ranks.view.gpu[r].timing = MUSTER_TIMING_AUTO;
        for (unsigned s = 0; s < STEPS; s++) {
            ranks_work(&ranks, 2, 500 * US);
            step(&ranks, 0);
        }
        if (untimed)
            ranks_do(&ranks, 0, 256, 10 * US, false, 0);
        struct muster_findings findings = ranks_diagnose(&ranks);
        assert_int_equal(findings.n, 1);
        assert_int_equal(
            ranks_has_line(&findings.finding[0].not_observable, "not all operations were timed"),
            untimed);
        muster_findings_free(&findings);
        ranks_end(&ranks);
    }
}

static void test_late_rank_with_its_cost(void **state)
{
    (void)state;
    struct ranks ranks = four();
    for (unsigned s = 0; s < STEPS; s++) {
        ranks_work(&ranks, 2, 500 * US);
        step(&ranks, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->kind, MUSTER_FINDING_LATE_RANK);
    assert_int_equal(finding->ranks, 1);
    assert_int_equal(finding->rank[0], 2);
    assert_int_equal(finding->gpu, 2);
    assert_int_equal(finding->mode, MUSTER_MODE_PERSISTENT);
    assert_int_equal(finding->op.func, MUSTER_FUNC_ALL_REDUCE);
    assert_int_equal(finding->op.bytes, 4 << 20);
    /* The first step has no own time, the second no position yet. */
    assert_true(fabs(finding->cost_s - (STEPS - 2) * 500e-6) < 1e-9);
    assert_true(fabs(finding->cost_share - 500.0 / 1610) < 0.02);
    assert_true(finding->confidence > 0.9);
    assert_string_equal(finding->where, "before the first of 2 AllReduce of each step");
    assert_int_equal(finding->every_steps, 0);
    assert_true(fabs(finding->step_s - 1610e-6) < 1e-9);
    assert_true(finding->cost_low_s < finding->cost_s && finding->cost_s < finding->cost_high_s);
    assert_true(finding->cost_run_s >= finding->cost_s &&
                finding->cost_run_s < 1.1 * finding->cost_s);
    assert_true(fabs(finding->gpu_hours - finding->cost_run_s * 4 / 3600) < 1e-12);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* How many are named where rank 2 is late in each of so many steps, in the k-th window of a run
 * that goes on; 0: of one that is over. */
static size_t named_in(unsigned steps, uint64_t window)
{
    struct ranks ranks = four();
    for (unsigned s = 0; s < steps; s++) {
        ranks_work(&ranks, 2, 500 * US);
        step(&ranks, 0);
    }
    ranks.view.window = window;
    struct muster_findings findings = ranks_diagnose(&ranks);
    size_t n = findings.n;
    muster_findings_free(&findings);
    ranks_end(&ranks);
    return n;
}

/* What would do once the run is over may have been one state of a clock, seen while it lasted; and
 * the more windows there were, the more each has to show. */
static void test_while_the_job_runs_its_windows_share_one_error_rate(void **state)
{
    (void)state;
    enum { FEW = 8, MORE = 16, MANY = 36 };
    assert_int_equal(named_in(FEW, 0), 1);
    assert_int_equal(named_in(FEW, 1), 0);
    assert_int_equal(named_in(MORE, 1), 1);
    assert_int_equal(named_in(MORE, 1000000), 0);
    assert_int_equal(named_in(MANY, 1000000), 1);
}

static void test_clean_verdict_says_what_it_would_have_seen(void **state)
{
    (void)state;
    struct ranks ranks = four();
    for (unsigned s = 0; s < STEPS; s++)
        step(&ranks, 0);
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 0);
    /* Half of the operations follow a millisecond of work: a shorter delay is how GPUs differ. */
    assert_true(ranks_has_line(
        &findings.not_observable,
        "nobody late in 57 compared operations; a 35 us delay in one operation of five"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_too_few_operations_say_so(void **state)
{
    (void)state;
    struct ranks ranks = four();
    for (unsigned s = 0; s < 6; s++) {
        ranks_work(&ranks, 1, 5 * MS);
        step(&ranks, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 0);
    assert_true(ranks_has_line(&findings.not_observable, "too few or too uneven"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_turns_are_nobodys_fault(void **state)
{
    (void)state;
    struct ranks ranks = four();
    for (unsigned s = 0; s < 4 * STEPS; s++) {
        ranks_work(&ranks, s % 4, 2 * MS);
        step(&ranks, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_two_culprits_in_one_finding(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 6);
    ranks_comm(&ranks, 0, 0, 1, 6, 6);
    for (unsigned s = 0; s < STEPS; s++) {
        ranks_work(&ranks, 1, 300 * US);
        ranks_work(&ranks, 4, 400 * US);
        step(&ranks, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 2);
    assert_int_equal(findings.finding[0].rank[0], 4);
    assert_int_equal(findings.finding[0].rank[1], 1);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_a_culprit_that_moves_is_a_list_over_time(void **state)
{
    (void)state;
    static const unsigned late[] = {2, 0, 3};
    struct ranks ranks;
    ranks_begin(&ranks, 8);
    ranks_comm(&ranks, 0, 0, 1, 8, 8);
    for (unsigned s = 0; s < 45 * STEPS; s++) {
        ranks_work(&ranks, late[s / (15 * STEPS)], 800 * US);
        step(&ranks, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->mode, MUSTER_MODE_MOVES);
    assert_int_equal(finding->ranks, 3);
    assert_int_equal(finding->stretches, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(finding->stretch[i].rank, late[i]);
        assert_true(finding->stretch[i].since_unix_ns < finding->stretch[i].until_unix_ns);
        assert_true(i == 0 ||
                    finding->stretch[i - 1].until_unix_ns <= finding->stretch[i].since_unix_ns);
    }
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* In one step of ten nobody has input: all wait, nobody for another. */
static void test_every_rank_waits_alike(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct ranks ranks = four();
        for (unsigned s = 0; s < 4 * STEPS; s++) {
            for (unsigned r = 0; r < 4; r++) {
                ranks_work(&ranks, r, s % 10 == 7 ? 20 * MS : 0);
                ranks_work(&ranks, r, late && r == 1 ? 500 * US : 0);
                ranks.call_ns[r] = ranks.arrived_ns[r] + 1 * MS;
            }
            step(&ranks, 0);
        }
        struct muster_findings findings = ranks_diagnose(&ranks);
        assert_int_equal(findings.n, 1);
        const struct muster_finding *finding = &findings.finding[0];
        assert_int_equal(finding->kind, late ? MUSTER_FINDING_LATE_RANK : MUSTER_FINDING_ALL_WAIT);
        assert_int_equal(finding->ranks, late);
        if (!late) {
            assert_true(fabs(finding->cost_s - 11 * 20e-3) < 1e-3);
            assert_string_equal(finding->where, "before the first of 2 AllReduce of each step");
            assert_true(
                ranks_has_line(&finding->evidence, "in 11 of these 11 the calls came late"));
        }
        muster_findings_free(&findings);
        ranks_end(&ranks);
    }
}

/* All work as long in each step. In most an operation beside it is over just before the last one,
 * so that little of the work is seen; in three of ten it was over before. */
static void test_work_that_is_hidden_in_most_steps_is_no_wait(void **state)
{
    (void)state;
    struct ranks ranks = four();
    ranks_comm(&ranks, 1, 0, 1, 4, 4);
    for (unsigned s = 0; s < 4 * STEPS; s++) {
        step(&ranks, 0);
        for (unsigned part = 0; part < 2; part++) {
            for (unsigned r = 0; r < 4; r++) {
                ranks_work(&ranks, r, (part == 0) == (s % 10 < 3) ? 1 * MS : 20 * MS);
                ranks.call_ns[r] = ranks.arrived_ns[r] + 1 * MS;
            }
            ranks_do(&ranks, 1 - part, part ? 2 << 20 : 3 << 20, 100 * US, true, 0);
        }
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* Eight ranks on two hosts, all of one slow alike: one finding of the host, not four. */
static void test_a_slow_host_is_one_finding(void **state)
{
    (void)state;
    struct ranks ranks;
    char text[1024];
    ranks_begin(&ranks, 8);
    ranks_comm(&ranks, 0, 0, 1, 8, 8);
    for (unsigned r = 0; r < 8; r++)
        ranks.view.gpu[r].host = r < 4 ? "node0" : "node1";
    for (unsigned s = 0; s < 2 * STEPS; s++) {
        for (unsigned r = 4; r < 8; r++)
            ranks_work(&ranks, r, 400 * US);
        step(&ranks, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->kind, MUSTER_FINDING_LATE_HOST);
    assert_string_equal(finding->host, "node1");
    assert_int_equal(finding->ranks, 4);
    assert_int_equal(finding->gpu, -1);
    muster_finding_sentence(finding, text, sizeof text);
    assert_non_null(strstr(text, "late_host: host node1 comes late to AllReduce"));
    assert_non_null(strstr(text, "as a whole (ranks 4, 5, 6, 7)"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* Pairs (0,1), (2,3) work, then pairs (0,2), (1,3) exchange: rank 1 delays rank 0, and through it
 * rank 2; rank 3 waits for rank 1 itself. */
static void test_victims_of_other_communicators_are_named_as_such(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 4);
    ranks_comm(&ranks, 0, 0, 1, 2, 2);
    ranks_comm(&ranks, 1, 2, 1, 2, 2);
    ranks_comm(&ranks, 2, 0, 2, 2, 2);
    ranks_comm(&ranks, 3, 1, 2, 2, 2);
    for (unsigned s = 0; s < STEPS; s++) {
        for (unsigned r = 0; r < 4; r++)
            ranks_work(&ranks, r, r == 1 ? 2 * MS : 1 * MS);
        ranks_do(&ranks, 0, 1 << 20, 50 * US, true, 0);
        ranks_do(&ranks, 1, 1 << 20, 50 * US, true, 0);
        ranks_do(&ranks, 2, 8 << 20, 200 * US, true, 0);
        ranks_do(&ranks, 3, 8 << 20, 200 * US, true, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->ranks, 1);
    assert_int_equal(finding->rank[0], 1);
    assert_int_equal(finding->comm, 0x100);
    assert_int_equal(finding->victims, 3);
    for (unsigned i = 0; i < finding->victims; i++)
        assert_int_not_equal(finding->victim[i], 1);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_what_may_not_be_evaluated_is_not(void **state)
{
    (void)state;
    static const uint16_t flags[] = {MUSTER_OP_UNSCORED, MUSTER_OP_INCOMPLETE};
    for (unsigned f = 0; f < 2; f++) {
        struct ranks ranks = four();
        for (unsigned s = 0; s < STEPS; s++) {
            ranks_work(&ranks, 2, 5 * MS);
            ranks_do(&ranks, 0, 1 << 20, 100 * US, true, flags[f]);
        }
        struct muster_findings findings = ranks_diagnose(&ranks);
        assert_int_equal(findings.n, 0);
        muster_findings_free(&findings);
        ranks_end(&ranks);
    }
}

static void test_untimed_operations_give_no_finding(void **state)
{
    (void)state;
    struct ranks ranks = four();
    for (unsigned s = 0; s < STEPS; s++) {
        ranks_work(&ranks, 2, 5 * MS);
        ranks_do(&ranks, 0, 1 << 20, 100 * US, false, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 0);
    assert_true(ranks_has_line(&findings.not_observable, ": 0 operations could be compared"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_partial_view_is_said(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 3);
    ranks_comm(&ranks, 0, 0, 1, 3, 8);
    for (unsigned s = 0; s < STEPS; s++) {
        ranks_work(&ranks, 0, 800 * US);
        step(&ranks, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].rank[0], 0);
    assert_true(ranks_has_line(&findings.finding[0].not_observable, "5 of 8 ranks"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_host_is_the_cause_only_if_its_calls_were_late(void **state)
{
    (void)state;
    for (unsigned host = 0; host < 2; host++) {
        struct ranks ranks = four();
        for (unsigned s = 0; s < STEPS; s++) {
            for (unsigned r = 0; r < 4; r++)
                ranks.call_ns[r] = ranks.arrived_ns[0] + (host && r == 2 ? 500 * US : 0);
            ranks_work(&ranks, 2, 500 * US);
            step(&ranks, 0);
        }
        struct muster_findings findings = ranks_diagnose(&ranks);
        assert_int_equal(findings.n, 1);
        if (host)
            assert_int_equal(findings.finding[0].cause, MUSTER_CAUSE_HOST);
        else
            assert_int_not_equal(findings.finding[0].cause, MUSTER_CAUSE_HOST);
        muster_findings_free(&findings);
        ranks_end(&ranks);
    }
}

/* Rank 2's host is late, then rank 3's GPU: one finding, and each has its own cause. */
static void test_causes_of_several_culprits_are_told_apart(void **state)
{
    (void)state;
    char text[MUSTER_FINDING_LINE];
    struct ranks ranks;
    ranks_begin(&ranks, 8);
    ranks_comm(&ranks, 0, 0, 1, 8, 8);
    for (unsigned s = 0; s < 40 * STEPS; s++) {
        bool host = s < 20 * STEPS;
        for (unsigned r = 0; r < 8; r++)
            ranks.call_ns[r] = ranks.arrived_ns[0] + (host && r == 2 ? 800 * US : 0);
        ranks_work(&ranks, host ? 2 : 3, 800 * US);
        step(&ranks, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->ranks, 2);
    assert_int_equal(finding->cause, MUSTER_CAUSE_UNKNOWN);
    muster_finding_causes(finding, text, sizeof text);
    assert_string_equal(text, "rank 2: the host; rank 3: the GPU");
    muster_finding_sentence(finding, text, sizeof text);
    assert_null(strstr(text, "cause"));
    const char *second = finding->rank[1] == 2 ? "rank 2: in " : "rank 3: in ";
    assert_true(ranks_has_line(&finding->evidence, second));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* Ranks 2 and 3 use one GPU; or GPUs that only have one name, on two hosts. */
static void test_a_late_rank_that_shares_its_gpu_is_advised_its_own(void **state)
{
    (void)state;
    for (unsigned hosts = 1; hosts <= 2; hosts++) {
        struct ranks ranks = four();
        for (unsigned r = 0; r < 4; r++) {
            ranks.view.gpu[r].uuid = r == 0 ? "GPU-0" : r == 1 ? "GPU-1" : "GPU-2";
            ranks.view.gpu[r].host = r == 3 && hosts == 2 ? "other" : "host";
        }
        for (unsigned s = 0; s < STEPS; s++) {
            ranks_work(&ranks, 2, 500 * US);
            step(&ranks, 0);
        }
        struct muster_findings findings = ranks_diagnose(&ranks);
        assert_int_equal(findings.n, 1);
        const struct muster_finding *finding = &findings.finding[0];
        assert_int_equal(ranks_has_line(&finding->evidence, "rank 2 shares its GPU with rank 3"),
                         hosts == 1);
        assert_int_equal(strstr(finding->advice, "give rank 2 a GPU of its own") != NULL,
                         hosts == 1);
        muster_findings_free(&findings);
        ranks_end(&ranks);
    }
}

static void add_exchange(struct ranks *ranks, unsigned rank, uint64_t number, uint64_t call_ns,
                         uint64_t begin_ns, uint64_t end_ns)
{
    struct muster_op op = {.number = number,
                           .peer = rank == 0,
                           .enqueue_ns = call_ns,
                           .begin_ns = end_ns ? begin_ns + ranks->skew_ns[rank] : 0,
                           .end_ns = end_ns ? end_ns + ranks->skew_ns[rank] : 0,
                           .count = 1 << 20,
                           .dtype = MUSTER_DTYPE_FLOAT32,
                           .source = end_ns ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE};
    for (unsigned i = 0; i < 2; i++) {
        op.func = i ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND;
        op.enqueue_ns += i * 500;
        muster_view_add_op(&ranks->view, ranks->member[0][rank], &op);
    }
}

/* Steps of 16 exchanges of two ranks and an all-reduce, one block of 64 exchanges in four timed,
 * the all-reduces not. One host calls every 20 to 68 us, the other every 60. Before the first
 * exchange of a step each is late by `noise_ns` in half of the steps, and rank 1 by 5 ms in the
 * last fifth. */
static struct muster_findings two_experts(struct ranks *ranks, uint64_t noise_ns)
{
    const uint64_t groups = 16 * 64 * 24;
    uint64_t clock_ns[2] = {MS, MS}, call_ns[2] = {1, 1}, dice = 1;
    ranks_begin(ranks, 2);
    ranks_comm(ranks, 0, 0, 1, 2, 2);
    ranks_comm(ranks, 1, 0, 1, 2, 2);
    for (uint64_t g = 0; g < groups; g++) {
        bool timed = g / 64 % 4 == 0, first = g % 16 == 0, late = 5 * g >= 4 * groups;
        uint64_t begin_ns[2], last_ns = 0;
        for (unsigned r = 0; r < 2; r++) {
            dice = dice * 6364136223846793005ull + 1442695040888963407ull;
            clock_ns[r] += first ? 400 * US : 100 * US;
            clock_ns[r] += first && dice >> 60 < 8 ? noise_ns : 0;
            clock_ns[r] += first && r == 1 && late ? 5 * MS : 0;
            begin_ns[r] = clock_ns[r];
            last_ns = clock_ns[r] > last_ns ? clock_ns[r] : last_ns;
        }
        for (unsigned r = 0; r < 2; r++) {
            dice = dice * 6364136223846793005ull + 1442695040888963407ull;
            uint64_t gap_us = r ? 60 : 20 + (dice >> 58 & 48);
            call_ns[r] = first ? clock_ns[0] - 300 * US : call_ns[r] + gap_us * US;
            clock_ns[r] = last_ns + 50 * US;
            add_exchange(ranks, r, g, call_ns[r], begin_ns[r], timed ? clock_ns[r] : 0);
            if (g % 16 == 15) {
                muster_view_add_op(&ranks->view, ranks->member[1][r],
                                   &(struct muster_op){.number = g / 16,
                                                       .peer = -1,
                                                       .enqueue_ns = call_ns[r] + 60 * US,
                                                       .count = 1 << 20,
                                                       .func = MUSTER_FUNC_ALL_REDUCE,
                                                       .dtype = MUSTER_DTYPE_FLOAT32});
            }
        }
    }
    return ranks_diagnose(ranks);
}

static void test_a_late_rank_of_two_that_exchange_in_timed_blocks(void **state)
{
    (void)state;
    static const uint64_t noise_ns[] = {0, 150 * US};
    for (size_t i = 0; i < sizeof noise_ns / sizeof *noise_ns; i++) {
        struct ranks ranks;
        struct muster_findings findings = two_experts(&ranks, noise_ns[i]);
        assert_int_equal(findings.n, 1);
        assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_LATE_RANK);
        assert_int_equal(findings.finding[0].ranks, 1);
        assert_int_equal(findings.finding[0].rank[0], 1);
        muster_findings_free(&findings);
        ranks_end(&ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_rank_with_its_cost),
        cmocka_unit_test(test_while_the_job_runs_its_windows_share_one_error_rate),
        cmocka_unit_test(test_sampling_is_said_where_it_left_something_out),
        cmocka_unit_test(test_clean_verdict_says_what_it_would_have_seen),
        cmocka_unit_test(test_too_few_operations_say_so),
        cmocka_unit_test(test_turns_are_nobodys_fault),
        cmocka_unit_test(test_two_culprits_in_one_finding),
        cmocka_unit_test(test_a_culprit_that_moves_is_a_list_over_time),
        cmocka_unit_test(test_every_rank_waits_alike),
        cmocka_unit_test(test_work_that_is_hidden_in_most_steps_is_no_wait),
        cmocka_unit_test(test_a_slow_host_is_one_finding),
        cmocka_unit_test(test_victims_of_other_communicators_are_named_as_such),
        cmocka_unit_test(test_what_may_not_be_evaluated_is_not),
        cmocka_unit_test(test_untimed_operations_give_no_finding),
        cmocka_unit_test(test_partial_view_is_said),
        cmocka_unit_test(test_host_is_the_cause_only_if_its_calls_were_late),
        cmocka_unit_test(test_causes_of_several_culprits_are_told_apart),
        cmocka_unit_test(test_a_late_rank_that_shares_its_gpu_is_advised_its_own),
        cmocka_unit_test(test_a_late_rank_of_two_that_exchange_in_timed_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
