/* Delays come in rows. That the others' do is an excuse; that a rank's own do is none. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS = 8, STEPS = 160, ROW = 12 };

/* Steps of a quarter of a second; each of the first `late` ranks is late by a fifth in a row of
 * them of its own. Returns how many ranks are named. */
static unsigned named(unsigned late, int32_t *first)
{
    struct ranks ranks;
    ranks_begin(&ranks, RANKS);
    ranks_comm(&ranks, 0, 0, 1, RANKS, RANKS);
    for (unsigned s = 0; s < STEPS; s++) {
        for (unsigned r = 0; r < RANKS; r++) {
            bool slow = r < late && s / ROW == 2 + r;
            ranks_work(&ranks, r, 250 * MS + (slow ? 50 * MS : 0));
        }
        ranks_do(&ranks, 0, 1 << 20, 100 * US, true, 0);
        ranks_do(&ranks, 0, 256, 10 * US, true, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    unsigned n = findings.n ? findings.finding[0].ranks : 0;
    *first = n ? findings.finding[0].rank[0] : -1;
    muster_findings_free(&findings);
    ranks_end(&ranks);
    return n;
}

static void test_who_was_late_for_a_while_is_named(void **state)
{
    int32_t first;
    (void)state;
    assert_int_equal(named(1, &first), 1);
    assert_int_equal(first, 0);
}

static void test_where_all_are_late_for_a_while_nobody_is(void **state)
{
    int32_t first;
    (void)state;
    assert_int_equal(named(RANKS, &first), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_was_late_for_a_while_is_named),
        cmocka_unit_test(test_where_all_are_late_for_a_while_nobody_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
