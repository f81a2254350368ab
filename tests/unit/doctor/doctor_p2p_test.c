/* The P2P test on GPUs that are none (fake_gpu.c and fake_p2p.c, found through LD_LIBRARY_PATH). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "doctor/p2p.h"

enum { GPUS = 3, WORDS = 1 << 12, LONG_MS = 3600000, SHORT_MS = 1000 };

static int heal(void **state)
{
    (void)state;
    unsetenv("FAKE_PAIR");
    unsetenv("FAKE_P2P");
    unsetenv("FAKE_INIT");
    setenv("FAKE_GPUS", "3", 1);
    return 0;
}

static void spoil(const char *pair, const char *how)
{
    setenv("FAKE_PAIR", pair, 1);
    setenv("FAKE_P2P", how, 1);
}

/* Only what hangs is waited for; everything else has an hour. */
static struct muster_p2p_matrix *test(unsigned stage_ms)
{
    static struct muster_p2p_matrix matrix;
    const struct muster_p2p_limits limits = {LONG_MS, stage_ms, WORDS};
    struct muster_err err = {""};
    assert_int_equal(muster_p2p_test(&limits, &matrix, &err), 0);
    assert_int_equal(matrix.gpus, GPUS);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    return &matrix;
}

static void assert_right(const struct muster_p2p_result *pair)
{
    assert_int_equal(pair->stage, MUSTER_P2P_DONE);
    assert_string_equal(pair->failed, "");
    assert_true(pair->kernel_tested && pair->copy_tested);
    assert_int_equal(pair->kernel_wrong, 0);
    assert_int_equal(pair->copy_wrong, 0);
    assert_true(pair->kernel_gbs > 0 && pair->copy_gbs > 0);
}

static void assert_others_right(const struct muster_p2p_matrix *matrix, int from, int to)
{
    for (int a = 0; a < GPUS; a++)
        for (int b = 0; b < GPUS; b++)
            if (a != b && !(a == from && b == to))
                assert_right(&matrix->pair[a][b]);
}

static void every_pair_of_good_gpus_is_right(void **state)
{
    const struct muster_p2p_matrix *matrix = test(LONG_MS);
    (void)state;
    assert_others_right(matrix, -1, -1);
    assert_int_equal(matrix->hung + matrix->untested, 0);
    assert_string_equal(matrix->pair[0][2].from_pci, "0000:10:00.0");
    assert_string_equal(matrix->pair[0][2].to_pci, "0000:12:00.0");
}

/* The writer would read back what it wrote: only the owner's look finds it. */
static void a_mirror_that_the_owner_never_sees_is_found(void **state)
{
    (void)state;
    spoil("1-0", "mirror");
    const struct muster_p2p_matrix *matrix = test(LONG_MS);
    assert_true(matrix->pair[1][0].kernel_wrong >= WORDS - 1);
    assert_int_equal(matrix->pair[1][0].words, WORDS);
    assert_int_equal(matrix->pair[1][0].copy_wrong, 0);
    assert_others_right(matrix, 1, 0);
}

static void one_wrong_word_in_one_direction_is_found(void **state)
{
    (void)state;
    spoil("0-2", "flip");
    const struct muster_p2p_matrix *matrix = test(LONG_MS);
    assert_int_equal(matrix->pair[0][2].kernel_wrong, 1);
    assert_int_equal(matrix->pair[0][2].copy_wrong, 0);
    assert_others_right(matrix, 0, 2);
}

static void a_copy_engine_that_loses_data_is_told_from_the_kernel(void **state)
{
    (void)state;
    spoil("2-1", "copy");
    const struct muster_p2p_matrix *matrix = test(LONG_MS);
    assert_int_equal(matrix->pair[2][1].kernel_wrong, 0);
    assert_int_equal(matrix->pair[2][1].copy_wrong, 1);
    assert_others_right(matrix, 2, 1);
}

static void a_pair_that_hangs_is_named_and_the_rest_is_tested(void **state)
{
    (void)state;
    spoil("0-1", "hang");
    const struct muster_p2p_matrix *matrix = test(SHORT_MS);
    assert_int_equal(matrix->pair[0][1].stage, MUSTER_P2P_KERNEL);
    assert_int_equal(matrix->hung, 1);
    assert_int_equal(matrix->untested, 0);
    assert_others_right(matrix, 0, 1);
}

static void a_copy_that_never_returns_keeps_the_kernels_result(void **state)
{
    (void)state;
    spoil("2-0", "hang-copy");
    const struct muster_p2p_matrix *matrix = test(SHORT_MS);
    assert_int_equal(matrix->pair[2][0].stage, MUSTER_P2P_COPY);
    assert_true(matrix->pair[2][0].kernel_tested);
    assert_false(matrix->pair[2][0].copy_tested);
    assert_others_right(matrix, 2, 0);
}

static void a_pair_that_crashes_is_named_and_the_rest_is_tested(void **state)
{
    (void)state;
    spoil("1-2", "crash");
    const struct muster_p2p_matrix *matrix = test(LONG_MS);
    assert_int_equal(matrix->pair[1][2].stage, MUSTER_P2P_KERNEL);
    assert_int_equal(matrix->hung, 1);
    assert_others_right(matrix, 1, 2);
}

static void a_call_that_fails_is_told_with_its_stage(void **state)
{
    (void)state;
    spoil("0-1", "refuse");
    const struct muster_p2p_matrix *matrix = test(LONG_MS);
    assert_int_equal(matrix->pair[0][1].failed_stage, MUSTER_P2P_COPY);
    assert_non_null(strstr(matrix->pair[0][1].failed, "719"));
    assert_others_right(matrix, 0, 1);
}

static void without_peer_access_only_the_copy_is_tested(void **state)
{
    (void)state;
    setenv("FAKE_P2P", "no-access", 1);
    const struct muster_p2p_matrix *matrix = test(LONG_MS);
    for (int a = 0; a < GPUS; a++)
        for (int b = 0; b < GPUS; b++) {
            const struct muster_p2p_result *pair = &matrix->pair[a][b];
            assert_true(a == b || (!pair->access && !pair->kernel_tested && pair->copy_tested));
        }
}

static void one_gpu_and_a_driver_that_does_not_start_are_said(void **state)
{
    const struct muster_p2p_limits limits = {LONG_MS, LONG_MS, WORDS};
    struct muster_p2p_matrix *matrix = calloc(1, sizeof *matrix);
    struct muster_err err;
    (void)state;
    assert_non_null(matrix);
    setenv("FAKE_GPUS", "1", 1);
    assert_int_equal(muster_p2p_test(&limits, matrix, &err), -1);
    assert_string_equal(err.text, "1 GPU: no pairs");
    assert_int_equal(matrix->gpus, 1);
    setenv("FAKE_INIT", "802", 1);
    assert_int_equal(muster_p2p_test(&limits, matrix, &err), -1);
    assert_non_null(strstr(err.text, "CUDA error 802"));
    assert_int_equal(matrix->gpus, 0);
    free(matrix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_pair_of_good_gpus_is_right, heal),
        cmocka_unit_test_setup(a_mirror_that_the_owner_never_sees_is_found, heal),
        cmocka_unit_test_setup(one_wrong_word_in_one_direction_is_found, heal),
        cmocka_unit_test_setup(a_copy_engine_that_loses_data_is_told_from_the_kernel, heal),
        cmocka_unit_test_setup(a_pair_that_hangs_is_named_and_the_rest_is_tested, heal),
        cmocka_unit_test_setup(a_copy_that_never_returns_keeps_the_kernels_result, heal),
        cmocka_unit_test_setup(a_pair_that_crashes_is_named_and_the_rest_is_tested, heal),
        cmocka_unit_test_setup(a_call_that_fails_is_told_with_its_stage, heal),
        cmocka_unit_test_setup(without_peer_access_only_the_copy_is_tested, heal),
        cmocka_unit_test_setup(one_gpu_and_a_driver_that_does_not_start_are_said, heal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
