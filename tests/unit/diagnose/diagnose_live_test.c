/* The live diagnosis of a process among others: what it tells, and when it ends its process. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/finding_kinds.h"
#include "base/text.h"
#include "live_testbed.h"
#include "segment/reap.h"

#define ABORT_ABSENT "muster: 1\non:\n  hang_absent: [abort, log]\n"
#define ABORT_DEAD   "muster: 1\non:\n  hang_dead: [abort]\n  hang_mismatch: [abort]\n"
#define EMIT_LATE    "muster: 1\non:\n  late_rank: [log]\n"

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

/* Whoever leads: each process ends itself, or none does. */
static void expect_goes_on(const char *config, int (*scenario)(struct testbed *))
{
    for (int follows = 0; follows <= 1; follows++) {
        struct testbed_end end =
            follows ? testbed_run_following(config, scenario) : testbed_run(config, scenario);
        if (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != 0 ||
            strstr(end.emitted, "aborting"))
            fail_msg("follows %d: status %x, said %s", follows, (unsigned)end.status, end.emitted);
    }
}

static void expect_aborts(const char *config, int (*scenario)(struct testbed *), const char *words)
{
    for (int follows = 0; follows <= 1; follows++) {
        struct testbed_end end =
            follows ? testbed_run_following(config, scenario) : testbed_run(config, scenario);
        if (!WIFSIGNALED(end.status) || WTERMSIG(end.status) != SIGABRT ||
            !strstr(end.emitted, words) || !strstr(end.emitted, "alive within the grace time"))
            fail_msg("follows %d: status %x, said %s", follows, (unsigned)end.status, end.emitted);
    }
}

/* ---- the file ---- */

static char planted[128], elsewhere[128];

/* Somebody else's file, one way or the other, under the name that findings will have. */
static int found_beside_a_planted_file(struct testbed *testbed)
{
    snprintf(planted, sizeof planted, "%s/node0-0.findings.jsonl", testbed->run);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", testbed->run);
    FILE *file = fopen(elsewhere, "w");
    if (!file || fclose(file) != 0)
        return 1;
    for (int how = 0; how < 3; how++) {
        struct stat kept;
        if (how == 0   ? symlink(elsewhere, planted)
            : how == 1 ? link(elsewhere, planted)
                       : mkfifo(planted, 0600))
            return 2;
        testbed_wait(testbed, 10, 1 << 1);
        testbed_look(testbed, 20);
        testbed_look(testbed, 1);
        testbed_go_on(testbed, 11); /* so that the next one is told, too */
        testbed_look(testbed, 1);
        if (stat(elsewhere, &kept) != 0 || kept.st_size != 0)
            return 3;
        unlink(planted);
    }
    return 0;
}

static void a_findings_file_that_somebody_planted_is_not_written_to(void **state)
{
    (void)state;
    struct testbed_end end =
        testbed_run("muster: 1\non:\n  hang_absent: [log]\n", found_beside_a_planted_file);
    assert_true(WIFEXITED(end.status));
    assert_int_equal(WEXITSTATUS(end.status), 0);
    assert_non_null(strstr(end.emitted, "rank 1")); /* it was told all the same */
}

/* ---- abort ---- */

/* Found after a second; the grace time is ten. */
static int rank_1_never_comes(struct testbed *testbed)
{
    testbed_wait(testbed, 10, 1 << 1);
    testbed_look(testbed, 0);
    testbed_look(testbed, 1);
    for (int s = 0; s < 9; s++)
        testbed_look(testbed, 1);
    fputs("alive within the grace time\n", stderr);
    testbed_look(testbed, 1);
    return 97;
}

static void a_hang_ends_the_process_after_the_grace_time(void **state)
{
    (void)state;
    expect_aborts(ABORT_ABSENT, rank_1_never_comes,
                  "muster: error: aborting, as configured: hang_absent: rank 1");
}

static int rank_1_comes_after_all(struct testbed *testbed)
{
    testbed_wait(testbed, 10, 1 << 1);
    testbed_look(testbed, 0);
    testbed_look(testbed, 1);
    testbed_look(testbed, 4);
    testbed_go_on(testbed, 10);
    for (int s = 0; s < 60; s++)
        testbed_look(testbed, 1);
    return 0;
}

static int rank_1_comes_at_the_last_moment(struct testbed *testbed)
{
    testbed_wait(testbed, 10, 1 << 1);
    testbed_look(testbed, 0);
    testbed_look(testbed, 1);
    testbed_look(testbed, 9);
    testbed_go_on(testbed, 10);
    for (int s = 0; s < 60; s++)
        testbed_look(testbed, 1);
    return 0;
}

/* The grace time of the second one is not what is left of the first's. */
static int rank_1_comes_and_rank_2_does_not(struct testbed *testbed)
{
    testbed_wait(testbed, 10, 1 << 1);
    testbed_look(testbed, 0);
    testbed_look(testbed, 1);
    testbed_look(testbed, 8);
    testbed_wait(testbed, 11, 1 << 2);
    for (int s = 0; s < 10; s++)
        testbed_look(testbed, 1);
    return 0;
}

static void a_hang_that_resolves_within_the_grace_time_ends_nothing(void **state)
{
    (void)state;
    expect_goes_on(ABORT_ABSENT, rank_1_comes_after_all);
    expect_goes_on(ABORT_ABSENT, rank_1_comes_at_the_last_moment);
    expect_goes_on(ABORT_ABSENT, rank_1_comes_and_rank_2_does_not);
}

static int rank_1_never_comes_for_a_minute(struct testbed *testbed)
{
    testbed_wait(testbed, 10, 1 << 1);
    for (int s = 0; s < 60; s++)
        testbed_look(testbed, 1);
    return 0;
}

static int rank_1_may_wait_for_one_out_of_sight(struct testbed *testbed)
{
    for (unsigned r = 0; r < WORLD_RANKS; r++)
        testbed->rank[r]->comm[0].nranks = WORLD_RANKS + 1;
    return rank_1_never_comes_for_a_minute(testbed);
}

static void other_kinds_and_doubtful_hangs_end_nothing(void **state)
{
    (void)state;
    expect_goes_on(ABORT_DEAD, rank_1_never_comes_for_a_minute);
    expect_goes_on("muster: 1\n", rank_1_never_comes_for_a_minute);
    expect_goes_on(ABORT_ABSENT, rank_1_may_wait_for_one_out_of_sight);
}

static bool is_alive(const struct testbed *testbed, int rank)
{
    struct muster_found *found;
    size_t n = muster_find_segments(testbed->shm, &found);
    bool alive = false;
    char pid[32];
    snprintf(pid, sizeof pid, "-%d-", (int)testbed->pid[rank]);
    for (size_t i = 0; i < n; i++)
        alive |= found[i].alive && strstr(found[i].path, pid);
    muster_found_free(found, n);
    return alive;
}

static int rank_3_died(struct testbed *testbed)
{
    testbed_wait(testbed, 10, 1 << 3);
    testbed->rank[3]->heartbeat_mono_ns = testbed->rank[0]->comm[0].called_ns;
    kill(testbed->pid[3], SIGKILL);
    while (is_alive(testbed, 3)) {
    }
    for (int s = 0; s < 10; s++)
        testbed_look(testbed, 1);
    fputs("alive within the grace time\n", stderr);
    for (int s = 0; s < 3; s++)
        testbed_look(testbed, 1);
    return 97;
}

static void a_dead_rank_ends_the_processes_that_wait_for_it(void **state)
{
    (void)state;
    expect_aborts(ABORT_DEAD, rank_3_died,
                  "muster: error: aborting, as configured: hang_dead: rank 3");
}

/* Nobody waits for it: all that was called has ended. */
static int rank_3_died_where_nothing_hangs(struct testbed *testbed)
{
    uint64_t now = muster_now_ns();
    testbed_go_on(testbed, 10);
    testbed_look(testbed, 0);
    for (int r = 0; r < WORLD_RANKS; r++)
        testbed->rank[r]->heartbeat_mono_ns = now + (r == 3 ? 0 : 5 * MUSTER_NS_PER_S);
    kill(testbed->pid[3], SIGKILL);
    while (is_alive(testbed, 3)) {
    }
    for (int s = 0; s < 4; s++)
        testbed_look(testbed, 1);
    fputs("not named at once\n", stderr);
    for (int s = 0; s < 30; s++)
        testbed_look(testbed, 1);
    return 0;
}

static void a_rank_that_died_where_nothing_hangs_is_told_within_seconds(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run("muster: 1\n", rank_3_died_where_nothing_hangs);
    assert_true(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
    const char *told = strstr(end.emitted, "hang_dead: rank 3 (host node0");
    assert_non_null(told);
    assert_non_null(strstr(told, "while the others live on"));
    assert_true(told > strstr(end.emitted, "not named at once"));
    assert_int_equal(count(end.emitted, "hang_dead"), 1);
    /* Nobody hangs, so nobody is ended. */
    expect_goes_on(ABORT_DEAD, rank_3_died_where_nothing_hangs);
}

/* ---- late ranks ---- */

static int rank_2_is_late(struct testbed *testbed)
{
    for (int s = 0; s < 20; s++) {
        testbed_step(testbed, 100, 2);
        testbed_look(testbed, 1);
    }
    return 0;
}

static void a_late_rank_is_told_once(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run(EMIT_LATE, rank_2_is_late);
    assert_true(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
    assert_int_equal(count(end.emitted, "late_rank: rank 2 (host node0"), 1);
    assert_int_equal(count(end.emitted, "late_rank"), 1);
    assert_int_equal(count(end.found, "\"kind\":\"late_rank\""), 1);
    assert_non_null(strstr(end.found, "\"ranks\":[2]"));
    assert_non_null(strstr(end.found, "\"resolved\":false"));
}

/* 50 operations that it delays are in the first 250; two looks follow within two seconds. */
static int rank_2_is_late_in_50_operations(struct testbed *testbed)
{
    testbed_step(testbed, 253, 2);
    testbed_look(testbed, 0);
    testbed_look(testbed, 1);
    return 0;
}

static void fifty_affected_operations_and_two_seconds_suffice(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run(EMIT_LATE, rank_2_is_late_in_50_operations);
    assert_int_equal(count(end.emitted, "late_rank: rank 2"), 1);
}

/* Seen once, then a communicator's worth of clean operations: the window is of the latest. */
static int rank_2_was_late_for_a_moment(struct testbed *testbed)
{
    testbed_step(testbed, 50, 2);
    testbed_look(testbed, 0);
    for (int s = 0; s < 20; s++) {
        testbed_step(testbed, 900, -1);
        testbed_look(testbed, 1);
    }
    return 0;
}

static int nobody_is_late(struct testbed *testbed)
{
    for (int s = 0; s < 20; s++) {
        testbed_step(testbed, 500, -1);
        testbed_look(testbed, 1);
    }
    return 0;
}

static void who_is_not_late_is_not_named(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run(EMIT_LATE, nobody_is_late);
    assert_int_equal(count(end.emitted, "late_rank"), 0);
    assert_string_equal(end.found, "");
    end = testbed_run(EMIT_LATE, rank_2_was_late_for_a_moment);
    assert_int_equal(count(end.emitted, "late_rank"), 0);
}

static void nobody_looks_for_late_ranks_unless_asked(void **state)
{
    (void)state;
    char config[1024];
    struct muster_text text = muster_text_begin(config, sizeof config);
    muster_text_add(&text, "muster: 1\non:\n");
    for (unsigned i = 0; i < MUSTER_FINDING_KINDS; i++)
        muster_text_add(&text, "  %s: []\n", muster_finding_rows[i].name);
    struct testbed_end end = testbed_run(config, rank_2_is_late);
    assert_true(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
    assert_string_equal(end.emitted, "");
    assert_string_equal(end.found, "");
}

/* The one that leads is stopped, and all that go before this process with it. */
static int those_before_are_stopped_after_10_s(struct testbed *testbed)
{
    for (int s = 0; s < 20; s++) {
        testbed_step(testbed, 100, 2);
        testbed_look(testbed, 1);
        if (s == 9)
            fputs("stopped\n", stderr);
        for (int r = 1; s >= 9 && r < WORLD_RANKS; r++)
            testbed->rank[r]->heartbeat_mono_ns = 1;
    }
    return 0;
}

static void who_follows_tells_nothing_until_nobody_leads_any_more(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run_following(EMIT_LATE, those_before_are_stopped_after_10_s);
    assert_true(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
    const char *stopped = strstr(end.emitted, "stopped\n");
    assert_non_null(stopped);
    assert_int_equal(count(end.emitted, "late_rank: rank 2"), 1);
    assert_int_equal(count(stopped, "late_rank: rank 2"), 1);
}

/* Nobody is in a communicator whose operations have all ended; another one's hang is still found.
 */
static int one_communicator_rests_and_another_hangs(struct testbed *testbed)
{
    testbed_go_on(testbed, 10);
    for (int s = 0; s < 300; s++)
        testbed_look(testbed, 1);
    if (fputs("hangs\n", stderr) < 0)
        return 98;
    testbed_wait(testbed, 11, 1 << 1);
    for (int s = 0; s < 3; s++)
        testbed_look(testbed, 1);
    return 0;
}

static void a_hang_after_a_long_rest_is_told_as_soon(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run("muster: 1\n", one_communicator_rests_and_another_hangs);
    assert_true(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
    const char *hangs = strstr(end.emitted, "hangs\n");
    assert_non_null(hangs);
    assert_int_equal(count(end.emitted, "hang_absent: rank 1"), 1);
    assert_int_equal(count(hangs, "hang_absent: rank 1"), 1);
}

static int others_have_another_version(struct testbed *testbed)
{
    testbed->rank[3]->version = 99;
    testbed->rank[3]->comm[0].nranks = 1 << 30;
    return rank_2_is_late(testbed);
}

/* While they are looked at, one segment is taken away, one is cut short, a communicator is over
 * and its entry used again. */
static int segments_vanish(struct testbed *testbed)
{
    struct muster_found *found;
    size_t n = muster_find_segments(testbed->shm, &found);
    testbed_step(testbed, 100, 2);
    testbed_look(testbed, 0);
    for (size_t i = 0; i < n; i++) {
        char pid[32];
        snprintf(pid, sizeof pid, "-%d-", (int)testbed->pid[3]);
        if (strstr(found[i].path, pid) && truncate(found[i].path, 100) != 0)
            return 98;
        snprintf(pid, sizeof pid, "-%d-", (int)testbed->pid[1]);
        if (strstr(found[i].path, pid) && unlink(found[i].path) != 0)
            return 98;
    }
    muster_found_free(found, n);
    testbed->rank[3] = testbed->rank[2]; /* what is cut may not be written to any more */
    for (int s = 0; s < 5; s++) {
        testbed_look(testbed, 1);
        testbed->rank[0]->comm[0].end_ns = muster_now_ns();
        testbed->rank[0]->comm[0].uid += s == 2;
        testbed->rank[0]->comm[0].id += s == 3;
    }
    return 0;
}

/* Everything that the others' segments hold behind their frame, again and again. */
static int others_hold_noise(struct testbed *testbed)
{
    uint64_t seed = 1;
    for (int round = 0; round < 60; round++) {
        for (int r = 1; r < WORLD_RANKS; r++) {
            struct muster_segment *segment = testbed->rank[r];
            unsigned char *at =
                (unsigned char *)segment + offsetof(struct muster_segment, heartbeat_mono_ns);
            unsigned char *end = (unsigned char *)(segment + 1);
            size_t step = round % 3 == 0 ? 1 : 61; /* all, or a byte here and there */
            for (at += round % 61; at < end; at += step) {
                seed = seed * 6364136223846793005ull + 1442695040888963407ull;
                *at = (unsigned char)(seed >> 56);
            }
            segment->comm[0].id = WORLD_COMM; /* or nobody would look at it */
            segment->comm[0].uid = 1;
            segment->heartbeat_mono_ns = muster_now_ns() + 1000 * MUSTER_NS_PER_S;
        }
        for (int i = 0; i < 50; i++) {
            struct muster_segment *own = testbed->rank[0];
            own->ring[own->ring_head % MUSTER_SEG_RING] = testbed->rank[1]->ring[i];
            own->ring[own->ring_head % MUSTER_SEG_RING].comm = 1;
            own->ring[own->ring_head % MUSTER_SEG_RING].source = MUSTER_SOURCE_GPU;
            own->ring_head++;
        }
        testbed_look(testbed, 1);
        testbed_look(testbed, 10);
    }
    return 0;
}

static void noise_in_the_segments_of_others_is_survived(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run(EMIT_LATE, others_hold_noise);
    if (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != 0)
        fail_msg("status %x, said %s", (unsigned)end.status, end.emitted);
}

static void segments_and_communicators_that_vanish_are_survived(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run(EMIT_LATE, segments_vanish);
    assert_true(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
    end = testbed_run(ABORT_ABSENT, segments_vanish);
    assert_true(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
}

static void ranks_of_another_version_are_left_out(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run(EMIT_LATE, others_have_another_version);
    assert_true(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
    assert_int_equal(count(end.emitted, "late_rank: rank 2"), 1);
}

static void on_gpu(struct testbed *testbed, unsigned rank, const char *uuid)
{
    strcpy(testbed->rank[rank]->comm[0].gpu_uuid, uuid);
}

static int two_on_one_gpu(struct testbed *testbed)
{
    testbed_go_on(testbed, 3);
    on_gpu(testbed, 0, "GPU-a");
    on_gpu(testbed, 1, "GPU-b");
    on_gpu(testbed, 2, "GPU-c");
    on_gpu(testbed, 3, "GPU-b");
    testbed_look(testbed, 1);
    testbed_look(testbed, 2);
    return 0;
}

static int each_on_its_own_gpu(struct testbed *testbed)
{
    testbed_go_on(testbed, 3);
    on_gpu(testbed, 0, "GPU-a");
    on_gpu(testbed, 1, "GPU-b");
    on_gpu(testbed, 2, "GPU-b");
    __atomic_store_n(&testbed->rank[2]->comm[0].end_ns, 1, __ATOMIC_RELAXED); /* no more */
    testbed_look(testbed, 1);
    return 0;
}

static void two_ranks_on_one_gpu_are_told_once(void **state)
{
    (void)state;
    struct testbed_end end = testbed_run(EMIT_LATE, two_on_one_gpu);
    if (count(end.emitted, " use one GPU, GPU-b") != 1 || count(end.emitted, "(gpu.shared)") != 1 ||
        (!strstr(end.emitted, "ranks 1 and 3 of") && !strstr(end.emitted, "ranks 3 and 1 of")))
        fail_msg("said %s", end.emitted);
    end = testbed_run(EMIT_LATE, each_on_its_own_gpu);
    if (strstr(end.emitted, "one GPU"))
        fail_msg("said %s", end.emitted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_on_one_gpu_are_told_once),
        cmocka_unit_test(a_findings_file_that_somebody_planted_is_not_written_to),
        cmocka_unit_test(a_hang_ends_the_process_after_the_grace_time),
        cmocka_unit_test(a_hang_that_resolves_within_the_grace_time_ends_nothing),
        cmocka_unit_test(other_kinds_and_doubtful_hangs_end_nothing),
        cmocka_unit_test(a_dead_rank_ends_the_processes_that_wait_for_it),
        cmocka_unit_test(a_rank_that_died_where_nothing_hangs_is_told_within_seconds),
        cmocka_unit_test(a_late_rank_is_told_once),
        cmocka_unit_test(fifty_affected_operations_and_two_seconds_suffice),
        cmocka_unit_test(who_is_not_late_is_not_named),
        cmocka_unit_test(nobody_looks_for_late_ranks_unless_asked),
        cmocka_unit_test(who_follows_tells_nothing_until_nobody_leads_any_more),
        cmocka_unit_test(a_hang_after_a_long_rest_is_told_as_soon),
        cmocka_unit_test(ranks_of_another_version_are_left_out),
        cmocka_unit_test(segments_and_communicators_that_vanish_are_survived),
        cmocka_unit_test(noise_in_the_segments_of_others_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
