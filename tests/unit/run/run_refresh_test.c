#include "run_process_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/refresh.h"
#include "segment/identity.h"

static void refresh(const struct fixture *fixture, struct muster_run *run)
{
    const char *names[] = {fixture->run};
    struct muster_run_query query = {.run = names, .runs = 1, .segment_dir = fixture->shm};
    struct muster_err err;
    if (muster_run_refresh(&query, run, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(run->processes, 1);
}

static void of_a_run_that_is_refreshed_only_what_is_new_is_read(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = process_segment(fixture);
    struct muster_run run = {0};
    process_retire(&file, NULL, 0, 10);
    fixture_slot(file.map, 0, 10, MUSTER_SLOT_LAUNCHED);
    refresh(fixture, &run);
    assert_int_equal(run.process[0].ops, 11);
    fixture_slot(file.map, 0, 10, MUSTER_SLOT_FREE);
    file.map->ring[3].count++; /* is read already */
    process_retire(&file, NULL, 10, 600);
    refresh(fixture, &run);
    assert_int_equal(run.process[0].ops, 600);
    process_assert_ops(&run.process[0], 0, 600);
    assert_int_equal(process_total(run.process[0].segment), 600);
    process_retire(&file, NULL, 600, 3000); /* round and round */
    refresh(fixture, &run);
    assert_int_equal(run.process[0].ops, 600 + MUSTER_SEG_RING - 1);
    assert_int_equal(run.process[0].ops_missing, 3000 - 600 - (MUSTER_SEG_RING - 1));
    atomic_store(&file.map->exit_state, MUSTER_EXIT_FINALIZED);
    assert_int_equal(muster_segment_archive(&file, NULL), 0);
    refresh(fixture, &run);
    assert_int_equal(run.process[0].state, MUSTER_PROCESS_FINALIZED);
    refresh(fixture, &run);
    assert_int_equal(run.process[0].ops, 600 + MUSTER_SEG_RING - 1);
    assert_int_equal(process_total(run.process[0].segment), 3000);
    muster_run_free(&run);
}

static void of_a_long_run_that_is_refreshed_the_latest_is_kept(void **state)
{
    enum { LENGTH = 20000, STEP = 500 };
    struct fixture *fixture = *state;
    struct muster_segment_file file = process_segment(fixture);
    struct muster_run run = {0};
    size_t most = 0;
    process_retire(&file, NULL, 0, STEP);
    refresh(fixture, &run);
    assert_int_equal(muster_run_since_unix_ns(&run), 0);
    for (uint64_t n = STEP; n < LENGTH; n += STEP) {
        process_retire(&file, NULL, n, n + STEP);
        fixture_slot(file.map, 0, n + STEP, MUSTER_SLOT_LAUNCHED);
        refresh(fixture, &run);
        const struct muster_process *process = &run.process[0];
        assert_int_equal(process->op[process->ops - 1].number, n + STEP); /* in flight */
        assert_int_equal(process->op[process->retired - 1].number, n + STEP - 1);
        most = process->ops > most ? process->ops : most;
    }
    assert_in_range(most, 4000, 4097);
    assert_int_equal(run.process[0].ops_missing, 0);
    const struct muster_seg_identity *who = &run.process[0].identity;
    assert_int_equal(muster_run_since_unix_ns(&run),
                     run.process[0].op[0].enqueue_ns + who->begin_unix_ns - who->begin_mono_ns);
    assert_true(run.process[0].op[0].number > LENGTH / 2);
    muster_run_free(&run);
    munmap(file.map, sizeof(*file.map));
    close(file.lock_fd);
}

static void wait_for_log(const char *path, uint64_t ops)
{
    struct muster_log log = {.ops = 0};
    for (unsigned i = 0; i < LONG_MS / 10 && log.next_op < ops; i++) {
        usleep(10000);
        if (muster_log_read(path, &log, NULL) != 0)
            continue;
        uint64_t next = log.next_op;
        muster_log_free(&log);
        log.next_op = next;
    }
    assert_true(log.next_op >= ops);
}

/* Another host's: the log grows, wraps around, and the process ends. */
static void of_a_log_that_is_refreshed_only_what_is_new_is_read(void **state)
{
    enum { STEP = 2000, STEPS = 9, MOST = 4096 };
    struct fixture *fixture = *state;
    struct muster_segment_file file = process_segment(fixture);
    struct muster_log_writer *writer;
    struct muster_run run = {0}, whole;
    struct muster_err err;
    char path[256];
    const char *names[] = {fixture->run};
    /* Here nobody sees its segment. */
    const struct muster_run_query query = {
        .run = names, .runs = 1, .segment_dir = fixture->run, .streamed = true};
    const struct muster_log_options options = {.max_bytes = 128 << 10};
    assert_int_equal(muster_log_writer_start(&writer, &file, &options, NULL), 0);
    snprintf(path, sizeof(path), "%s/%s.log", fixture->run, file.map->identity.file_stem);
    for (uint64_t n = 0; n < STEPS * STEP; n += STEP) {
        atomic_store(&file.map->heartbeat_unix_ns, muster_unix_ns());
        process_retire(&file, writer, n, n + STEP);
        wait_for_log(path, n + STEP);
        assert_int_equal(muster_run_refresh(&query, &run, &err), 0);
        const struct muster_process *process = &run.process[0];
        assert_int_equal(process->state, MUSTER_PROCESS_RUNNING);
        assert_in_range(process->retired, n ? STEP / 2 : 0, MOST);
        if (n == 0)
            continue;
        assert_non_null(process->refreshed->tail);
        uint64_t first = process->op[0].number;
        process_assert_ops(process, first, process->retired);
        assert_int_equal(first + process->retired, n + STEP);
    }
    assert_true(atomic_load(&file.map->log_overwritten) > 0);
    assert_int_equal(muster_run_load(&query, &whole, &err), 0);
    assert_int_equal(process_total(run.process[0].segment),
                     process_total(whole.process[0].segment));
    assert_int_equal(process_total(run.process[0].segment), STEPS * STEP);
    muster_run_free(&whole);
    atomic_store(&file.map->exit_state, MUSTER_EXIT_FINALIZED);
    assert_true(muster_log_writer_finish(writer, LONG_MS));
    assert_int_equal(muster_run_refresh(&query, &run, &err), 0);
    assert_int_equal(run.process[0].state, MUSTER_PROCESS_FINALIZED);
    assert_int_equal(run.process[0].op[run.process[0].retired - 1].number, STEPS * STEP - 1);
    muster_run_free(&run);
    munmap(file.map, sizeof(*file.map));
    close(file.lock_fd);
}

/* What hangs is looked for in a process as it stands, between two takings of what is new. */
static void a_look_at_how_a_process_stands_takes_nothing_from_it(void **state)
{
    enum { MOST = 4096 };
    static struct muster_op scratch[MUSTER_SEG_RING];
    struct fixture *fixture = *state;
    struct muster_segment_file file = process_segment(fixture);
    struct muster_process known = {.segment = NULL}, shown;
    char archived[MUSTER_SEG_PATH + 300];
    process_retire(&file, NULL, 0, 10);
    assert_true(muster_process_begin_refresh(&known, MOST, MOST));
    assert_int_equal(muster_process_take_ring(&known, file.path, MOST, scratch), 10);
    process_retire(&file, NULL, 10, 15);
    fixture_slot(file.map, 0, 15, MUSTER_SLOT_LAUNCHED);
    assert_true(muster_process_show_standing(&known, file.path, true, scratch, &shown));
    assert_int_equal(shown.state, MUSTER_PROCESS_RUNNING);
    assert_int_equal(shown.ops, 15);
    process_assert_ops(&shown, 0, 15);
    assert_int_equal(atomic_load(&shown.segment->slot_state[0]) & 0xff, MUSTER_SLOT_LAUNCHED);
    muster_process_end_standing(&shown);
    assert_int_equal(muster_process_take_ring(&known, file.path, MOST, scratch), 5);
    process_assert_ops(&known, 0, 15);
    atomic_store(&file.map->exit_state, MUSTER_EXIT_EXITED);
    muster_identity_file(&file.map->identity, ".seg", archived, sizeof archived);
    assert_int_equal(muster_segment_archive(&file, NULL), 0);
    assert_false(muster_process_show_standing(&known, file.path, true, scratch, &shown));
    assert_true(muster_process_show_standing(&known, archived, false, scratch, &shown));
    assert_int_equal(shown.state, MUSTER_PROCESS_EXITED);
    process_assert_ops(&shown, 0, 15);
    muster_process_end_standing(&shown);
    muster_process_free(&known);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(of_a_run_that_is_refreshed_only_what_is_new_is_read),
        TEST(of_a_long_run_that_is_refreshed_the_latest_is_kept),
        TEST(of_a_log_that_is_refreshed_only_what_is_new_is_read),
        TEST(a_look_at_how_a_process_stands_takes_nothing_from_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
