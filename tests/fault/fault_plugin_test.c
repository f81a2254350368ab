/* The plugin with every allocation and every file operation failing in turn. */
#include "fault_driven.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDLESS = 20000, MAX_LINES = 4 };

static const struct fault_variant {
    const char *api, *timing;
    bool traced;
} variants[] = {{"5", "channels", false}, {"3", "light", false}, {"6", "channels", true}};

/* Lets call 1, 2, ... fail until the job makes no more calls. */
static void every_call(struct driven *driven, const struct fault_variant *variant)
{
    const char *const argv[] = {MUSTER_TEST_JOB, variant->api, NULL};
    struct fault_plan *plan = driven->plan;
    unsigned clean = 0;
    char what[96];

    driven->traced = variant->traced;
    driven->timing = variant->timing;
    /* Threads take turns differently each time, so that one run more than the last failure is not
     * the end. */
    for (plan->at = 1; clean < 3; plan->at++) {
        driven_run(driven, argv);
        snprintf(what, sizeof(what), "v%s, call %llu, errno %d%s", variant->api,
                 (unsigned long long)plan->at, plan->error, plan->onwards ? " and on" : "");
        driven_evaluate_job(driven, what);
        if (driven_lines(driven) > MAX_LINES)
            fail_msg("%s (%s) made a din: %s", what, plan->call, driven->err);
        clean = driven_failed(driven) ? 0 : clean + 1;
        assert_true(plan->at < ENDLESS);
    }
    print_message("v%s%s: %llu calls failed in turn%s\n", variant->api,
                  variant->traced ? " with a trace" : "", (unsigned long long)plan->at - 4,
                  plan->onwards ? ", with all later ones" : "");
    plan->at = 0;
}

static void plan_for(struct driven *driven, int family, int error)
{
    driven->plan->family = family;
    driven->plan->error = error;
    driven->plan->onwards = driven->plan->cut = false;
    driven->plan->at = 0;
}

static void without_failures_everything_is_recorded(void **state)
{
    struct driven *driven = *state;

    plan_for(driven, FAULT_MEMORY, ENOMEM);
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        const char *const argv[] = {MUSTER_TEST_JOB, variants[i].api, NULL};
        driven->traced = variants[i].traced;
        driven->timing = variants[i].timing;
        driven_run(driven, argv);
        assert_int_equal(driven->status, 0);
        assert_true(atomic_load(&driven->plan->seen) > 5);
    }
}

static void every_allocation_may_fail(void **state)
{
    struct driven *driven = *state;

    plan_for(driven, FAULT_MEMORY, ENOMEM);
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
        every_call(driven, &variants[i]);
    driven->plan->onwards = true;
    every_call(driven, &variants[0]);
}

static void expect_file_failures(struct driven *driven, int error)
{
    plan_for(driven, FAULT_FILES, error);
    every_call(driven, &variants[0]);
}

static void the_disk_may_be_full_at_every_file_operation(void **state)
{
    struct driven *driven = *state;

    expect_file_failures(driven, ENOSPC);
    driven->plan->onwards = true;
    every_call(driven, &variants[0]);
}

static void every_file_operation_may_be_forbidden(void **state)
{
    expect_file_failures(*state, EACCES);
}

static void every_file_operation_may_fail(void **state)
{
    struct driven *driven = *state;

    expect_file_failures(driven, EIO);
    every_call(driven, &variants[1]);
    every_call(driven, &variants[2]);
}

static void every_file_operation_may_be_interrupted(void **state)
{
    expect_file_failures(*state, EINTR);
}

static void reads_and_writes_may_be_short(void **state)
{
    struct driven *driven = *state;

    plan_for(driven, FAULT_FILES, EIO);
    driven->plan->cut = true;
    every_call(driven, &variants[0]);
    driven->plan->onwards = true;
    every_call(driven, &variants[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, driven_setup, driven_teardown)

int main(int argc, char **argv)
{
    driven_filter(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(without_failures_everything_is_recorded),
        TEST(every_allocation_may_fail),
        TEST(the_disk_may_be_full_at_every_file_operation),
        TEST(every_file_operation_may_be_forbidden),
        TEST(every_file_operation_may_fail),
        TEST(every_file_operation_may_be_interrupted),
        TEST(reads_and_writes_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
