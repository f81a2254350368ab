#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/terminal.h"
#include "hang_job.h"
#include "verdict/verdict.h"

enum { ANY_WIDTH = 0 };

struct look {
    unsigned width;
    struct muster_verdict verdict;
};

static void take_verdict(void *arg, const struct muster_view *view)
{
    struct look *look = arg;
    const struct muster_findings none = {0};
    muster_verdict_of(view, &none, look->width, &look->verdict);
}

static struct muster_verdict verdict_of(const struct job *job, unsigned width)
{
    struct look look = {.width = width};
    job_with_view(job, take_verdict, &look);
    return look.verdict;
}

/* All call 50 until 0.5 s; those but rank 1 call #50 at 2 s and wait in it; it is looked at later.
 */
static struct job *waiting_for_rank_1(unsigned seen_s)
{
    struct job *job = job_new(4, seen_s);
    for (unsigned r = 0; r < 4; r++) {
        job_call(job, r, JOB_COMM, 50, 0);
        if (r == 1) {
            job_idle(job, r, JOB_COMM);
            continue;
        }
        job_call(job, r, JOB_COMM, 1, 2);
        job_open(job, r, JOB_COMM, 24, 0);
    }
    return job;
}

static void who_waits_where_and_for_whom_is_said_before_it_is_a_hang(void **state)
{
    static const unsigned widths[] = {ANY_WIDTH, 100, 60, 40};
    struct job *job = waiting_for_rank_1(6);
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct muster_verdict verdict = verdict_of(job, widths[i]);
        assert_int_equal(verdict.state, MUSTER_VERDICT_UNKNOWN);
        assert_int_equal(verdict.lines, 2);
        assert_non_null(strstr(verdict.line[0], "4 s"));
        assert_non_null(strstr(verdict.line[0], "for rank 1"));
        if (!widths[i])
            assert_string_equal(verdict.line[0], "Ranks 0, 2, 3 have waited 4 s in AllReduce #50 "
                                                 "for rank 1; not yet called a hang.");
        else
            assert_true(muster_terminal_cells(verdict.line[0]) <= widths[i]);
        assert_memory_equal(verdict.line[1], "Next: look again", 16);
    }
    job_free(job);
}

static void a_short_wait_is_nothing_to_tell(void **state)
{
    struct job *job = waiting_for_rank_1(3);
    struct muster_verdict verdict = verdict_of(job, ANY_WIDTH);
    (void)state;
    assert_null(strstr(verdict.line[0], "waited"));
    job_free(job);
}

static void ranks_that_wait_elsewhere_are_not_mixed_in(void **state)
{
    struct job *job = waiting_for_rank_1(6);
    const unsigned pair[] = {2, 3};
    struct muster_verdict verdict;
    (void)state;
    job_comm(job, 0xdef, pair, 2);
    job_call(job, 3, 0xdef, 1, 3); /* rank 3 waits for rank 2, later */
    job_open(job, 3, 0xdef, 24, 0);
    verdict = verdict_of(job, ANY_WIDTH);
    assert_memory_equal(verdict.line[0], "Ranks 0, 2 have waited 4 s in AllReduce #50 for rank 1",
                        54);
    job_free(job);
}

static void that_all_are_in_one_operation_is_said(void **state)
{
    struct job *job = job_new(4, 9);
    struct muster_verdict verdict;
    (void)state;
    for (unsigned r = 0; r < 4; r++) {
        job_call(job, r, JOB_COMM, 8, 1);
        job_open(job, r, JOB_COMM, 24, 3);
    }
    verdict = verdict_of(job, ANY_WIDTH);
    assert_string_equal(
        verdict.line[0],
        "Ranks 0, 1, 2, 3 have been in AllReduce #7 for 8 s; not yet called a hang.");
    job_free(job);
}

/* Rank r made 50 calls, `fewer` fewer if it is rank 1, and all are gone 3 s later. */
static struct job *over(unsigned fewer)
{
    struct job *job = job_new(4, 9);
    for (unsigned r = 0; r < 4; r++) {
        job_call(job, r, JOB_COMM, r == 1 ? 50 - fewer : 50, 0);
        job_idle(job, r, JOB_COMM);
        job_gone(job, r, 3, MUSTER_PROCESS_FINALIZED);
    }
    return job;
}

static void who_was_killed_is_named_where_the_others_ended(void **state)
{
    static const unsigned widths[] = {ANY_WIDTH, 100, 60, 40};
    struct job *job = over(7);
    (void)state;
    job_gone(job, 1, 3, MUSTER_PROCESS_KILLED);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct muster_verdict verdict = verdict_of(job, widths[i]);
        assert_int_equal(verdict.state, MUSTER_VERDICT_UNKNOWN);
        assert_memory_equal(verdict.line[0], "Rank 1 ", 7);
        assert_non_null(strstr(verdict.line[0], "was killed or crashed"));
        assert_non_null(strstr(verdict.line[verdict.lines - 1], "muster doctor --log FILE"));
        for (unsigned l = 0; l < verdict.lines && widths[i]; l++)
            assert_true(muster_terminal_cells(verdict.line[l]) <= widths[i]);
        if (!widths[i])
            assert_non_null(strstr(verdict.line[0], "made 43 of the 50 calls"));
    }
    job_free(job);
}

static void several_that_were_killed_are_named_together(void **state)
{
    struct job *job = over(7);
    struct muster_verdict verdict;
    (void)state;
    job_gone(job, 1, 3, MUSTER_PROCESS_KILLED);
    job_gone(job, 2, 3, MUSTER_PROCESS_KILLED);
    verdict = verdict_of(job, ANY_WIDTH);
    assert_memory_equal(verdict.line[0], "Ranks 1, 2 were killed or crashed", 33);
    job_free(job);
}

static void nobody_died_first_where_all_were_killed_or_none(void **state)
{
    static const enum muster_process_state ends[] = {MUSTER_PROCESS_KILLED,
                                                     MUSTER_PROCESS_FINALIZED};
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct job *job = over(7);
        struct muster_verdict verdict;
        for (unsigned r = 0; r < 4; r++)
            job_gone(job, r, 3, ends[i]);
        verdict = verdict_of(job, ANY_WIDTH);
        assert_memory_equal(verdict.line[0],
                            "This job ended, or hung, in the middle: rank 1 made 43 of the 50", 63);
        job_free(job);
    }
}

static void a_rank_killed_after_its_last_call_ended_nothing_early(void **state)
{
    struct job *job = over(0);
    struct muster_verdict verdict;
    (void)state;
    job_gone(job, 1, 3, MUSTER_PROCESS_KILLED);
    verdict = verdict_of(job, ANY_WIDTH);
    assert_null(strstr(verdict.line[0], "killed"));
    job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_where_and_for_whom_is_said_before_it_is_a_hang),
        cmocka_unit_test(a_short_wait_is_nothing_to_tell),
        cmocka_unit_test(ranks_that_wait_elsewhere_are_not_mixed_in),
        cmocka_unit_test(that_all_are_in_one_operation_is_said),
        cmocka_unit_test(who_was_killed_is_named_where_the_others_ended),
        cmocka_unit_test(several_that_were_killed_are_named_together),
        cmocka_unit_test(nobody_died_first_where_all_were_killed_or_none),
        cmocka_unit_test(a_rank_killed_after_its_last_call_ended_nothing_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
