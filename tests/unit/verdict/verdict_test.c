#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/terminal.h"
#include "verdict/verdict.h"

enum { RANKS = 4 };

/* Four ranks in one communicator, without operations. */
static void fill(struct muster_view *view, unsigned gpus)
{
    struct muster_err err;
    *view = (struct muster_view){0};
    for (unsigned g = 0; g < gpus; g++) {
        const struct muster_view_gpu gpu = {.rank = (int32_t)g, .gpu_index = -1, .host = "h"};
        muster_view_add_gpu(view, &gpu);
        muster_view_add_member(view, g, 7, (int32_t)g, RANKS, 1, "world");
    }
    assert_int_equal(muster_view_finish(view, &err), 0);
}

static struct muster_finding *add(struct muster_findings *findings, enum muster_finding_kind kind,
                                  int32_t rank)
{
    struct muster_finding *finding = muster_findings_add(findings);
    assert_non_null(finding);
    finding->kind = kind;
    finding->comm = 7;
    finding->rank[0] = rank;
    finding->ranks = 1;
    finding->cost_s = 1.25;
    finding->cost_share = 0.4;
    finding->cause = MUSTER_CAUSE_GPU;
    snprintf(finding->host, sizeof finding->host, "a-host-with-a-rather-long-name");
    snprintf(finding->advice, sizeof finding->advice, "look at its GPU: clocks and temperature");
    return finding;
}

static void a_late_rank_is_named_in_three_lines(void **state)
{
    static const unsigned widths[] = {0, 40, 60, 100, 200};
    struct muster_view view;
    struct muster_findings findings = {0};
    struct muster_verdict verdict;
    (void)state;
    fill(&view, RANKS);
    add(&findings, MUSTER_FINDING_LATE_RANK, 2);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        muster_verdict_of(&view, &findings, widths[i], &verdict);
        assert_int_equal(verdict.state, MUSTER_VERDICT_HELD);
        assert_int_equal(verdict.lines, 3);
        assert_non_null(strstr(verdict.line[0], "Rank 2"));
        assert_non_null(strstr(verdict.line[0], "40 %"));
        assert_memory_equal(verdict.line[1], "Cause: the GPU", 14);
        assert_memory_equal(verdict.line[2], "Next: look at its GPU", 21);
        for (unsigned l = 0; l < verdict.lines && widths[i]; l++)
            assert_true(muster_terminal_cells(verdict.line[l]) <= widths[i]);
    }
    muster_findings_free(&findings);
    muster_view_free(&view);
}

/* Two operations a second for 10 s, of which those of the last second were timed, when the rank was
 * late for most of the time. */
static void what_a_sampled_job_lost_is_a_share_of_its_run(void **state)
{
    enum { OPS = 21, TIMED = 19, MS = 1000000 };
    struct muster_view view = {0};
    struct muster_findings findings = {0};
    struct muster_verdict verdict;
    struct muster_err err;
    (void)state;
    for (unsigned g = 0; g < RANKS; g++) {
        const struct muster_view_gpu gpu = {
            .rank = (int32_t)g, .gpu_index = -1, .host = "h", .host_times = true, .one_pace = true};
        muster_view_add_gpu(&view, &gpu);
        uint32_t member = muster_view_add_member(&view, g, 7, (int32_t)g, RANKS, 1, "world");
        for (unsigned i = 0; i < OPS; i++) {
            struct muster_op op = {
                .number = i, .enqueue_ns = (1000ull + 500 * i) * MS, .peer = -1, .count = 1};
            op.begin_ns = i < TIMED ? 0 : op.enqueue_ns;
            op.end_ns = i < TIMED ? 0 : op.enqueue_ns + MS;
            op.source = i < TIMED ? MUSTER_SOURCE_NONE : MUSTER_SOURCE_GPU;
            muster_view_add_op(&view, member, &op);
        }
    }
    assert_int_equal(muster_view_finish(&view, &err), 0);
    struct muster_finding *finding = add(&findings, MUSTER_FINDING_LATE_RANK, 2);
    finding->cost_share = 0.9;
    finding->cost_run_s = 2;
    muster_verdict_of(&view, &findings, 0, &verdict);
    assert_non_null(strstr(verdict.line[0], "loses 20 % of its time, about 2 s over the run"));
    muster_verdict_of(&view, &findings, 60, &verdict);
    assert_non_null(strstr(verdict.line[0], "20 % lost"));
    muster_findings_free(&findings);
    muster_view_free(&view);
}

static void causes_of_several_ranks_stand_in_one_line(void **state)
{
    struct muster_view view;
    struct muster_findings findings = {0};
    struct muster_verdict verdict;
    (void)state;
    fill(&view, RANKS);
    struct muster_finding *finding = add(&findings, MUSTER_FINDING_LATE_RANK, 2);
    finding->mode = MUSTER_MODE_MOVES;
    finding->cause = MUSTER_CAUSE_UNKNOWN;
    finding->rank[finding->ranks++] = 0;
    finding->stretch[0] = (struct muster_finding_stretch){2, MUSTER_CAUSE_GPU, 1, 2};
    finding->stretch[1] = (struct muster_finding_stretch){0, MUSTER_CAUSE_HOST, 3, 4};
    finding->stretches = 2;
    finding->cost_s = finding->cost_share = 0.1;
    muster_verdict_of(&view, &findings, 0, &verdict);
    assert_string_equal(verdict.line[1], "Causes: rank 2: the GPU; rank 0: the host.");
    muster_verdict_of(&view, &findings, 40, &verdict);
    assert_string_equal(verdict.line[1], "Cause: not the same for all.");
    muster_findings_free(&findings);
    muster_view_free(&view);
}

static void ranks_that_disagree_are_named_with_what_they_called(void **state)
{
    static const unsigned widths[] = {0, 60, 100};
    struct muster_view view;
    struct muster_findings findings = {0};
    struct muster_verdict verdict;
    (void)state;
    fill(&view, RANKS);
    struct muster_finding *finding = add(&findings, MUSTER_FINDING_MISMATCH, 2);
    finding->confidence = 1;
    finding->has_op = true;
    finding->op.func = MUSTER_FUNC_ALL_REDUCE;
    finding->op.index = 76;
    muster_finding_line(&finding->evidence, "rank 0 called #76 AllReduce 1048576 float32");
    muster_finding_line(&finding->evidence, "rank 2 called #76 Broadcast 1048576 float32, root 0");
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        muster_verdict_of(&view, &findings, widths[i], &verdict);
        assert_int_equal(verdict.lines, 3);
        assert_memory_equal(verdict.line[0], "Ranks disagree on call #76", 26);
        assert_non_null(strstr(verdict.line[0], "rank 2"));
        assert_non_null(strstr(verdict.line[1], "rank 0 called #76 AllReduce"));
        assert_true((widths[i] == 60) != (strstr(verdict.line[1], "Broadcast") != NULL));
        assert_memory_equal(verdict.line[2], "Next: ", 6);
    }
    muster_findings_free(&findings);
    muster_view_free(&view);
}

static void a_slow_transfer_names_both_ends(void **state)
{
    struct muster_view view;
    struct muster_findings findings = {0};
    struct muster_verdict verdict;
    char sentence[512];
    (void)state;
    fill(&view, RANKS);
    struct muster_finding *finding = add(&findings, MUSTER_FINDING_SLOW_TRANSFER, 1);
    finding->rank[1] = 2;
    finding->ranks = 2;
    snprintf(finding->host, sizeof finding->host, "node0");
    snprintf(finding->to_host, sizeof finding->to_host, "node1");
    muster_verdict_of(&view, &findings, 0, &verdict);
    assert_memory_equal(verdict.line[0], "The transfer from rank 1 (node0) to rank 2 (node1) ", 51);
    muster_verdict_of(&view, &findings, 40, &verdict);
    assert_string_equal(verdict.line[0], "Slow transfer from rank 1 to rank 2.");
    muster_finding_sentence(finding, sentence, sizeof sentence);
    assert_non_null(strstr(sentence, "from rank 1 (host node0) to rank 2 (host node1) is slow"));
    snprintf(finding->to_host, sizeof finding->to_host, "node0");
    muster_verdict_of(&view, &findings, 0, &verdict);
    assert_memory_equal(verdict.line[0], "The transfer from rank 1 to rank 2 (both on node0) ", 51);
    finding->to_host[0] = '\0'; /* told by an older muster */
    muster_verdict_of(&view, &findings, 0, &verdict);
    assert_memory_equal(verdict.line[0], "The transfer from rank 1 (node0) to rank 2 holds", 48);
    muster_findings_free(&findings);
    muster_view_free(&view);
}

/* Operations that follow each other; one rank after another comes `late_ns` late. */
static void fill_taking_turns(struct muster_view *view, uint64_t late_ns)
{
    enum { OPS = 40, TRANSFER_NS = 100000, STEP_NS = 1000000 };
    struct muster_err err;
    *view = (struct muster_view){0};
    for (unsigned g = 0; g < RANKS; g++) {
        const struct muster_view_gpu gpu = {.rank = (int32_t)g, .gpu_index = -1, .host = "h"};
        muster_view_add_gpu(view, &gpu);
        uint32_t member = muster_view_add_member(view, g, 7, (int32_t)g, RANKS, 1, "world");
        for (uint64_t n = 1; n <= OPS; n++) {
            uint64_t own_late = n % RANKS == g ? late_ns : 0,
                     end = n * STEP_NS + TRANSFER_NS + late_ns;
            const struct muster_op op = {.number = n,
                                         .enqueue_ns = n * STEP_NS,
                                         .begin_ns = n * STEP_NS + own_late,
                                         .end_ns = end,
                                         .count = 1024,
                                         .func = MUSTER_FUNC_ALL_REDUCE,
                                         .dtype = 7,
                                         .source = MUSTER_SOURCE_EVENT,
                                         .peer = -1};
            muster_view_add_op(view, member, &op);
        }
    }
    assert_int_equal(muster_view_finish(view, &err), 0);
}

static void waiting_that_nobody_is_named_for_is_said(void **state)
{
    struct muster_findings findings = {0};
    struct muster_verdict verdict;
    (void)state;
    findings.clean.compared = 40;
    findings.clean.least_ns = 1000;
    findings.clean.seen = findings.clean.nranks = RANKS;
    for (unsigned much = 0; much < 2; much++) {
        struct muster_view view;
        fill_taking_turns(&view, much ? 400000 : 20000);
        muster_verdict_of(&view, &findings, 100, &verdict);
        assert_int_equal(verdict.state, MUSTER_VERDICT_NOBODY);
        assert_int_equal(verdict.lines, much ? 3 : 2);
        /* three of four wait 0.4 ms of each ms */
        if (much)
            assert_memory_equal(verdict.line[2], "Yet ranks waited 3", 18);
        muster_view_free(&view);
    }
}

static void a_hang_goes_before_what_is_slow(void **state)
{
    struct muster_view view;
    struct muster_findings findings = {0};
    struct muster_verdict verdict;
    (void)state;
    fill(&view, RANKS);
    add(&findings, MUSTER_FINDING_LATE_RANK, 2);
    add(&findings, MUSTER_FINDING_HANG_ABSENT, 3);
    muster_verdict_of(&view, &findings, 0, &verdict);
    assert_memory_equal(verdict.line[0], "This job hangs: rank 3", 22);
    findings.finding[1].resolved = true;
    muster_verdict_of(&view, &findings, 0, &verdict);
    assert_memory_equal(verdict.line[0], "Rank 2", 6);
    findings.finding[0].resolved = true;
    muster_verdict_of(&view, &findings, 0, &verdict);
    assert_int_equal(verdict.state, MUSTER_VERDICT_UNKNOWN);
    muster_findings_free(&findings);
    muster_view_free(&view);
}

static bool advises(const struct muster_verdict *verdict, const char *words)
{
    for (size_t i = 0; i < sizeof verdict->line / sizeof *verdict->line; i++)
        if (strncmp(verdict->line[i], "Next: ", 6) == 0 && strstr(verdict->line[i], words))
            return true;
    return false;
}

static void nobody_is_said_only_where_somebody_would_have_been_found(void **state)
{
    struct muster_view view;
    struct muster_findings findings = {
        .clean = {.seen = 4, .nranks = 4, .compared = 211, .least_ns = 24000}};
    struct muster_verdict verdict;
    (void)state;
    fill(&view, RANKS);
    muster_verdict_of(&view, &findings, 100, &verdict);
    assert_int_equal(verdict.state, MUSTER_VERDICT_NOBODY);
    assert_string_equal(verdict.line[0], "Nobody holds this job back.");
    assert_non_null(strstr(verdict.line[1], "24 us"));
    findings.clean.least_ns = 0;
    muster_verdict_of(&view, &findings, 100, &verdict);
    assert_int_equal(verdict.state, MUSTER_VERDICT_UNKNOWN);
    assert_non_null(strstr(verdict.line[0], "Cannot tell"));
    assert_true(advises(&verdict, "--timing full"));
    for (size_t g = 0; g < view.gpus; g++)
        view.gpu[g].timing = MUSTER_TIMING_FULL;
    muster_verdict_of(&view, &findings, 100, &verdict);
    assert_false(advises(&verdict, "--timing full"));
    muster_view_free(&view);
    fill(&view, 1);
    muster_verdict_of(&view, &findings, 0, &verdict);
    assert_non_null(strstr(verdict.line[0], "only one rank was recorded"));
    muster_view_free(&view);
}

/* One operation of each rank, a replay of a graph, with times or without. */
static void fill_replays(struct muster_view *view, bool timed)
{
    struct muster_err err;
    *view = (struct muster_view){0};
    for (uint32_t g = 0; g < RANKS; g++) {
        const struct muster_view_gpu gpu = {.rank = (int32_t)g, .gpu_index = -1, .host = "h"};
        const struct muster_op op = {.number = 1,
                                     .enqueue_ns = 1000,
                                     .begin_ns = timed ? 2000 : 0,
                                     .end_ns = timed ? 3000 : 0,
                                     .comm = 1,
                                     .source = timed ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE,
                                     .flags = MUSTER_OP_GRAPH};
        muster_view_add_gpu(view, &gpu);
        muster_view_add_op(view, muster_view_add_member(view, g, 7, (int32_t)g, RANKS, 1, "world"),
                           &op);
    }
    assert_int_equal(muster_view_finish(view, &err), 0);
}

static void nobody_is_said_of_what_was_timed_where_graphs_were_not(void **state)
{
    static const unsigned widths[] = {0, 60, 100};
    struct muster_view view;
    struct muster_findings findings = {
        .clean = {.seen = 4, .nranks = 4, .compared = 211, .least_ns = 24000}};
    struct muster_verdict verdict;
    (void)state;
    fill_replays(&view, false);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        muster_verdict_of(&view, &findings, widths[i], &verdict);
        assert_int_equal(verdict.state, MUSTER_VERDICT_NOBODY);
        assert_non_null(strstr(verdict.line[0], "CUDA graph replays"));
        assert_non_null(strstr(verdict.line[2], "--timing channels"));
    }
    muster_view_free(&view);
    fill_replays(&view, true);
    muster_verdict_of(&view, &findings, 100, &verdict);
    assert_string_equal(verdict.line[0], "Nobody holds this job back.");
    muster_view_free(&view);
}

static void ranks_are_marked(void **state)
{
    struct muster_view view;
    struct muster_findings findings = {0};
    struct muster_report_rank rank[RANKS] = {{.rank = 0}, {.rank = 1}, {.rank = 2}, {.rank = 3}};
    struct muster_report report = {.rank = rank, .ranks = RANKS};
    (void)state;
    fill(&view, RANKS);
    add(&findings, MUSTER_FINDING_LATE_RANK, 2);
    muster_verdict_mark(&view, &findings, &report);
    assert_int_equal(rank[2].named, 1);
    assert_string_equal(rank[2].verdict, "holds others back");
    assert_int_equal(rank[0].named, 0);
    assert_string_equal(rank[0].verdict, "waits for rank 2");
    muster_findings_free(&findings);
    muster_view_free(&view);
}

/* Both may be as good as any: what is slow is between them. */
static void ends_of_a_slow_transfer_are_not_blamed(void **state)
{
    struct muster_view view;
    struct muster_findings findings = {0};
    struct muster_report_rank rank[RANKS] = {{.rank = 0}, {.rank = 1}, {.rank = 2}, {.rank = 3}};
    struct muster_report report = {.rank = rank, .ranks = RANKS};
    (void)state;
    fill(&view, RANKS);
    add(&findings, MUSTER_FINDING_SLOW_TRANSFER, 1);
    muster_verdict_mark(&view, &findings, &report);
    assert_int_equal(rank[1].named, 1);
    assert_string_equal(rank[1].verdict, "slow transfer");
    muster_findings_free(&findings);
    muster_view_free(&view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_rank_is_named_in_three_lines),
        cmocka_unit_test(what_a_sampled_job_lost_is_a_share_of_its_run),
        cmocka_unit_test(causes_of_several_ranks_stand_in_one_line),
        cmocka_unit_test(ranks_that_disagree_are_named_with_what_they_called),
        cmocka_unit_test(a_slow_transfer_names_both_ends),
        cmocka_unit_test(waiting_that_nobody_is_named_for_is_said),
        cmocka_unit_test(a_hang_goes_before_what_is_slow),
        cmocka_unit_test(nobody_is_said_only_where_somebody_would_have_been_found),
        cmocka_unit_test(nobody_is_said_of_what_was_timed_where_graphs_were_not),
        cmocka_unit_test(ranks_are_marked),
        cmocka_unit_test(ends_of_a_slow_transfer_are_not_blamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
