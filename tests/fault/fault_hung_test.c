/*
 * A file system that never answers, or each time after seconds. Nothing is timed closely: a job
 * that waited for it would not end by itself, and be killed after a minute, or take as long as one
 * call.
 */
#include "fault_driven.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "fault_hung_mount.h"

enum { ENDLESS = 1000 };

static const char *const job[] = {MUSTER_TEST_JOB, "5", NULL};

/* The job ended, and its segment, wherever it lies, holds all that it did. */
static void evaluate(const struct driven *driven, const char *what)
{
    struct driven_totals got;
    if (driven->status != 0)
        fail_msg("%s: the job left with %#x\n%s", what, driven->status, driven->err);
    driven_totals(driven, &got);
    if (got.processes != 1 || got.ops != driven_issued(driven))
        fail_msg("%s: %llu operations in %llu processes, %llu were issued", what,
                 (unsigned long long)got.ops, (unsigned long long)got.processes,
                 (unsigned long long)driven_issued(driven));
}

static void any_file_operation_may_never_return(void **state)
{
    struct driven *driven = *state;
    struct fault_plan *plan = driven->plan;
    unsigned clean = 0;
    char what[64];

    plan->family = FAULT_HELD;
    snprintf(plan->place, sizeof(plan->place), "%s", driven->run);
    driven->timing = "light";
    for (plan->at = 1; clean < 2; plan->at++) {
        assert_true(plan->at < ENDLESS);
        driven_run(driven, job);
        clean = driven_failed(driven) ? 0 : clean + 1;
        snprintf(what, sizeof(what), "call %llu (%s) was held", (unsigned long long)plan->at,
                 plan->call);
        evaluate(driven, what);
    }
    assert_true(plan->at > 5);
    print_message("%llu file operations were held in turn\n", (unsigned long long)plan->at - 3);
}

struct lived {
    double whole_s, start_s, end_s;
};

static struct lived run_for(struct driven *driven, enum fault_family family)
{
    uint64_t begin = muster_now_ns();
    driven->plan->family = (int)family;
    driven_run(driven, job);
    uint64_t end = muster_now_ns();
    evaluate(driven, family == FAULT_SLOW ? "every file operation took 5 s" : "nothing failed");
    return (struct lived){.whole_s = (double)(end - begin) / 1e9,
                          .start_s = (double)driven->plan->start_ns / 1e9,
                          .end_s = (double)(end - driven->plan->done_at_ns) / 1e9};
}

/* Of more than twenty calls: who waited for a single one of them would have taken as long as it. */
static void every_file_operation_may_take_seconds(void **state)
{
    struct driven *driven = *state;
    struct fault_plan *plan = driven->plan;
    snprintf(plan->place, sizeof(plan->place), "%s", driven->run);
    driven->timing = "light";
    plan->at = 1;
    plan->onwards = true;
    struct lived quick = run_for(driven, FAULT_NONE), slow = run_for(driven, FAULT_SLOW);
    assert_true(driven_failed(driven));
    assert_true(slow.start_s < FAULT_SLOW_S);
    assert_true(slow.end_s < FAULT_SLOW_S);
    print_message(
        "a job of %.2f s took %.3f s more to make its communicators and %.2f s more to end "
        "where every file operation took %d s\n",
        quick.whole_s, slow.start_s - quick.start_s, slow.end_s - quick.end_s, FAULT_SLOW_S);
}

static void a_mount_that_hangs_holds_nobody_up(void **state)
{
    struct driven *driven = *state;
    struct hung_mount mount;
    driven_clear(driven);
    if (!hung_mount_open(&mount, driven->base))
        skip();
    driven->plan->family = FAULT_NONE;
    driven->timing = "light";
    driven_run_again(driven, job);
    hung_mount_close(&mount);
    evaluate(driven, "the run directory's file system hung");
}

/* With nowhere to leave it, what was recorded ends with the process: that is said, once. */
static void what_was_in_memory_of_its_own_is_lost_with_a_line(void **state)
{
    struct driven *driven = *state;
    struct fault_plan *plan = driven->plan;
    static const char lost[] = "what this process recorded is lost";
    char segment_dir[sizeof driven->segment_dir];
    driven->timing = "light";
    plan->family = FAULT_NONE;
    driven_clear(driven);
    memcpy(segment_dir, driven->segment_dir, sizeof segment_dir);
    snprintf(driven->segment_dir, sizeof driven->segment_dir, "/proc"); /* no tmpfs */
    driven_run_again(driven, job);
    bool said_too_much = strstr(driven->err, lost);
    plan->family = FAULT_HELD;
    plan->at = 1;
    plan->onwards = true;
    snprintf(plan->place, sizeof plan->place, "%s", driven->run);
    driven_restart(driven);
    driven_run_again(driven, job);
    memcpy(driven->segment_dir, segment_dir, sizeof segment_dir);
    assert_false(said_too_much);
    assert_int_equal(driven->status, 0);
    const char *said = strstr(driven->err, lost);
    assert_non_null(said);
    assert_null(strstr(said + 1, lost));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, driven_setup, driven_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_file_operation_may_never_return),
        TEST(every_file_operation_may_take_seconds),
        TEST(a_mount_that_hangs_holds_nobody_up),
        TEST(what_was_in_memory_of_its_own_is_lost_with_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
