/* Operations that ranks do not leave together: broadcasts, reductions, exchanges of everybody with
 * everybody. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "diagnose/diagnose.h"

enum { RANKS = 4, STEPS = 60 };

/* Each step an all-reduce, which all leave together at `clock_ns`, and a rooted operation. */
struct steps {
    struct ranks ranks;
    uint64_t clock_ns;
};

static void begin(struct steps *steps)
{
    ranks_begin(&steps->ranks, RANKS);
    ranks_comm(&steps->ranks, 0, 0, 1, RANKS, RANKS);
    steps->clock_ns = 1000 * MS;
}

static void add(struct steps *steps, unsigned rank, uint64_t number, uint8_t func, int32_t root,
                uint64_t begin_ns, uint64_t end_ns)
{
    const struct muster_op op = {.number = number,
                                 .enqueue_ns = steps->clock_ns + number * US,
                                 .begin_ns = begin_ns + steps->ranks.skew_ns[rank],
                                 .end_ns = end_ns + steps->ranks.skew_ns[rank],
                                 .count = 1 << 20,
                                 .peer = root,
                                 .func = func,
                                 .dtype = MUSTER_DTYPE_FLOAT32,
                                 .source = MUSTER_SOURCE_GPU};
    muster_view_add_op(&steps->ranks.view, steps->ranks.member[0][rank], &op);
}

/* What the rank computes between the all-reduce and the rooted operation. */
typedef uint64_t work_of(unsigned rank, uint64_t step);

static void play(struct steps *steps, uint8_t func, work_of *work)
{
    for (uint64_t s = 0; s < STEPS; s++) {
        uint64_t last_ns = 0, root_ns = steps->clock_ns + work(0, s);
        for (unsigned r = 0; r < RANKS; r++) {
            uint64_t at_ns = steps->clock_ns + work(r, s);
            last_ns = at_ns > last_ns ? at_ns : last_ns;
        }
        for (unsigned r = 0; r < RANKS; r++) {
            uint64_t at_ns = steps->clock_ns + work(r, s);
            /* The root leaves when it has sent, or has all; the others with it or on their own. */
            uint64_t with_root_ns = (at_ns > root_ns ? at_ns : root_ns) + 100 * US;
            bool collects = func == MUSTER_FUNC_REDUCE;
            uint64_t end_ns = r == 0     ? (collects ? last_ns : root_ns) + 100 * US
                              : collects ? at_ns + 100 * US
                                         : with_root_ns;
            add(steps, r, 2 * s, func, 0, at_ns, end_ns);
            add(steps, r, 2 * s + 1, MUSTER_FUNC_ALL_REDUCE, -1, last_ns + 400 * US,
                last_ns + 600 * US);
        }
        steps->clock_ns = last_ns + 600 * US;
    }
}

static uint64_t late_root(unsigned rank, uint64_t step)
{
    return (rank == 0 ? 2000 : 50) * US + step % 3 * US + rank * 100;
}

static uint64_t late_receiver(unsigned rank, uint64_t step)
{
    return (rank == 2 ? 2000 : 50) * US + step % 3 * US + rank * 100;
}

static void test_a_late_root_of_a_broadcast_is_named(void **state)
{
    (void)state;
    struct steps steps;
    begin(&steps);
    play(&steps, MUSTER_FUNC_BROADCAST, late_root);
    struct muster_findings findings = ranks_diagnose(&steps.ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_LATE_RANK);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], 0);
    assert_int_equal(findings.finding[0].op.func, MUSTER_FUNC_BROADCAST);
    muster_findings_free(&findings);
    ranks_end(&steps.ranks);
}

static void expect_none(struct steps *steps)
{
    struct muster_findings findings = ranks_diagnose(&steps->ranks);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&steps->ranks);
}

/* It ran short, as every receiver that comes after the root does. */
static void test_of_receivers_nothing_is_said(void **state)
{
    (void)state;
    struct steps steps;
    begin(&steps);
    play(&steps, MUSTER_FUNC_BROADCAST, late_receiver);
    expect_none(&steps);
}

static void test_reductions_are_not_read_and_that_is_said(void **state)
{
    (void)state;
    struct steps steps;
    begin(&steps);
    play(&steps, MUSTER_FUNC_REDUCE, late_root);
    struct muster_findings findings = ranks_diagnose(&steps.ranks);
    muster_diagnose_unread(&steps.ranks.view, &findings.not_observable);
    assert_int_equal(findings.n, 0);
    assert_true(
        ranks_has_line(&findings.not_observable, "240 timed Reduce operations are not read"));
    muster_findings_free(&findings);
    ranks_end(&steps.ranks);
}

static void test_of_common_operations_nothing_is_unread(void **state)
{
    (void)state;
    struct steps steps;
    struct muster_finding_lines lines = {0};
    begin(&steps);
    play(&steps, MUSTER_FUNC_BROADCAST, late_root);
    ranks_view(&steps.ranks);
    muster_diagnose_unread(&steps.ranks.view, &lines);
    assert_int_equal(lines.n, 0);
    ranks_end(&steps.ranks);
}

/* All-to-all by sends and receives in one group; rank 1 takes three times as long before each,
 * although all are sent as much. */
static void test_a_late_rank_of_experts_is_named(void **state)
{
    (void)state;
    struct steps steps;
    begin(&steps);
    for (uint64_t s = 0; s < STEPS; s++) {
        uint64_t last_ns = steps.clock_ns + 1500 * US;
        for (unsigned r = 0; r < RANKS; r++) {
            uint64_t at_ns = steps.clock_ns + (r == 1 ? 1500 : 500) * US;
            for (unsigned peer = 0; peer < RANKS; peer++) {
                if (peer == r)
                    continue;
                add(&steps, r, s, MUSTER_FUNC_SEND, (int32_t)peer, at_ns, last_ns + 100 * US);
                add(&steps, r, s, MUSTER_FUNC_RECV, (int32_t)peer, at_ns, last_ns + 100 * US);
            }
        }
        steps.clock_ns = last_ns + 100 * US;
    }
    struct muster_findings findings = ranks_diagnose(&steps.ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], 1);
    muster_findings_free(&findings);
    ranks_end(&steps.ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_root_of_a_broadcast_is_named),
        cmocka_unit_test(test_of_receivers_nothing_is_said),
        cmocka_unit_test(test_reductions_are_not_read_and_that_is_said),
        cmocka_unit_test(test_of_common_operations_nothing_is_unread),
        cmocka_unit_test(test_a_late_rank_of_experts_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
