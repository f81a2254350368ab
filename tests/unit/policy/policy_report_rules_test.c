/* The report's rows by rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "policy/offline/report_rules.h"
#include "policy/policy.h"
#include "report_fixture.h"

enum { RANKS = 2, UID = 1 };

static const char text[] = "muster: 1\n"
                           "policy:\n"
                           "  - {name: big, match: {bytes: '>=1MiB'}, prefer: {proto: simple}}\n"
                           "  - {name: small, match: {bytes: '<=4KiB'}, avoid: {proto: ll128}}\n";

struct job {
    struct muster_run *run;
    struct muster_report report;
    char dir[64], file[128];
};

static void set_policy(struct muster_run *run, size_t p, enum muster_policy_state state)
{
    struct muster_seg_policy *policy = &run->process[p].segment->policy;
    struct muster_policy *parsed;
    assert_int_equal(muster_policy_parse(&parsed, "p", text, strlen(text), NULL, NULL), 0);
    policy->state = state;
    policy->rules = parsed->rules;
    memcpy(policy->sha256, parsed->sha256, sizeof policy->sha256);
    for (unsigned i = 0; i < parsed->rules; i++) {
        memcpy(policy->rule[i].name, parsed->rule[i].name, sizeof policy->rule[i].name);
        policy->rule[i].line = parsed->rule[i].place.line;
    }
    muster_policy_free(parsed);
}

/* Rank 0 and 1, with operations of 1 MiB by ring/simple and 4 KiB by ring/ll. */
static void set_up(struct job *job)
{
    *job = (struct job){.run = fixture_run(RANKS), .dir = "/tmp/muster-rules-XXXXXX"};
    assert_non_null(mkdtemp(job->dir));
    job->run->source[0] = job->dir;
    for (size_t p = 0; p < RANKS; p++) {
        struct muster_process *process = &job->run->process[p];
        fixture_comm(job->run, p, UID, 0x77, (int32_t)p, RANKS);
        process->comm = calloc(1, sizeof *process->comm);
        assert_non_null(process->comm);
        process->comms = 1;
        process->comm[0] = (struct muster_log_comm){
            .uid = UID, .id = 0x77, .rank = (int32_t)p, .nranks = RANKS, .nnodes = 1};
        for (unsigned i = 0; i < 6; i++) {
            struct muster_op op = fixture_op(UID, i, 0);
            if (i >= 4) {
                op.count = 1024;
                op.proto = MUSTER_PROTO_LL;
                op.channels = 1;
            } else if (i == 3) {
                op.algo = MUSTER_ALGO_TREE;
            }
            fixture_add(job->run, p, op);
        }
        set_policy(job->run, p, MUSTER_POLICY_ACTIVE);
    }
}

static void keep_text(struct job *job, const char *content)
{
    char hex[MUSTER_POLICY_HEX];
    muster_policy_hex(hex, job->run->process[0].segment->policy.sha256);
    snprintf(job->file, sizeof job->file, "%s/policy-%.8s.yaml", job->dir, hex);
    FILE *file = fopen(job->file, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void make(struct job *job)
{
    struct muster_view view;
    struct muster_err err;
    job->report = fixture_report(job->run, MUSTER_BY_OP);
    assert_int_equal(muster_view_of_run_aligned(job->run, &view, &err), 0);
    assert_int_equal(muster_report_rules_add(&view, &job->report, &err), 0);
    muster_view_free(&view);
}

static void tear_down(struct job *job)
{
    muster_report_free(&job->report);
    fixture_free(job->run);
    if (job->file[0])
        unlink(job->file);
    rmdir(job->dir);
}

static void hits_of_all_ranks_and_what_ran(void **state)
{
    struct job job;
    (void)state;
    set_up(&job);
    keep_text(&job, text);
    job.run->process[0].segment->policy.rule[0].hits = 5;
    job.run->process[1].segment->policy.rule[0].hits = 6;
    job.run->process[1].segment->policy.rule[0].not_offered = 2;
    make(&job);
    const struct muster_report_rule *row = job.report.rule;
    assert_int_equal(job.report.rules, 3);
    assert_string_equal(row[0].rule, "big");
    assert_string_equal(row[0].state, "active");
    assert_int_equal(row[0].processes, 2);
    assert_int_equal(row[0].line, 3);
    assert_int_equal(row[0].hits, 11);
    assert_int_equal(row[0].not_offered, 2);
    assert_string_equal(row[0].algo, "tree");
    assert_int_equal(row[0].count, 2);
    assert_string_equal(row[1].rule, "big");
    assert_int_equal(row[1].hits, -1);
    assert_string_equal(row[1].algo, "ring");
    assert_string_equal(row[1].proto, "simple");
    assert_int_equal(row[1].channels, 8);
    assert_int_equal(row[1].count, 6);
    assert_string_equal(row[2].rule, "small");
    assert_int_equal(row[2].hits, 0);
    assert_string_equal(row[2].proto, "ll");
    assert_int_equal(row[2].count, 4);
    tear_down(&job);
}

static void without_the_text_what_ran_is_a_gap(void **state)
{
    struct job job;
    (void)state;
    set_up(&job);
    make(&job);
    assert_int_equal(job.report.rules, 2);
    assert_int_equal(job.report.rule[0].count, -1);
    assert_null(job.report.rule[0].algo);
    assert_true(fixture_gap(&job.report, "holds no policy-"));
    tear_down(&job);
}

static void another_text_under_its_name_is_not_believed(void **state)
{
    struct job job;
    (void)state;
    set_up(&job);
    keep_text(&job, "muster: 1\npolicy:\n  - {name: big, leave: true}\n");
    make(&job);
    assert_int_equal(job.report.rule[0].count, -1);
    assert_true(fixture_gap(&job.report, "holds no policy-"));
    tear_down(&job);
}

static void a_policy_that_is_off_on_one_rank_has_a_row_of_its_own(void **state)
{
    struct job job;
    (void)state;
    set_up(&job);
    keep_text(&job, text);
    set_policy(job.run, 1, MUSTER_POLICY_REFUSED);
    make(&job);
    const struct muster_report_rule *last = &job.report.rule[job.report.rules - 1];
    assert_string_equal(last->state, "refused");
    assert_null(last->rule);
    assert_int_equal(last->processes, 1);
    assert_int_equal(job.report.rule[0].count, 1); /* tree, of rank 0 alone */
    tear_down(&job);
}

static void rules_beyond_the_segments_share_the_last_entry(void **state)
{
    struct job job;
    char many[16384];
    size_t used = (size_t)snprintf(many, sizeof many, "muster: 1\npolicy:\n");
    (void)state;
    set_up(&job);
    for (unsigned i = 0; i < 200; i++)
        used += (size_t)snprintf(many + used, sizeof many - used,
                                 "  - {name: r%u, match: {bytes: %u}, leave: true}\n", i,
                                 i == 150   ? 4096u
                                 : i == 160 ? 1048576u
                                            : 1000000u + i);
    struct muster_policy *parsed;
    assert_int_equal(muster_policy_parse(&parsed, "p", many, used, NULL, NULL), 0);
    for (size_t p = 0; p < RANKS; p++) {
        struct muster_seg_policy *policy = &job.run->process[p].segment->policy;
        policy->rules = 200;
        memcpy(policy->sha256, parsed->sha256, sizeof policy->sha256);
        strcpy(policy->rule[MUSTER_SEG_RULES - 1].name, "other");
    }
    muster_policy_free(parsed);
    keep_text(&job, many);
    make(&job);
    const struct muster_report_rule *last = &job.report.rule[job.report.rules - 1];
    assert_string_equal(last->rule, "other");
    int64_t ops = 0;
    for (size_t i = 0; i < job.report.rules; i++)
        ops += strcmp(job.report.rule[i].rule, "other") == 0 ? job.report.rule[i].count : 0;
    assert_int_equal(ops, 12);
    tear_down(&job);
}

static void without_a_policy_there_are_no_rows(void **state)
{
    struct job job;
    (void)state;
    set_up(&job);
    for (size_t p = 0; p < RANKS; p++)
        job.run->process[p].segment->policy.state = MUSTER_POLICY_NONE;
    make(&job);
    assert_int_equal(job.report.rules, 0);
    tear_down(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_of_all_ranks_and_what_ran),
        cmocka_unit_test(without_the_text_what_ran_is_a_gap),
        cmocka_unit_test(another_text_under_its_name_is_not_believed),
        cmocka_unit_test(a_policy_that_is_off_on_one_rank_has_a_row_of_its_own),
        cmocka_unit_test(rules_beyond_the_segments_share_the_last_entry),
        cmocka_unit_test(without_a_policy_there_are_no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
