#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/settings.h"
#include "config/settings_table.h"

static void expect_defaults(const struct muster_settings *settings)
{
    assert_false(settings->off);
    assert_string_equal(settings->dir, "");
    assert_string_equal(settings->segment_dir, "/dev/shm");
    assert_int_equal(settings->timing, MUSTER_TIMING_AUTO);
    assert_true(settings->mark);
    assert_int_equal(settings->log_max, 256ull << 20);
    assert_string_equal(settings->trace, "");
    assert_int_equal(settings->log_level, MUSTER_LOG_WARN);
}

static void defaults(void **state)
{
    (void)state;
    struct muster_settings settings;
    memset(&settings, 0xff, sizeof(settings));
    muster_settings_default(&settings);
    expect_defaults(&settings);
}

static void every_key_is_read(void **state)
{
    (void)state;
    static const char yaml[] =
        "capture:\n  off: yes\n  dir: /runs/a b\n  segment_dir: '/tmp'\n"
        "  timing: light\n  mark: 0\n  gpus: 0\n  log_max: 1GiB\n  trace: \"t\"\n"
        "  log_level: debug\nmuster: 1\n";
    struct muster_settings settings;
    struct muster_err err;
    assert_int_equal(muster_settings_parse(&settings, "f", yaml, sizeof(yaml) - 1, &err), 0);
    assert_true(settings.off);
    assert_string_equal(settings.dir, "/runs/a b");
    assert_string_equal(settings.segment_dir, "/tmp");
    assert_int_equal(settings.timing, MUSTER_TIMING_LIGHT);
    assert_false(settings.mark);
    assert_false(settings.gpus);
    assert_int_equal(settings.log_max, 1ull << 30);
    assert_string_equal(settings.trace, "t");
    assert_int_equal(settings.log_level, MUSTER_LOG_DEBUG);
}

static void an_empty_section_changes_nothing(void **state)
{
    (void)state;
    struct muster_settings settings;
    assert_int_equal(muster_settings_parse(&settings, "f", "muster: 1\ncapture:\n", 19, NULL), 0);
    expect_defaults(&settings);
}

static void expect_error(const char *yaml, const char *expected)
{
    struct muster_settings settings;
    struct muster_err err;
    assert_int_equal(muster_settings_parse(&settings, "c.yaml", yaml, strlen(yaml), &err), -1);
    assert_string_equal(err.text, expected);
    expect_defaults(&settings);
}

static void unknown_keys_name_the_nearest(void **state)
{
    (void)state;
    expect_error("muster: 1\ncapture:\n  mark: 0\n  timng: full\n",
                 "c.yaml:4:3: unknown key 'capture.timng', did you mean 'capture.timing'?");
    expect_error("muster: 1\ntiming: full\n",
                 "c.yaml:2:1: unknown key 'timing', did you mean 'capture.timing'?");
    expect_error("muster: 1\ncapture.timing: full\n",
                 "c.yaml:2:1: unknown key 'capture.timing', write 'timing:' inside 'capture:'");
    expect_error("muster: 1\ncaptrue: {}\n",
                 "c.yaml:2:1: unknown key 'captrue', did you mean 'capture'?");
    expect_error("muster: 1\nbananas: 1\n", "c.yaml:2:1: unknown key 'bananas'");
}

static void bad_values_say_what_was_expected(void **state)
{
    (void)state;
    expect_error(
        "muster: 1\ncapture: {timing: fast}\n",
        "c.yaml:2:19: capture.timing: expected auto, full, light or channels, found 'fast'");
    expect_error("muster: 1\ncapture: {log_level: wran}\n",
                 "c.yaml:2:22: capture.log_level: expected error, warn, info or debug, found "
                 "'wran', did you mean 'warn'?");
    expect_error("muster: 1\ncapture: {mark: 2}\n",
                 "c.yaml:2:17: capture.mark: expected 0 or 1, found '2'");
    expect_error("muster: 1\ncapture: {log_max: 1KiB}\n",
                 "c.yaml:2:20: capture.log_max: expected a size from 64 KiB to 1 PiB, found "
                 "'1KiB'");
    expect_error("muster: 1\ncapture:\n  dir:\n",
                 "c.yaml:3:7: capture.dir: expected a path of at most 1023 bytes without control "
                 "characters, found no value");
    expect_error("muster: 1\ncapture: {dir: [a]}\n",
                 "c.yaml:2:16: capture.dir: expected a path of at most 1023 bytes without control "
                 "characters, found a list");
    expect_error("muster: 1\ncapture: {dir: \"a\\nb\"}\n",
                 "c.yaml:2:16: capture.dir: expected a path of at most 1023 bytes without control "
                 "characters, found 'a?b'");
    expect_error("muster: 1\ncapture: {off: {a: 1}}\n",
                 "c.yaml:2:16: capture.off: expected 0 or 1, found a mapping");
    expect_error("muster: 1\ncapture: [timing]\n",
                 "c.yaml:2:10: capture: expected keys and values");
}

static void a_file_says_which_format_it_is(void **state)
{
    (void)state;
    expect_error("", "c.yaml:1:1: expected 'muster: 1', the version of this format");
    expect_error("- muster\n", "c.yaml:1:1: expected 'muster: 1', the version of this format");
    expect_error("capture: {}\n", "c.yaml:1:1: expected 'muster: 1', the version of this format");
    expect_error("muster: 2\n", "c.yaml:1:9: muster: expected 1, found '2'");
    expect_error("muster:\n", "c.yaml:1:8: muster: expected 1, found no value");
}

static void actions_replace_the_defaults_of_their_finding(void **state)
{
    (void)state;
    static const char yaml[] = "muster: 1\ndiagnose: {hang_seconds: 3}\non:\n"
                               "  hang_dead: [log, abort]\n"
                               "  late_rank: report\n"
                               "  hang_stuck:\n  - exec: [notify, --job, a b]\n"
                               "  hang_order: []\n";
    struct muster_settings settings;
    struct muster_err err;
    const char *argv[MUSTER_ACTION_ARGS + 1];
    assert_int_equal(muster_settings_parse(&settings, "c.yaml", yaml, strlen(yaml), &err), 0);
    assert_int_equal(settings.hang_seconds, 3);
    const struct muster_actions *dead = &settings.on[MUSTER_FINDING_HANG_DEAD],
                                *late = &settings.on[MUSTER_FINDING_LATE_RANK];
    const struct muster_actions *stuck = &settings.on[MUSTER_FINDING_HANG_STUCK],
                                *order = &settings.on[MUSTER_FINDING_HANG_ORDER],
                                *absent = &settings.on[MUSTER_FINDING_HANG_ABSENT],
                                *transfer = &settings.on[MUSTER_FINDING_SLOW_TRANSFER];
    assert_true(dead->log && dead->abort && !dead->report && dead->args == 0);
    assert_true(late->report && !late->log && !late->abort);
    assert_true(!order->log && !order->report);
    assert_true(absent->log && absent->report && !absent->abort);
    assert_true(transfer->log && transfer->report);
    assert_true(!settings.on[MUSTER_FINDING_PATH_MISSING].log);
    assert_true(!settings.on[MUSTER_FINDING_PATH_DEGRADED].log);
    muster_action_argv(stuck, argv);
    assert_string_equal(argv[0], "notify");
    assert_string_equal(argv[2], "a b");
    assert_null(argv[3]);
}

static void late_ranks_are_told_by_default(void **state)
{
    (void)state;
    struct muster_actions on[MUSTER_FINDING_KINDS];
    muster_actions_default(on);
    const struct muster_actions *late = &on[MUSTER_FINDING_LATE_RANK];
    assert_true(late->log && late->report && !late->abort);
}

static void what_is_done_about_a_late_rank_is_done_about_a_late_host(void **state)
{
    (void)state;
    static const char *const yaml[] = {
        "muster: 1\non:\n  late_rank: [report]\n",
        "muster: 1\non:\n  late_rank: [report]\n  late_host: [log]\n",
        "muster: 1\non:\n  late_host: [log]\n  late_rank: [report]\n",
    };
    for (unsigned i = 0; i < sizeof yaml / sizeof *yaml; i++) {
        struct muster_settings settings;
        struct muster_err err;
        assert_int_equal(muster_settings_parse(&settings, "c.yaml", yaml[i], strlen(yaml[i]), &err),
                         0);
        const struct muster_actions *host = &settings.on[MUSTER_FINDING_LATE_HOST];
        assert_int_equal(host->report, i == 0);
        assert_int_equal(host->log, i > 0);
        assert_true(settings.on[MUSTER_FINDING_LATE_RANK].report);
        assert_false(settings.on[MUSTER_FINDING_LATE_RANK].log);
    }
}

static void wrong_actions_are_refused(void **state)
{
    (void)state;
    expect_error("muster: 1\non: {hang_ded: log}\n",
                 "c.yaml:2:6: on: unknown finding 'hang_ded', did you mean 'hang_dead'?");
    expect_error("muster: 1\non: {hang_dead: shout}\n",
                 "c.yaml:2:17: on.hang_dead: expected log, report, abort or exec: [COMMAND...], "
                 "found 'shout'");
    expect_error("muster: 1\non: {hang_stuck: abort}\n",
                 "c.yaml:2:18: on.hang_stuck: abort is for hang_absent, hang_dead and "
                 "hang_mismatch only");
    expect_error("muster: 1\non: {hang_dead: [{exec: notify}]}\n",
                 "c.yaml:2:25: on.hang_dead: expected exec: [COMMAND, ARGUMENT...]");
    expect_error("muster: 1\non: [log]\n", "c.yaml:2:5: on: expected findings and actions");
    expect_error("muster: 1\ndiagnose: {hang_second: 3}\n",
                 "c.yaml:2:12: unknown key 'diagnose.hang_second', did you mean "
                 "'diagnose.hang_seconds'?");
}

static void a_path_that_does_not_fit_is_refused_whole(void **state)
{
    (void)state;
    char yaml[1200];
    struct muster_settings settings;
    struct muster_err err;
    for (int length = 1023; length <= 1024; length++) {
        int n = snprintf(yaml, sizeof(yaml), "muster: 1\ncapture: {dir: /%0*d}\n", length - 1, 7);
        int failed = muster_settings_parse(&settings, "f", yaml, (size_t)n, &err);
        assert_int_equal(failed, length == 1023 ? 0 : -1);
        assert_int_equal(strlen(settings.dir), failed ? 0 : 1023);
    }
}

static void variables_follow_from_their_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < muster_settings_count; i++) {
        const struct muster_setting *setting = &muster_settings_table[i];
        char name[80] = "MUSTER_";
        size_t n = strlen(name);
        for (const char *c = setting->key; *c; c++)
            name[n++] = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
        assert_string_equal(setting->variable, name);
    }
}

static void help_tells_all(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    muster_settings_help(out);
    fclose(out);
    for (size_t i = 0; i < muster_settings_count; i++) {
        assert_non_null(strstr(text, muster_settings_table[i].key));
        assert_non_null(strstr(text, muster_settings_table[i].short_variable));
        assert_non_null(strstr(text, muster_settings_table[i].help));
    }
    assert_non_null(strstr(text, "auto, full, light or channels"));
    assert_non_null(strstr(muster_settings_more, "MUSTER_CONFIG"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_in_range(strlen(line), 1, 140);
    free(text);
}

/* The shipped file, as it is and with every key's '#' removed, gives the defaults. */
static void the_shipped_file_states_the_defaults(void **state)
{
    (void)state;
    char yaml[8192], active[8192];
    struct muster_settings settings;
    struct muster_err err;
    FILE *in = fopen(DEFAULT_YAML, "r");
    assert_non_null(in);
    size_t bytes = fread(yaml, 1, sizeof(yaml), in);
    fclose(in);
    assert_in_range(bytes, 1, sizeof(yaml) - 1);
    assert_int_equal(muster_settings_parse(&settings, "f", yaml, bytes, &err), 0);
    expect_defaults(&settings);

    size_t n = 0, keys = 0;
    for (size_t i = 0; i < bytes; i++)
        if (yaml[i] == '#' && islower((unsigned char)yaml[i + 1]))
            keys++;
        else
            active[n++] = yaml[i];
    assert_int_equal(keys, muster_settings_count);
    assert_int_equal(muster_settings_parse(&settings, "f", active, n, &err), 0);
    expect_defaults(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(an_empty_section_changes_nothing),
        cmocka_unit_test(unknown_keys_name_the_nearest),
        cmocka_unit_test(bad_values_say_what_was_expected),
        cmocka_unit_test(a_file_says_which_format_it_is),
        cmocka_unit_test(actions_replace_the_defaults_of_their_finding),
        cmocka_unit_test(late_ranks_are_told_by_default),
        cmocka_unit_test(what_is_done_about_a_late_rank_is_done_about_a_late_host),
        cmocka_unit_test(wrong_actions_are_refused),
        cmocka_unit_test(a_path_that_does_not_fit_is_refused_whole),
        cmocka_unit_test(variables_follow_from_their_keys),
        cmocka_unit_test(help_tells_all),
        cmocka_unit_test(the_shipped_file_states_the_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
