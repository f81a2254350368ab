/* Variables as users set them, and the whole list of remarks that they get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/env/env_rules.h"

enum { OLD = 21805, NOW = 22809, NEW = 23007, VARIABLES = 8, IB = 1, NVLINK = 2 };

struct env_case {
    const char *set;    /* NAME=VALUE, separated by | */
    int nccl;           /* 0: unknown */
    const char *expect; /* "rule:NAME" in order, '!' where grave; "" none */
    int host;           /* IB | NVLINK */
};

static const char *const words[MUSTER_ENV_RULES] = {"unread",        "misspelt", "removed",
                                                    "legacy",        "number",   "value",
                                                    "contradiction", "costly",   "unsafe"};

static const struct env_case cases[] = {
#include "env_cases.inc"
};

static size_t split(char *text, struct muster_env_variable *variable)
{
    size_t n = 0;
    char *rest = NULL;
    for (char *one = strtok_r(text, "|", &rest); one; one = strtok_r(NULL, "|", &rest)) {
        char *equals = strchr(one, '=');
        assert_non_null(equals);
        assert_true(n < VARIABLES);
        *equals = '\0';
        variable[n++] = (struct muster_env_variable){one, equals + 1};
    }
    return n;
}

static void evaluate(const struct env_case *is, char *got, size_t size)
{
    static struct muster_env_remarks remarks;
    struct muster_env_variable variable[VARIABLES];
    char set[512];
    snprintf(set, sizeof set, "%s", is->set);
    const struct muster_env_input input = {.at = variable,
                                           .n = split(set, variable),
                                           .nccl = is->nccl,
                                           .infiniband = is->host & IB,
                                           .nvlink = is->host & NVLINK};
    muster_env_evaluate(&input, &remarks);
    got[0] = '\0';
    for (int i = 0; i < remarks.n; i++) {
        size_t used = strlen(got);
        snprintf(got + used, size - used, "%s%s:%s%s", used ? " " : "", words[remarks.at[i].rule],
                 remarks.at[i].name, remarks.at[i].grave ? "!" : "");
        assert_true(strlen(remarks.at[i].text) > strlen(remarks.at[i].name) + 5);
    }
}

static void every_case_gets_its_remarks_and_no_others(void **state)
{
    size_t wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[1024];
        evaluate(&cases[i], got, sizeof got);
        if (strcmp(got, cases[i].expect) != 0) {
            print_error("%s (NCCL %d): \"%s\", expected \"%s\"\n", cases[i].set, cases[i].nccl, got,
                        cases[i].expect);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
    assert_true(sizeof cases / sizeof *cases >= 200);
}

static void the_librarys_own_names_win_over_the_tables(void **state)
{
    static const char *const names[] = {"NCCL_ALGO", "NCCL_DEBUG", "NCCL_MADE_UP"};
    const struct muster_env_variable set[] = {{"NCCL_MADE_UP", "1"}, {"NCCL_BUFFSIZE", "8388608"}};
    struct muster_env_remarks remarks;
    const struct muster_env_input input = {
        .at = set, .n = 2, .nccl = NOW, .strings = names, .strings_n = 3};
    (void)state;
    muster_env_evaluate(&input, &remarks);
    assert_int_equal(remarks.n, 1);
    assert_string_equal(remarks.at[0].name, "NCCL_BUFFSIZE");
    assert_int_equal(remarks.at[0].rule, MUSTER_ENV_UNREAD);
}

static void hundreds_of_bad_variables_are_counted_not_written_past_the_end(void **state)
{
    static char name[400][24];
    static struct muster_env_variable set[400];
    static struct muster_env_remarks remarks;
    (void)state;
    for (int i = 0; i < 400; i++) {
        snprintf(name[i], sizeof name[i], "NCCL_ZZZZQQQQ%d", i);
        set[i] = (struct muster_env_variable){name[i], "1"};
    }
    const struct muster_env_input input = {.at = set, .n = 400};
    muster_env_evaluate(&input, &remarks);
    assert_int_equal(remarks.n, MUSTER_ENV_REMARKS);
    assert_int_equal(remarks.dropped, 400 - MUSTER_ENV_REMARKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_gets_its_remarks_and_no_others),
        cmocka_unit_test(the_librarys_own_names_win_over_the_tables),
        cmocka_unit_test(hundreds_of_bad_variables_are_counted_not_written_past_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
