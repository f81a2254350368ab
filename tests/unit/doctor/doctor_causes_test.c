/* Causes before symptoms: the table, and the smallest set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/finding.h"
#include "doctor/rules/causes.h"
#include "doctor/rules/checks_print.h"
#include "doctor/rules/job_log.h"

static void add(struct muster_checks *checks, const char *id, enum muster_check_status status)
{
    struct muster_check *check = muster_check_begin(checks, id, "F00");
    muster_check_found(check, "%s found", id);
    muster_check_advice(check, "mend %s", id);
    muster_check_worse(check, status);
}

static bool is_symptom(const char *id)
{
    return muster_symptom_find(id, strlen(id)) != NULL;
}

static void has_a_path_to_a_cause(const char *symptom)
{
    int causes = 0;
    for (size_t i = 0; i < muster_cause_rows_n; i++)
        causes += muster_cause_weight(muster_cause_rows[i].cause, symptom) > 0 &&
                  !is_symptom(muster_cause_rows[i].cause);
    if (causes == 0)
        fail_msg("nothing explains %s", symptom);
}

static void every_symptom_has_a_path_to_a_cause(void **state)
{
    (void)state;
    for (int i = 0; muster_symptoms[i]; i++)
        has_a_path_to_a_cause(muster_symptoms[i]);
    for (int kind = 0; kind < MUSTER_FINDING_KINDS; kind++)
        if (kind != MUSTER_FINDING_HANG_ORDER)
            has_a_path_to_a_cause(muster_finding_rows[kind].name);
}

/* hang_order names its cause itself: the program's order of calls. */
static void every_finding_is_a_symptom(void **state)
{
    (void)state;
    for (int kind = 0; kind < MUSTER_FINDING_KINDS; kind++)
        if (kind != MUSTER_FINDING_HANG_ORDER &&
            !is_symptom(muster_finding_name((enum muster_finding_kind)kind)))
            fail_msg("%s is no symptom", muster_finding_name((enum muster_finding_kind)kind));
}

static void every_word_of_the_table_is_a_symptom(void **state)
{
    (void)state;
    for (size_t i = 0; i < muster_cause_rows_n; i++) {
        char words[256], *rest;
        assert_true((size_t)snprintf(words, sizeof words, "%s", muster_cause_rows[i].symptoms) <
                    sizeof words);
        for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
            if (!is_symptom(word))
                fail_msg("%s explains %s, which is no symptom", muster_cause_rows[i].cause, word);
        assert_in_range(muster_cause_rows[i].weight, *muster_cause_rows[i].symptoms != '\0', 9);
    }
}

/* Each check of docs/doctor.md says what it explains, or is a symptom. */
static void every_documented_check_is_in_the_table(void **state)
{
    char line[4096], id[64];
    FILE *document = fopen(DOCUMENT, "r");
    int seen = 0;
    (void)state;
    assert_non_null(document);
    while (fgets(line, sizeof line, document)) {
        if (sscanf(line, "| %63[a-z0-9_.] |", id) != 1 || !strchr(id, '.'))
            continue;
        bool found = is_symptom(id) || muster_job_log_find(id);
        for (size_t i = 0; i < muster_cause_rows_n; i++)
            found |= strcmp(muster_cause_rows[i].cause, id) == 0;
        if (!found)
            fail_msg("%s does not say what it explains", id);
        seen++;
    }
    fclose(document);
    assert_true(seen > 50);
}

/* Whether a word of the page's column means a symptom: itself, or "p2p.*" for all of p2p. */
static bool means(const char *word, const char *symptom)
{
    size_t n = strlen(word);
    return n > 1 && word[n - 1] == '*' ? strncmp(word, symptom, n - 1) == 0
                                       : strcmp(word, symptom) == 0;
}

static bool names(const char *cell, const char *symptom)
{
    char words[512], *rest;
    bool named = false;
    snprintf(words, sizeof words, "%s", cell);
    for (char *word = strtok_r(words, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest))
        named |= means(word, symptom);
    return named;
}

static void compare_symptom(const char *id, const char *cell, const char *symptom)
{
    bool explains = muster_cause_weight(id, symptom) > 0;
    if (explains != names(cell, symptom))
        fail_msg("%s %s %s, the page says: %s", id, explains ? "explains" : "does not explain",
                 symptom, cell);
}

/* A word that means no symptom at all. */
static void look_for_strangers(const char *id, const char *cell)
{
    char words[512], *rest;
    snprintf(words, sizeof words, "%s", cell);
    for (char *word = strtok_r(words, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest))
        if (!is_symptom(word) && strcmp(word, "p2p.*") != 0 && strcmp(word, "allreduce.*") != 0 &&
            strcmp(word, "-") != 0)
            fail_msg("%s: %s is no symptom", id, word);
}

/* Column "explains" of docs/doctor.md, between "what is looked at" and "source". */
static void the_page_has_the_symptoms_of_the_table(void **state)
{
    char line[4096], id[64], cell[512];
    FILE *document = fopen(DOCUMENT, "r");
    bool explained = false;
    int seen = 0;
    (void)state;
    assert_non_null(document);
    while (fgets(line, sizeof line, document)) {
        if (line[0] != '|')
            explained = false;
        explained |= strstr(line, " | explains | source | ") != NULL;
        bool row = sscanf(line, "| %63[a-z0-9_.] | %*[^|]| %*[^|]| %511[^|]", id, cell) == 2 ||
                   sscanf(line, "| `%63[a-z0-9_.]` | %*[^|]| %*[^|]| %511[^|]", id, cell) == 2;
        if (!explained || !row || !strchr(id, '.'))
            continue;
        for (int i = 0; muster_symptoms[i]; i++)
            compare_symptom(id, cell, muster_symptoms[i]);
        for (int kind = 0; kind < MUSTER_FINDING_KINDS; kind++)
            compare_symptom(id, cell, muster_finding_rows[kind].name);
        look_for_strangers(id, cell);
        seen++;
    }
    fclose(document);
    assert_true(seen > 90);
}

static int make_checks(void **state)
{
    *state = calloc(1, sizeof(struct muster_checks));
    return *state ? 0 : -1;
}

static int free_checks(void **state)
{
    muster_checks_free(*state);
    free(*state);
    return 0;
}

static void what_is_common_is_a_suspect(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    add(checks, "gpu.p2p_status", MUSTER_CHECK_WARNING);
    assert_int_equal(muster_causes_find(checks, "hang_stuck", &causes, &err), 0);
    assert_int_equal(causes.n, 1);
    assert_true(causes.at[0].suspect);
    assert_int_equal(muster_checks_exit(checks), 0);
    assert_string_equal(checks->at[0].found, "gpu.p2p_status found");
    assert_int_equal(muster_causes_find(checks, "slow_transfer", &causes, &err), 0);
    assert_false(causes.at[0].suspect);
}

static void one_cause_is_preferred_to_two(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    add(checks, "host.cumem", MUSTER_CHECK_WARNING); /* explains the all-reduce alone */
    add(checks, "gpu.iommu", MUSTER_CHECK_WARNING);
    add(checks, "gpu.clocks", MUSTER_CHECK_OK);
    add(checks, "p2p.kernel", MUSTER_CHECK_PROBLEM);
    add(checks, "allreduce.small", MUSTER_CHECK_PROBLEM);
    assert_int_equal(muster_causes_find(checks, NULL, &causes, &err), 0);
    assert_int_equal(causes.n, 1);
    assert_int_equal(causes.at[0].check, 1);
    assert_int_equal(causes.at[0].explains, 3);
    assert_int_equal(causes.at[0].others, 2); /* the other two that would do for one of them */
    assert_int_equal(causes.unexplained, 0);
    assert_int_equal(checks->at[1].status, MUSTER_CHECK_PROBLEM); /* raised */
    assert_int_equal(checks->at[0].status, MUSTER_CHECK_WARNING);
}

static void the_most_direct_of_equal_causes_is_named(void **state)
{
    static const char *const ids[] = {"gpu.iommu", "version.driver", "gpu.acs"};
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    for (int i = 0; i < 3; i++)
        add(checks, ids[i], MUSTER_CHECK_WARNING);
    assert_int_equal(muster_causes_find(checks, "hang_stuck", &causes, &err), 0);
    assert_int_equal(causes.n, 1);
    assert_string_equal(checks->at[causes.at[0].check].id, "version.driver");
    assert_int_equal(causes.at[0].others, 2);
}

static void two_faults_are_two_causes(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    add(checks, "host.oom", MUSTER_CHECK_WARNING);
    add(checks, "gpu.clocks", MUSTER_CHECK_WARNING);
    assert_int_equal(muster_causes_find(checks, "hang_dead,late_rank", &causes, &err), 0);
    assert_int_equal(causes.n, 2);
    assert_int_equal(causes.at[0].explains | causes.at[1].explains, 3);
}

/* A hang is led by what makes ranks disagree, where the job showed both. */
static void a_hang_is_led_by_ranks_that_disagree(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    add(checks, "gpu.iommu", MUSTER_CHECK_OK);
    add(checks, "net.mtu", MUSTER_CHECK_WARNING); /* explains the hang, but less directly */
    assert_int_equal(muster_causes_find(checks, "hang_stuck,policy_divergence", &causes, &err), 0);
    assert_int_equal(causes.n, 1);
    assert_string_equal(checks->at[causes.at[0].check].id, "policy_divergence");
    assert_int_equal(causes.at[0].explains, 1);
    assert_int_equal(causes.at[0].others, 1);
    assert_int_equal(causes.unexplained, 2); /* what made them disagree is not of this host */
    assert_non_null(strstr(checks->at[causes.at[0].check].advice, "compare"));
}

static void what_makes_ranks_disagree_explains_the_hang(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    add(checks, "env.value", MUSTER_CHECK_WARNING);
    assert_int_equal(muster_cause_weight("env.value", "hang_stuck"), 0);
    assert_int_equal(muster_causes_find(checks, "hang_stuck,policy_divergence", &causes, &err), 0);
    assert_int_equal(causes.n, 1);
    assert_string_equal(checks->at[causes.at[0].check].id, "env.value");
    assert_int_equal(causes.at[0].explains, 3);
    assert_int_equal(causes.unexplained, 0);
}

static void a_hang_alone_blames_no_disagreement(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    add(checks, "env.value", MUSTER_CHECK_WARNING);
    assert_int_equal(muster_causes_find(checks, "hang_stuck", &causes, &err), 0);
    assert_int_equal(causes.n, 0);
    assert_int_equal(checks->n, 1);
    assert_int_equal(checks->at[0].status, MUSTER_CHECK_WARNING);
}

static void every_difference_that_explains_is_a_check_and_a_symptom(void **state)
{
    (void)state;
    for (size_t i = 0; i < muster_difference_rows_n; i++) {
        const struct muster_cause_row *row = &muster_difference_rows[i];
        bool found = false;
        char words[256], *rest;
        for (size_t j = 0; j < muster_cause_rows_n; j++)
            found |= strcmp(muster_cause_rows[j].cause, row->cause) == 0;
        if (!found)
            fail_msg("%s is no check", row->cause);
        snprintf(words, sizeof words, "%s", row->symptoms);
        for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
            if (!is_symptom(word) || muster_difference_weight(row->cause, word) != row->weight)
                fail_msg("%s explains %s, which is no symptom", row->cause, word);
    }
    assert_int_equal(muster_difference_weight("host.clock", "hang_stuck"), 0);
    assert_int_equal(muster_difference_weight("net.mtu", NULL), 0);
    assert_true(muster_difference_weight("net.mtu", "late_rank,hang_stuck") > 0);
}

static void what_nothing_explains_is_said(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    char *text;
    size_t size;
    add(checks, "gpu.acs", MUSTER_CHECK_UNCHECKED);
    add(checks, "p2p.kernel", MUSTER_CHECK_PROBLEM);
    assert_int_equal(muster_causes_find(checks, NULL, &causes, &err), 0);
    assert_int_equal(causes.n, 0);
    assert_int_equal(causes.unexplained, 1);
    FILE *out = open_memstream(&text, &size);
    muster_checks_text(checks, &causes, false, out);
    fclose(out);
    static const char first[] =
        "This host would spoil a job: 1 problem; 1 of 2 checks could not run.\n"
        "problem   p2p.kernel: ";
    static const char last[] = "\nnot run   gpu.acs: gpu.acs found\n"
                               "1 problem, 0 warnings, 0 ok, 1 unchecked (--all shows them)\n";
    assert_ptr_equal(strstr(text, first), text);
    assert_non_null(strstr(text, last));
    free(text);
    out = open_memstream(&text, &size);
    muster_checks_json(checks, &causes, &(struct muster_checks_place){"h", "h b", -1, -1}, out);
    fclose(out);
    assert_non_null(strstr(text, "\"state\": \"problem\""));
    assert_non_null(strstr(text,
                           "\"text\": \"This host would spoil a job: 1 problem; 1 of 2 checks "
                           "could not run.\""));
    assert_non_null(strstr(text, "\"problems\": 1"));
    free(text);
    out = open_memstream(&text, &size);
    muster_checks_text(checks, &causes, false, out);
    fclose(out);
    assert_non_null(strstr(text, "no cause seen; not checked: gpu.acs\n"));
    free(text);
}

static void a_word_that_is_no_symptom_is_refused(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    assert_int_equal(muster_causes_find(checks, "hang_stuck,hang", &causes, &err), -1);
    assert_non_null(strstr(err.text, "no symptom \"hang\""));
}

static void the_cause_comes_first_and_symptoms_under_it(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    char *text;
    size_t size;
    add(checks, "limit.nofile", MUSTER_CHECK_PROBLEM);
    add(checks, "p2p.kernel", MUSTER_CHECK_PROBLEM);
    add(checks, "gpu.acs", MUSTER_CHECK_WARNING);
    assert_int_equal(muster_causes_find(checks, NULL, &causes, &err), 0);
    FILE *out = open_memstream(&text, &size);
    muster_checks_text(checks, &causes, false, out);
    fclose(out);
    assert_string_equal(text, "This host would spoil a job: 3 problems; all 3 checks ran.\n"
                              "problem   gpu.acs: gpu.acs found\n"
                              "          fix: mend gpu.acs\n"
                              "          explains:\n"
                              "            problem   p2p.kernel: p2p.kernel found\n"
                              "problem   limit.nofile: limit.nofile found\n"
                              "          fix: mend limit.nofile\n"
                              "3 problems, 0 warnings, 0 ok, 0 unchecked (--all shows them)\n");
    free(text);
}

/* What is fine by itself leads where nothing else explains a symptom, and there alone. */
static void a_suspect_comes_last(void **state)
{
    struct muster_causes causes;
    struct muster_err err;
    struct muster_checks *checks = *state;
    add(checks, "net.firewall", MUSTER_CHECK_OK);
    muster_check_suspect(&checks->at[0], "a rule may be in the way");
    assert_int_equal(muster_causes_find(checks, NULL, &causes, &err), 0);
    assert_int_equal(checks->at[0].status, MUSTER_CHECK_OK);
    assert_int_equal(muster_causes_find(checks, "slow_transfer", &causes, &err), 0);
    assert_int_equal(causes.n, 0); /* explains that not */
    assert_int_equal(muster_causes_find(checks, "init_error", &causes, &err), 0);
    assert_int_equal(causes.n, 1);
    assert_int_equal(causes.unexplained, 0);
    assert_int_equal(checks->at[0].status, MUSTER_CHECK_WARNING);
    assert_string_equal(checks->at[0].found, "a rule may be in the way");
    checks->at[0].status = MUSTER_CHECK_OK;
    add(checks, "net.subnet", MUSTER_CHECK_WARNING); /* weighs less, but was found */
    assert_int_equal(muster_causes_find(checks, "init_error", &causes, &err), 0);
    assert_int_equal(causes.n, 1);
    assert_int_equal(causes.at[0].check, 1);
    assert_int_equal(checks->at[0].status, MUSTER_CHECK_OK);
}

static void suspects_that_rest_on_little_stand_behind_problems(void **state)
{
    struct muster_causes causes;
    struct muster_err err;
    struct muster_checks *checks = *state;
    static const char *const ids[] = {"version.nccl_bad", "gpu.multicast"};
    for (int i = 0; i < 2; i++) {
        add(checks, ids[i], MUSTER_CHECK_OK);
        muster_check_suspect(&checks->at[i], "it may be %s", ids[i]);
        checks->at[i].suspect_of = "init_error";
        checks->at[i].suspect_weight = i;
    }
    assert_int_equal(muster_causes_find(checks, "init_error", &causes, &err), 0);
    assert_int_equal(causes.at[0].check, 1); /* the greater weight */
    checks->at[1].status = MUSTER_CHECK_OK;
    add(checks, "limit.memory", MUSTER_CHECK_PROBLEM); /* explains no failed start */
    assert_int_equal(muster_causes_find(checks, "init_error", &causes, &err), 0);
    assert_int_equal(causes.n, 0);
    /* one that has rows in the table is named all the same */
    add(checks, "net.firewall", MUSTER_CHECK_OK);
    muster_check_suspect(&checks->at[3], "a rule may be in the way");
    assert_int_equal(muster_causes_find(checks, "init_error", &causes, &err), 0);
    assert_int_equal(causes.at[0].check, 3);
}

static void what_was_found_explains_its_own_words_alone(void **state)
{
    struct muster_causes causes;
    struct muster_err err;
    struct muster_checks *checks = *state;
    add(checks, "version.nccl_bad", MUSTER_CHECK_PROBLEM);
    checks->at[0].explains = "slow_transfer path_missing";
    assert_int_equal(muster_causes_find(checks, "hang_stuck", &causes, &err), 0);
    assert_int_equal(causes.n, 0);
    assert_int_equal(muster_causes_find(checks, "slow_transfer", &causes, &err), 0);
    assert_int_equal(causes.n, 1);
    checks->at[0].explains = NULL;
    assert_int_equal(muster_causes_find(checks, "hang_stuck", &causes, &err), 0);
    assert_int_equal(causes.n, 1);
}

/* As a job without GPUDirect RDMA that sums wrongly; one that does not start may need it. */
static void what_only_slows_hides_no_suspect_of_a_wrong_result(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_err err;
    add(checks, "version.nccl_bad", MUSTER_CHECK_OK);
    muster_check_suspect(&checks->at[0], "a bug that some programs meet");
    checks->at[0].suspect_of = "wrong_result init_error";
    add(checks, "ib.gdr", MUSTER_CHECK_PROBLEM);
    assert_int_equal(muster_causes_find(checks, "init_error", &causes, &err), 0);
    assert_int_equal(causes.n, 0);
    assert_int_equal(muster_causes_find(checks, "wrong_result", &causes, &err), 0);
    assert_int_equal(causes.n, 1);
    assert_true(causes.at[0].suspect);
    checks->at[0].status = MUSTER_CHECK_OK;
    add(checks, "limit.memlock", MUSTER_CHECK_PROBLEM); /* what lacks it does not only slow */
    assert_int_equal(muster_causes_find(checks, "wrong_result", &causes, &err), 0);
    assert_int_equal(causes.n, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_checks, free_checks)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_suspect_comes_last),
        TEST(suspects_that_rest_on_little_stand_behind_problems),
        TEST(what_only_slows_hides_no_suspect_of_a_wrong_result),
        TEST(what_was_found_explains_its_own_words_alone),
        cmocka_unit_test(every_symptom_has_a_path_to_a_cause),
        cmocka_unit_test(every_finding_is_a_symptom),
        cmocka_unit_test(every_word_of_the_table_is_a_symptom),
        cmocka_unit_test(every_documented_check_is_in_the_table),
        cmocka_unit_test(the_page_has_the_symptoms_of_the_table),
        TEST(what_is_common_is_a_suspect),
        TEST(one_cause_is_preferred_to_two),
        TEST(the_most_direct_of_equal_causes_is_named),
        TEST(two_faults_are_two_causes),
        TEST(a_hang_is_led_by_ranks_that_disagree),
        TEST(what_makes_ranks_disagree_explains_the_hang),
        TEST(a_hang_alone_blames_no_disagreement),
        cmocka_unit_test(every_difference_that_explains_is_a_check_and_a_symptom),
        TEST(what_nothing_explains_is_said),
        TEST(a_word_that_is_no_symptom_is_refused),
        TEST(the_cause_comes_first_and_symptoms_under_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
