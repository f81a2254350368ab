/* The command with every allocation and every file operation failing in turn. */
#include "fault_driven.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENDLESS = 20000 };

/* One rank, one communicator, one all-reduce; no finalize, so that the exit does the rest. */
static const char recording[] =
    "{\"op\":\"meta\",\"format\":1,\"api\":5,\"nccl\":22809,\"rank\":0,\"nranks\":2,"
    "\"host\":\"node0\",\"local_rank\":0,\"gpu\":\"NVIDIA H200\"}\n"
    "{\"t\":1,\"tid\":1,\"op\":\"init\",\"ctx\":1,\"comm\":\"0f603734786571cf\",\"name\":\"\","
    "\"nNodes\":1,\"nranks\":2,\"rank\":0}\n"
    "{\"t\":2,\"tid\":1,\"op\":\"start\",\"ctx\":1,\"h\":1,\"type\":256,\"parent\":0,\"graph\":0,"
    "\"depth\":1}\n"
    "{\"t\":3,\"tid\":1,\"op\":\"start\",\"ctx\":1,\"h\":2,\"type\":512,\"parent\":1,"
    "\"func\":\"AllReduce\",\"count\":1,\"dt\":\"ncclFloat32\",\"root\":0,\"stream\":\"(nil)\","
    "\"graph\":0}\n"
    "{\"t\":4,\"tid\":1,\"op\":\"stop\",\"h\":2,\"type\":512}\n"
    "{\"t\":5,\"tid\":1,\"op\":\"start\",\"ctx\":1,\"h\":7,\"type\":2,\"parent\":2,\"rank\":0,"
    "\"seq\":0,\"func\":\"AllReduce\",\"count\":1,\"dt\":\"ncclFloat32\",\"root\":0,\"nch\":1,"
    "\"nwarps\":3,\"algo\":\"RING\",\"proto\":\"LL\",\"pgroup\":0}\n"
    "{\"t\":6,\"tid\":1,\"op\":\"stop\",\"h\":7,\"type\":2}\n";

static const struct failure {
    const char *name;
    int family, error;
    bool onwards;
} failures[] = {
    {"memory_once", FAULT_MEMORY, ENOMEM, false}, {"memory_onwards", FAULT_MEMORY, ENOMEM, true},
    {"forbidden", FAULT_FILES, EACCES, false},    {"broken", FAULT_FILES, EIO, false},
    {"full", FAULT_FILES, ENOSPC, true},          {"interrupted", FAULT_FILES, EINTR, false}};

/* The one kind that this process goes through, NULL: all; and of its calls the n-th, n + step, ...
 */
static const char *only;
static unsigned first = 1, step = 1;

/* A line of the report's gaps that the right report does not have. */
static bool adds_lines(const char *out, const char *right)
{
    char line[4096];

    for (const char *at = out; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, ",\n"), at);
        if ((!strncmp(line, "    \"", 5) || !strncmp(line, "  - ", 4)) && !strstr(right, line))
            return true;
    }
    return false;
}

/* What is counted: behind the names of the runs. */
static const char *body(const char *report)
{
    const char *ranks = strstr(report, "ranks\n");

    if (report[0] == '{')
        ranks = strstr(report, "\"ranks\"");
    return ranks ? ranks : report;
}

/* The exit status is one of the command's own; failure is said in words. */
static void evaluate_command(const struct driven *driven, const char *what)
{
    const struct fault_plan *plan = driven->plan;

    if (!WIFEXITED(driven->status) || WEXITSTATUS(driven->status) > 2)
        fail_msg("%s (%s): left with %#x\n%s", what, plan->call, driven->status, driven->err);
    if (WEXITSTATUS(driven->status) && !driven->err[0])
        fail_msg("%s (%s): status %d and no word", what, plan->call, WEXITSTATUS(driven->status));
}

enum { FAILURES = sizeof(failures) / sizeof(failures[0]), MEMORY_FAILURES = 2 };

typedef void prepare_fn(struct driven *driven);
typedef void evaluate_fn(struct driven *driven, const char *what);

static void every_call(struct driven *driven, const char *const *argv, size_t kinds,
                       prepare_fn *prepare, evaluate_fn *evaluate)
{
    struct fault_plan *plan = driven->plan;
    char what[96];

    for (size_t i = 0; i < kinds; i++) {
        unsigned clean = 0, failed = 0;
        if (only && strcmp(only, failures[i].name) != 0)
            continue;
        plan->family = failures[i].family;
        plan->error = failures[i].error;
        plan->onwards = failures[i].onwards;
        for (plan->at = first; clean < 2; plan->at += step) {
            prepare(driven);
            driven_run_again(driven, argv);
            snprintf(what, sizeof(what), "muster %s, call %llu, errno %d%s", argv[1],
                     (unsigned long long)plan->at, plan->error, plan->onwards ? " and on" : "");
            evaluate(driven, what);
            clean = driven_failed(driven) ? 0 : clean + 1;
            failed += driven_failed(driven);
            assert_true(plan->at < ENDLESS);
        }
        assert_true(failed > 0);
        print_message("muster %s: %u calls failed in turn, errno %d%s\n", argv[1], failed,
                      plan->error, plan->onwards ? ", with all later ones" : "");
        plan->at = 0;
    }
}

/* ---- report ---- */

static char report[DRIVEN_TEXT];

/* No format opens a file of its own: what a file operation that fails does to one it does to all.
 */
static size_t kinds_of(size_t format)
{
    return format == 0 ? FAILURES : MEMORY_FAILURES + 1;
}

static void nothing(struct driven *driven)
{
    driven_restart(driven);
}

static void evaluate_report(struct driven *driven, const char *what)
{
    evaluate_command(driven, what);
    if (driven->status == 0 && !strcmp(body(driven->out), body(report)))
        return;
    /* Without memory nothing is known of the run, so nothing less than all of it is reported. */
    if (driven->plan->family == FAULT_MEMORY &&
        (WEXITSTATUS(driven->status) != 2 || !strstr(driven->err, "memory")))
        fail_msg("%s (%s): left with %#x, said \"%s\", and printed\n%s", what, driven->plan->call,
                 driven->status, driven->err, driven->out);
    if (driven->status)
        return;
    if (!driven->err[0] && !adds_lines(driven->out, report))
        fail_msg("%s (%s): status 0, nothing said, and\n%s\ninstead of\n%s", what,
                 driven->plan->call, driven->out, report);
}

static void a_report_is_right_or_says_what_failed(void **state)
{
    static const char *const formats[] = {"json", "csv", "text"};
    struct driven *driven = *state;
    const char *const job[] = {MUSTER_TEST_JOB, "5", NULL};

    driven_run(driven, job);
    assert_int_equal(driven->status, 0);
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const char *const argv[] = {MUSTER_TEST_COMMAND, "report",   driven->run,
                                    "--format",          formats[i], NULL};
        driven_run_again(driven, argv);
        assert_int_equal(driven->status, 0);
        memcpy(report, driven->out, sizeof(report));
        every_call(driven, argv, kinds_of(i), nothing, evaluate_report);
    }
}

/* ---- replay ---- */

static void write_recording(struct driven *driven)
{
    char path[160];

    driven_clear(driven);
    snprintf(path, sizeof(path), "%s/recording", driven->base);
    mkdir(path, 0700);
    strcat(path, "/rank-0.jsonl");
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(recording, file);
    assert_int_equal(fclose(file), 0);
}

static void evaluate_replay(struct driven *driven, const char *what)
{
    struct driven_totals got;

    evaluate_command(driven, what);
    driven_totals(driven, &got);
    if (got.ops > 1)
        fail_msg("%s: %llu operations of 1", what, (unsigned long long)got.ops);
    if (got.ops == 0 && !driven->err[0] && !got.reports_missing)
        fail_msg("%s (%s): nothing recorded, nothing said", what, driven->plan->call);
    if (driven_leftovers(driven))
        fail_msg("%s (%s): files are left for good", what, driven->plan->call);
}

static void a_replay_plays_or_says_what_failed(void **state)
{
    struct driven *driven = *state;
    struct driven_totals got;
    char folder[96];
    const char *const argv[] = {
        MUSTER_TEST_COMMAND, "replay",           folder,  "--speed",   "max",
        "--plugin",          MUSTER_TEST_PLUGIN, "--out", driven->run, NULL};

    snprintf(folder, sizeof(folder), "%s/recording", driven->base);
    write_recording(driven);
    driven_run_again(driven, argv);
    assert_int_equal(driven->status, 0);
    driven_totals(driven, &got);
    assert_int_equal(got.ops, 1);
    every_call(driven, argv, FAILURES, write_recording, evaluate_replay);
}

/* ---- run ---- */

/* The job's own status, or a word why it was not started. Fork and exec may be refused as well. */
static void evaluate_run(struct driven *driven, const char *what)
{
    int status = WIFEXITED(driven->status) ? WEXITSTATUS(driven->status) : -1;
    struct driven_totals got;

    if (status != 0 && status != 2 && status != 126 && status != 127)
        fail_msg("%s (%s): left with %#x\n%s", what, driven->plan->call, driven->status,
                 driven->err);
    if (status != 0 && !driven->err[0])
        fail_msg("%s (%s): status %d and no word", what, driven->plan->call, status);
    driven_totals(driven, &got);
    uint64_t issued = driven_issued(driven);
    if (got.ops > issued || (got.ops < issued && !driven->err[0]))
        fail_msg("%s (%s): %llu operations of %llu\n%s", what, driven->plan->call,
                 (unsigned long long)got.ops, (unsigned long long)issued, driven->err);
    if (driven_leftovers(driven))
        fail_msg("%s (%s): files are left for good", what, driven->plan->call);
}

static void a_run_passes_the_job_on_or_says_what_failed(void **state)
{
    struct driven *driven = *state;
    const char *const argv[] = {MUSTER_TEST_COMMAND, "run", "--", MUSTER_TEST_JOB, "5", NULL};

    driven_clear(driven);
    driven_run_again(driven, argv);
    assert_int_equal(driven->status, 0);
    assert_non_null(strstr(driven->err, "AllReduce"));
    every_call(driven, argv, FAILURES, driven_clear, evaluate_run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, driven_setup, driven_teardown)

static void choose_kind(const char *name)
{
    for (size_t i = 0; i < FAILURES; i++)
        if (!strcmp(name, failures[i].name))
            only = failures[i].name;
    if (!only) {
        fprintf(stderr, "no kind of failure is named %s\n", name);
        exit(2);
    }
}

/* [COMMAND [KIND [FIRST STEP]]]: all kinds of failure of all commands, or those alone, of every
 * call or of call FIRST and each STEP calls on. */
int main(int argc, char **argv)
{
    driven_filter(argc, argv);
    if (argc > 2)
        choose_kind(argv[2]);
    if (argc > 4) {
        first = (unsigned)strtoul(argv[3], NULL, 10);
        step = (unsigned)strtoul(argv[4], NULL, 10);
    }
    if (first == 0 || step == 0)
        return 2;
    const struct CMUnitTest tests[] = {
        TEST(a_report_is_right_or_says_what_failed),
        TEST(a_replay_plays_or_says_what_failed),
        TEST(a_run_passes_the_job_on_or_says_what_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
