#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/settings.h"

static char dir[] = "/tmp/muster-config-XXXXXX";
static char file[64];
static struct muster_settings settings;
static struct muster_err err;

static void write_file(const char *text, size_t bytes)
{
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
    setenv("MUSTER_CONFIG", file, 1);
}

static void write_yaml(const char *text)
{
    write_file(text, strlen(text));
}

static int clean_environment(void **state)
{
    (void)state;
    clearenv();
    unlink(file);
    return 0;
}

static void expect_error(const char *expected)
{
    assert_int_equal(muster_settings_load(&settings, &err), -1);
    if (!strstr(err.text, expected))
        fail_msg("expected '%s' in '%s'", expected, err.text);
    struct muster_settings untouched;
    muster_settings_default(&untouched);
    assert_int_equal(settings.log_max, untouched.log_max);
}

static void nothing_set_gives_the_defaults(void **state)
{
    (void)state;
    setenv("MUSTERING", "1", 1);
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_int_equal(settings.timing, MUSTER_TIMING_AUTO);
    assert_string_equal(settings.segment_dir, "/dev/shm");
}

static void short_wins_over_long_wins_over_file(void **state)
{
    (void)state;
    write_yaml("muster: 1\ncapture: {timing: full, log_max: 1MiB, dir: from-file}\n");
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_int_equal(settings.timing, MUSTER_TIMING_FULL);
    assert_string_equal(settings.dir, "from-file");
    setenv("MUSTER_CAPTURE_TIMING", "light", 1);
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_int_equal(settings.timing, MUSTER_TIMING_LIGHT);
    assert_int_equal(settings.log_max, 1 << 20);
    setenv("MUSTER_TIMING", "auto", 1);
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_int_equal(settings.timing, MUSTER_TIMING_AUTO);
}

static void empty_variables_count_as_not_set(void **state)
{
    (void)state;
    write_yaml("muster: 1\ncapture: {timing: full}\n");
    setenv("MUSTER_TIMING", "", 1);
    setenv("MUSTER_TYPO", "", 1);
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_int_equal(settings.timing, MUSTER_TIMING_FULL);
    setenv("MUSTER_CONFIG", "", 1);
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_int_equal(settings.timing, MUSTER_TIMING_AUTO);
}

static void unknown_variables_name_the_nearest(void **state)
{
    (void)state;
    setenv("MUSTER_TIMNG", "full", 1);
    expect_error("MUSTER_TIMNG: unknown variable, did you mean MUSTER_TIMING?");
    clearenv();
    setenv("MUSTER_X", "1", 1);
    expect_error("MUSTER_X: unknown variable; 'muster help config' lists the known ones");
    clearenv();
    setenv("MUSTER_", "1", 1);
    expect_error("MUSTER_: unknown variable");
}

static void the_hang_threshold_is_a_whole_number_of_seconds(void **state)
{
    (void)state;
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_int_equal(settings.hang_seconds, 10);
    setenv("MUSTER_DIAGNOSE_HANG_SECONDS", "20", 1);
    setenv("MUSTER_HANG_SECONDS", "3", 1);
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_int_equal(settings.hang_seconds, 3);
    setenv("MUSTER_HANG_SECONDS", "2.5", 1);
    expect_error("MUSTER_HANG_SECONDS: expected a whole number from 1 to 1000000, found '2.5'");
    setenv("MUSTER_HANG_SECONDS", "0", 1);
    expect_error("MUSTER_HANG_SECONDS: expected a whole number from 1 to 1000000, found '0'");
}

static void what_the_command_sets_is_accepted(void **state)
{
    (void)state;
    static const char *const known[] = {
        "MUSTER_REPLAY",        "MUSTER_RUN_ID",        "MUSTER_SYSFS",   "MUSTER_PROCFS",
        "MUSTER_POLICY_INLINE", "MUSTER_POLICY_SHA256", "MUSTER_LOAD_ANY"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        setenv(known[i], "x", 1);
    assert_int_equal(muster_settings_load(&settings, &err), 0);
}

static void a_misspelt_policy_variable_gets_a_hint(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_SHA", "x", 1);
    expect_error("MUSTER_POLICY_SHA: unknown variable, did you mean MUSTER_POLICY_SHA256?");
}

static void bad_values_name_their_variable(void **state)
{
    (void)state;
    setenv("MUSTER_DIR", "/runs", 1);
    setenv("MUSTER_TIMING", "ful", 1);
    expect_error(
        "MUSTER_TIMING: expected auto, full, light or channels, found 'ful', did you mean 'full'?");
    setenv("MUSTER_TIMING", "full", 1);
    setenv("MUSTER_CAPTURE_TIMING", "x", 1);
    expect_error("MUSTER_CAPTURE_TIMING: expected auto, full, light or channels, found 'x'");
    unsetenv("MUSTER_CAPTURE_TIMING");
    setenv("MUSTER_LOG_MAX", "-1", 1);
    expect_error("MUSTER_LOG_MAX: expected a size from 64 KiB to 1 PiB, found '-1'");
}

static void what_is_right_holds(void **state)
{
    (void)state;
    setenv("MUSTER_DIR", "/runs", 1);
    setenv("MUSTER_TIMIN", "full", 1);
    setenv("MUSTER_HANG_SECONDS", "soon", 1);
    setenv("MUSTER_MARK", "0", 1);
    assert_int_equal(muster_settings_load(&settings, &err), -1);
    assert_non_null(
        strstr(err.text, "MUSTER_TIMIN: unknown variable, did you mean MUSTER_TIMING?"));
    assert_non_null(strstr(err.text, "; MUSTER_HANG_SECONDS: "));
    assert_non_null(strstr(err.text, "the other settings hold"));
    assert_string_equal(settings.dir, "/runs");
    assert_false(settings.mark);
    assert_false(settings.off);
}

/* Recorded somewhere else, or steered otherwise, would be worse than not at all. */
static void what_may_be_a_directory_or_policy_turns_off(void **state)
{
    static const char *const names[] = {"MUSTER_DIRR", "MUSTER_POLICY", "MUSTER_SEGMENT_DIRS"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        clearenv();
        setenv(names[i], "/runs", 1);
        assert_int_equal(muster_settings_load(&settings, &err), -1);
        assert_true(settings.off);
        assert_non_null(strstr(err.text, "nothing is recorded"));
    }
}

static void off_needs_nothing_else_to_be_right(void **state)
{
    (void)state;
    setenv("MUSTER_OFF", "1", 1);
    setenv("MUSTER_TYPO", "1", 1);
    setenv("MUSTER_CONFIG", "/nowhere", 1);
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_true(settings.off);
    clearenv();
    setenv("MUSTER_CAPTURE_OFF", "1", 1);
    setenv("MUSTER_OFF", "0", 1);
    assert_int_equal(muster_settings_load(&settings, &err), 0);
    assert_false(settings.off);
    setenv("MUSTER_OFF", "2", 1);
    expect_error("MUSTER_OFF: expected 0 or 1, found '2'");
    assert_true(settings.off); /* the other one holds */
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    setenv("MUSTER_CONFIG", file, 1);
    expect_error("No such file");
    setenv("MUSTER_CONFIG", dir, 1);
    expect_error("not a regular file");
    setenv("MUSTER_CONFIG", "/dev/zero", 1);
    expect_error("not a regular file");
    assert_int_equal(mkfifo(file, 0600), 0);
    setenv("MUSTER_CONFIG", file, 1);
    expect_error("not a regular file");
}

static void an_error_in_the_file_leaves_no_half_configuration(void **state)
{
    (void)state;
    write_yaml("muster: 1\ncapture:\n  timing: full\n  dir: /runs\n  timng: 1\n");
    expect_error("settings.yaml:5:3: unknown key 'capture.timng', did you mean 'capture.timing'?");
}

static void a_file_that_is_too_large_is_refused(void **state)
{
    (void)state;
    size_t bytes = (1 << 20) + 5;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, '\n', bytes);
    write_file(text, bytes);
    free(text);
    expect_error("larger than 1 MiB");
}

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(file, sizeof(file), "%s/settings.yaml", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_set_gives_the_defaults, clean_environment),
        cmocka_unit_test_setup(short_wins_over_long_wins_over_file, clean_environment),
        cmocka_unit_test_setup(empty_variables_count_as_not_set, clean_environment),
        cmocka_unit_test_setup(unknown_variables_name_the_nearest, clean_environment),
        cmocka_unit_test_setup(the_hang_threshold_is_a_whole_number_of_seconds, clean_environment),
        cmocka_unit_test_setup(what_the_command_sets_is_accepted, clean_environment),
        cmocka_unit_test_setup(a_misspelt_policy_variable_gets_a_hint, clean_environment),
        cmocka_unit_test_setup(bad_values_name_their_variable, clean_environment),
        cmocka_unit_test_setup(off_needs_nothing_else_to_be_right, clean_environment),
        cmocka_unit_test_setup(what_is_right_holds, clean_environment),
        cmocka_unit_test_setup(what_may_be_a_directory_or_policy_turns_off, clean_environment),
        cmocka_unit_test_setup(files_that_cannot_be_read, clean_environment),
        cmocka_unit_test_setup(an_error_in_the_file_leaves_no_half_configuration,
                               clean_environment),
        cmocka_unit_test_setup(a_file_that_is_too_large_is_refused, clean_environment),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
