/* Two ranks of a mixture of experts: groups of sends and receives, with a copy to oneself in each,
 * whose stamps may tell when that copy was over. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS = 2, STEPS = 60, LAYERS = 4 };

static const uint64_t transfer_ns = 30 * US, usual_ns = 100 * US;

/* The job's time as if there were one clock. */
struct experts {
    struct ranks ranks;
    uint64_t clock_ns, exchanges;
};

static void add(struct experts *experts, unsigned rank, uint8_t func, unsigned peer,
                uint64_t begin_ns, uint64_t end_ns)
{
    bool timed = peer != rank;
    uint64_t skew_ns = experts->ranks.skew_ns[rank];
    const struct muster_op op = {.number = experts->exchanges,
                                 .enqueue_ns = 1000 * MS + experts->exchanges * 200 * US +
                                               (timed ? 6 : 0) * US +
                                               (func == MUSTER_FUNC_RECV ? 3 : 0) * US,
                                 .begin_ns = timed ? begin_ns + skew_ns : 0,
                                 .end_ns = timed ? end_ns + skew_ns : 0,
                                 .count = 1 << 18,
                                 .peer = (int32_t)peer,
                                 .func = func,
                                 .dtype = MUSTER_DTYPE_FLOAT32,
                                 .source = timed ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE};
    muster_view_add_op(&experts->ranks.view, experts->ranks.member[0][rank], &op);
}

/* Each rank sends to itself and to the other; who comes first waits, and its stamps may not show
 * it. */
static void exchange(struct experts *experts, const uint64_t *begin_ns, bool early)
{
    uint64_t last_ns = begin_ns[0] > begin_ns[1] ? begin_ns[0] : begin_ns[1];
    for (unsigned r = 0; r < RANKS; r++) {
        uint64_t over_ns = early ? begin_ns[r] + transfer_ns / 2 : last_ns + transfer_ns;
        for (unsigned i = 0; i < RANKS; i++) {
            unsigned peer = (r + i) % RANKS; /* itself first, as NCCL has it */
            add(experts, r, MUSTER_FUNC_SEND, peer, begin_ns[r], over_ns);
            add(experts, r, MUSTER_FUNC_RECV, peer, begin_ns[r], over_ns);
        }
    }
    experts->exchanges++;
    experts->clock_ns = last_ns + transfer_ns;
}

static void all_reduce(struct experts *experts, uint64_t step)
{
    uint64_t begin_ns = experts->clock_ns + 10 * US;
    for (unsigned r = 0; r < RANKS; r++) {
        const struct muster_op op = {.number = step,
                                     .enqueue_ns =
                                         1000 * MS + experts->exchanges * 200 * US - 50 * US,
                                     .begin_ns = begin_ns + r * US + experts->ranks.skew_ns[r],
                                     .end_ns = begin_ns + 120 * US + experts->ranks.skew_ns[r],
                                     .count = 4 << 20,
                                     .peer = -1,
                                     .func = MUSTER_FUNC_ALL_REDUCE,
                                     .dtype = MUSTER_DTYPE_FLOAT32,
                                     .source = MUSTER_SOURCE_GPU};
        muster_view_add_op(&experts->ranks.view, experts->ranks.member[1][r], &op);
    }
    experts->clock_ns = begin_ns + 120 * US;
}

/* Rank 1 takes so much longer with its expert, give and take a fifth. */
static struct muster_findings play(struct experts *experts, uint64_t late_ns, bool early)
{
    ranks_begin(&experts->ranks, RANKS);
    ranks_comm(&experts->ranks, 0, 0, 1, RANKS, RANKS);
    ranks_comm(&experts->ranks, 1, 0, 1, RANKS, RANKS);
    experts->clock_ns = 1000 * MS;
    experts->exchanges = 0;
    for (uint64_t s = 0; s < STEPS; s++) {
        for (unsigned l = 0; l < LAYERS; l++) {
            uint64_t there_ns[RANKS], back_ns[RANKS];
            for (unsigned r = 0; r < RANKS; r++)
                there_ns[r] = experts->clock_ns + (5 + (s + r + l) % 4) * US;
            exchange(experts, there_ns, false);
            for (unsigned r = 0; r < RANKS; r++)
                back_ns[r] = experts->clock_ns + usual_ns + (s * (r + 2) + l) % 5 * US +
                             (r == 1 ? late_ns * (80 + (7 * s + 3 * l) % 11 * 4) / 100 : 0);
            exchange(experts, back_ns, early);
        }
        all_reduce(experts, s);
    }
    return ranks_diagnose(&experts->ranks);
}

static void expect_rank_1(bool early)
{
    struct experts experts;
    struct muster_findings findings = play(&experts, 450 * US, early);
    double lost_s = STEPS * LAYERS * 450e-6;
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_LATE_RANK);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], 1);
    assert_true(findings.finding[0].cost_s > 0.9 * lost_s);
    assert_true(findings.finding[0].cost_s < 1.1 * lost_s);
    muster_findings_free(&findings);
    ranks_end(&experts.ranks);
}

static void test_a_late_expert_is_named_with_its_cost(void **state)
{
    (void)state;
    expect_rank_1(false);
}

/* By the stamps as they are nobody waits, and rank 0 is late at the next exchange. */
static void test_ends_before_the_send_began_are_not_believed(void **state)
{
    (void)state;
    expect_rank_1(true);
}

static void test_experts_that_are_alike_are_not_named(void **state)
{
    (void)state;
    struct experts experts;
    struct muster_findings findings = play(&experts, 0, true);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&experts.ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_expert_is_named_with_its_cost),
        cmocka_unit_test(test_ends_before_the_send_began_are_not_believed),
        cmocka_unit_test(test_experts_that_are_alike_are_not_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
