#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/report_output.h"
#include "report_fixture.h"

/* Four ranks with times, rank 3 without; a send; a communicator with an unkind name. */
static struct muster_run *sample_named(const char *name)
{
    struct muster_run *run = fixture_run(4);
    struct muster_op send = fixture_op(2, 0, 5 * US);
    for (size_t p = 0; p < 4; p++) {
        fixture_comm(run, p, 1, 0xabcdef0123456789, (int32_t)p, 4);
        for (uint64_t i = 0; i < 10; i++)
            fixture_add(run, p, fixture_op(1, i, p == 3 ? 0 : (100 + p) * US));
    }
    strcpy(fixture_comm(run, 0, 2, 0xdef, 1, 2)->name, name);
    send.func = MUSTER_FUNC_SEND;
    send.peer = 0;
    fixture_add(run, 0, send);
    run->process[0].segment->drops[MUSTER_DROP_TIME_BACK] = 3;
    return run;
}

static struct muster_run *sample(void)
{
    return sample_named("a,\"b\"");
}

static char *shown(const struct muster_report *report, int format, struct muster_report_show show)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (format == 't')
        assert_int_equal(muster_report_text(report, &show, out), 0);
    else if (format == 'j')
        muster_report_json(report, NULL, NULL, out);
    else
        assert_int_equal(muster_report_csv(report, &show, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static char *written(const struct muster_report *report, int format, enum muster_report_rows rows)
{
    return shown(report, format, (struct muster_report_show){.rows = rows});
}

static const char *string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Each of n ranks sends to each other, `times` times. */
static struct muster_report all_to_all(struct muster_run **run, int32_t n, uint64_t times)
{
    *run = fixture_run((size_t)n);
    for (int32_t r = 0; r < n; r++) {
        fixture_comm(*run, (size_t)r, 1, 0xabc, r, (uint32_t)n);
        for (int32_t peer = 0; peer < n; peer++) {
            for (uint64_t i = 0; i < times && peer != r; i++) {
                struct muster_op op = fixture_op(1, i, 100 * US);
                op.func = MUSTER_FUNC_SEND;
                op.peer = peer;
                fixture_add(*run, (size_t)r, op);
            }
        }
    }
    return fixture_report(*run, MUSTER_BY_OP);
}

static size_t length_of(int32_t ranks, uint64_t times, int format)
{
    struct muster_run *run;
    struct muster_report report = all_to_all(&run, ranks, times);
    assert_int_equal(report.ops, ranks * (ranks - 1));
    char *text = shown(&report, format,
                       (struct muster_report_show){.rows = MUSTER_ROWS_OP, .top = MUSTER_SHOW_TOP});
    size_t length = strlen(text);
    free(text);
    muster_report_free(&report);
    fixture_free(run);
    return length;
}

/* A row for each pair of ranks that sent, however often: so JSON grows with the pairs, and by less
 * than 1 KiB for each; the text, which people read, does not grow with them. */
static void sends_take_a_row_a_pair_in_json_and_few_in_text(void **state)
{
    (void)state;
    size_t four = length_of(4, 1, 'j'), often = length_of(4, 50, 'j'), many = length_of(16, 1, 'j');
    assert_in_range(often, four - four / 10, four + four / 10);
    assert_in_range(many - four, (16 * 15 - 4 * 3) * 100, (16 * 15 - 4 * 3) * 1024);
    size_t few = length_of(8, 1, 't'), more = length_of(16, 1, 't');
    assert_true(more < few + 16 * 200);
}

static void json_has_the_documented_fields(void **state)
{
    static const char *const rank_keys[] = {
        "rank",   "rank_source", "host",   "pid",        "local_rank", "gpu",
        "nccl",   "ops",         "bytes",  "in_nccl_us", "waited_us",  "made_wait_us",
        "p50_us", "p99_us",      "timing", "drops",      "lost_log",   "exit"};
    static const char *const op_keys[] = {
        "comm",   "comm_name", "nranks",    "nnodes",          "func",  "size",
        "algo",   "proto",     "channels",  "count",           "bytes", "p50_us",
        "p99_us", "algbw_gbs", "busbw_gbs", "transfer_p50_us", "peer"};
    struct muster_run *run = sample();
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    char *text = written(&report, 'j', MUSTER_ROWS_BOTH);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    (void)state;
    assert_non_null(json);
    const json_t *rank = json_array_get(json_object_get(json, "ranks"), 0);
    const json_t *last = json_array_get(json_object_get(json, "ranks"), 3);
    const json_t *op = json_array_get(json_object_get(json, "ops"), 0);
    for (size_t i = 0; i < sizeof rank_keys / sizeof *rank_keys; i++)
        assert_non_null(json_object_get(rank, rank_keys[i]));
    for (size_t i = 0; i < sizeof op_keys / sizeof *op_keys; i++)
        assert_non_null(json_object_get(op, op_keys[i]));
    assert_string_equal(string(op, "comm"), "abcdef0123456789");
    assert_string_equal(string(op, "func"), "AllReduce");
    assert_string_equal(string(rank, "nccl"), "2.28.9");
    assert_string_equal(string(rank, "exit"), "finalized");
    assert_string_equal(string(json_object_get(rank, "timing"), "source"), "gpu");
    assert_true(json_is_null(json_object_get(json_object_get(rank, "gpu"), "index")));
    assert_true(json_is_null(json_object_get(last, "in_nccl_us")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(rank, "drops"), "total")),
                     3);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(rank, "drops"), "time_backwards")), 3);
    assert_true(json_is_array(json_object_get(json, "run")));
    assert_true(json_is_array(json_object_get(json, "net")));
    assert_true(json_is_array(json_object_get(json, "gaps")));
    json_decref(json);
    free(text);
    muster_report_free(&report);
    fixture_free(run);
}

static size_t count_of(const char *text, char wanted)
{
    size_t n = 0;
    bool quoted = false;
    for (; *text; text++) {
        quoted ^= *text == '"';
        n += !quoted && *text == wanted;
    }
    return n;
}

static void csv_rows_have_the_fields_of_the_header(void **state)
{
    static const struct {
        enum muster_report_by by;
        enum muster_report_rows rows;
        size_t lines;
        const char *starts;
    } cases[] = {
        {MUSTER_BY_OP, MUSTER_ROWS_RANK, 5, "rank,rank_source,host,pid,local_rank,gpu.index,"},
        {MUSTER_BY_OP, MUSTER_ROWS_BOTH, 5, "rank,rank_source,"},
        {MUSTER_BY_OP, MUSTER_ROWS_OP, 3, "comm,comm_name,nranks,"},
        {MUSTER_BY_COMM, MUSTER_ROWS_OP, 3, "comm,comm_name,nranks,nnodes,ranks_seen,count,"},
        {MUSTER_BY_SIZE, MUSTER_ROWS_OP, 3, "nranks,func,size,count,"},
        {MUSTER_BY_RANK_SIZE, MUSTER_ROWS_OP, 6, "nranks,rank,host,func,size,count,"},
    };
    struct muster_run *run = sample();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct muster_report report = fixture_report(run, cases[i].by);
        char *text = written(&report, 'c', cases[i].rows);
        size_t lines = count_of(text, '\n');
        assert_int_equal(lines, cases[i].lines);
        assert_true(strncmp(text, cases[i].starts, strlen(cases[i].starts)) == 0);
        assert_int_equal(count_of(text, ',') % lines, 0);
        assert_int_equal(strstr(text, "\"a,\"\"b\"\"\"") != NULL,
                         cases[i].rows == MUSTER_ROWS_OP && cases[i].by <= MUSTER_BY_COMM);
        free(text);
        muster_report_free(&report);
    }
    fixture_free(run);
}

static void csv_cells_are_no_formulas(void **state)
{
    static const struct {
        const char *name, *cell;
    } cases[] = {{"=HYPERLINK(1)", ",\"'=HYPERLINK(1)\","},
                 {"@sum", ",\"'@sum\","},
                 {"-2+3", ",\"'-2+3\","},
                 {"+1\"", ",\"'+1\"\"\","},
                 {"-", ",-,"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct muster_run *run = sample_named(cases[i].name);
        struct muster_report report = fixture_report(run, MUSTER_BY_OP);
        char *text = written(&report, 'c', MUSTER_ROWS_OP);
        if (!strstr(text, cases[i].cell))
            fail_msg("%s: not in %s", cases[i].cell, text);
        free(text);
        muster_report_free(&report);
        fixture_free(run);
    }
}

static void text_is_aligned_and_narrow(void **state)
{
    struct muster_run *run = sample();
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    char *text = written(&report, 't', MUSTER_ROWS_BOTH);
    size_t ranks = 0;
    (void)state;
    assert_non_null(strstr(text, "4 ranks on 1 host, NCCL 2.28.9"));
    assert_non_null(strstr(text, "31 (75.6 %) timed by the GPUs' own clocks"));
    assert_non_null(strstr(text, "time_backwards"));
    assert_null(strstr(text, " lost log")); /* nothing was lost */
    size_t table = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        size_t n = strlen(line);
        assert_true(n == 0 || line[n - 1] != ' ');
        assert_true(n <= 120);
        table = strcmp(line, "ranks") == 0 ? 1 : table && line[0] == ' ' ? table + 1 : 0;
        ranks += table > 3 && strncmp(line, "     ", 5) == 0; /* two lines of headings */
    }
    assert_int_equal(ranks, 4);
    free(text);
    muster_report_free(&report);
    fixture_free(run);
}

static void text_tells_when_it_shows_only_some(void **state)
{
    struct muster_run *run = fixture_run(1);
    (void)state;
    for (uint32_t c = 1; c <= 30; c++) {
        fixture_comm(run, 0, c, c, 0, 4);
        fixture_add(run, 0, fixture_op(c, 0, c * US));
    }
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    char *text = shown(&report, 't', (struct muster_report_show){.top = 20});
    assert_non_null(strstr(text, "(20 of 30 kinds; --top 0 shows all)"));
    assert_non_null(strstr(text, "and 26 more")); /* partly seen communicators */
    free(text);
    text = written(&report, 't', MUSTER_ROWS_OP);
    assert_null(strstr(text, "of 30 kinds"));
    free(text);
    muster_report_free(&report);
    fixture_free(run);
}

/* Where somebody reads at 60 columns, no line of a table or a sentence is longer. */
static void text_fits_a_narrow_terminal(void **state)
{
    struct muster_run *run = sample();
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    const struct muster_terminal narrow = {.width = 60, .fit = true};
    (void)state;
    report.rank[2].named = 1;
    report.rank[2].verdict = "holds others back";
    char *text =
        shown(&report, 't', (struct muster_report_show){.terminal = narrow, .worst = true});
    assert_non_null(strstr(text, "left out to fit 60 columns"));
    assert_non_null(strstr(text, "\n>    2 "));
    assert_null(strchr(text, '\033'));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (muster_terminal_cells(line) > 60)
            fail_msg("too wide: %s", line);
    free(text);
    muster_report_free(&report);
    fixture_free(run);
}

/* Three calls of two ranks under tag 7, in other entries; one of a tag without room. */
static struct muster_run *tagged(void)
{
    struct muster_run *run = fixture_run(2);
    for (size_t p = 0; p < 2; p++) {
        fixture_comm(run, p, 1, 77, (int32_t)p, 2);
        struct muster_segment *segment = run->process[p].segment;
        segment->tag[3 + p] = (struct muster_seg_tag){7, 2 - p, (2 - p) << 20};
        for (uint64_t i = 0; i < 2 - p; i++) {
            struct muster_op op = fixture_op(1, i, 100 * US * (i + 1));
            op.flags = (uint16_t)((4 + p) << MUSTER_OP_TAG_SHIFT);
            fixture_add(run, p, op);
        }
        struct muster_seg_identity *who = &run->process[p].identity;
        strcpy(who->slurm_job, "4711");
        strcpy(who->slurm_step, p ? "3" : "2");
    }
    run->process[1].segment->tag[MUSTER_SEG_TAGS - 1] = (struct muster_seg_tag){0, 1, 4};
    return run;
}

static void tags_are_added_up_over_the_ranks(void **state)
{
    struct muster_run *run = tagged();
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    (void)state;
    assert_int_equal(report.tags, 2);
    assert_int_equal(report.tag[0].tag, 7);
    assert_int_equal(report.tag[0].processes, 2);
    assert_int_equal(report.tag[0].count, 3);
    assert_int_equal(report.tag[0].bytes, 3 << 20);
    assert_int_equal(report.tag[0].timed_ops, 3);
    assert_true(report.tag[0].total_us == 400 && report.tag[0].p50_us == 100 &&
                report.tag[0].p99_us == 200);
    assert_int_equal(report.tag[1].tag, 0);
    assert_int_equal(report.tag[1].count, 1);
    char *text = written(&report, 'j', MUSTER_ROWS_BOTH);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const json_t *rows = json_object_get(json, "tags");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 0), "tag")), 7);
    assert_true(json_is_null(json_object_get(json_array_get(rows, 1), "tag")));
    json_decref(json);
    free(text);
    text = written(&report, 't', MUSTER_ROWS_BOTH);
    assert_non_null(strstr(text, "tags of the job's own, all ranks together\n"));
    free(text);
    muster_report_free(&report);
    fixture_free(run);
}

static void the_slurm_step_and_the_gpu_are_named(void **state)
{
    struct muster_run *run = tagged();
    struct muster_seg_comm *comm = run->process[1].segment->comm;
    (void)state;
    comm->gpu_index = 5;
    strcpy(comm->gpu_uuid, "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    char *text = written(&report, 't', MUSTER_ROWS_BOTH);
    assert_non_null(strstr(text, "Slurm job 4711"));
    assert_null(strstr(text, "step 2")); /* not of all: a column tells */
    assert_non_null(strstr(text, "  GPU-0f1e2d3c  "));
    free(text);
    text = written(&report, 'c', MUSTER_ROWS_RANK);
    assert_non_null(strstr(text, ",GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0,4711,3,"));
    free(text);
    muster_report_free(&report);
    strcpy(run->process[1].identity.slurm_step, "2");
    report = fixture_report(run, MUSTER_BY_OP);
    text = written(&report, 't', MUSTER_ROWS_BOTH);
    assert_non_null(strstr(text, "Slurm job 4711 step 2"));
    free(text);
    muster_report_free(&report);
    fixture_free(run);
}

static void who_recorded_is_told_and_that_ranks_differ(void **state)
{
    struct muster_run *run = tagged();
    (void)state;
    strcpy(run->process[0].identity.recorded_by, "0.2.0 (commit 0123456789ab)");
    struct muster_report report = fixture_report(run, MUSTER_BY_OP);
    assert_false(fixture_gap(&report, "recorded by")); /* of the other nothing is known */
    muster_report_free(&report);
    strcpy(run->process[1].identity.recorded_by, "0.2.0 (commit 0123456789ab)");
    report = fixture_report(run, MUSTER_BY_OP);
    assert_false(fixture_gap(&report, "recorded by"));
    muster_report_free(&report);
    strcpy(run->process[1].identity.recorded_by, "0.3.0 (built outside git)");
    report = fixture_report(run, MUSTER_BY_OP);
    assert_true(fixture_gap(
        &report, "rank 0: recorded by muster 0.2.0 (commit 0123456789ab), others by another"));
    assert_true(fixture_gap(
        &report, "rank 1: recorded by muster 0.3.0 (built outside git), others by another"));
    char *text = written(&report, 'c', MUSTER_ROWS_RANK);
    assert_non_null(strstr(text, ",0.3.0 (built outside git),"));
    free(text);
    muster_report_free(&report);
    fixture_free(run);
}

static const char *first_of_row(const char *csv, unsigned row)
{
    for (; row; row--)
        csv = strchr(csv, '\n') + 1;
    return csv;
}

static void rows_are_sorted_and_counted(void **state)
{
    struct muster_run *run = sample();
    struct muster_report report = fixture_report(run, MUSTER_BY_RANK_SIZE);
    struct muster_report_show show = {.rows = MUSTER_ROWS_RANK, .sort = "in NCCL", .top = 2};
    (void)state;
    assert_true(muster_report_can_sort(&report, &show));
    char *text = shown(&report, 'c', show);
    assert_int_equal(count_of(text, '\n'), 3);
    assert_int_equal(first_of_row(text, 1)[0], '2'); /* rank 2 was longest in NCCL */
    assert_int_equal(first_of_row(text, 2)[0], '1');
    free(text);
    show = (struct muster_report_show){.rows = MUSTER_ROWS_OP, .sort = "p99_us", .top = 1};
    text = shown(&report, 'c', show);
    assert_int_equal(count_of(text, '\n'), 5); /* one of each rank */
    free(text);
    show.sort = "nonsense";
    assert_false(muster_report_can_sort(&report, &show));
    muster_report_free(&report);
    fixture_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_the_documented_fields),
        cmocka_unit_test(sends_take_a_row_a_pair_in_json_and_few_in_text),
        cmocka_unit_test(csv_rows_have_the_fields_of_the_header),
        cmocka_unit_test(csv_cells_are_no_formulas),
        cmocka_unit_test(text_is_aligned_and_narrow),
        cmocka_unit_test(text_tells_when_it_shows_only_some),
        cmocka_unit_test(text_fits_a_narrow_terminal),
        cmocka_unit_test(rows_are_sorted_and_counted),
        cmocka_unit_test(tags_are_added_up_over_the_ranks),
        cmocka_unit_test(the_slurm_step_and_the_gpu_are_named),
        cmocka_unit_test(who_recorded_is_told_and_that_ranks_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
