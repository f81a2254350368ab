/* A host that is late as a whole, while the job runs: its ranks hide each other no longer than it
 * takes to see the other hosts. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BEFORE = 20, HOST = 4 };

/* Steps of half a second; then so many in which `late` ranks of the first host are late by a tenth.
 * Returns the kind of what is named; -1: nothing. `first`: the first rank of it. */
static int named(unsigned ranks_n, unsigned late, unsigned steps, int32_t *first)
{
    struct ranks ranks;
    ranks_begin(&ranks, ranks_n);
    ranks_comm(&ranks, 0, 0, 1, ranks_n, ranks_n);
    for (unsigned r = 0; r < ranks_n; r++)
        ranks.view.gpu[r].host = r / HOST == 0   ? "node0"
                                 : r / HOST == 1 ? "node1"
                                 : r / HOST == 2 ? "node2"
                                                 : "node3";
    for (unsigned s = 0; s < BEFORE + steps; s++) {
        for (unsigned r = 0; r < ranks.n; r++)
            ranks_work(&ranks, r, 500 * MS + (s >= BEFORE && r < late ? 50 * MS : 0));
        ranks_do(&ranks, 0, 1 << 20, 100 * US, true, 0);
        ranks_do(&ranks, 0, 256, 10 * US, true, 0);
    }
    ranks.view.window = 1;
    struct muster_findings findings = ranks_diagnose(&ranks);
    int kind = findings.n ? (int)findings.finding[0].kind : -1;
    *first = findings.n ? findings.finding[0].rank[0] : -1;
    assert_true(findings.n <= 1);
    muster_findings_free(&findings);
    ranks_end(&ranks);
    return kind;
}

/* By how many late steps it is named; 0: by no number that was tried. */
static unsigned steps_to_name(unsigned ranks, unsigned late, int kind)
{
    int32_t first;
    for (unsigned steps = 1; steps <= 40; steps++) {
        int said = named(ranks, late, steps, &first);
        assert_true(said == -1 || said == kind);
        assert_true(said == -1 || first == 0);
        if (said == kind)
            return steps;
    }
    return 0;
}

static void test_a_late_host_takes_hardly_more_steps_than_a_late_rank(void **state)
{
    (void)state;
    for (unsigned ranks = 2 * HOST; ranks <= 4 * HOST; ranks += 2 * HOST) {
        unsigned rank = steps_to_name(ranks, 1, MUSTER_FINDING_LATE_RANK);
        unsigned host = steps_to_name(ranks, HOST, MUSTER_FINDING_LATE_HOST);
        assert_true(rank > 0 && host > 0);
        assert_true(host <= 2 * rank);
    }
}

static void test_one_late_step_names_nobody(void **state)
{
    int32_t first;
    (void)state;
    for (unsigned late = 0; late <= HOST; late++)
        assert_int_equal(named(4 * HOST, late, late > 0, &first), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_host_takes_hardly_more_steps_than_a_late_rank),
        cmocka_unit_test(test_one_late_step_names_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
