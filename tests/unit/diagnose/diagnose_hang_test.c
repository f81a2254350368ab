#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hang_job.h"

/* n ranks, `calls` calls each from the first second on. */
static struct job *steady(unsigned ranks, unsigned seen_s, unsigned calls)
{
    struct job *job = job_new(ranks, seen_s);
    for (unsigned r = 0; r < ranks; r++)
        job_call(job, r, JOB_COMM, calls, 1);
    return job;
}

static void a_rank_that_never_came_is_named(void **state)
{
    (void)state;
    struct job *job = steady(4, 20, 50);
    for (unsigned r = 0; r < 4; r++)
        if (r != 1)
            job_call(job, r, JOB_COMM, 1 + r, 2);
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 1);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.finding[0].op.index, 50);
    assert_int_equal(findings.finding[0].op.bytes, 1 << 20);
    assert_int_equal(findings.finding[0].victims, 3);
    assert_non_null(strstr(findings.finding[0].evidence.line[0],
                           " called #49 last, and never #50: it is alive"));
    assert_string_equal(findings.finding[0].evidence.line[1],
                        "the others wait in #50, and have queued up to #53");
    muster_findings_free(&findings);
    job_free(job);
}

/* Seven are not to blame for the one that made a call more than they. */
static void a_rank_that_went_ahead_alone_is_named_without_conviction(void **state)
{
    (void)state;
    char text[500];
    for (unsigned ended = 0; ended < 2; ended++) {
        struct job *job = steady(8, 20, 50);
        for (unsigned r = 0; r < 8 && ended; r++)
            if (r != 3)
                job_idle(job, r, JOB_COMM);
        job_call(job, 3, JOB_COMM, 1, 2);
        job_expect(job, MUSTER_FINDING_HANG_MISMATCH, 3);
        struct muster_findings findings = job_findings(job);
        const struct muster_finding *finding = &findings.finding[0];
        assert_true(finding->confidence <= 0.5);
        muster_finding_sentence(finding, text, sizeof text);
        assert_non_null(strstr(text, "hang_mismatch: rank 3 (host "));
        assert_non_null(strstr(text, "waits alone in AllReduce #50"));
        const char *last = finding->evidence.line[finding->evidence.n - 1];
        assert_int_equal(!strstr(last, "and they wait nowhere"), !ended);
        muster_findings_free(&findings);
        job_free(job);
    }
}

/* By calls alone the many that did not come may wait for each other in another communicator. */
static void of_many_who_may_wait_elsewhere_nobody_is_named(void **state)
{
    (void)state;
    static const unsigned others[] = {0, 1, 2, 4, 5, 6, 7};
    struct job *job = steady(8, 20, 50);
    job_comm(job, 0xdef, others, 7);
    for (unsigned i = 0; i < 7; i++)
        job_call(job, others[i], 0xdef, 1, 1.5);
    job_call(job, 3, JOB_COMM, 1, 2);
    job_expect_none(job);
    job_free(job);
}

/* Rank 1 finished #49, as far as the others show, and never called #50, in which these wait; they
 * called `more` beyond it. */
static struct job *without_rank_1(unsigned more)
{
    struct job *job = steady(4, 20, 50);
    job_open(job, 1, JOB_COMM, 24, 11);
    for (unsigned r = 0; r < 4; r++) {
        if (r == 1)
            continue;
        job->rank[r]->ring[49].source = MUSTER_SOURCE_GPU;
        job->rank[r]->ring[49].begin_ns = 1;
        job->rank[r]->ring[49].end_ns = 2;
        job_call(job, r, JOB_COMM, 1, 2);
        job_open(job, r, JOB_COMM, 24, 0);
        job_call(job, r, JOB_COMM, more, 2.5);
    }
    return job;
}

static void the_table_names_what_a_rank_waits_in(void **state)
{
    (void)state;
    struct job *job = without_rank_1(3);
    struct muster_whereabouts all = job_whereabouts(job);
    char text[128];
    assert_int_equal(all.n, 4);
    assert_string_equal(all.rank[0].call, "AllReduce #53 (1 MiB)");
    muster_whereabout_text(&all.rank[0], text, sizeof text);
    assert_non_null(strstr(text, "in AllReduce #50 (1 MiB) for "));
    assert_non_null(strstr(text, ", waiting for rank 1"));
    assert_string_equal(all.rank[1].call, "AllReduce #49 (1 MiB)");
    muster_whereabout_text(&all.rank[1], text, sizeof text);
    assert_non_null(strstr(text, "outside NCCL"));
    muster_whereabouts_free(&all);
    job_free(job);
    job = without_rank_1(0);
    all = job_whereabouts(job);
    assert_string_equal(all.rank[0].call, "AllReduce #50 (1 MiB)");
    muster_whereabout_text(&all.rank[0], text, sizeof text);
    assert_non_null(strstr(text, "in it for "));
    muster_whereabouts_free(&all);
    job_free(job);
}

static void whereabouts_name_sends_and_whom_they_wait_for(void **state)
{
    (void)state;
    struct job *job = job_new(4, 20);
    for (unsigned r = 0; r < 4; r++)
        job_call(job, r, JOB_COMM, 2, 1);
    job_p2p(job, 1, JOB_COMM, true, 2, 7, 3, false);
    job_p2p(job, 1, JOB_COMM, true, 3, 0, 4, true);
    job_p2p(job, 2, JOB_COMM, false, 1, 7, 3, false);
    struct muster_whereabouts all = job_whereabouts(job);
    char text[128];
    assert_non_null(strstr(all.rank[0].call, "AllReduce #1"));
    assert_memory_equal(all.rank[1].call, "Send to 3 #0 (", 14);
    assert_string_equal(all.rank[1].waits, "3");
    assert_memory_equal(all.rank[2].call, "Recv from 1 #7 (", 16);
    assert_string_equal(all.rank[2].waits, "");
    muster_whereabout_text(&all.rank[1], text, sizeof text);
    assert_non_null(strstr(text, "for 16.0 s, waiting for rank 3"));
    muster_whereabouts_free(&all);
    job_free(job);
}

static void a_kernel_still_open_on_the_absent_rank_changes_nothing(void **state)
{
    (void)state;
    struct job *job = without_rank_1(0);
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 1);
    struct muster_findings findings = job_findings(job);
    const struct muster_finding_lines *seen = &findings.finding[0].evidence;
    assert_non_null(strstr(seen->line[0], " finished #49 and then never called #50: it is alive"));
    for (unsigned i = 0; i < seen->n; i++)
        assert_null(strstr(seen->line[i], "11 of 24"));
    muster_findings_free(&findings);
    job_free(job);
}

static void a_pause_shorter_than_the_threshold_is_no_hang(void **state)
{
    (void)state;
    struct job *job = steady(4, 11, 50);
    for (unsigned r = 1; r < 4; r++)
        job_call(job, r, JOB_COMM, 1, 2);
    job_expect_none(job);
    job_free(job);
}

static void a_rank_that_is_behind_but_moves_is_not_absent(void **state)
{
    (void)state;
    struct job *job = steady(2, 30, 50);
    job_call(job, 0, JOB_COMM, 100, 2);
    job_call(job, 1, JOB_COMM, 1, 29);
    job_expect_none(job);
    job_free(job);
}

static void a_rank_that_came_after_all_is_no_finding_any_more(void **state)
{
    (void)state;
    struct job *job = steady(2, 20, 50);
    job_call(job, 0, JOB_COMM, 1, 2);
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 1);
    job_call(job, 1, JOB_COMM, 1, 19);
    job_expect_none(job);
    job_free(job);
}

static void idle_ranks_do_not_wait(void **state)
{
    (void)state;
    struct job *job = steady(3, 600, 50);
    job_call_as(job, 0, JOB_COMM, 2, MUSTER_FUNC_BROADCAST, 9, MUSTER_DTYPE_INT8, 0);
    for (unsigned r = 0; r < 3; r++)
        job_idle(job, r, JOB_COMM);
    job_expect_none(job);
    job_free(job);
}

static void a_finished_job_is_no_hang(void **state)
{
    (void)state;
    struct job *job = steady(4, 60, 50);
    job_call(job, 0, JOB_COMM, 1, 2);
    for (unsigned r = 0; r < 4; r++) {
        job_gone(job, r, 30 + r, MUSTER_PROCESS_FINALIZED);
        job_entry(job, r, JOB_COMM)->end_ns = JOB_BEGIN + SECOND;
    }
    job_expect_none(job);
    job_free(job);
}

static void a_job_that_left_without_finalize_is_no_hang(void **state)
{
    (void)state;
    struct job *job = steady(4, 60, 50);
    for (unsigned r = 0; r < 4; r++)
        job_gone(job, r, 30 + 5 * r, MUSTER_PROCESS_EXITED);
    job_expect_none(job);
    job_free(job);
}

static void processes_that_left_with_an_operation_outstanding_hung(void **state)
{
    (void)state;
    struct job *job = steady(4, 60, 50);
    for (unsigned r = 0; r < 4; r++) {
        if (r != 2)
            job_call(job, r, JOB_COMM, 1, 2);
        job_gone(job, r, 40, r == 2 ? MUSTER_PROCESS_EXITED : MUSTER_PROCESS_KILLED);
    }
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 2);
    job_free(job);
}

static void a_killed_rank_is_dead_not_absent(void **state)
{
    (void)state;
    struct job *job = steady(4, 20, 50);
    for (unsigned r = 0; r < 4; r++)
        if (r != 3)
            job_call(job, r, JOB_COMM, 2, 3);
    job_gone(job, 3, 2, MUSTER_PROCESS_KILLED);
    job_expect(job, MUSTER_FINDING_HANG_DEAD, 3);
    job_free(job);
}

static void a_rank_killed_in_the_same_operation_is_dead(void **state)
{
    (void)state;
    struct job *job = steady(4, 20, 50);
    for (unsigned r = 0; r < 4; r++)
        job_open(job, r, JOB_COMM, 8, 0);
    job_gone(job, 0, 3, MUSTER_PROCESS_KILLED);
    job_expect(job, MUSTER_FINDING_HANG_DEAD, 0);
    job_free(job);
}

/* Killed together, the one that had not come is still the one. */
static void a_hang_killed_as_a_whole_keeps_its_reason(void **state)
{
    (void)state;
    struct job *job = steady(4, 60, 50);
    for (unsigned r = 0; r < 4; r++) {
        if (r != 1)
            job_call(job, r, JOB_COMM, 3, 2);
        job_gone(job, r, 40 + 0.1 * r, MUSTER_PROCESS_KILLED);
    }
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 1);
    job_free(job);
}

static void another_operation_in_the_same_place_is_a_mismatch(void **state)
{
    (void)state;
    struct job *job = steady(4, 20, 50);
    for (unsigned r = 0; r < 4; r++)
        if (r == 2)
            job_call_as(job, r, JOB_COMM, 2, MUSTER_FUNC_BROADCAST, 1 << 18, MUSTER_DTYPE_FLOAT32,
                        0);
        else
            job_call(job, r, JOB_COMM, 1, 2);
    job_call(job, 2, JOB_COMM, 1, 2.5);
    job_call(job, 1, JOB_COMM, 1, 2.5);
    job_expect(job, MUSTER_FINDING_HANG_MISMATCH, 2);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.finding[0].op.index, 50);
    assert_non_null(strstr(findings.finding[0].evidence.line[1], "here #50 Broadcast"));
    muster_findings_free(&findings);
    job_free(job);
}

static void an_extra_call_of_one_rank_shows_where_it_was_made(void **state)
{
    (void)state;
    struct job *job = job_new(4, 40);
    for (unsigned r = 0; r < 4; r++) {
        job_call(job, r, JOB_COMM, 40, 1);
        if (r == 0)
            job_call_as(job, r, JOB_COMM, 1.5, MUSTER_FUNC_ALL_REDUCE, 1, MUSTER_DTYPE_INT32, 0);
        job_call(job, r, JOB_COMM, 5, 2);
    }
    job_expect(job, MUSTER_FINDING_HANG_MISMATCH, 0);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.finding[0].op.index, 40);
    muster_findings_free(&findings);
    job_free(job);
}

static void two_against_two_names_both_sides_without_conviction(void **state)
{
    (void)state;
    struct job *job = job_new(2, 20);
    job_call_as(job, 0, JOB_COMM, 1, MUSTER_FUNC_ALL_REDUCE, 5, MUSTER_DTYPE_INT32, 0);
    job_call_as(job, 1, JOB_COMM, 1, MUSTER_FUNC_ALL_REDUCE, 6, MUSTER_DTYPE_INT32, 0);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_HANG_MISMATCH);
    assert_int_equal(findings.finding[0].ranks, 2);
    assert_true(findings.finding[0].confidence <= 0.5);
    muster_findings_free(&findings);
    job_free(job);
}

static void stuck_needs_proof_that_something_did_not_end(void **state)
{
    (void)state;
    struct job *job = steady(4, 20, 50);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 0);
    assert_non_null(strstr(findings.not_observable.line[0], "completion not observable"));
    muster_findings_free(&findings);
    for (unsigned r = 0; r < 4; r++)
        job_open(job, r, JOB_COMM, 8, 0);
    job_expect(job, MUSTER_FINDING_HANG_STUCK, -1);
    job_free(job);
}

static void a_mark_that_does_not_end_is_proof(void **state)
{
    (void)state;
    struct job *job = steady(4, 20, 50);
    for (unsigned r = 0; r < 4; r++) {
        struct muster_seg_comm *entry = job_entry(job, r, JOB_COMM);
        entry->launches = entry->launches_probed = 50;
        entry->launches_ended = 48;
    }
    job_expect(job, MUSTER_FINDING_HANG_STUCK, -1);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.finding[0].op.index, 48);
    muster_findings_free(&findings);
    job_free(job);
}

/* The host thread of one rank ran less far ahead: it waits like the others. */
static void a_rank_that_waits_in_an_earlier_operation_is_not_absent(void **state)
{
    (void)state;
    struct job *job = steady(4, 30, 50);
    for (unsigned r = 0; r < 4; r++) {
        job_open(job, r, JOB_COMM, 8, 0);
        if (r != 0)
            job_call(job, r, JOB_COMM, 2, 2);
    }
    job_expect(job, MUSTER_FINDING_HANG_STUCK, -1);
    job_free(job);
}

static void nobody_is_named_who_may_wait_for_a_rank_out_of_sight(void **state)
{
    (void)state;
    struct job *job = steady(4, 20, 50);
    job->hidden[3] = true;
    for (unsigned r = 1; r < 3; r++)
        job_call(job, r, JOB_COMM, 1, 2);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 0);
    assert_non_null(strstr(findings.not_observable.line[0], "not visible here"));
    muster_findings_free(&findings);
    job_free(job);
}

/* Tensor-parallel pair (0, 1), data-parallel pairs (0, 2) and (1, 3): 1 is missing in the first, so
 * 0 never comes to 2. */
static void a_rank_that_waits_elsewhere_is_a_victim(void **state)
{
    (void)state;
    struct job *job = job_new(4, 30);
    job_comm(job, 0xa, (const unsigned[]){0, 1}, 2);
    job_comm(job, 0xb, (const unsigned[]){0, 2}, 2);
    for (unsigned r = 0; r < 2; r++)
        job_call(job, r, 0xa, 10, 1);
    job_call(job, 0, 0xb, 10, 1);
    job_call(job, 2, 0xb, 10, 1);
    job_call(job, 0, 0xa, 1, 3);
    job_call(job, 2, 0xb, 1, 3);
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 1);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.finding[0].comm, 0xa);
    assert_int_equal(findings.finding[0].victims, 2);
    muster_findings_free(&findings);
    job_free(job);
}

static void a_rank_missing_in_two_communicators_is_one_finding(void **state)
{
    (void)state;
    struct job *job = job_new(3, 30);
    job_comm(job, 0xa, (const unsigned[]){0, 1}, 2);
    job_comm(job, 0xb, (const unsigned[]){2, 1}, 2);
    job_call(job, 0, 0xa, 1, 3);
    job_call(job, 2, 0xb, 1, 4);
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 1);
    job_free(job);
}

static void two_communicators_started_in_opposite_order(void **state)
{
    (void)state;
    struct job *job = job_new(2, 30);
    job_comm(job, 0xa, (const unsigned[]){0, 1}, 2);
    job_comm(job, 0xb, (const unsigned[]){0, 1}, 2);
    for (unsigned r = 0; r < 2; r++) {
        job_call(job, r, 0xa, 1, r == 0 ? 3 : 4);
        job_call(job, r, 0xb, 1, r == 0 ? 4 : 3);
        job_open(job, r, 0xa, 8, 0);
        job_open(job, r, 0xb, 8, 0);
    }
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_HANG_ORDER);
    assert_int_equal(findings.finding[0].ranks, 2);
    assert_true(findings.finding[0].confidence <= 0.5);
    assert_int_equal(findings.finding[0].comms[0], 0xa);
    assert_int_equal(findings.finding[0].comms[1], 0xb);
    muster_findings_free(&findings);
    job_free(job);
}

static void blocking_calls_in_opposite_order_are_found_too(void **state)
{
    (void)state;
    struct job *job = job_new(2, 30);
    job_comm(job, 0xa, (const unsigned[]){0, 1}, 2);
    job_comm(job, 0xb, (const unsigned[]){0, 1}, 2);
    job_call(job, 0, 0xa, 1, 3);
    job_call(job, 1, 0xb, 1, 3);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_HANG_ORDER);
    muster_findings_free(&findings);
    job_free(job);
}

static void a_receive_without_its_send_names_the_sender(void **state)
{
    (void)state;
    struct job *job = job_new(2, 30);
    job_p2p(job, 0, JOB_COMM, true, 1, 0, 1, false);
    job_p2p(job, 1, JOB_COMM, false, 0, 0, 1, false);
    job_p2p(job, 1, JOB_COMM, false, 0, 1, 2, true);
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 0);
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.finding[0].op.func, MUSTER_FUNC_SEND);
    assert_int_equal(findings.finding[0].op.index, 1);
    muster_findings_free(&findings);
    job_free(job);
}

/* 3 waits for 2, which waits for 1, which does not send. */
static void in_a_pipeline_the_first_that_does_not_send_is_named(void **state)
{
    (void)state;
    struct job *job = job_new(4, 30);
    for (unsigned r = 1; r < 4; r++) {
        job_p2p(job, r - 1, JOB_COMM, true, (int32_t)r, 0, 1, false);
        job_p2p(job, r, JOB_COMM, false, (int32_t)r - 1, 0, 1, false);
    }
    job_p2p(job, 2, JOB_COMM, false, 1, 1, 2, true);
    job_p2p(job, 3, JOB_COMM, false, 2, 1, 2, true);
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 1);
    job_free(job);
}

static void a_send_that_may_have_ended_is_no_proof(void **state)
{
    (void)state;
    struct job *job = job_new(2, 30);
    job_p2p(job, 0, JOB_COMM, true, 1, 0, 1, false);
    job_expect_none(job);
    job_free(job);
}

/* A used hash that comes back: the finalized remains are another communicator. */
static void remains_of_a_hash_used_before_are_left_out(void **state)
{
    (void)state;
    struct job *job = job_new(2, 30);
    for (unsigned r = 0; r < 2; r++) {
        job_call(job, r, JOB_COMM, 7 + r, 1);
        job_entry(job, r, JOB_COMM)->end_ns = JOB_BEGIN + SECOND;
        job_entry(job, r, JOB_COMM)->id = 1;
    }
    job_comm(job, JOB_COMM, (const unsigned[]){0, 1}, 2);
    for (unsigned r = 0; r < 2; r++) {
        job_call(job, r, JOB_COMM, 5, 2);
        job->rank[r]->comm[0].id = JOB_COMM;
    }
    job_expect_none(job);
    job_free(job);
}

static void a_rank_restarted_under_its_number_is_not_compared(void **state)
{
    (void)state;
    struct job *job = job_new(3, 30);
    job_call(job, 0, JOB_COMM, 5, 2);
    job_call(job, 1, JOB_COMM, 4, 2);
    job_call(job, 2, JOB_COMM, 1, 2);
    job_entry(job, 2, JOB_COMM)->rank = 1;
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 0);
    assert_non_null(strstr(findings.not_observable.line[0], "twice"));
    muster_findings_free(&findings);
    job_free(job);
}

/* The clock of the day was set by an hour between two starts on one host. */
static void a_clock_that_steps_makes_nobody_dead(void **state)
{
    (void)state;
    struct job *job = steady(4, 20, 50);
    job->rank[2]->identity.begin_unix_ns += 3600ull * SECOND;
    for (unsigned r = 0; r < 4; r++)
        if (r != 2)
            job_call(job, r, JOB_COMM, 1, 2);
    job_expect(job, MUSTER_FINDING_HANG_ABSENT, 2);
    job_free(job);
}

static void a_stopped_process_is_said_to_be(void **state)
{
    (void)state;
    struct job *job = steady(2, 20, 50);
    job_call(job, 0, JOB_COMM, 1, 2);
    job->rank[1]->heartbeat_mono_ns = JOB_BEGIN + 2ull * SECOND;
    struct muster_findings findings = job_findings(job);
    assert_int_equal(findings.n, 1);
    assert_non_null(strstr(findings.finding[0].evidence.line[1], "has not run for 18.0 s"));
    muster_findings_free(&findings);
    job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_never_came_is_named),
        cmocka_unit_test(a_rank_that_went_ahead_alone_is_named_without_conviction),
        cmocka_unit_test(of_many_who_may_wait_elsewhere_nobody_is_named),
        cmocka_unit_test(whereabouts_name_sends_and_whom_they_wait_for),
        cmocka_unit_test(a_kernel_still_open_on_the_absent_rank_changes_nothing),
        cmocka_unit_test(the_table_names_what_a_rank_waits_in),
        cmocka_unit_test(a_pause_shorter_than_the_threshold_is_no_hang),
        cmocka_unit_test(a_rank_that_is_behind_but_moves_is_not_absent),
        cmocka_unit_test(a_rank_that_came_after_all_is_no_finding_any_more),
        cmocka_unit_test(idle_ranks_do_not_wait),
        cmocka_unit_test(a_finished_job_is_no_hang),
        cmocka_unit_test(a_job_that_left_without_finalize_is_no_hang),
        cmocka_unit_test(processes_that_left_with_an_operation_outstanding_hung),
        cmocka_unit_test(a_killed_rank_is_dead_not_absent),
        cmocka_unit_test(a_rank_killed_in_the_same_operation_is_dead),
        cmocka_unit_test(a_hang_killed_as_a_whole_keeps_its_reason),
        cmocka_unit_test(another_operation_in_the_same_place_is_a_mismatch),
        cmocka_unit_test(an_extra_call_of_one_rank_shows_where_it_was_made),
        cmocka_unit_test(two_against_two_names_both_sides_without_conviction),
        cmocka_unit_test(stuck_needs_proof_that_something_did_not_end),
        cmocka_unit_test(a_mark_that_does_not_end_is_proof),
        cmocka_unit_test(a_rank_that_waits_in_an_earlier_operation_is_not_absent),
        cmocka_unit_test(nobody_is_named_who_may_wait_for_a_rank_out_of_sight),
        cmocka_unit_test(a_rank_that_waits_elsewhere_is_a_victim),
        cmocka_unit_test(a_rank_missing_in_two_communicators_is_one_finding),
        cmocka_unit_test(two_communicators_started_in_opposite_order),
        cmocka_unit_test(blocking_calls_in_opposite_order_are_found_too),
        cmocka_unit_test(a_receive_without_its_send_names_the_sender),
        cmocka_unit_test(in_a_pipeline_the_first_that_does_not_send_is_named),
        cmocka_unit_test(a_send_that_may_have_ended_is_no_proof),
        cmocka_unit_test(remains_of_a_hash_used_before_are_left_out),
        cmocka_unit_test(a_rank_restarted_under_its_number_is_not_compared),
        cmocka_unit_test(a_clock_that_steps_makes_nobody_dead),
        cmocka_unit_test(a_stopped_process_is_said_to_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
