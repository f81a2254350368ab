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
                        "hang_dead: rank 3 (host node0, GPU 3) is gone (killed, crashed or left by "
                        "_exit()) while the others live on; whoever calls communicator "
                        "0000000000000abc next waits for it");
    assert_true(finding->confidence == 0.5);
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

/* It had called less, or something of it had not ended: no _exit() of a rank that was done. */
static void a_rank_that_was_not_done_was_killed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct job *job = idle(4);
        if (i == 0)
            job_entry(job, 3, JOB_COMM)->launches_ended--;
        for (unsigned r = 0; i == 1 && r < 3; r++) {
            job_call(job, r, JOB_COMM, 1, 2);
            job_idle(job, r, JOB_COMM);
        }
        job_gone(job, 3, 15, MUSTER_PROCESS_KILLED);
        struct muster_findings findings = job_findings(job);
        char text[500];
        assert_int_equal(findings.n, 1);
        muster_finding_sentence(&findings.finding[0], text, sizeof text);
        assert_non_null(strstr(text, "(killed or crashed)"));
        assert_true(findings.finding[0].confidence > 0.9);
        muster_findings_free(&findings);
        job_free(job);
    }
}

/* The world has ended: that a pair of it lost one of two says nothing. */
static void a_small_communicator_of_a_job_that_ends_names_nobody(void **state)
{
    (void)state;
    struct job *job = idle(8);
    job_comm(job, 0xdef, (const unsigned[]){0, 4}, 2);
    for (unsigned r = 1; r < 8; r++)
        job_gone(job, r, 10, MUSTER_PROCESS_KILLED);
    job_expect_none(job);
    job_free(job);
}

/* But of a pair that is gone as a whole others may be missed elsewhere. */
static void a_communicator_that_nobody_lives_in_explains_nobody(void **state)
{
    (void)state;
    struct job *job = job_new(4, 20);
    for (unsigned r = 0; r < 4; r++)
        job_entry(job, r, JOB_COMM)->end_ns = JOB_BEGIN + 1ull * SECOND;
    job_comm(job, 0xde, (const unsigned[]){2, 3}, 2);
    job_comm(job, 0xdf, (const unsigned[]){0, 2}, 2);
    job_gone(job, 2, 10, MUSTER_PROCESS_KILLED);
    job_gone(job, 3, 10, MUSTER_PROCESS_KILLED);
    job_expect(job, MUSTER_FINDING_HANG_DEAD, 2);
    job_free(job);
}

static bool says(const struct muster_finding *finding, const char *words)
{
    for (unsigned i = 0; i < finding->evidence.n; i++)
        if (strstr(finding->evidence.line[i], words))
            return true;
    return false;
}

/* Of the host of those that are named first; of another host; those of one moment together. */
static void the_first_to_go_explains_those_that_follow(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct job *job = idle(8);
        job_comm(job, 0xdef, (const unsigned[]){1, 2, 3}, 3);
        job->rank[1]->identity.boot_hash = job->rank[2]->identity.boot_hash = 7 + i;
        job_gone(job, 5, 8, MUSTER_PROCESS_KILLED);
        job_gone(job, 1, 12, MUSTER_PROCESS_KILLED);
        job_gone(job, 2, 12.5, MUSTER_PROCESS_KILLED);
        job_expect(job, MUSTER_FINDING_HANG_DEAD, 5);
        struct muster_findings findings = job_findings(job);
        assert_true(says(&findings.finding[0], "ranks 1, 2 went 4 s later"));
        muster_findings_free(&findings);
        job_free(job);
    }
}

static void those_that_went_together_are_one_finding_of_the_largest_communicator(void **state)
{
    (void)state;
    struct job *job = idle(8);
    job_comm(job, 0xdef, (const unsigned[]){1, 2, 3}, 3);
    job_gone(job, 1, 15, MUSTER_PROCESS_KILLED);
    job_gone(job, 2, 15.5, MUSTER_PROCESS_KILLED);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].comm, JOB_COMM);
    assert_int_equal(findings.finding[0].ranks, 2);
    assert_int_equal(findings.finding[0].rank[0], 1);
    assert_int_equal(findings.finding[0].rank[1], 2);
    muster_findings_free(&findings);
    job_free(job);
}

/* Rank 3 raised; its launcher ended the others of its host. */
static void who_left_before_its_launcher_ended_the_others_is_named(void **state)
{
    (void)state;
    struct job *job = idle(8);
    char text[500];
    for (unsigned r = 4; r < 8; r++)
        job->rank[r]->identity.boot_hash = 8;
    job_gone(job, 3, 10, MUSTER_PROCESS_EXITED);
    for (unsigned r = 0; r < 3; r++)
        job_gone(job, r, 10.3, MUSTER_PROCESS_KILLED);
    job_expect(job, MUSTER_FINDING_HANG_DEAD, 3);
    struct muster_findings findings = job_findings(job);
    muster_finding_sentence(&findings.finding[0], text, sizeof text);
    assert_non_null(strstr(text, "is gone (left without finalizing)"));
    assert_true(says(&findings.finding[0], "ranks 0, 1, 2 went 0.3 s later"));
    muster_findings_free(&findings);
    /* In order, or long before: no reason of theirs. */
    job_gone(job, 3, 10, MUSTER_PROCESS_FINALIZED);
    findings = job_findings(job);
    assert_int_equal(findings.finding[0].ranks, 3);
    muster_findings_free(&findings);
    job_free(job);
}

static void who_is_inside_what_it_was_in_waits_for_it(void **state)
{
    (void)state;
    struct job *job = job_new(4, 20);
    for (unsigned r = 0; r < 4; r++) {
        job_call(job, r, JOB_COMM, 51, 14);
        job_open(job, r, JOB_COMM, 2, 1);
    }
    job_gone(job, 2, 15, MUSTER_PROCESS_KILLED);
    job_expect(job, MUSTER_FINDING_HANG_DEAD, 2);
    struct muster_findings findings = job_findings(job);
    assert_true(findings.finding[0].has_op);
    assert_int_equal(findings.finding[0].op.index, 50);
    assert_int_equal(findings.finding[0].victims, 3);
    char text[500];
    muster_finding_sentence(&findings.finding[0], text, sizeof text);
    assert_non_null(strstr(text, "is gone (killed or crashed) inside AllReduce #50"));
    muster_findings_free(&findings);
    job_free(job);
}

static void where_a_part_is_seen_the_words_say_of_how_many(void **state)
{
    (void)state;
    struct job *job = idle(8);
    for (unsigned r = 4; r < 8; r++)
        job->hidden[r] = true;
    job_gone(job, 3, 15, MUSTER_PROCESS_KILLED);
    job_expect(job, MUSTER_FINDING_HANG_DEAD, 3);
    struct muster_findings findings = job_findings(job);
    const struct muster_finding *finding = &findings.finding[0];
    bool limited = false;
    assert_true(
        says(finding, "3 of the 4 ranks that are seen here, of 8 of its communicator, were"));
    for (unsigned i = 0; i < finding->not_observable.n; i++)
        limited |= strstr(finding->not_observable.line[i], "4 of 8 ranks: no segment") != NULL;
    assert_true(limited);
    muster_findings_free(&findings);
    job_free(job);
}

/* Heartbeats of the living that were old at the first look are newer at the next ones. */
static void after_a_death_somebody_looks_more_than_once(void **state)
{
    const uint64_t gone_ns = 100ull * SECOND;
    uint64_t evaluated_ns = 99ull * SECOND;
    unsigned looks = 0;
    (void)state;
    assert_false(muster_hang_gone_due(0, 0, gone_ns));
    for (uint64_t now_ns = gone_ns; now_ns < gone_ns + 60ull * SECOND; now_ns += SECOND) {
        if (!muster_hang_gone_due(gone_ns, evaluated_ns, now_ns))
            continue;
        assert_true(now_ns >= gone_ns + 4ull * SECOND);
        evaluated_ns = now_ns;
        looks++;
    }
    assert_int_equal(looks, 10);
    assert_true(muster_hang_gone_due(gone_ns, gone_ns, gone_ns + 60ull * SECOND)); /* looked late */
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

/* A look came between those that went together. */
static void who_is_found_to_have_gone_with_it_is_told(void **state)
{
    (void)state;
    unsigned told[2] = {0};
    struct muster_watch watch = {0};
    struct job *job = idle(8);
    job_gone(job, 5, 15, MUSTER_PROCESS_KILLED);
    update(&watch, job, told);
    job_gone(job, 3, 16.5, MUSTER_PROCESS_KILLED);
    for (unsigned i = 0; i < 3; i++)
        update(&watch, job, told);
    assert_int_equal(told[0], 2);
    assert_int_equal(told[1], 0);
    assert_int_equal(watch.known.n, 1);
    assert_int_equal(watch.known.finding[0].ranks, 2);
    assert_int_equal(watch.known.finding[0].rank[0], 5); /* as it was told */
    assert_int_equal(watch.known.finding[0].rank[1], 3);
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

/* They have called one more, in vain, for twice as long as makes a hang. */
static void a_rank_that_left_while_others_wait_was_not_killed(void **state)
{
    (void)state;
    struct job *job = job_new(4, 20);
    for (unsigned r = 0; r < 4; r++)
        job_call(job, r, JOB_COMM, 50, 1);
    for (unsigned r = 0; r < 3; r++)
        job_call(job, r, JOB_COMM, 2, 3);
    job_gone(job, 3, 2, MUSTER_PROCESS_EXITED);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_HANG_DEAD);
    assert_true(findings.finding[0].has_op);
    assert_int_equal(findings.finding[0].went, MUSTER_WENT_LEFT);
    muster_findings_free(&findings);
    job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_left_while_others_wait_was_not_killed),
        cmocka_unit_test(a_rank_that_is_killed_while_nothing_hangs_is_named),
        cmocka_unit_test(who_has_called_without_it_waits_for_it),
        cmocka_unit_test(who_left_in_order_or_just_now_is_not_named),
        cmocka_unit_test(a_job_that_ends_or_goes_on_without_it_names_nobody),
        cmocka_unit_test(those_that_do_not_run_any_more_do_not_live_on),
        cmocka_unit_test(a_rank_that_was_not_done_was_killed),
        cmocka_unit_test(a_small_communicator_of_a_job_that_ends_names_nobody),
        cmocka_unit_test(a_communicator_that_nobody_lives_in_explains_nobody),
        cmocka_unit_test(the_first_to_go_explains_those_that_follow),
        cmocka_unit_test(who_left_before_its_launcher_ended_the_others_is_named),
        cmocka_unit_test(who_is_inside_what_it_was_in_waits_for_it),
        cmocka_unit_test(where_a_part_is_seen_the_words_say_of_how_many),
        cmocka_unit_test(those_that_went_together_are_one_finding_of_the_largest_communicator),
        cmocka_unit_test(after_a_death_somebody_looks_more_than_once),
        cmocka_unit_test(a_death_is_told_once_whatever_comes_of_it),
        cmocka_unit_test(who_is_found_to_have_gone_with_it_is_told),
        cmocka_unit_test(those_that_were_told_together_stay_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
