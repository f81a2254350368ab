#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"

static void same_host_has_the_same_identity(void **state)
{
    (void)state;
    struct muster_host a, b;
    muster_host_read(&a, NULL);
    muster_host_read(&b, "");
    assert_string_equal(a.id, b.id);
    assert_int_equal(a.boot_hash, b.boot_hash);
    assert_int_not_equal(a.boot_hash, 0);
    assert_non_null(strstr(a.id, a.name));
}

static void a_given_identity_replaces_the_hostname(void **state)
{
    (void)state;
    struct muster_host host;
    muster_host_read(&host, "node-a");
    assert_string_equal(host.id, "node-a");
    assert_string_equal(host.stem, "node-a");
}

static void long_identities_that_differ_late_stay_apart(void **state)
{
    (void)state;
    char one[300], other[300];
    struct muster_host a, b;
    memset(one, 'x', sizeof(one));
    one[299] = '\0';
    memcpy(other, one, sizeof(one));
    other[298] = 'y';
    muster_host_read(&a, one);
    muster_host_read(&b, other);
    assert_string_not_equal(a.id, b.id);
    assert_in_range(strlen(a.stem), 1, sizeof(a.stem) - 1);
}

static void a_stem_is_fit_for_a_file_name(void **state)
{
    (void)state;
    struct muster_host host;
    muster_host_read(&host, "../etc/pass wd\n\xc3\xa4");
    assert_string_equal(host.stem, "_._etc_pass_wd___");
    muster_host_read(&host, "-rf");
    assert_string_equal(host.stem, "_rf");
}

static void a_command_name_cannot_forge_the_start_time(void **state)
{
    (void)state;
    assert_int_equal(
        muster_stat_start_ticks("7 (x) S 1 2 3) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 "
                                "17 18 4711 20\n"),
        4711);
    assert_int_equal(muster_stat_start_ticks("7 (cat) R 1 2"), 0);
    assert_int_equal(muster_stat_start_ticks("no parenthesis"), 0);
    assert_int_equal(muster_stat_start_ticks(""), 0);
}

static void start_ticks_tell_processes_apart(void **state)
{
    (void)state;
    assert_int_not_equal(muster_process_start_ticks(0), 0);
    assert_int_equal(muster_process_start_ticks(0), muster_process_start_ticks(getpid()));
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(muster_process_start_ticks(child), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_host_has_the_same_identity),
        cmocka_unit_test(a_given_identity_replaces_the_hostname),
        cmocka_unit_test(long_identities_that_differ_late_stay_apart),
        cmocka_unit_test(a_stem_is_fit_for_a_file_name),
        cmocka_unit_test(a_command_name_cannot_forge_the_start_time),
        cmocka_unit_test(start_ticks_tell_processes_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
