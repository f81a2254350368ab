/* What a plugin is called for which NCCL, and which NCCL the names of files tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/nccl_files.h"
#include "launch/plugin_form.h"
#include "launch/scratch.h"

static char folder[512];

static void each_version_is_told_what_it_takes(void **state)
{
    static const struct {
        uint32_t version;
        size_t length;
        bool path;
    } cases[] = {
        {0, 40, false},     /* not known */
        {21900, 40, false}, /* no profilers */
        {22304, 40, true},   {22506, 300, true}, {22602, 254, true},
        {22602, 255, false}, {22606, 40, true},  {22703, 40, false}, /* #1732 */
        {22705, 40, true},   {22707, 40, true},  {22809, 254, true},
        {22809, 255, false}, {23007, 40, true},  {23102, 40, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (muster_plugin_by_path(cases[i].version, cases[i].length) != cases[i].path)
            fail_msg("%u, %zu bytes", cases[i].version, cases[i].length);
}

/* An empty file below the scratch folder, with the folders that lead to it. */
static const char *make(const char *below)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, below);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0755);
        *at = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
    return path;
}

static void names_of_files_tell_the_version(void **state)
{
    char wheel[1024], link[1024];
    (void)state;
    assert_int_equal(muster_nccl_version_by_name(make("sys/libnccl.so.2.27.3")), 22703);
    snprintf(link, sizeof link, "%s/sys/libnccl.so.2", folder);
    assert_int_equal(symlink("libnccl.so.2.27.3", link), 0);
    assert_int_equal(muster_nccl_version_by_name(link), 22703);
    snprintf(wheel, sizeof wheel, "%s", make("site/nvidia/nccl/lib/libnccl.so.2"));
    assert_int_equal(muster_nccl_version_by_name(wheel), 0);
    make("site/nvidia_nccl_cu12-2.28.9.dist-info/METADATA");
    assert_int_equal(muster_nccl_version_by_name(wheel), 22809);
    make("site/nvidia_nccl_cu13-2.27.3.dist-info/METADATA"); /* which one lies there? */
    assert_int_equal(muster_nccl_version_by_name(wheel), 0);
    assert_int_equal(muster_nccl_version_by_name("/nowhere/libnccl.so.2.27.3"), 0);
    assert_int_equal(muster_nccl_version_by_name(make("other/libnccl.so.x")), 0);
}

static void one_that_takes_no_path_decides_for_all(void **state)
{
    static const char plugin[] = "/opt/muster/lib/muster/libnccl-profiler-muster.so";
    char path[2048];
    (void)state;
    struct muster_plugin_question question = {.length = sizeof plugin};
    muster_plugin_ask(&question, make("new/libnccl.so.2.28.9"));
    assert_true(question.asked == 1 && question.take == 1);
    muster_plugin_ask(&question, make("old/libnccl.so.2.27.3"));
    assert_true(question.asked == 2 && question.take == 1);
    snprintf(path, sizeof path, "%s/new:%s/old", folder, folder);
    setenv("LD_LIBRARY_PATH", path, 1);
    assert_string_equal(muster_plugin_word(plugin), "libnccl-profiler-muster.so");
    assert_string_equal(muster_plugin_word("bare.so"), "bare.so");
}

static int begin(void **state)
{
    struct muster_err err;
    (void)state;
    return muster_scratch_make(folder, sizeof folder, "/tmp", &err);
}

static int end(void **state)
{
    (void)state;
    muster_scratch_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_version_is_told_what_it_takes),
        cmocka_unit_test(names_of_files_tell_the_version),
        cmocka_unit_test(one_that_takes_no_path_decides_for_all),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
