/* Findings that lead to others come first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/finding_explain.h"

static struct muster_finding *add(struct muster_findings *findings, enum muster_finding_kind kind,
                                  uint64_t comm)
{
    struct muster_finding *finding = muster_findings_add(findings);
    assert_non_null(finding);
    finding->kind = kind;
    finding->comm = comm;
    return finding;
}

static void a_divergence_comes_before_the_hang_it_explains(void **state)
{
    struct muster_findings findings = {.n = 0};
    (void)state;
    add(&findings, MUSTER_FINDING_HANG_STUCK, 7);
    add(&findings, MUSTER_FINDING_LATE_RANK, 7);
    add(&findings, MUSTER_FINDING_POLICY_DIVERGENCE, 7);
    muster_findings_explain(&findings);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_POLICY_DIVERGENCE);
    assert_int_equal(findings.finding[1].kind, MUSTER_FINDING_HANG_STUCK);
    assert_int_equal(findings.finding[2].kind, MUSTER_FINDING_LATE_RANK);
    assert_non_null(strstr(findings.finding[1].evidence.line[0], "policy_divergence explains it"));
    muster_findings_free(&findings);
}

static void one_of_another_communicator_does_if_its_ranks_hang(void **state)
{
    (void)state;
    for (int32_t rank = 3; rank <= 4; rank++) {
        struct muster_findings findings = {.n = 0};
        struct muster_finding *stuck = add(&findings, MUSTER_FINDING_HANG_STUCK, 7);
        stuck->victim[0] = 3;
        stuck->victims = 1;
        struct muster_finding *divergence = add(&findings, MUSTER_FINDING_POLICY_DIVERGENCE, 8);
        divergence->rank[0] = rank;
        divergence->ranks = 1;
        muster_findings_explain(&findings);
        assert_int_equal(findings.finding[0].kind,
                         rank == 3 ? MUSTER_FINDING_POLICY_DIVERGENCE : MUSTER_FINDING_HANG_STUCK);
        muster_findings_free(&findings);
    }
}

static void other_findings_stay_where_they_are(void **state)
{
    struct muster_findings findings = {.n = 0};
    (void)state;
    add(&findings, MUSTER_FINDING_HANG_ABSENT, 7);
    add(&findings, MUSTER_FINDING_POLICY_DIVERGENCE, 7);
    add(&findings, MUSTER_FINDING_HANG_STUCK, 7)->resolved = true;
    muster_findings_explain(&findings);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_HANG_ABSENT);
    assert_int_equal(findings.finding[2].evidence.n, 0);
    muster_findings_free(&findings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_divergence_comes_before_the_hang_it_explains),
        cmocka_unit_test(one_of_another_communicator_does_if_its_ranks_hang),
        cmocka_unit_test(other_findings_stay_where_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
