/* Who is laid at whose door: ranks that wait in one place and are missed in another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/terminal.h"
#include "hang_job.h"

/* n ranks, 50 calls each from the first second on. */
static struct job *steady(unsigned ranks)
{
    struct job *job = job_new(ranks, 30);
    for (unsigned r = 0; r < ranks; r++)
        job_call(job, r, JOB_COMM, 50, 1);
    return job;
}

static bool describes(const struct muster_finding_lines *lines, const char *text)
{
    for (unsigned i = 0; i < lines->n; i++)
        if (strstr(lines->line[i], text))
            return true;
    return false;
}

static void who_died_waiting_for_an_absent_rank_is_not_the_reason(void **state)
{
    (void)state;
    struct job *job = steady(4);
    for (unsigned r = 0; r < 4; r++)
        if (r != 1)
            job_call(job, r, JOB_COMM, 1, 2);
    job_gone(job, 0, 6, MUSTER_PROCESS_KILLED);
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 1);
    job_free(job);
}

/* 2 died in what all had entered, so that 1 never came to the next. */
static void who_waits_for_the_dead_is_not_absent(void **state)
{
    (void)state;
    struct job *job = steady(4);
    job_comm(job, 0xa, (const unsigned[]){1, 2}, 2);
    for (unsigned r = 1; r < 3; r++) {
        job_call(job, r, 0xa, 5, 2);
        job_open(job, r, 0xa, 8, 0);
    }
    job_call(job, 0, JOB_COMM, 1, 3);
    job_call(job, 3, JOB_COMM, 1, 3);
    job_gone(job, 2, 4, MUSTER_PROCESS_KILLED);
    job_expect(job, MUSTER_FINDING_HANG_DEAD, 2);
    job_free(job);
}

/* 0 sends to 1, both posted it, and it does not end; 2 and 3 wait for them in an all-reduce. */
static void a_send_that_both_ends_posted_is_stuck(void **state)
{
    (void)state;
    struct job *job = job_new(4, 30);
    job_comm(job, 0xa, (const unsigned[]){0, 1, 2, 3}, 4);
    job_p2p(job, 0, 0xa, true, 1, 0, 2, true);
    job_p2p(job, 1, 0xa, false, 0, 0, 2, true);
    for (unsigned r = 2; r < 4; r++)
        job_call(job, r, JOB_COMM, 1, 3);
    job_expect(job, MUSTER_FINDING_HANG_STUCK, -1);
    struct muster_findings findings = job_findings(job);
    assert_true(describes(&findings.finding[0].evidence, "and its peer both posted"));
    muster_findings_free(&findings);
    job_free(job);
}

/* 0 and 1 made the same last call in their own communicator, and nothing tells whether it ended:
 * each may be missing, or both wait in it. */
static void suspects_that_may_wait_for_each_other_are_not_named(void **state)
{
    (void)state;
    struct job *job = job_new(4, 30);
    job_comm(job, 0xa, (const unsigned[]){0, 1}, 2);
    job_comm(job, 0xb, (const unsigned[]){0, 2}, 2);
    job_comm(job, 0xc, (const unsigned[]){1, 3}, 2);
    for (unsigned r = 0; r < 2; r++)
        job_call(job, r, 0xa, 10, 2);
    job_call(job, 2, 0xb, 1, 3);
    job_call(job, 3, 0xc, 1, 3);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 0);
    assert_true(describes(&findings.not_observable, "or waits for others that are"));
    muster_findings_free(&findings);
    job_free(job);
}

/* Known to have ended there, they are missing indeed. */
static void suspects_whose_calls_ended_are_named(void **state)
{
    (void)state;
    struct job *job = job_new(4, 30);
    job_comm(job, 0xa, (const unsigned[]){0, 1}, 2);
    job_comm(job, 0xb, (const unsigned[]){0, 2}, 2);
    job_comm(job, 0xc, (const unsigned[]){1, 3}, 2);
    for (unsigned r = 0; r < 2; r++) {
        job_call(job, r, 0xa, 10, 2);
        job_idle(job, r, 0xa);
    }
    job_call(job, 2, 0xb, 1, 3);
    job_call(job, 3, 0xc, 1, 3);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(findings.finding[i].kind, MUSTER_FINDING_HANG_ABSENT);
    muster_findings_free(&findings);
    job_free(job);
}

/* 3 called into the second communicator what the others call there after the first. */
static void a_rank_that_called_the_second_first_started_them_in_opposite_order(void **state)
{
    (void)state;
    struct job *job = steady(4);
    job_comm(job, 0xa, (const unsigned[]){0, 1, 2, 3}, 4);
    for (unsigned r = 0; r < 3; r++) {
        job_call(job, r, JOB_COMM, 1, 2);
        job_call(job, r, 0xa, 1, 3);
    }
    job_call(job, 3, 0xa, 1, 2);
    job_expect(job, MUSTER_FINDING_HANG_ORDER, 3);
    job_free(job);
}

static void a_difference_that_ranks_went_past_is_no_hang(void **state)
{
    (void)state;
    struct job *job = job_new(3, 60);
    for (unsigned r = 0; r < 3; r++) {
        job_call_as(job, r, JOB_COMM, 1, MUSTER_FUNC_ALL_REDUCE, 64,
                    r == 1 ? MUSTER_DTYPE_INT32 : MUSTER_DTYPE_FLOAT32, 0);
        job_call(job, r, JOB_COMM, 3, 2);
        job_idle(job, r, JOB_COMM);
    }
    job_expect_none(job);
    job_free(job);
}

static void what_calls_alone_tell_is_told_with_less_confidence(void **state)
{
    (void)state;
    double sure[2];
    for (unsigned proof = 0; proof < 2; proof++) {
        struct job *job = steady(4);
        for (unsigned r = 0; r < 4; r++)
            if (r != 1)
                job_call(job, r, JOB_COMM, 1, 2);
            else if (proof)
                job_idle(job, r, JOB_COMM);
        struct muster_findings findings = job_findings(job);
        assert_int_equal(findings.n, 1);
        sure[proof] = findings.finding[0].confidence;
        muster_findings_free(&findings);
        job_free(job);
    }
    assert_true(sure[0] < 0.95 && sure[1] > 0.95);
}

/* In a narrow terminal the state is whole, if in two lines, and no line ends in blanks. */
static void a_narrow_table_keeps_the_state(void **state)
{
    (void)state;
    const struct muster_terminal terminal = {.width = 60, .fit = true};
    struct job *job = steady(4);
    for (unsigned r = 0; r < 4; r++) {
        if (r == 1)
            continue;
        job_call(job, r, JOB_COMM, 1, 2);
        job_open(job, r, JOB_COMM, 24, 0);
    }
    struct muster_whereabouts all = job_whereabouts(job);
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    muster_whereabouts_print(&all, 0, &terminal, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, " state\n"));
    assert_non_null(strstr(text, "AllReduce #50 (1 MiB): in it"));
    assert_non_null(strstr(text, "rank 1\n"));
    assert_non_null(strstr(text, "AllReduce #49 (1 MiB): "));
    assert_null(strstr(text, " \n"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(muster_terminal_cells(line) <= terminal.width);
    free(text);
    muster_whereabouts_free(&all);
    job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_died_waiting_for_an_absent_rank_is_not_the_reason),
        cmocka_unit_test(who_waits_for_the_dead_is_not_absent),
        cmocka_unit_test(a_send_that_both_ends_posted_is_stuck),
        cmocka_unit_test(suspects_that_may_wait_for_each_other_are_not_named),
        cmocka_unit_test(suspects_whose_calls_ended_are_named),
        cmocka_unit_test(a_rank_that_called_the_second_first_started_them_in_opposite_order),
        cmocka_unit_test(a_difference_that_ranks_went_past_is_no_hang),
        cmocka_unit_test(what_calls_alone_tell_is_told_with_less_confidence),
        cmocka_unit_test(a_narrow_table_keeps_the_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
