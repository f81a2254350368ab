/* A square grid of ranks: its rows and its columns are communicators of as many ranks each. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SIDE = 4, RANKS = SIDE * SIDE, LATE = 5, STEPS = 120 };

static void begin(struct ranks *ranks)
{
    ranks_begin(ranks, RANKS);
    for (unsigned i = 0; i < SIDE; i++) {
        ranks_comm(ranks, i, i * SIDE, 1, SIDE, SIDE);
        ranks_comm(ranks, SIDE + i, i, SIDE, SIDE, SIDE);
    }
}

/* All work for so long, rank LATE for `late_ns` longer. */
static void work(struct ranks *ranks, uint64_t ns, uint64_t late_ns)
{
    for (unsigned r = 0; r < RANKS; r++)
        ranks_work(ranks, r, ns + (r == LATE ? late_ns : 0));
}

/* Of the communicators from `first` on. */
static void one_side(struct ranks *ranks, unsigned first)
{
    for (unsigned i = 0; i < SIDE; i++)
        ranks_do(ranks, first + i, 1 << 20, 100 * US, true, 0);
}

/* Their operations are of one size. Before a column's ranks work ten times as long. */
static void test_rows_and_columns_are_told_apart(void **state)
{
    (void)state;
    struct ranks ranks;
    begin(&ranks);
    for (unsigned step = 0; step < STEPS; step++) {
        work(&ranks, 1 * MS, 300 * US);
        one_side(&ranks, 0);
        work(&ranks, 10 * MS, 0);
        one_side(&ranks, SIDE);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], LATE);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_columns_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
