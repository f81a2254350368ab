/* What the job told while it ran, beside what is found afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"
#include "emitted/emitted.h"

/* As the leader writes it. */
static struct muster_finding make(enum muster_finding_kind kind, int32_t rank)
{
    struct muster_finding finding = {.kind = kind,
                                     .comm = 0xc528ca3185a35cb3,
                                     .rank = {rank},
                                     .ranks = 1,
                                     .victim = {0, 3},
                                     .victims = 2,
                                     .host = "node0",
                                     .gpu = 2,
                                     .has_op = true,
                                     .op = {.func = MUSTER_FUNC_ALL_REDUCE,
                                            .dtype = MUSTER_DTYPE_FLOAT32,
                                            .index = 31,
                                            .bytes = 4096,
                                            .root = -1},
                                     .since_unix_ns = 1795328165911833099,
                                     .cost_s = 1.5,
                                     .cost_share = 0.25,
                                     .confidence = 0.983};
    if (kind == MUSTER_FINDING_LATE_RANK) {
        finding.mode = MUSTER_MODE_PERSISTENT;
        finding.cause = MUSTER_CAUSE_HOST;
        finding.cost_low_s = 1.25;
        finding.cost_high_s = 1.75;
        finding.cost_run_s = 3;
        finding.gpu_hours = 0.5;
        finding.every_steps = 10;
        finding.every_s = 5.25;
        finding.stretch[finding.stretches++] = (struct muster_finding_stretch){
            rank, MUSTER_CAUSE_GPU, 1795328165911833099, 1795328265911833099};
        snprintf(finding.where, sizeof finding.where, "before each AllReduce");
    }
    muster_finding_line(&finding.evidence, "it \"says\" so");
    snprintf(finding.advice, sizeof finding.advice, "look at it");
    return finding;
}

static void write_line(FILE *out, const struct muster_finding *finding)
{
    struct muster_json json;
    muster_json_begin(&json, out, false);
    muster_json_object(&json, NULL);
    muster_finding_json(finding, &json);
    muster_json_end(&json);
}

static struct muster_findings parse(const char *text)
{
    struct muster_findings emitted = {0};
    struct muster_err err;
    assert_int_equal(muster_emitted_parse("x.jsonl", text, strlen(text), &emitted, &err), 0);
    return emitted;
}

static void what_was_written_is_read_again(void **state)
{
    (void)state;
    struct muster_finding one = make(MUSTER_FINDING_LATE_RANK, 2);
    struct muster_finding two = make(MUSTER_FINDING_HANG_ABSENT, 1);
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    two.resolved = true;
    write_line(out, &one);
    write_line(out, &two);
    fclose(out);
    struct muster_findings emitted = parse(text);
    assert_int_equal(emitted.n, 2);
    char *again;
    out = open_memstream(&again, &bytes);
    write_line(out, &emitted.finding[0]);
    write_line(out, &emitted.finding[1]);
    fclose(out);
    assert_string_equal(again, text);
    free(text);
    free(again);
    muster_findings_free(&emitted);
}

/* What its sentence says of it live, a report says, too. */
static void how_a_process_went_is_read_again(void **state)
{
    static const enum muster_finding_went went[] = {MUSTER_WENT_KILLED, MUSTER_WENT_LEFT,
                                                    MUSTER_WENT_UNKNOWN};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        struct muster_finding dead = make(MUSTER_FINDING_HANG_DEAD, 1);
        char *text, live[1024], again[1024];
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        dead.went = went[i / 2];
        dead.entered = i % 2;
        write_line(out, &dead);
        fclose(out);
        struct muster_findings emitted = parse(text);
        assert_int_equal(emitted.n, 1);
        muster_finding_sentence(&dead, live, sizeof live);
        muster_finding_sentence(&emitted.finding[0], again, sizeof again);
        assert_string_equal(again, live);
        assert_int_equal(emitted.finding[0].went, dead.went);
        assert_int_equal(emitted.finding[0].entered, dead.entered);
        free(text);
        muster_findings_free(&emitted);
    }
}

static void the_last_word_on_a_finding_counts(void **state)
{
    (void)state;
    struct muster_finding one = make(MUSTER_FINDING_LATE_RANK, 2);
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    write_line(out, &one);
    one.retracted = true;
    write_line(out, &one);
    fclose(out);
    struct muster_findings emitted = parse(text);
    assert_int_equal(emitted.n, 1);
    assert_true(emitted.finding[0].retracted);
    free(text);
    muster_findings_free(&emitted);
}

static void a_line_that_is_none_is_said_and_the_others_stay(void **state)
{
    (void)state;
    struct muster_findings emitted =
        parse("{\"kind\":\n"
              "{\"kind\":\"weather\"}\n"
              "[1]\n"
              "{\"kind\":\"hang_stuck\",\"ranks\":7,\"op\":[],\"comm\":3}\n"
              "{\"kind\":\"late_rank\",\"ranks\":[1");
    assert_int_equal(emitted.n, 1);
    assert_int_equal(emitted.finding[0].kind, MUSTER_FINDING_HANG_STUCK);
    assert_int_equal(emitted.not_observable.n, 3);
    assert_non_null(strstr(emitted.not_observable.line[0], "x.jsonl:1:"));
    assert_non_null(strstr(emitted.not_observable.line[1], "x.jsonl:2:1: expected a finding's"));
    muster_findings_free(&emitted);
}

static void add(struct muster_findings *findings, const struct muster_finding *finding)
{
    struct muster_finding *at = muster_findings_add(findings);
    assert_non_null(at);
    *at = *finding;
}

static bool describes(const struct muster_finding_lines *lines, const char *text)
{
    for (unsigned i = 0; i < lines->n; i++)
        if (strstr(lines->line[i], text))
            return true;
    return false;
}

static void what_is_found_again_stands_once(void **state)
{
    (void)state;
    struct muster_findings emitted = {0}, findings = {0};
    struct muster_err err;
    struct muster_finding late = make(MUSTER_FINDING_LATE_RANK, 2);
    add(&emitted, &late);
    late.comm = 7;
    add(&findings, &late);
    assert_int_equal(muster_emitted_merge(&emitted, &findings, &err), 0);
    assert_int_equal(findings.n, 1);
    assert_true(describes(&findings.finding[0].evidence, "told while the job ran"));
    assert_false(describes(&findings.finding[0].evidence, "withdrawn"));
    emitted.finding[0].retracted = true;
    assert_int_equal(muster_emitted_merge(&emitted, &findings, &err), 0);
    assert_int_equal(findings.n, 1);
    assert_true(describes(&findings.finding[0].evidence, "and then withdrawn"));
    muster_findings_free(&emitted);
    muster_findings_free(&findings);
}

/* Rank 1 did not come for 15 s, and then it came: one thing, not two. */
static void a_hang_that_ended_is_the_long_wait(void **state)
{
    (void)state;
    struct muster_findings emitted = {0}, findings = {0};
    struct muster_err err;
    struct muster_finding hang = make(MUSTER_FINDING_HANG_ABSENT, 1);
    struct muster_finding once = make(MUSTER_FINDING_LATE_RANK, 1);
    once.mode = MUSTER_MODE_ONCE;
    hang.resolved = true;
    add(&emitted, &hang);
    add(&findings, &once);
    assert_int_equal(muster_emitted_merge(&emitted, &findings, &err), 0);
    assert_int_equal(findings.n, 1);
    assert_true(describes(&findings.finding[0].evidence, "as hang_absent, and that it was over"));
    findings.n = 0;
    assert_int_equal(muster_emitted_merge(&emitted, &findings, &err), 0);
    assert_int_equal(findings.n, 1);
    assert_true(findings.finding[0].resolved);
    muster_findings_free(&emitted);
    muster_findings_free(&findings);
}

static void what_the_whole_run_does_not_show_is_over(void **state)
{
    (void)state;
    struct muster_findings emitted = {0}, findings = {0};
    struct muster_err err;
    struct muster_finding late = make(MUSTER_FINDING_LATE_RANK, 2);
    struct muster_finding other = make(MUSTER_FINDING_LATE_RANK, 3);
    other.retracted = true;
    add(&emitted, &late);
    add(&emitted, &other);
    assert_int_equal(muster_emitted_merge(&emitted, &findings, &err), 0);
    assert_int_equal(findings.n, 2);
    assert_true(findings.finding[0].resolved);
    assert_true(describes(&findings.finding[0].not_observable, "in the whole run it is not found"));
    assert_true(findings.finding[1].retracted);
    assert_false(findings.finding[1].resolved);
    muster_findings_free(&emitted);
    muster_findings_free(&findings);
}

/* In the directory that was named, of processes of the run and of nobody else. */
static void the_files_of_the_runs_processes_are_read(void **state)
{
    (void)state;
    char dir[] = "/tmp/muster-told-XXXXXX", path[128];
    const char *source[] = {dir};
    struct muster_err err;
    struct muster_finding late = make(MUSTER_FINDING_LATE_RANK, 2);
    struct muster_process process = {.identity = {.file_stem = "node0-7"}};
    struct muster_run run = {.source = source, .sources = 1, .process = &process, .processes = 1};
    struct muster_findings findings = {0};
    assert_non_null(mkdtemp(dir));
    static const char *const stems[] = {"node0-7", "node0-8"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s.findings.jsonl", dir, stems[i]);
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        late.rank[0] = i;
        write_line(out, &late);
        fclose(out);
    }
    assert_int_equal(muster_emitted_add(&run, &findings, &err), 0);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].rank[0], 0);
    muster_findings_free(&findings);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s.findings.jsonl", dir, stems[i]);
        unlink(path);
    }
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_again),
        cmocka_unit_test(how_a_process_went_is_read_again),
        cmocka_unit_test(the_last_word_on_a_finding_counts),
        cmocka_unit_test(a_line_that_is_none_is_said_and_the_others_stay),
        cmocka_unit_test(what_is_found_again_stands_once),
        cmocka_unit_test(a_hang_that_ended_is_the_long_wait),
        cmocka_unit_test(what_the_whole_run_does_not_show_is_over),
        cmocka_unit_test(the_files_of_the_runs_processes_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
