/* A process that is gone before anybody waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/finding_changes.h"
#include "hang_job.h"

/* All ranks called 50 collectives, which have ended; seen 20 s after the begin. */
static struct job *idle(unsigned ranks)
{
    struct job *job = job_new(ranks, 20);
    for (unsigned r = 0; r < ranks; r++) {
        job_call(job, r, JOB_COMM, 50, 1);
        job_idle(job, r, JOB_COMM);
    }
    return job;
}

static void a_rank_that_is_killed_while_nothing_hangs_is_named(void **state)
{
    (void)state;
    char text[500];
    struct job *job = idle(4);
    job_gone(job, 3, 15, MUSTER_PROCESS_KILLED);
    job_expect(job, MUSTER_FINDING_HANG_DEAD, 3);
    struct muster_findings findings = job_findings(job);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->victims, 0);
    assert_false(finding->has_op);
    assert_int_equal(finding->since_unix_ns, 50 * JOB_BEGIN + 15ull * SECOND);
    muster_finding_sentence(finding, text, sizeof text);
    assert_string_equal(text,
                        "hang_dead: rank 3 (host node0, GPU 3) is gone (killed or crashed) while "
                        "the others live on; whoever calls communicator 0000000000000abc next "
                        "waits for it");
    assert_non_null(strstr(finding->evidence.line[0], "rank 3 (pid 1003 on node0) called #49"));
    assert_string_equal(finding->evidence.line[2],
                        "3 of the 4 ranks of its communicator were alive 5 s later");
    assert_non_null(strstr(finding->advice, "dmesg"));
    muster_findings_free(&findings);
    job_free(job);
}

static void who_has_called_without_it_waits_for_it(void **state)
{
    (void)state;
    static const enum muster_process_state how[] = {MUSTER_PROCESS_KILLED, MUSTER_PROCESS_EXITED};
    for (unsigned i = 0; i < 2; i++) {
        struct job *job = job_new(4, 20);
        for (unsigned r = 0; r < 4; r++)
            job_call(job, r, JOB_COMM, r == 2 ? 50 : 51, 15);
        job_gone(job, 2, 16, how[i]);
        job_expect(job, MUSTER_FINDING_HANG_DEAD, 2);
        struct muster_findings findings = job_findings(job);
        assert_int_equal(findings.finding[0].op.index, 50);
        assert_int_equal(findings.finding[0].victims, 3);
        muster_findings_free(&findings);
        job_free(job);
    }
}

static void expect_none_of(enum muster_process_state how, double at_s)
{
    struct job *job = idle(4);
    job_gone(job, 3, at_s, how);
    job_expect_none(job);
    job_free(job);
}

static void who_left_in_order_or_just_now_is_not_named(void **state)
{
    (void)state;
    expect_none_of(MUSTER_PROCESS_FINALIZED, 15);
    expect_none_of(MUSTER_PROCESS_EXITED, 15);
    expect_none_of(MUSTER_PROCESS_KILLED, 17.5);
    struct job *job = idle(4);
    job_gone(job, 3, 15, MUSTER_PROCESS_KILLED);
    job_entry(job, 3, JOB_COMM)->end_ns = JOB_BEGIN + 14ull * SECOND;
    job_expect_none(job);
    job_free(job);
}

static void a_job_that_ends_or_goes_on_without_it_names_nobody(void **state)
{
    (void)state;
    struct job *job = idle(8);
    for (unsigned r = 3; r < 8; r++)
        job_gone(job, r, 10 + 0.5 * r, MUSTER_PROCESS_KILLED);
    job_expect_none(job);
    job_free(job);
    /* Those that live made another communicator, and gave this one up. */
    job = idle(4);
    job_gone(job, 3, 10, MUSTER_PROCESS_KILLED);
    for (unsigned r = 0; r < 3; r++)
        job_entry(job, r, JOB_COMM)->end_ns = JOB_BEGIN + 11ull * SECOND;
    job_comm(job, 0xdef, (const unsigned[]){0, 1, 2}, 3);
    job_expect_none(job);
    job_free(job);
}

/* Killed with it, and not yet taken down: nobody lives on. */
static void those_that_do_not_run_any_more_do_not_live_on(void **state)
{
    (void)state;
    struct job *job = idle(4);
    for (unsigned r = 0; r < 3; r++)
        job->rank[r]->heartbeat_mono_ns = JOB_BEGIN + 15ull * SECOND;
    job_gone(job, 3, 15, MUSTER_PROCESS_KILLED);
    job_expect_none(job);
    job_free(job);
}

static void those_that_went_together_are_one_finding_of_the_largest_communicator(void **state)
{
    (void)state;
    struct job *job = idle(8);
    job_comm(job, 0xdef, (const unsigned[]){1, 2, 3}, 3);
    job_gone(job, 1, 15, MUSTER_PROCESS_KILLED);
    job_gone(job, 2, 15.5, MUSTER_PROCESS_KILLED);
    job_gone(job, 7, 11, MUSTER_PROCESS_KILLED);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 2);
    assert_int_equal(findings.finding[0].comm, JOB_COMM);
    assert_int_equal(findings.finding[0].ranks, 2);
    assert_int_equal(findings.finding[0].rank[0], 1);
    assert_int_equal(findings.finding[0].rank[1], 2);
    assert_int_equal(findings.finding[1].ranks, 1);
    assert_int_equal(findings.finding[1].rank[0], 7);
    muster_findings_free(&findings);
    job_free(job);
}

static void count(void *arg, const struct muster_finding *finding)
{
    unsigned *told = arg;
    told[finding->resolved || finding->retracted]++;
}

static void update(struct muster_watch *watch, const struct job *job, unsigned *told)
{
    struct muster_findings findings = job_findings(job);
    muster_watch_update(watch, &findings, count, told);
    muster_findings_free(&findings);
}

/* First nobody waits, then some do, in a smaller communicator; then these give it up. */
static void a_death_is_told_once_whatever_comes_of_it(void **state)
{
    (void)state;
    static const unsigned pair[] = {2, 3};
    unsigned told[2] = {0};
    struct muster_watch watch = {0};
    struct job *job = idle(4);
    job_comm(job, 0xdef, pair, 2);
    job_gone(job, 3, 5, MUSTER_PROCESS_KILLED);
    update(&watch, job, told);
    assert_int_equal(muster_watch_hanging(&watch), 0);
    assert_int_equal(muster_watch_gone(&watch), 1);
    job_call(job, 2, 0xdef, 1, 6);
    update(&watch, job, told);
    assert_int_equal(muster_watch_hanging(&watch), 1);
    assert_int_equal(watch.known.finding[0].comm, 0xdef);
    assert_int_equal(told[0], 1);
    assert_int_equal(told[1], 0);
    for (unsigned r = 0; r < 3; r++)
        job_entry(job, r, JOB_COMM)->end_ns = JOB_BEGIN + 19ull * SECOND;
    job_entry(job, 2, 0xdef)->end_ns = JOB_BEGIN + 19ull * SECOND;
    update(&watch, job, told);
    assert_int_equal(told[0], 1);
    assert_int_equal(told[1], 1);
    muster_watch_free(&watch);
    job_free(job);
}

/* Two went, and others wait for one of them alone. */
static void those_that_were_told_together_stay_together(void **state)
{
    (void)state;
    unsigned told[2] = {0};
    struct muster_watch watch = {0};
    struct job *job = idle(6);
    job_comm(job, 0xdef, (const unsigned[]){4, 5}, 2);
    job_gone(job, 3, 5, MUSTER_PROCESS_KILLED);
    job_gone(job, 4, 5, MUSTER_PROCESS_KILLED);
    update(&watch, job, told);
    job_call(job, 5, 0xdef, 1, 6);
    update(&watch, job, told);
    assert_int_equal(told[0], watch.known.n);
    assert_int_equal(watch.known.finding[0].ranks, 2);
    assert_int_equal(watch.known.finding[0].rank[0], 3);
    assert_int_equal(told[1], 0);
    muster_watch_free(&watch);
    job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_killed_while_nothing_hangs_is_named),
        cmocka_unit_test(who_has_called_without_it_waits_for_it),
        cmocka_unit_test(who_left_in_order_or_just_now_is_not_named),
        cmocka_unit_test(a_job_that_ends_or_goes_on_without_it_names_nobody),
        cmocka_unit_test(those_that_do_not_run_any_more_do_not_live_on),
        cmocka_unit_test(those_that_went_together_are_one_finding_of_the_largest_communicator),
        cmocka_unit_test(a_death_is_told_once_whatever_comes_of_it),
        cmocka_unit_test(those_that_were_told_together_stay_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
