/* Jobs whose hosts set the pace: what a GPU costs that has time to spare. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS = 4, STEPS = 300, CULPRIT = 2 };

/* The host calls a reduction 2 ms after a step began, another one `second_ns` after that or up to
 * half as long again, by chance, and reads the result; the culprit's GPU comes `late_ns` later than
 * its call to the first. Returns when it is over. */
static uint64_t train(struct ranks *ranks, uint64_t second_ns, uint64_t late_ns)
{
    uint64_t begun_ns = 2000 * MS;
    uint32_t chance = 1;
    ranks_begin(ranks, RANKS);
    ranks_comm(ranks, 0, 0, 1, RANKS, RANKS);
    for (unsigned s = 0; s < STEPS; s++) {
        uint64_t call_ns[RANKS];
        for (unsigned r = 0; r < RANKS; r++) {
            call_ns[r] = begun_ns + 2 * MS + (s * 7 + r * 3) % 5 * 10 * US;
            ranks->call_ns[r] = call_ns[r] - 10 * US; /* ranks_do adds these */
            ranks->arrived_ns[r] = call_ns[r] + 20 * US + (r == CULPRIT ? late_ns : 0);
        }
        ranks_do(ranks, 0, 1 << 20, (200 + s % 7 * 200) * US, true, 0);
        for (unsigned r = 0; r < RANKS; r++) {
            chance = chance * 1664525 + 1013904223;
            call_ns[r] += second_ns + (chance >> 16) % 1000 * (second_ns / 2000);
            ranks->call_ns[r] = call_ns[r] - 10 * US;
            uint64_t over_ns = ranks->arrived_ns[r] + 10 * US;
            ranks->arrived_ns[r] = call_ns[r] + 20 * US > over_ns ? call_ns[r] + 20 * US : over_ns;
        }
        ranks_do(ranks, 0, 1 << 21, 100 * US, true, 0);
        begun_ns = ranks->arrived_ns[0];
    }
    return begun_ns;
}

static double cost_of(uint64_t second_ns, double *lost_s)
{
    struct ranks ranks;
    uint64_t without_ns = train(&ranks, second_ns, 0);
    ranks_end(&ranks);
    *lost_s = (double)(train(&ranks, second_ns, 1500 * US) - without_ns) / 1e9;
    struct muster_findings findings = ranks_diagnose(&ranks);
    double cost_s = 0;
    for (size_t i = 0; i < findings.n; i++)
        cost_s += findings.finding[i].cost_s;
    muster_findings_free(&findings);
    ranks_end(&ranks);
    return cost_s;
}

/* The others wait for it in the first reduction, but the second is called so late that nothing of
 * that is left. */
static void test_a_gpu_that_is_late_in_time_to_spare_costs_nothing(void **state)
{
    (void)state;
    double lost_s, cost_s = cost_of(4 * MS, &lost_s);
    assert_true(lost_s < 0.001 * STEPS * 6e-3);
    assert_true(cost_s < 0.01 * STEPS * 6e-3);
}

static void test_a_gpu_that_is_late_costs_what_is_beyond(void **state)
{
    (void)state;
    double lost_s, cost_s = cost_of(500 * US, &lost_s);
    assert_true(lost_s > 0.2 * STEPS * 2.5e-3);
    assert_true(cost_s > 0.7 * lost_s && cost_s < 1.3 * lost_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpu_that_is_late_in_time_to_spare_costs_nothing),
        cmocka_unit_test(test_a_gpu_that_is_late_costs_what_is_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
