/* A job that is over: who was killed before all others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hang_job.h"

/* All ranks called 50 collectives; those below `ahead` one more, which waits for the others. */
static struct job *waiting(unsigned ranks, unsigned ahead)
{
    struct job *job = job_new(ranks, 20);
    for (unsigned r = 0; r < ranks; r++) {
        job_call(job, r, JOB_COMM, 50, 1);
        if (r < ahead) {
            job_call(job, r, JOB_COMM, 1, 10);
            job_open(job, r, JOB_COMM, 1, 0);
        }
    }
    return job;
}

static void expect(const struct job *job, int32_t rank)
{
    struct muster_findings findings = job_first(job);
    assert_int_equal(findings.n, rank >= 0);
    if (rank >= 0) {
        assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_HANG_DEAD);
        assert_int_equal(findings.finding[0].rank[0], rank);
    }
    muster_findings_free(&findings);
}

/* The last rank went at 10 s, the others `after_s` later. */
static void end(struct job *job, enum muster_process_state how, double after_s,
                enum muster_process_state others)
{
    for (unsigned r = 0; r + 1 < job->ranks; r++)
        job_gone(job, r, 10 + after_s, others);
    job_gone(job, job->ranks - 1, 10, how);
}

static void who_was_killed_before_all_others_that_waited_for_it_is_named(void **state)
{
    (void)state;
    static const enum muster_process_state others[] = {MUSTER_PROCESS_KILLED,
                                                       MUSTER_PROCESS_EXITED};
    for (unsigned i = 0; i < 2; i++) {
        struct job *job = waiting(2, 1);
        end(job, MUSTER_PROCESS_KILLED, 1.5, others[i]);
        job_expect_none(job); /* of a recording the report tells it */
        struct muster_findings findings = job_first(job);
        const struct muster_finding *finding = &findings.finding[0];
        char text[500];
        assert_int_equal(findings.n, 1);
        muster_finding_sentence(finding, text, sizeof text);
        assert_non_null(strstr(text, "hang_dead: rank 1 (host node0, GPU 1) is gone (killed or "
                                     "crashed) and never entered AllReduce #50"));
        assert_int_equal(finding->victims, 1);
        assert_true(finding->confidence <= 0.5);
        assert_non_null(strstr(finding->evidence.line[0], "the others 1.5 s later"));
        assert_int_equal(finding->since_unix_ns, 50 * JOB_BEGIN + 10ull * SECOND);
        muster_findings_free(&findings);
        job_free(job);
    }
}

/* Also who died inside what the others wait in. */
static void who_was_killed_inside_an_operation_is_named(void **state)
{
    (void)state;
    struct job *job = waiting(4, 4);
    end(job, MUSTER_PROCESS_KILLED, 1.2, MUSTER_PROCESS_KILLED);
    expect(job, 3);
    job_free(job);
}

static void a_host_that_went_before_the_others_is_named_as_one(void **state)
{
    (void)state;
    struct job *job = waiting(6, 4);
    end(job, MUSTER_PROCESS_KILLED, 1.5, MUSTER_PROCESS_KILLED);
    job_gone(job, 4, 10.3, MUSTER_PROCESS_KILLED);
    struct muster_findings findings = job_first(job);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 2);
    muster_findings_free(&findings);
    job->rank[4]->identity.boot_hash++; /* on two hosts: a job is being ended */
    expect(job, -1);
    job_free(job);
}

static void a_job_that_is_ended_as_a_whole_names_nobody(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct job *job = waiting(4, 3);
        for (unsigned r = 0; r < 4; r++)
            job_gone(job, r, 10 + 0.13 * ((r + i) % 4) * (i % 3), MUSTER_PROCESS_KILLED);
        expect(job, -1);
        job_free(job);
    }
    /* One after the other: nobody was the first, apart from all. */
    struct job *job = waiting(4, 3);
    for (unsigned r = 0; r < 4; r++)
        job_gone(job, r, 13 - 0.7 * r, MUSTER_PROCESS_KILLED);
    expect(job, -1);
    job_free(job);
}

/* Its thread that beats came late, and it called until it was killed with the others. */
static void a_heartbeat_that_is_late_names_nobody(void **state)
{
    (void)state;
    struct job *job = waiting(2, 1);
    end(job, MUSTER_PROCESS_KILLED, 1.5, MUSTER_PROCESS_KILLED);
    job_entry(job, 1, JOB_COMM)->called_ns = JOB_BEGIN + 11ull * SECOND;
    expect(job, -1);
    job_free(job);
}

/* Interrupted, one leaves by exit() and another comes to that later. */
static void who_left_by_itself_is_not_named(void **state)
{
    (void)state;
    static const enum muster_process_state how[] = {MUSTER_PROCESS_EXITED,
                                                    MUSTER_PROCESS_FINALIZED};
    for (unsigned i = 0; i < 4; i++) {
        struct job *job = waiting(2, 1);
        end(job, how[i % 2], 1.5, i < 2 ? MUSTER_PROCESS_KILLED : MUSTER_PROCESS_EXITED);
        expect(job, -1);
        job_free(job);
    }
}

/* All that was called has ended: each leaves when it likes, in whatever way. */
static void who_leaves_first_at_a_normal_end_is_not_named(void **state)
{
    (void)state;
    static const enum muster_process_state others[] = {MUSTER_PROCESS_KILLED, MUSTER_PROCESS_EXITED,
                                                       MUSTER_PROCESS_FINALIZED};
    for (unsigned i = 0; i < 6; i++) {
        struct job *job = waiting(4, 0);
        for (unsigned r = 0; i < 3 && r < 4; r++) /* else nothing tells that it ended */
            job_idle(job, r, JOB_COMM);
        end(job, MUSTER_PROCESS_KILLED, 2.5, others[i % 3]);
        expect(job, -1);
        job_free(job);
    }
    /* In order, but for one that went by _exit() then. */
    struct job *job = waiting(2, 1);
    end(job, MUSTER_PROCESS_KILLED, 1.5, MUSTER_PROCESS_FINALIZED);
    for (unsigned r = 0; r < 2; r++)
        job_entry(job, r, JOB_COMM)->end_ns = JOB_BEGIN + 9ull * SECOND;
    expect(job, -1);
    job_free(job);
}

static void what_is_not_seen_whole_names_nobody(void **state)
{
    (void)state;
    struct job *job = waiting(3, 2);
    end(job, MUSTER_PROCESS_KILLED, 1.5, MUSTER_PROCESS_KILLED);
    expect(job, 2);
    job->hidden[0] = true;
    expect(job, -1);
    job_free(job);
    job = waiting(3, 2);
    end(job, MUSTER_PROCESS_KILLED, 1.5, MUSTER_PROCESS_KILLED);
    job->state[0] = MUSTER_PROCESS_RUNNING;
    expect(job, -1);
    job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_killed_before_all_others_that_waited_for_it_is_named),
        cmocka_unit_test(who_was_killed_inside_an_operation_is_named),
        cmocka_unit_test(a_host_that_went_before_the_others_is_named_as_one),
        cmocka_unit_test(a_job_that_is_ended_as_a_whole_names_nobody),
        cmocka_unit_test(a_heartbeat_that_is_late_names_nobody),
        cmocka_unit_test(who_left_by_itself_is_not_named),
        cmocka_unit_test(who_leaves_first_at_a_normal_end_is_not_named),
        cmocka_unit_test(what_is_not_seen_whole_names_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
