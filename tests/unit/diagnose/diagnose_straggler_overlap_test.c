/* Ranks that compute while their communicator works: what a late one costs there. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS = 4, STEPS = 128, BUCKETS = 6, CULPRIT = 2 };

/* What the culprit needs: more before the first bucket of each step, and in all that it does. */
struct fault {
    uint64_t before_ns;
    double slower;
};

static uint64_t longest_of(const uint64_t *ns, unsigned n)
{
    uint64_t longest = 0;
    for (unsigned i = 0; i < n; i++)
        longest = ns[i] > longest ? ns[i] : longest;
    return longest;
}

/* A step is a forward pass and buckets of gradients; computing goes on while they are reduced, and
 * all wait for the last. Each other rank by turns takes longer now and then. Returns when it is
 * over. */
static uint64_t train(struct ranks *ranks, const struct fault *fault)
{
    uint64_t computed_ns[RANKS], over_ns = 1000 * MS;
    ranks_begin(ranks, RANKS);
    ranks_comm(ranks, 0, 0, 1, RANKS, RANKS);
    for (unsigned s = 0; s < STEPS; s++) {
        for (unsigned r = 0; r < RANKS; r++) {
            double pace = r == CULPRIT ? 1 + fault->slower : 1;
            uint64_t more_ns = r == CULPRIT ? fault->before_ns : s % 16 == r ? 5 * MS : 0;
            uint64_t chance_ns = (s * 7 + r * 3) % 5 * US;
            computed_ns[r] = over_ns + (uint64_t)(pace * (double)(1 * MS + chance_ns)) + more_ns;
        }
        for (unsigned b = 0; b < BUCKETS; b++) {
            for (unsigned r = 0; r < RANKS; r++) {
                uint64_t chance_ns = (s * 5 + r * 2 + b) % 7 * US;
                double pace = r == CULPRIT ? 1 + fault->slower : 1;
                computed_ns[r] += (uint64_t)(pace * (double)(1500 * US + chance_ns));
                ranks->arrived_ns[r] = computed_ns[r] > over_ns ? computed_ns[r] : over_ns;
            }
            uint64_t transfer_ns = (100 + (s * 5 + b * 3) % 8 * 100) * US;
            over_ns = longest_of(ranks->arrived_ns, RANKS) + transfer_ns;
            ranks_do(ranks, 0, 1 << (20 + (b == 0)), transfer_ns, true, 0);
        }
    }
    return over_ns;
}

/* What is said to have been lost is what was, or that share of it at least. */
static void assert_cost(const struct fault *fault, double least)
{
    const struct fault none = {0, 0};
    struct ranks ranks;
    uint64_t without_ns = train(&ranks, &none);
    ranks_end(&ranks);
    double lost_s = (double)(train(&ranks, fault) - without_ns) / 1e9;
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], CULPRIT);
    double cost_s = findings.finding[0].cost_s;
    assert_true(cost_s > least * lost_s && cost_s < 1.1 * lost_s);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_who_fell_behind_once_in_a_step_is_not_late_at_each_bucket(void **state)
{
    (void)state;
    assert_cost(&(struct fault){.before_ns = 3 * MS}, 0.9);
}

/* Of the last buckets nothing is seen of what the others need. */
static void test_a_slow_gpu_is_slow_also_where_the_others_were_ready_before(void **state)
{
    (void)state;
    assert_cost(&(struct fault){.slower = 0.4}, 0.55);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_fell_behind_once_in_a_step_is_not_late_at_each_bucket),
        cmocka_unit_test(test_a_slow_gpu_is_slow_also_where_the_others_were_ready_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
