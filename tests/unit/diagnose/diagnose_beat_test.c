/* A rank that is late at a beat: rarer than each step. */
#include "made_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { RANKS = 4, LATE = 3, STEPS = 120 };

static void begin(struct ranks *ranks)
{
    ranks_begin(ranks, RANKS);
    ranks_comm(ranks, 0, 0, 1, RANKS, RANKS);
}

/* Everybody works for a millisecond, then two operations. */
static void step(struct ranks *ranks)
{
    for (unsigned r = 0; r < RANKS; r++)
        ranks_work(ranks, r, 1 * MS);
    ranks_do(ranks, 0, 1 << 20, 100 * US, true, 0);
    ranks_do(ranks, 0, 256, 10 * US, true, 0);
}

static struct muster_findings find_late(struct ranks *ranks)
{
    struct muster_findings findings = ranks_diagnose(ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].rank[0], LATE);
    return findings;
}

/* Late each fourth time, where all ranks need so much more. */
static struct muster_findings late_each_fourth(struct ranks *ranks, uint64_t more_ns)
{
    begin(ranks);
    for (unsigned s = 0; s < STEPS; s++) {
        for (unsigned r = 0; r < RANKS && s % 4 == 1; r++)
            ranks_work(ranks, r, more_ns);
        ranks_work(ranks, LATE, s % 4 == 1 ? 2 * MS : 0);
        step(ranks);
    }
    return find_late(ranks);
}

static void test_late_each_fourth_step(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = late_each_fourth(&ranks, 0);
    assert_int_equal(findings.finding[0].mode, MUSTER_MODE_INTERMITTENT);
    assert_int_equal(findings.finding[0].every_steps, 4);
    assert_true(fabs(findings.finding[0].every_s - 4 * 1110e-6 - 2e-3) < 0.1e-3);
    assert_true(ranks_has_line(&findings.finding[0].evidence, "each 4th step"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* There a step begins: its operations are alike. */
static void test_no_beat_where_all_ranks_need_longer(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = late_each_fourth(&ranks, 1 * MS);
    assert_int_equal(findings.finding[0].every_steps, 0);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_no_beat_where_chance_decides(void **state)
{
    (void)state;
    struct ranks ranks;
    uint64_t chance = 7;
    begin(&ranks);
    for (unsigned s = 0; s < STEPS + STEPS / 2; s++) {
        chance = chance * 6364136223846793005ull + 1442695040888963407ull;
        ranks_work(&ranks, LATE, chance >> 62 ? 0 : 2 * MS);
        step(&ranks);
    }
    struct muster_findings findings = find_late(&ranks);
    assert_int_equal(findings.finding[0].every_steps, 0);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_each_fourth_step),
        cmocka_unit_test(test_no_beat_where_all_ranks_need_longer),
        cmocka_unit_test(test_no_beat_where_chance_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
