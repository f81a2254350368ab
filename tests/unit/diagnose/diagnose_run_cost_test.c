/* What a late rank costs the whole run, where not all of it was timed. */
#include "made_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { RANKS = 4, LATE = 2, LATE_MS = 20, BLOCK = 64, ALL_TIMED = 19 }; /* operations; blocks */

/* All is timed at first and later two blocks alone, as in `auto` once a job makes more calls. */
struct sampled_run {
    unsigned blocks, timed, also;
    unsigned late_from; /* the block since which the rank is late in each step of two operations */
    double run_s, cost_run_s;
};

static void diagnose(struct sampled_run *run)
{
    struct ranks ranks;
    ranks_begin(&ranks, RANKS);
    ranks_comm(&ranks, 0, 0, 1, RANKS, RANKS);
    uint64_t begin_ns = ranks.arrived_ns[0];
    for (unsigned i = 0; i < run->blocks * BLOCK; i += 2) {
        unsigned block = i / BLOCK;
        bool timed = block < ALL_TIMED || block == run->timed || block == run->also;
        for (unsigned r = 0; r < RANKS; r++)
            ranks_work(&ranks, r, 1 * MS);
        ranks_work(&ranks, LATE, block >= run->late_from ? LATE_MS * MS : 0);
        ranks_do(&ranks, 0, 1 << 20, 100 * US, timed, 0);
        ranks_do(&ranks, 0, 256, 10 * US, timed, 0);
    }
    run->run_s = (double)(ranks.arrived_ns[0] - begin_ns) / 1e9;
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].rank[0], LATE);
    run->cost_run_s = findings.finding[0].cost_run_s;
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_less_is_timed_while_a_rank_is_late(void **state)
{
    (void)state;
    struct sampled_run run = {.blocks = 37, .timed = 23, .also = 36, .late_from = 21};
    diagnose(&run);
    double lost_s = (run.blocks - run.late_from) * (BLOCK / 2.0) * LATE_MS / 1e3;
    assert_true(fabs(run.cost_run_s - lost_s) < 0.05 * lost_s);
}

/* Late in the last block alone, for which the untimed ones before it are taken, too. */
static void test_a_rank_costs_no_more_than_the_run_takes(void **state)
{
    (void)state;
    struct sampled_run run = {.blocks = 61, .timed = 60, .also = 60, .late_from = 60};
    diagnose(&run);
    assert_true(run.cost_run_s > 0 && run.cost_run_s <= run.run_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_less_is_timed_while_a_rank_is_late),
        cmocka_unit_test(test_a_rank_costs_no_more_than_the_run_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
