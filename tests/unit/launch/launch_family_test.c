#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/host.h"
#include "launch/child.h"
#include "launch/family.h"
#include "segment/segment_file.h"

static char folder[64], shm[64], run_dir[128];

static int make_folders(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/muster-family-XXXXXX");
    strcpy(shm, "/dev/shm/muster-family-XXXXXX");
    if (!mkdtemp(folder) || !mkdtemp(shm))
        return -1;
    snprintf(run_dir, sizeof run_dir, "%s/run", folder);
    muster_family_adopt();
    return mkdir(run_dir, 0700) || setenv("AT", folder, 1) || setenv("MUSTER_SEGMENT_DIR", shm, 1);
}

static int remove_folders(void **state)
{
    char command[256];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s %s", folder, shm);
    return system(command); /* NOLINT(cert-env33-c): names of this test's own */
}

static void run(const char *script)
{
    pid_t pid;
    const struct muster_child child = {.argv = (const char *const[]){"sh", "-c", script, NULL},
                                       .group = true};
    assert_int_equal(muster_child_start(&child, &pid, NULL), 0);
    muster_child_reap(pid, NULL);
}

static pid_t pid_in(const char *name)
{
    char path[128], text[32] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_non_null(fgets(text, sizeof text, in));
    fclose(in);
    assert_true(atoi(text) > 1);
    return (pid_t)atoi(text);
}

static void expect_gone(pid_t pid)
{
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void what_has_a_session_of_its_own_is_ended(void **state)
{
    (void)state;
    run("setsid sh -c 'echo $$ > $AT/worker.part; mv $AT/worker.part $AT/worker; exec sleep "
        "100000' & "
        "while ! [ -e $AT/worker ]; do sleep 0.01; done");
    muster_family_end(run_dir, 60000);
    expect_gone(pid_in("worker"));
}

static void what_ignores_that_it_should_end_is_killed_with_its_children(void **state)
{
    (void)state;
    run("setsid sh -c 'trap \"\" TERM; sleep 100000 & echo $! > $AT/child; echo $$ > "
        "$AT/worker.part; "
        "mv $AT/worker.part $AT/worker; wait; sleep 100000' & "
        "while ! [ -e $AT/worker ]; do sleep 0.01; done");
    muster_family_end(run_dir, 100);
    expect_gone(pid_in("worker"));
    expect_gone(pid_in("child"));
}

/* What records into the run, but was started by somebody else: here, the parent of the one that
 * looks. */
static void record_until_killed(int reported)
{
    struct muster_seg_identity identity = {.pid = (uint32_t)getpid(),
                                           .uid = (uint32_t)geteuid(),
                                           .start_ticks = muster_process_start_ticks(0),
                                           .rank = -1,
                                           .world = -1,
                                           .local_rank = -1};
    struct muster_segment_file file;
    snprintf(identity.run_dir, sizeof identity.run_dir, "%s", run_dir);
    snprintf(identity.file_stem, sizeof identity.file_stem, "host-%d", (int)getpid());
    snprintf(identity.host, sizeof identity.host, "host");
    if (muster_segment_create(&file, shm, &identity, NULL) != MUSTER_SEGMENT_OK ||
        write(reported, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static int look_from_aside(void *arg)
{
    (void)arg;
    muster_family_adopt();
    muster_family_end(run_dir, 60000);
    return 0;
}

static unsigned entries(const char *path)
{
    DIR *folder_entries = opendir(path);
    unsigned n = 0;
    assert_non_null(folder_entries);
    for (const struct dirent *entry; (entry = readdir(folder_entries));)
        n += entry->d_name[0] != '.';
    closedir(folder_entries);
    return n;
}

static void what_records_into_the_run_is_ended_and_leaves_no_segment(void **state)
{
    int reported[2], status;
    char byte;
    (void)state;
    assert_int_equal(pipe(reported), 0);
    pid_t recorded = fork();
    if (recorded == 0)
        record_until_killed(reported[1]);
    assert_int_equal(read(reported[0], &byte, 1), 1);
    assert_int_equal(entries(shm), 2);
    pid_t aside;
    assert_int_equal(
        muster_child_start(&(struct muster_child){.work = look_from_aside}, &aside, NULL), 0);
    /* It is this process's child, so that only this one can take leave of it: the other one sees
     * its lock go. */
    assert_int_equal(waitpid(recorded, &status, 0), recorded);
    assert_true(WIFSIGNALED(status));
    muster_child_reap(aside, &status);
    assert_int_equal(status, 0);
    assert_int_equal(entries(shm), 0);
    assert_int_equal(entries(run_dir), 1);
    close(reported[0]);
    close(reported[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folders, remove_folders)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_has_a_session_of_its_own_is_ended),
        TEST(what_ignores_that_it_should_end_is_killed_with_its_children),
        TEST(what_records_into_the_run_is_ended_and_leaves_no_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
