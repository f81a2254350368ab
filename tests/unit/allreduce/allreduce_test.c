/* The built-in all-reduce job on GPUs that are none (fake_gpu.c, found through LD_LIBRARY_PATH).
 * This program is also its ranks. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "allreduce/allreduce.h"
#include "allreduce/turns.h"

enum { DEADLINE_S = 60 };

static const char *const self[] = {NULL};

static struct muster_allreduce_plan small_plan(void)
{
    return (struct muster_allreduce_plan){
        .gpus = 3,
        .sizes = 2,
        .bytes = {8, 4096},
        .iters = 5,
        .warmup = 1,
        .rounds = 3,
        .late_rank = -1,
    };
}

static void assert_nobody_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static int heal(void **state)
{
    (void)state;
    unsetenv("FAKE_RANK");
    unsetenv("FAKE_FAULT");
    unsetenv("FAKE_GPUS");
    unsetenv("FAKE_HOSTS");
    unsetenv("FAKE_ALONE");
    return 0;
}

static void probe_counts_gpus_and_names_nccl(void **state)
{
    struct muster_allreduce_probe probe;
    struct muster_err err;
    (void)state;
    setenv("FAKE_GPUS", "3", 1);
    assert_int_equal(muster_allreduce_probe(NULL, DEADLINE_S, &probe, &err), 0);
    assert_int_equal(probe.gpus, 3);
    assert_int_equal(probe.nccl, 22809);
    assert_string_equal(probe.gpu, "fake 0");
    assert_nobody_left();
}

static void probe_says_which_nccl_is_missing(void **state)
{
    struct muster_allreduce_probe probe;
    struct muster_err err;
    (void)state;
    assert_int_equal(muster_allreduce_probe("/nowhere/libnccl.so.2", DEADLINE_S, &probe, &err), -1);
    assert_non_null(strstr(err.text, "/nowhere/libnccl.so.2"));
}

static void every_mode_returns_a_time_per_size(void **state)
{
    struct muster_allreduce_result result[2];
    struct muster_err err;
    (void)state;
    for (int mode = MUSTER_ALLREDUCE_LAUNCH; mode <= MUSTER_ALLREDUCE_STEP; mode++) {
        struct muster_allreduce_plan plan = small_plan();
        plan.mode = mode;
        plan.late_rank = 1;
        plan.late_gpu_us = 20;
        plan.late_host_us = 20;
        memset(&err, 0, sizeof err);
        assert_int_equal(muster_allreduce_run(&plan, self, DEADLINE_S, result, &err), 0);
        assert_string_equal(err.text, "");
        for (int i = 0; i < 2; i++) {
            assert_int_equal(result[i].bytes, plan.bytes[i]);
            assert_true(result[i].median_us > 0);
            assert_true(result[i].us[plan.rounds - 1] > 0);
            assert_true(result[i].us[plan.rounds] == 0);
        }
        assert_nobody_left();
    }
}

static void ranks_are_on_hosts_of_their_own_where_asked(void **state)
{
    struct muster_allreduce_plan plan = small_plan();
    struct muster_allreduce_result result[2];
    struct muster_err err;
    (void)state;
    setenv("FAKE_HOSTS", "1", 1);
    assert_int_equal(muster_allreduce_run(&plan, self, DEADLINE_S, result, &err), -1);
    assert_non_null(strstr(err.text, "ncclCommInitRank"));
    plan.hosts = 1;
    assert_int_equal(muster_allreduce_run(&plan, self, DEADLINE_S, result, &err), 0);
    assert_nobody_left();
}

static void make_file(char *pattern)
{
    const int fd = mkstemp(pattern);
    assert_true(fd >= 0);
    close(fd);
}

/* Two jobs, the second in a child: without turns both would use the GPUs at once. */
static void jobs_that_share_gpus_take_turns(void **state)
{
    struct muster_allreduce_plan plan = small_plan();
    struct muster_allreduce_result result[2];
    struct muster_err err;
    char turns[] = "/tmp/muster-turns-XXXXXX", who[] = "/tmp/muster-who-XXXXXX";
    int status = -1;
    (void)state;
    make_file(turns);
    make_file(who);
    plan.jobs = 2;
    snprintf(plan.turns, sizeof plan.turns, "%s", turns);
    setenv("FAKE_ALONE", who, 1);
    const pid_t child = fork();
    if (child == 0)
        _exit(muster_allreduce_run(&plan, self, DEADLINE_S, result, &err) ? 1 : 0);
    const int rc = muster_allreduce_run(&plan, self, DEADLINE_S, result, &err);
    assert_int_equal(waitpid(child, &status, 0), child);
    unlink(turns);
    unlink(who);
    if (rc)
        fail_msg("%s", err.text);
    assert_int_equal(status, 0);
    assert_true(result[1].us[plan.rounds - 1] > 0);
    assert_nobody_left();
}

/* One that has opened the file has no ranks yet: it still makes its communicator. */
static void no_job_works_before_all_have_asked_for_a_turn(void **state)
{
    char path[] = "/tmp/muster-turns-XXXXXX";
    struct muster_turns first, second;
    struct muster_err err;
    (void)state;
    make_file(path);
    assert_int_equal(muster_turns_open(&first, path, 2, &err), 0);
    assert_int_equal(muster_turns_open(&second, path, 2, &err), 0);
    assert_int_equal(muster_turns_ask(&first, &err), 0);
    assert_int_equal(muster_turns_ask(&first, &err), 0); /* its own byte counts once */
    assert_false(muster_turns_begin(&first, 1));
    assert_int_equal(muster_turns_ask(&second, &err), 0);
    assert_true(muster_turns_begin(&first, 1));
    assert_false(muster_turns_begin(&second, 1));
    muster_turns_end(&first, 1);
    assert_true(muster_turns_begin(&second, 1));
    muster_turns_close(&first);
    muster_turns_close(&second);
    unlink(path);
}

/* The job fails as a whole, says which rank and why, and leaves no process behind. */
static void assert_fails(const char *fault, unsigned deadline_s, const char *text)
{
    struct muster_allreduce_plan plan = small_plan();
    struct muster_allreduce_result result[2];
    struct muster_err err;
    setenv("FAKE_RANK", "1", 1);
    setenv("FAKE_FAULT", fault, 1);
    assert_int_equal(muster_allreduce_run(&plan, self, deadline_s, result, &err), -1);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    assert_nobody_left();
}

static void a_killed_rank_ends_the_job(void **state)
{
    (void)state;
    assert_fails("die", DEADLINE_S, "rank 1 was killed by signal 9 (Killed) before it was done");
}

static void a_rank_that_exits_ends_the_job(void **state)
{
    (void)state;
    assert_fails("exit", DEADLINE_S, "rank 1 exited with status 3 before it was done");
}

static void a_rank_that_dies_at_exit_fails_the_job(void **state)
{
    (void)state;
    assert_fails("late-exit", DEADLINE_S, "rank 1 exited with status 5 after it was done");
}

static void a_wrong_sum_is_found(void **state)
{
    (void)state;
    assert_fails("wrong", DEADLINE_S, "rank 1: wrong result: element 1 of 2 is 7, not 6");
}

static void an_nccl_error_is_passed_on(void **state)
{
    (void)state;
    assert_fails("error", DEADLINE_S, "rank 1: ncclAllReduce: NCCL error 5 (invalid usage)");
}

static void a_rank_that_hangs_meets_the_deadline(void **state)
{
    (void)state;
    assert_fails("hang", 1, "did not end in time");
}

static void impossible_plans_are_refused(void **state)
{
    struct muster_allreduce_result result[2];
    struct muster_err err;
    struct muster_allreduce_plan plan = small_plan();
    (void)state;
    plan.gpus = MUSTER_ALLREDUCE_GPUS + 1;
    assert_int_equal(muster_allreduce_run(&plan, self, 1, result, &err), -1);
    assert_non_null(strstr(err.text, "65 GPUs"));
    plan = small_plan();
    plan.sizes = 0;
    assert_int_equal(muster_allreduce_run(&plan, self, 1, result, &err), -1);
    assert_non_null(strstr(err.text, "0 sizes"));
    plan = small_plan();
    plan.rounds = MUSTER_ALLREDUCE_ROUNDS + 1;
    assert_int_equal(muster_allreduce_run(&plan, self, 1, result, &err), -1);
    assert_non_null(strstr(err.text, "257 rounds"));
    plan = small_plan();
    plan.iters = 0;
    assert_int_equal(muster_allreduce_run(&plan, self, 1, result, &err), -1);
    assert_non_null(strstr(err.text, "0 iterations"));
    plan = small_plan();
    plan.mode = MUSTER_ALLREDUCE_STEP;
    plan.jobs = 2;
    assert_int_equal(muster_allreduce_run(&plan, self, 1, result, &err), -1);
    assert_non_null(strstr(err.text, "take no turns"));
}

static void nobody_else_can_be_a_rank(void **state)
{
    (void)state;
    assert_int_equal(muster_allreduce_rank("x"), 2);
    assert_int_equal(muster_allreduce_rank("99999"), 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(probe_counts_gpus_and_names_nccl, heal),
        cmocka_unit_test_teardown(probe_says_which_nccl_is_missing, heal),
        cmocka_unit_test_teardown(every_mode_returns_a_time_per_size, heal),
        cmocka_unit_test_teardown(ranks_are_on_hosts_of_their_own_where_asked, heal),
        cmocka_unit_test(no_job_works_before_all_have_asked_for_a_turn),
        cmocka_unit_test_teardown(jobs_that_share_gpus_take_turns, heal),
        cmocka_unit_test_teardown(a_killed_rank_ends_the_job, heal),
        cmocka_unit_test_teardown(a_rank_that_exits_ends_the_job, heal),
        cmocka_unit_test_teardown(a_rank_that_dies_at_exit_fails_the_job, heal),
        cmocka_unit_test_teardown(a_wrong_sum_is_found, heal),
        cmocka_unit_test_teardown(an_nccl_error_is_passed_on, heal),
        cmocka_unit_test_teardown(a_rank_that_hangs_meets_the_deadline, heal),
        cmocka_unit_test(impossible_plans_are_refused),
        cmocka_unit_test(nobody_else_can_be_a_rank),
    };
    if (muster_allreduce_is_rank(argc, argv))
        return muster_allreduce_rank(argv[argc - 1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
