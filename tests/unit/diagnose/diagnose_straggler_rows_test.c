/* Delays come in rows. That the others' do is an excuse; that a rank's own do is none. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS = 8, STEPS = 160, ROW = 12, THIRD = STEPS / 3 };

static const uint64_t fifths[RANKS] = {50 * MS, 50 * MS, 50 * MS, 50 * MS,
                                       50 * MS, 50 * MS, 50 * MS, 50 * MS};

/* Steps of a quarter of a second; each of the first `late` ranks takes so much longer in `row` of
 * them, one after the other from step `from` on. Returns how many ranks are named. */
static unsigned named(unsigned late, unsigned from, unsigned row, const uint64_t *more_ns,
                      int32_t *first)
{
    struct ranks ranks;
    ranks_begin(&ranks, RANKS);
    ranks_comm(&ranks, 0, 0, 1, RANKS, RANKS);
    for (unsigned s = 0; s < STEPS; s++) {
        for (unsigned r = 0; r < RANKS; r++) {
            bool slow = r < late && s >= from + r * row && s < from + (r + 1) * row;
            ranks_work(&ranks, r, 250 * MS + (slow ? more_ns[r] : 0));
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
    assert_int_equal(named(1, 2 * ROW, ROW, fifths, &first), 1);
    assert_int_equal(first, 0);
}

static void test_where_all_are_late_for_a_while_nobody_is(void **state)
{
    int32_t first;
    (void)state;
    assert_int_equal(named(RANKS, 2 * ROW, ROW, fifths, &first), 0);
}

/* No clock does what the first one's does: that of the second, which may, is no excuse for it. Once
 * the first is named it is none for the second. */
static void test_two_one_after_the_other_do_not_excuse_each_other(void **state)
{
    static const uint64_t more_ns[] = {50 * MS, 20 * MS};
    int32_t first;
    (void)state;
    assert_int_equal(named(2, THIRD, THIRD, more_ns, &first), 2);
    assert_int_equal(first, 0);
}

/* Three steps of a dozen reductions that are alike; in the last one rank 0 takes longer before each
 * of them. Returns how many ranks are named while the job runs. */
static unsigned named_by_one_step(void)
{
    enum { ONE_STEP = 3, ALIKE = 12 };
    struct ranks ranks;
    ranks_begin(&ranks, RANKS);
    ranks_comm(&ranks, 0, 0, 1, RANKS, RANKS);
    for (unsigned s = 0; s < ONE_STEP; s++) {
        for (unsigned i = 0; i < ALIKE; i++) {
            for (unsigned r = 0; r < RANKS; r++)
                ranks_work(&ranks, r, 10 * MS + (r == 0 && s + 1 == ONE_STEP ? 5 * MS : 0));
            ranks_do(&ranks, 0, 1 << 20, 100 * US, true, 0);
        }
        for (unsigned r = 0; r < RANKS; r++)
            ranks_work(&ranks, r, 50 * MS);
        ranks_do(&ranks, 0, 256, 10 * US, true, 0);
    }
    ranks.view.window = 1;
    struct muster_findings findings = ranks_diagnose(&ranks);
    unsigned n = findings.n ? findings.finding[0].ranks : 0;
    muster_findings_free(&findings);
    ranks_end(&ranks);
    return n;
}

/* As of a rank that drew a long sequence: what follows each other there is no news. */
static void test_one_long_step_names_nobody_while_the_job_runs(void **state)
{
    (void)state;
    assert_int_equal(named_by_one_step(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_long_step_names_nobody_while_the_job_runs),
        cmocka_unit_test(test_who_was_late_for_a_while_is_named),
        cmocka_unit_test(test_two_one_after_the_other_do_not_excuse_each_other),
        cmocka_unit_test(test_where_all_are_late_for_a_while_nobody_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
