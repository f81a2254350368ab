#include "run_process_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BIG = 256 << 20 };

static void load(const struct fixture *fixture, const char *name, struct muster_run *run)
{
    const char *names[] = {name};
    struct muster_run_query query = {
        .run = names, .runs = name != NULL, .live = !name, .segment_dir = fixture->shm};
    struct muster_err err;
    if (muster_run_load(&query, run, &err) != 0)
        fail_msg("%s", err.text);
}

static void a_finished_process_is_read_from_log_and_segment(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = process_segment(fixture);
    struct muster_log_writer *writer;
    struct muster_run run;
    assert_int_equal(muster_log_writer_start(&writer, &file,
                                             &(struct muster_log_options){.max_bytes = BIG}, NULL),
                     0);
    process_retire(&file, writer, 0, 3000);
    atomic_store(&file.map->exit_state, MUSTER_EXIT_FINALIZED);
    assert_true(muster_log_writer_finish(writer, LONG_MS));
    load(fixture, fixture->run, &run);
    assert_int_equal(run.processes, 1);
    assert_int_equal(run.process[0].state, MUSTER_PROCESS_FINALIZED);
    assert_int_equal(run.process[0].identity.rank, 3);
    assert_int_equal(run.process[0].ops, 3000);
    assert_int_equal(run.process[0].ops_missing, 0);
    process_assert_ops(&run.process[0], 0, 3000);
    assert_int_equal(process_total(run.process[0].segment), 3000);
    assert_string_equal(muster_process_comm(&run.process[0], 1)->name, "dp");
    assert_null(muster_process_comm(&run.process[0], 2));
    assert_int_equal(run.notes, 0);
    muster_run_free(&run);
    munmap(file.map, sizeof(*file.map));
    close(file.lock_fd);
}

struct counted {
    uint64_t next;
    size_t calls, most;
};

static bool count_ops(void *to, const struct muster_op *op, size_t n)
{
    struct counted *counted = to;
    for (size_t i = 0; i < n; i++) {
        struct muster_op expected = fixture_op(counted->next++);
        assert_memory_equal(&op[i], &expected, sizeof(expected));
    }
    counted->calls++;
    counted->most = n > counted->most ? n : counted->most;
    return true;
}

static bool take_none(void *to, const struct muster_op *op, size_t n)
{
    (void)op, (void)n;
    ++*(unsigned *)to;
    return false;
}

static void a_streamed_run_reads_the_same_operations_piece_by_piece(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = process_segment(fixture);
    struct muster_log_writer *writer;
    struct muster_run run;
    struct counted counted = {0};
    unsigned asked = 0;
    struct muster_err err;
    assert_int_equal(muster_log_writer_start(&writer, &file,
                                             &(struct muster_log_options){.max_bytes = BIG}, NULL),
                     0);
    process_retire(&file, writer, 0, 8000);
    atomic_store(&file.map->exit_state, MUSTER_EXIT_FINALIZED);
    assert_true(muster_log_writer_finish(writer, LONG_MS));
    const char *names[] = {fixture->run};
    struct muster_run_query query = {
        .run = names, .runs = 1, .segment_dir = fixture->shm, .streamed = true};
    assert_int_equal(muster_run_load(&query, &run, &err), 0);
    const struct muster_process *process = &run.process[0];
    assert_int_equal(process->log_ops, 8000);
    assert_int_equal(process->ops + process->ops_missing, 0);
    assert_int_equal(muster_process_read_ops(process, count_ops, &counted, &err), 0);
    assert_int_equal(counted.next, 8000);
    assert_true(counted.calls > 1 && counted.most < 8000);
    assert_int_equal(muster_process_read_ops(process, take_none, &asked, &err), 0);
    assert_int_equal(asked, 1);
    unlink(process->log);
    assert_int_equal(muster_process_read_ops(process, count_ops, &counted, &err), -1);
    assert_non_null(strstr(err.text, ".log"));
    muster_run_free(&run);
    munmap(file.map, sizeof(*file.map));
    close(file.lock_fd);
}

/* The process of `ends_at_look` ends just before the look of this number at its segment. */
static struct muster_segment_file *ends;
static unsigned ends_at_look, looks;

int __real_muster_segment_read_live(const char *path, struct muster_segment **segment,
                                    unsigned *unstable, struct muster_err *err);
int __wrap_muster_segment_read_live(const char *path, struct muster_segment **segment,
                                    unsigned *unstable, struct muster_err *err);

int __real_muster_segment_read_identity(const char *path, struct muster_seg_identity *identity,
                                        struct muster_err *err);
int __wrap_muster_segment_read_identity(const char *path, struct muster_seg_identity *identity,
                                        struct muster_err *err);

static void look(struct muster_err *err)
{
    if (ends && ++looks == ends_at_look && muster_segment_archive(ends, err) != 0)
        abort();
}

int __wrap_muster_segment_read_live(const char *path, struct muster_segment **segment,
                                    unsigned *unstable, struct muster_err *err)
{
    look(err);
    return __real_muster_segment_read_live(path, segment, unstable, err);
}

int __wrap_muster_segment_read_identity(const char *path, struct muster_seg_identity *identity,
                                        struct muster_err *err)
{
    look(err);
    return __real_muster_segment_read_identity(path, identity, err);
}

static void a_process_that_ends_while_it_is_read_is_read_whole(void **state)
{
    struct fixture *fixture = *state;
    char stored[256];
    bool ended = true;
    for (unsigned at = 1; ended; at++) {
        struct muster_segment_file file = process_segment(fixture);
        struct muster_run run;
        process_retire(&file, NULL, 0, 1500);
        atomic_store(&file.map->exit_state, MUSTER_EXIT_FINALIZED);
        ends = &file;
        ends_at_look = at;
        looks = 0;
        load(fixture, fixture->run, &run);
        ended = looks >= at;
        ends = NULL;
        assert_int_equal(run.processes, 1);
        assert_int_equal(run.notes, 0);
        assert_int_equal(process_total(run.process[0].segment), 1500);
        muster_run_free(&run);
        if (!ended)
            muster_segment_archive(&file, NULL);
        fixture_path(stored, sizeof(stored), fixture->run, file.map->identity.file_stem);
        strcat(stored, ".seg");
        assert_int_equal(unlink(stored), 0);
        munmap(file.map, sizeof(*file.map));
        close(file.lock_fd);
    }
    assert_true(ends_at_look > 2);
}

/* In the child: 1,500 operations, no log, three in flight; one of them is a call whose launch was
 * not shown. */
static void die_without_a_log(const struct fixture *fixture)
{
    struct muster_segment_file file = process_segment(fixture);
    process_retire(&file, NULL, 0, 1500);
    fixture_slot(file.map, 0, 1500, MUSTER_SLOT_DONE);
    fixture_slot(file.map, 9, 1501, MUSTER_SLOT_LAUNCHED);
    fixture_slot(file.map, 10, 1502, MUSTER_SLOT_CALLED);
    fixture_slot(file.map, 11, 1499, MUSTER_SLOT_RESTING);
}

static void a_killed_process_is_read_and_put_away(void **state)
{
    struct fixture *fixture = *state;
    struct muster_run run;
    pid_t pid = fixture_killed_process(die_without_a_log, fixture);
    load(fixture, fixture->run, &run);
    assert_int_equal(run.processes, 1);
    struct muster_process *process = &run.process[0];
    assert_int_equal(process->state, MUSTER_PROCESS_KILLED);
    assert_int_equal(process->identity.pid, pid);
    assert_int_equal(process_total(process->segment), 1503);
    assert_int_equal(process->ops, MUSTER_SEG_RING - 1 + 3);
    assert_int_equal(process->ops_missing, 1500 - MUSTER_SEG_RING + 1);
    process_assert_ops(process, 1500 - MUSTER_SEG_RING + 1, MUSTER_SEG_RING - 1);
    assert_int_equal(process->op[process->ops - 3].number, 1500);
    assert_int_equal(process->op[process->ops - 2].number, 1501);
    assert_false(process->op[process->ops - 2].flags & MUSTER_OP_API_ONLY);
    assert_int_equal(process->op[process->ops - 1].number, 1502);
    assert_true(process->op[process->ops - 1].flags & MUSTER_OP_API_ONLY);
    assert_int_equal(process->op[process->ops - 1].channels, 0);
    muster_run_free(&run);
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 0);
    assert_int_equal(fixture_count(fixture->shm, ".lock"), 0);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 1);
    load(fixture, fixture->run, &run); /* the same again from the archive */
    assert_int_equal(run.process[0].state, MUSTER_PROCESS_KILLED);
    assert_int_equal(process_total(run.process[0].segment), 1503);
    muster_run_free(&run);
}

/* The log is behind the ring when the process dies. */
static void die_with_a_log(const struct fixture *fixture)
{
    struct muster_segment_file file = process_segment(fixture);
    struct muster_log_writer *writer;
    struct muster_segment_file copy = file;
    if (muster_log_writer_start(&writer, &copy, &(struct muster_log_options){.max_bytes = BIG},
                                NULL) != 0)
        abort();
    process_retire(&file, writer, 0, 2000);
    /* Makes the log whole so far; the segment goes with it, so put another in its place. */
    muster_log_writer_finish(writer, LONG_MS);
    char archived[256];
    snprintf(archived, sizeof(archived), "%s/host-%d.seg", fixture->run, (int)getpid());
    unlink(archived);
    int fd = open(file.path, O_CREAT | O_WRONLY, 0600);
    process_retire(&file, NULL, 2000, 2600);
    if (write(fd, file.map, sizeof(*file.map)) != (ssize_t)sizeof(*file.map))
        abort();
    close(fd);
}

static void log_and_ring_of_a_killed_process_join_without_seam(void **state)
{
    struct fixture *fixture = *state;
    struct muster_run run;
    fixture_killed_process(die_with_a_log, fixture);
    load(fixture, fixture->run, &run);
    assert_int_equal(run.processes, 1);
    assert_int_equal(run.process[0].state, MUSTER_PROCESS_KILLED);
    assert_int_equal(run.process[0].ops, 2600);
    assert_int_equal(run.process[0].ops_missing, 0);
    process_assert_ops(&run.process[0], 0, 2600);
    assert_int_equal(process_total(run.process[0].segment), 2600);
    muster_run_free(&run);
}

static void steer_and_die(const struct fixture *fixture)
{
    static const char text[] = "muster: 1\npolicy: []\n";
    struct muster_segment_file file = process_segment(fixture);
    struct muster_log_writer *writer;
    char archived[256];
    if (muster_log_writer_start(&writer, &file, &(struct muster_log_options){.max_bytes = BIG},
                                NULL) != 0)
        abort();
    struct muster_artifact *kept = muster_artifact_new("policy-abababab.yaml", text, strlen(text));
    if (!kept || !muster_log_writer_keep(writer, kept) || muster_log_writer_keep(writer, kept))
        abort();
    file.map->policy.rules = 1;
    file.map->policy.tuner_api = 5;
    file.map->policy.sha256[0] = 0xab;
    memcpy(file.map->policy.rule[0].name, "wan", 4);
    atomic_store(&file.map->policy.rule[0].hits, 12);
    atomic_store(&file.map->policy.state, MUSTER_POLICY_ACTIVE);
    muster_log_writer_finish(writer, LONG_MS);
    snprintf(archived, sizeof(archived), "%s/host-%d.seg", fixture->run, (int)getpid());
    unlink(archived);
}

static void a_log_alone_tells_the_policy_and_its_text_is_kept(void **state)
{
    struct fixture *fixture = *state;
    struct muster_run run;
    fixture_killed_process(steer_and_die, fixture);
    load(fixture, fixture->run, &run);
    const struct muster_seg_policy *policy = &run.process[0].segment->policy;
    assert_int_equal(policy->state, MUSTER_POLICY_ACTIVE);
    assert_int_equal(policy->sha256[0], 0xab);
    assert_string_equal(policy->rule[0].name, "wan");
    assert_int_equal(policy->rule[0].hits, 12);
    muster_run_free(&run);
    char path[256], text[64] = "";
    FILE *file = fopen(fixture_path(path, sizeof(path), fixture->run, "policy-abababab.yaml"), "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof(text) - 1, file), 21);
    assert_string_equal(text, "muster: 1\npolicy: []\n");
    fclose(file);
}

static void die_with_the_machine(const struct fixture *fixture)
{
    struct muster_segment_file file = process_segment(fixture);
    struct muster_log_writer *writer;
    char archived[256];
    if (muster_log_writer_start(&writer, &file, &(struct muster_log_options){.max_bytes = BIG},
                                NULL) != 0)
        abort();
    process_retire(&file, writer, 0, 400);
    fixture_slot(file.map, 5, 400, MUSTER_SLOT_LAUNCHED);
    fixture_slot(file.map, 6, 401, MUSTER_SLOT_CALLED);
    atomic_store(&file.map->comm[0].calls, 402);
    muster_log_writer_finish(writer, LONG_MS);
    snprintf(archived, sizeof(archived), "%s/host-%d.seg", fixture->run, (int)getpid());
    unlink(archived);
}

static void a_log_alone_gives_the_same_picture(void **state)
{
    struct fixture *fixture = *state;
    struct muster_run run;
    fixture_killed_process(die_with_the_machine, fixture);
    load(fixture, fixture->run, &run);
    assert_int_equal(run.processes, 1);
    struct muster_process *process = &run.process[0];
    assert_int_equal(process->state, MUSTER_PROCESS_KILLED);
    assert_int_equal(process->ops, 402);
    process_assert_ops(process, 0, 400);
    assert_int_equal(process->op[400].number, 400);
    assert_int_equal(process->op[401].number, 401);
    assert_true(process->op[401].flags & MUSTER_OP_API_ONLY);
    assert_int_equal(process_total(process->segment), 402);
    assert_int_equal(atomic_load(&process->segment->comm[0].calls), 402);
    assert_string_equal(process->segment->comm[0].name, "dp");
    assert_int_equal(run.notes, 1);
    assert_non_null(strstr(run.note[0], "only the log is left"));
    muster_run_free(&run);
}

static void a_living_process_is_read_and_left_alone(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = process_segment(fixture);
    struct muster_run run;
    char pid[32];
    process_retire(&file, NULL, 0, 10);
    fixture_slot(file.map, 0, 10, MUSTER_SLOT_LAUNCHED);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    const char *names[] = {fixture->run, pid, NULL};
    for (int i = 0; i < 3; i++) {
        load(fixture, names[i], &run);
        assert_int_equal(run.processes, 1);
        assert_int_equal(run.process[0].state, MUSTER_PROCESS_RUNNING);
        assert_int_equal(run.process[0].ops, 11);
        assert_int_equal(process_total(run.process[0].segment), 11);
        muster_run_free(&run);
    }
    assert_int_equal(access(file.path, F_OK), 0);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 0);
    munmap(file.map, sizeof(*file.map));
    close(file.lock_fd);
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    FILE *out = fopen(fixture_path(path, sizeof(path), dir, name), "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void what_cannot_be_read_is_said_and_the_rest_is_read(void **state)
{
    struct fixture *fixture = *state;
    struct muster_run run;
    fixture_killed_process(die_without_a_log, fixture);
    put_file(fixture->run, "a.log", "hello");
    put_file(fixture->run, "b.seg", "");
    put_file(fixture->run, "notes.txt", "not looked at");
    load(fixture, fixture->run, &run);
    assert_int_equal(run.processes, 1);
    assert_int_equal(run.notes, 2);
    muster_run_free(&run);
}

static void expect_nothing(const struct fixture *fixture, const char *name, const char *why)
{
    const char *names[] = {name};
    struct muster_run_query query = {
        .run = names, .runs = name != NULL, .live = !name, .segment_dir = fixture->shm};
    struct muster_run run;
    struct muster_err err;
    assert_int_equal(muster_run_load(&query, &run, &err), -1);
    if (!strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void nothing_to_read_is_an_error_in_words(void **state)
{
    struct fixture *fixture = *state;
    char calls[512], why[640];
    expect_nothing(fixture, fixture->run, "nothing that muster recorded is there");
    expect_nothing(fixture, "/nowhere", "neither a run directory nor a pid");
    expect_nothing(fixture, "4200000", "no process of this number is here");
    expect_nothing(fixture, "1", "cannot attach to a job that was started without it");
    snprintf(calls, sizeof calls, "%s/rank-0.jsonl", fixture->run);
    expect_nothing(fixture, calls, "neither a run directory nor a pid");
    fclose(fopen(calls, "w"));
    snprintf(why, sizeof why, "recorded calls, not a run; `muster replay %s` makes a run of them",
             fixture->run);
    expect_nothing(fixture, fixture->run, why);
    expect_nothing(fixture, calls, why);
    unlink(calls);
    expect_nothing(fixture, NULL, "No job recorded by muster is running here");
}

/* A job that begins a nanosecond after another process of this host does not show it as its own. */
static void what_began_before_a_job_is_not_of_it(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = process_segment(fixture);
    const struct muster_seg_identity *who = &file.map->identity;
    const char *names[] = {fixture->run};
    struct muster_run_query query = {
        .run = names,
        .runs = 1,
        .segment_dir = fixture->shm,
        .since = {.mono_ns = who->begin_mono_ns, .unix_ns = who->begin_unix_ns}};
    struct muster_run run;
    struct muster_err err;
    assert_int_equal(muster_run_load(&query, &run, &err), 0);
    muster_run_free(&run);
    query.since.mono_ns++;
    assert_int_equal(muster_run_load(&query, &run, &err), -1);
    assert_non_null(strstr(err.text, "what is there is of an earlier one"));
    query.since.slack_ns = 1;
    assert_int_equal(muster_run_load(&query, &run, &err), 0);
    muster_run_free(&run);
    munmap(file.map, sizeof(*file.map));
    close(file.lock_fd);
}

static void without_a_name_the_newest_run_is_taken(void **state)
{
    struct fixture *fixture = *state;
    struct muster_run run;
    struct muster_err err;
    struct muster_run_query query = {.segment_dir = fixture->shm};
    char *before = get_current_dir_name(), path[256];
    fixture_killed_process(die_without_a_log, fixture);
    load(fixture, fixture->run, &run); /* archives */
    muster_run_free(&run);
    assert_int_equal(chdir(fixture->shm), 0);
    assert_int_equal(muster_run_load(&query, &run, &err), -1);
    assert_non_null(strstr(err.text, "no ./muster-*"));
    fixture_path(path, sizeof(path), fixture->shm, "muster-123");
    assert_int_equal(symlink(fixture->run, path), 0);
    assert_int_equal(muster_run_load(&query, &run, &err), 0);
    assert_string_equal(run.source[0], "./muster-123");
    muster_run_free(&run);
    assert_int_equal(chdir(before), 0);
    free(before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_log_alone_tells_the_policy_and_its_text_is_kept),
        TEST(a_finished_process_is_read_from_log_and_segment),
        TEST(a_streamed_run_reads_the_same_operations_piece_by_piece),
        TEST(a_process_that_ends_while_it_is_read_is_read_whole),
        TEST(a_killed_process_is_read_and_put_away),
        TEST(log_and_ring_of_a_killed_process_join_without_seam),
        TEST(a_log_alone_gives_the_same_picture),
        TEST(a_living_process_is_read_and_left_alone),
        TEST(what_cannot_be_read_is_said_and_the_rest_is_read),
        TEST(nothing_to_read_is_an_error_in_words),
        TEST(what_began_before_a_job_is_not_of_it),
        TEST(without_a_name_the_newest_run_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
