/* Stages of a pipeline whose program no other rank has. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STEPS = 30, LONG = 200, LINE = 2 /* ranks of the shortest pipeline */ };
enum { STAGES = 4, CHAINS = 2 };

/* What a stage takes between exchanges in place of 300 us. */
struct slow {
    unsigned stage;
    uint64_t work_ns;
    bool back; /* what is sent to the next comes back */
};

/* All ranks of chain `c` send to the next one, or back: together, until end_ns. */
static void pass(struct ranks *ranks, unsigned c, uint64_t step, bool back, uint64_t end_ns,
                 uint64_t clock_ns[STAGES])
{
    for (unsigned r = 0; r < STAGES; r++) {
        const uint64_t skew_ns = ranks->skew_ns[c * STAGES + r];
        const uint32_t member = ranks->member[c][c * STAGES + r];
        struct muster_op op = {.number = step,
                               .enqueue_ns = (step + 1) * MS,
                               .begin_ns = clock_ns[r] + skew_ns,
                               .end_ns = end_ns + skew_ns,
                               .count = 1 << 20,
                               .dtype = MUSTER_DTYPE_FLOAT32,
                               .source = MUSTER_SOURCE_GPU};
        op.func = back ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND;
        op.peer = (int32_t)r + 1;
        if (r + 1 < STAGES)
            muster_view_add_op(&ranks->view, member, &op);
        op.func = back ? MUSTER_FUNC_SEND : MUSTER_FUNC_RECV;
        op.peer = (int32_t)r - 1;
        if (r > 0)
            muster_view_add_op(&ranks->view, member, &op);
        clock_ns[r] = end_ns;
    }
}

static void play_chain(struct ranks *ranks, unsigned c, uint64_t step, struct slow slow,
                       uint64_t clock_ns[STAGES])
{
    uint64_t last_ns = 0;
    for (unsigned r = 0; r < STAGES; r++) {
        clock_ns[r] += r == slow.stage ? slow.work_ns : 300 * US;
        last_ns = clock_ns[r] > last_ns ? clock_ns[r] : last_ns;
    }
    pass(ranks, c, step, false, last_ns + 50 * US, clock_ns);
    for (unsigned r = 0; r < STAGES && slow.back; r++)
        clock_ns[r] += 20 * US;
    if (slow.back)
        pass(ranks, c, step, true, last_ns + 120 * US, clock_ns);
}

/* Chains of four stages each, the second chain with a slow stage of its own. */
static struct muster_findings play_chains(struct ranks *ranks, unsigned chains,
                                          const struct slow slow[CHAINS], bool live)
{
    uint64_t clock_ns[CHAINS][STAGES] = {{0}};
    ranks_begin(ranks, chains * STAGES);
    for (unsigned c = 0; c < chains; c++)
        ranks_comm(ranks, c, c * STAGES, 1, STAGES, STAGES);
    for (uint64_t s = 0; s < STEPS; s++)
        for (unsigned c = 0; c < chains; c++)
            play_chain(ranks, c, s, slow[c], clock_ns[c]);
    ranks->view.window = live;
    return ranks_diagnose(ranks);
}

static struct muster_findings chain(struct ranks *ranks, unsigned stage, uint64_t work_ns)
{
    const struct slow slow[CHAINS] = {{stage, work_ns, false}};
    return play_chains(ranks, 1, slow, false);
}

static void test_slowest_stage_of_a_chain(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = chain(&ranks, 2, 1300 * US);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].rank[0], 2);
    assert_true(ranks_has_line(&findings.finding[0].evidence, "slowest stage"));
    assert_true(ranks_has_line(&findings.finding[0].not_observable, "by design"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_stage_with_a_little_more_work_is_not_named(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = chain(&ranks, 2, 380 * US);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* 430 us for 300, and 20 more: its GPUs work for 450 of 550 us, the others for 320. */
static void test_the_same_stage_of_all_chains_has_more_to_do(void **state)
{
    (void)state;
    struct ranks ranks;
    const struct slow last[CHAINS] = {{3, 430 * US, true}, {3, 430 * US, true}};
    struct muster_findings findings = play_chains(&ranks, CHAINS, last, false);
    const struct muster_finding *finding = findings.finding;
    assert_int_equal(findings.n, 1);
    assert_int_equal(finding->kind, MUSTER_FINDING_UNEVEN_STAGES);
    assert_int_equal(finding->ranks, 2);
    assert_int_equal(finding->rank[0], 3);
    assert_int_equal(finding->rank[1], 7);
    assert_true(finding->cost_share > 0.17 && finding->cost_share < 0.21);
    assert_true(ranks_has_line(&finding->evidence, "58 % (rank 0)"));
    assert_true(ranks_has_line(&finding->evidence, "82 % (rank 3)"));
    assert_int_equal(finding->not_observable.n, 0);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_one_gpu_that_is_a_stage_may_be_slow(void **state)
{
    (void)state;
    struct ranks ranks;
    const struct slow second[CHAINS] = {{1, 430 * US, true}};
    struct muster_findings findings = play_chains(&ranks, 1, second, false);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_UNEVEN_STAGES);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], 1);
    assert_true(ranks_has_line(&findings.finding[0].not_observable,
                               "a slow GPU or process looks the same"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_another_stage_of_each_chain_is_no_uneven_cut(void **state)
{
    (void)state;
    struct ranks ranks;
    const struct slow apart[CHAINS] = {{3, 430 * US, true}, {1, 430 * US, true}};
    struct muster_findings findings = play_chains(&ranks, CHAINS, apart, false);
    for (size_t i = 0; i < findings.n; i++)
        assert_int_not_equal(findings.finding[i].kind, MUSTER_FINDING_UNEVEN_STAGES);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_uneven_stages_are_told_once_the_job_is_over(void **state)
{
    (void)state;
    struct ranks ranks;
    const struct slow last[CHAINS] = {{3, 430 * US, true}, {3, 430 * US, true}};
    struct muster_findings findings = play_chains(&ranks, CHAINS, last, true);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* Two stages with two micro-batches a step. The first works and sends, twice, then receives what
 * comes back; the second receives, works and sends, twice. They do different things, so that only
 * the past tells what is usual for either. */
struct line {
    struct ranks ranks;
    uint64_t step;
    uint64_t ahead_ns;       /* its host calls so long before */
    uint64_t fifth_ns;       /* more work before one send of five of rank 0 */
    uint64_t fifths;         /* so many of five instead; 0: one */
    uint64_t second_ns;      /* work of rank 1 before its sends; 0: 900 us */
    uint64_t later_ns;       /* from some step on, more work of rank 0 before its first send */
    uint64_t clock_ns[LINE]; /* as if there were one clock */
};

static void add(struct line *line, unsigned rank, uint8_t func, uint64_t number, uint64_t end_ns)
{
    const uint64_t skew_ns = line->ranks.skew_ns[rank];
    const struct muster_op op = {.number = number,
                                 .enqueue_ns = 1000 * MS + line->clock_ns[rank] - line->ahead_ns,
                                 .begin_ns = line->clock_ns[rank] + skew_ns,
                                 .end_ns = end_ns + skew_ns,
                                 .count = 1 << 20,
                                 .peer = (int32_t)(1 - rank),
                                 .func = func,
                                 .dtype = MUSTER_DTYPE_FLOAT32,
                                 .source = MUSTER_SOURCE_GPU};
    muster_view_add_op(&line->ranks.view, line->ranks.member[0][rank], &op);
    line->clock_ns[rank] = end_ns;
}

/* What is sent back is over once it has left; the rest when both were there. */
static void play_step(struct line *line, uint64_t first_ns)
{
    enum { BATCHES = 2 };
    uint64_t back_ns[BATCHES];
    for (uint64_t b = 0; b < BATCHES; b++) {
        const uint64_t number = line->step * BATCHES + b;
        line->clock_ns[0] += (b ? 1000 * US : first_ns) +
                             (number % 5 < (line->fifths ? line->fifths : 1) ? line->fifth_ns : 0);
        const uint64_t last_ns =
            line->clock_ns[0] > line->clock_ns[1] ? line->clock_ns[0] : line->clock_ns[1];
        add(line, 0, MUSTER_FUNC_SEND, number, last_ns + 100 * US);
        add(line, 1, MUSTER_FUNC_RECV, number, last_ns + 100 * US);
        line->clock_ns[1] += (line->second_ns ? line->second_ns : 900 * US) + number % 5 * 7 * US;
        back_ns[b] = line->clock_ns[1] + 100 * US;
        add(line, 1, MUSTER_FUNC_SEND, number, back_ns[b]);
    }
    for (uint64_t b = 0; b < BATCHES; b++) {
        const uint64_t begin_ns = line->clock_ns[0] + 10 * US;
        line->clock_ns[0] = begin_ns;
        add(line, 0, MUSTER_FUNC_RECV, line->step * BATCHES + b,
            (back_ns[b] > begin_ns ? back_ns[b] : begin_ns) + 50 * US);
    }
}

/* The fault begins with step `since`. */
static struct muster_findings play_steps(struct line *line, uint64_t since, uint64_t steps,
                                         bool live)
{
    ranks_begin(&line->ranks, LINE);
    ranks_comm(&line->ranks, 0, 0, 1, LINE, LINE);
    line->clock_ns[0] = line->clock_ns[1] = MS;
    for (line->step = 0; line->step < steps; line->step++)
        play_step(line,
                  1000 * US + line->step % 7 * 5 * US + (line->step >= since ? line->later_ns : 0));
    line->ranks.view.window = live;
    return ranks_diagnose(&line->ranks);
}

static struct muster_findings play(struct line *line, uint64_t since)
{
    return play_steps(line, since, LONG, false);
}

static void test_a_stage_that_becomes_slow_is_held_against_its_past(void **state)
{
    static const uint64_t since[] = {LONG / 3, LONG / 2, LONG * 4 / 5};
    (void)state;
    for (size_t i = 0; i < sizeof since / sizeof *since; i++) {
        struct line line = {.ahead_ns = 5 * US, .later_ns = 2 * MS};
        struct muster_findings findings = play(&line, since[i]);
        const double lost_s = (double)(LONG - since[i]) * 2e-3;
        assert_int_equal(findings.n, 1);
        assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_LATE_RANK);
        assert_int_equal(findings.finding[0].ranks, 1);
        assert_int_equal(findings.finding[0].rank[0], 0);
        assert_true(findings.finding[0].cost_s > 0.8 * lost_s);
        assert_true(findings.finding[0].cost_s < 1.2 * lost_s);
        assert_true(ranks_has_line(&findings.finding[0].evidence, "at other times"));
        muster_findings_free(&findings);
        ranks_end(&line.ranks);
    }
}

static void test_some_seconds_are_no_past_while_the_job_runs(void **state)
{
    enum { FOUR_SECONDS = 1000, TEN_SECONDS = 4000 };
    (void)state;
    for (unsigned whole = 0; whole < 2; whole++) {
        const uint64_t steps = whole ? TEN_SECONDS : FOUR_SECONDS;
        struct line line = {.ahead_ns = 5 * US, .later_ns = 700 * US};
        struct muster_findings findings = play_steps(&line, steps / 2, steps, true);
        assert_int_equal(findings.n, whole);
        assert_true(!whole || findings.finding[0].against_one);
        muster_findings_free(&findings);
        ranks_end(&line.ranks);
    }
}

/* With one other stage alone, which may be made for less work. */
static void test_of_two_stages_one_is_slow_from_three_times_the_other_on(void **state)
{
    static const struct {
        uint64_t second_ns;
        size_t findings;
    } cases[] = {{2 * MS, 0}, {5 * MS, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct line line = {.ahead_ns = 20 * MS, .second_ns = cases[i].second_ns};
        struct muster_findings findings = play(&line, LONG);
        const struct muster_finding_lines *lines = &findings.not_observable;
        assert_int_equal(findings.n, cases[i].findings);
        if (findings.n > 0) {
            assert_int_equal(findings.finding[0].rank[0], 1);
            lines = &findings.finding[0].evidence;
        }
        assert_true(ranks_has_line(lines, "three times as long by itself as the other stage"));
        muster_findings_free(&findings);
        ranks_end(&line.ranks);
    }
}

/* Two sends of five, from beginning to end: that is how the stage is. */
static void test_a_stage_that_is_uneven_at_all_times_is_not_slow(void **state)
{
    struct line line = {.ahead_ns = 5 * US, .fifth_ns = 900 * US, .fifths = 2};
    struct muster_findings findings = play(&line, LONG);
    (void)state;
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&line.ranks);
}

/* A delay of some microseconds would not have been found here. */
static void test_stages_that_do_not_change_are_not_named_and_the_limit_is_said(void **state)
{
    struct line line = {.ahead_ns = 5 * US};
    struct muster_findings findings = play(&line, LONG);
    (void)state;
    assert_int_equal(findings.n, 0);
    assert_true(findings.clean.least_ns > 300 * US);
    assert_true(ranks_has_line(&findings.not_observable, "no other rank has the same program"));
    muster_findings_free(&findings);
    ranks_end(&line.ranks);
}

/* Where the GPU waits for its host more has to be seen. */
static void test_a_delay_as_large_as_is_claimed_would_have_been_found(void **state)
{
    static const uint64_t ahead_ns[] = {5 * US, 8 * MS};
    (void)state;
    for (size_t i = 0; i < sizeof ahead_ns / sizeof *ahead_ns; i++) {
        struct line line = {.ahead_ns = ahead_ns[i]};
        struct muster_findings findings = play(&line, LONG);
        const uint64_t claimed_ns = findings.clean.least_ns;
        assert_int_equal(findings.n, 0);
        assert_in_range(claimed_ns, 500 * US, 800 * US);
        muster_findings_free(&findings);
        ranks_end(&line.ranks);
        line = (struct line){.ahead_ns = ahead_ns[i], .fifth_ns = claimed_ns};
        findings = play(&line, LONG);
        assert_int_equal(findings.n, 1);
        assert_int_equal(findings.finding[0].rank[0], 0);
        muster_findings_free(&findings);
        ranks_end(&line.ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slowest_stage_of_a_chain),
        cmocka_unit_test(test_stage_with_a_little_more_work_is_not_named),
        cmocka_unit_test(test_the_same_stage_of_all_chains_has_more_to_do),
        cmocka_unit_test(test_one_gpu_that_is_a_stage_may_be_slow),
        cmocka_unit_test(test_another_stage_of_each_chain_is_no_uneven_cut),
        cmocka_unit_test(test_uneven_stages_are_told_once_the_job_is_over),
        cmocka_unit_test(test_a_stage_that_becomes_slow_is_held_against_its_past),
        cmocka_unit_test(test_some_seconds_are_no_past_while_the_job_runs),
        cmocka_unit_test(test_of_two_stages_one_is_slow_from_three_times_the_other_on),
        cmocka_unit_test(test_a_stage_that_is_uneven_at_all_times_is_not_slow),
        cmocka_unit_test(test_stages_that_do_not_change_are_not_named_and_the_limit_is_said),
        cmocka_unit_test(test_a_delay_as_large_as_is_claimed_would_have_been_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
