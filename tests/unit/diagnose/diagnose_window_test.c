/* Late ranks in a window of a job that is sampled: of what lies between two timed blocks the first
 * and the last call of each kind are there. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS = 4, LATE_RANK = 2, LAYERS = 12, BLOCK = 64, BLOCKS = 8, LEFT_OUT = 1000, LOOKS = 4 };
enum { LAYER, END_OF_STEP }; /* communicators */

/* Steps of a reduction in each layer, and one of another communicator at the end, which is not
 * timed. */
struct job {
    struct ranks ranks;
    unsigned layer; /* that comes next; LAYERS: the end of the step */
    uint64_t late_ns;
    unsigned late_in; /* layer */
};

static void call(struct job *job, bool timed)
{
    struct ranks *ranks = &job->ranks;
    if (job->layer == LAYERS) {
        job->layer = 0;
        ranks_do(ranks, END_OF_STEP, 64, 10 * US, false, 0);
        return;
    }
    for (unsigned r = 0; r < RANKS; r++)
        ranks_work(ranks, r,
                   100 * US + (r == LATE_RANK && job->layer == job->late_in ? job->late_ns : 0));
    ranks_do(ranks, LAYER, 1 << 20, 50 * US, timed, 0);
    job->layer++;
}

/* A block ends in the middle of a step, and the next one begins in that of another. */
static void play_block(struct job *job, unsigned block)
{
    for (unsigned timed = 0; timed < BLOCK; timed += job->layer != 0)
        call(job, true);
    ranks_do(&job->ranks, LAYER, 1 << 20, 50 * US, false, 0);
    ranks_do(&job->ranks, END_OF_STEP, 64, 10 * US, false, 0);
    job->ranks.number[LAYER] += LEFT_OUT;
    job->ranks.number[END_OF_STEP] += LEFT_OUT / LAYERS;
    for (unsigned r = 0; r < RANKS; r++)
        ranks_work(&job->ranks, r, 200 * MS);
    ranks_do(&job->ranks, END_OF_STEP, 64, 10 * US, false, 0);
    ranks_do(&job->ranks, LAYER, 1 << 20, 50 * US, false, 0);
    job->layer = 1 + block * 5 % (LAYERS - 1);
}

static struct muster_findings play(struct job *job, uint64_t late_ns, unsigned late_in)
{
    *job = (struct job){.late_ns = late_ns, .late_in = late_in};
    ranks_begin(&job->ranks, RANKS);
    job->ranks.view.window = LOOKS;
    ranks_comm(&job->ranks, LAYER, 0, 1, RANKS, RANKS);
    ranks_comm(&job->ranks, END_OF_STEP, 0, 1, RANKS, RANKS);
    for (unsigned b = 0; b < BLOCKS; b++)
        play_block(job, b);
    return ranks_diagnose(&job->ranks);
}

static void expect_late(unsigned late_in)
{
    struct job job;
    struct muster_findings findings = play(&job, 300 * US, late_in);
    const double step_us = LAYERS * 150 + 10 + 300;
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_LATE_RANK);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], LATE_RANK);
    assert_true(findings.finding[0].cost_share > 0.8 * 300 / step_us);
    assert_true(findings.finding[0].cost_share < 1.2 * 300 / step_us);
    muster_findings_free(&findings);
    ranks_end(&job.ranks);
}

/* The calls on both sides of what was left out are no step of the program's. */
static void test_steps_are_told_apart_where_calls_are_left_out(void **state)
{
    (void)state;
    expect_late(LAYERS / 2);
}

/* All left the end of the step before together. */
static void test_who_is_late_after_what_was_not_timed_is_named(void **state)
{
    (void)state;
    expect_late(0);
}

static void test_nobody_is_named_where_calls_are_left_out(void **state)
{
    (void)state;
    struct job job;
    struct muster_findings findings = play(&job, 0, 0);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&job.ranks);
}

/* Eight steps of eight calls. The late rank's first ones are not there: which of its calls is met
 * oftenest is not what it is of the others. */
static void expect_late_without(unsigned first)
{
    enum { STEPS = 8, CALLS = 8 };
    struct ranks ranks;
    ranks_begin(&ranks, RANKS);
    ranks_comm(&ranks, LAYER, 0, 1, RANKS, RANKS);
    uint32_t member = ranks.member[LAYER][LATE_RANK];
    for (unsigned i = 0; i < STEPS * CALLS; i++) {
        bool missing = i < first;
        for (unsigned r = 0; r < RANKS; r++)
            ranks_work(&ranks, r, 30 * MS + (r == LATE_RANK && i % CALLS == 5 ? 20 * MS : 0));
        ranks.member[LAYER][LATE_RANK] = missing ? MUSTER_VIEW_NONE : member;
        ranks_do(&ranks, LAYER, 1 << (16 + i % CALLS), 50 * US, true, 0);
        if (missing)
            ranks.arrived_ns[LATE_RANK] = ranks.arrived_ns[0];
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].rank[0], LATE_RANK);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_a_rank_that_is_heard_since_another_call_is_compared(void **state)
{
    (void)state;
    for (unsigned first = 0; first <= 4; first++)
        expect_late_without(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_told_apart_where_calls_are_left_out),
        cmocka_unit_test(test_who_is_late_after_what_was_not_timed_is_named),
        cmocka_unit_test(test_a_rank_that_is_heard_since_another_call_is_compared),
        cmocka_unit_test(test_nobody_is_named_where_calls_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
