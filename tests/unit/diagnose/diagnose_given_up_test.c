/* A rank is killed, and the others' program gives up the communicator that they wait in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hang_job.h"

enum { RANKS = 4, KILLED = 3 };

/* All called 50 collectives; all but the last rank one more. */
static struct job *waiting(void)
{
    struct job *job = job_new(RANKS, 20);
    for (unsigned r = 0; r < RANKS; r++) {
        job_call(job, r, JOB_COMM, 50, 1);
        if (r != KILLED)
            job_call(job, r, JOB_COMM, 1, 10);
    }
    return job;
}

static void give_up(struct job *job, double at_s)
{
    for (unsigned r = 0; r < KILLED; r++)
        job_entry(job, r, JOB_COMM)->end_ns = JOB_BEGIN + (uint64_t)(at_s * SECOND);
}

/* The others are still there, or left, or finalized and left. */
static void who_was_killed_before_the_others_gave_up_is_named(void **state)
{
    (void)state;
    static const enum muster_process_state others[] = {
        MUSTER_PROCESS_RUNNING, MUSTER_PROCESS_EXITED, MUSTER_PROCESS_FINALIZED};
    for (unsigned i = 0; i < 3; i++) {
        struct job *job = waiting();
        char text[500];
        job_gone(job, KILLED, 10, MUSTER_PROCESS_KILLED);
        give_up(job, 10.7);
        for (unsigned r = 0; i > 0 && r < KILLED; r++)
            job_gone(job, r, 12, others[i]);
        job_expect(job, MUSTER_FINDING_HANG_DEAD, KILLED);
        struct muster_findings findings = job_findings(job);
        const struct muster_finding *finding = &findings.finding[0];
        muster_finding_sentence(finding, text, sizeof text);
        assert_non_null(strstr(text, "never entered AllReduce #50"));
        assert_int_equal(finding->victims, KILLED);
        assert_int_equal(finding->since_unix_ns, 50 * JOB_BEGIN + 10ull * SECOND);
        assert_non_null(strstr(finding->evidence.line[1], "gave it up from 0.7 s later on"));
        muster_findings_free(&findings);
        job_free(job);
    }
}

/* An error of theirs, and their launcher ended the last one. */
static void who_is_killed_after_the_others_gave_up_is_not_named(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct job *job = waiting();
        job_gone(job, KILLED, 10, MUSTER_PROCESS_KILLED);
        give_up(job, 10.1 - 4 * i);
        job_expect_none(job);
        job_free(job);
    }
    struct job *job = waiting(); /* one of them, and the others after that */
    job_gone(job, KILLED, 10, MUSTER_PROCESS_KILLED);
    give_up(job, 10.7);
    job_entry(job, 1, JOB_COMM)->end_ns = JOB_BEGIN + 9ull * SECOND;
    job_expect_none(job);
    job_free(job);
}

/* That it is gone was told while they lived on, and is over now. */
static void who_was_killed_long_before_is_not_named_again(void **state)
{
    (void)state;
    struct job *job = waiting();
    job_gone(job, KILLED, 10, MUSTER_PROCESS_KILLED);
    give_up(job, 14.5);
    job_expect_none(job);
    job_free(job);
}

/* All that they called can have ended: they left in order. */
static void where_nobody_called_more_nobody_is_named(void **state)
{
    (void)state;
    struct job *job = waiting();
    job_call(job, KILLED, JOB_COMM, 1, 10);
    job_gone(job, KILLED, 10.5, MUSTER_PROCESS_KILLED);
    give_up(job, 12);
    job_expect_none(job);
    job_free(job);
}

/* Half of them at most: else the job was ended as a whole. And who left by exit() was not killed.
 */
static void where_most_were_killed_or_one_left_nobody_is_named(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct job *job = waiting();
        give_up(job, 12);
        job_gone(job, KILLED, 10, i ? MUSTER_PROCESS_EXITED : MUSTER_PROCESS_KILLED);
        for (unsigned r = 1; i == 0 && r < KILLED; r++) {
            job_entry(job, r, JOB_COMM)->end_ns = 0;
            job_gone(job, r, 11, MUSTER_PROCESS_KILLED);
        }
        job_expect_none(job);
        job_free(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_killed_before_the_others_gave_up_is_named),
        cmocka_unit_test(who_is_killed_after_the_others_gave_up_is_not_named),
        cmocka_unit_test(who_was_killed_long_before_is_not_named_again),
        cmocka_unit_test(where_nobody_called_more_nobody_is_named),
        cmocka_unit_test(where_most_were_killed_or_one_left_nobody_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
