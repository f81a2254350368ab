/* Findings over time: each told once, when it is sure, and resolved hangs once more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "diagnose/finding_changes.h"

enum { EMITTED_MAX = 32 };

struct emitted {
    struct muster_finding finding[EMITTED_MAX];
    unsigned n;
};

static void emit(void *arg, const struct muster_finding *finding)
{
    struct emitted *emitted = arg;
    assert_true(emitted->n < EMITTED_MAX);
    emitted->finding[emitted->n++] = *finding;
}

/* `ranks` ends with -1. */
static void add(struct muster_findings *now, enum muster_finding_kind kind, uint64_t comm,
                const int *ranks)
{
    struct muster_finding *finding = muster_findings_add(now);
    assert_non_null(finding);
    finding->kind = kind;
    finding->comm = comm;
    for (; *ranks >= 0; ranks++)
        finding->rank[finding->ranks++] = *ranks;
}

/* Those that were told, not withdrawn. */
static unsigned found_new(const struct emitted *emitted)
{
    unsigned n = 0;
    for (unsigned i = 0; i < emitted->n; i++)
        n += !emitted->finding[i].resolved && !emitted->finding[i].retracted;
    return n;
}

#define RANKS(...)                                                                                 \
    (const int[])                                                                                  \
    {                                                                                              \
        __VA_ARGS__, -1                                                                            \
    }

/* One look that finds this late rank, or (comm 0) none. */
static void look_late(struct muster_watch *watch, struct emitted *emitted, uint64_t comm,
                      const int *ranks)
{
    struct muster_findings now = {0};
    if (comm)
        add(&now, MUSTER_FINDING_LATE_RANK, comm, ranks);
    muster_watch_update(watch, &now, emit, emitted);
    muster_watch_slow(watch, &now, false, emit, emitted);
    muster_findings_free(&now);
}

static void a_late_rank_is_told_when_it_was_found_twice(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    look_late(&watch, &emitted, 1, RANKS(2));
    assert_int_equal(emitted.n, 0);
    look_late(&watch, &emitted, 0, NULL);
    look_late(&watch, &emitted, 1, RANKS(2));
    assert_int_equal(emitted.n, 0);
    look_late(&watch, &emitted, 1, RANKS(2));
    assert_int_equal(emitted.n, 1);
    muster_watch_free(&watch);
}

/* In another communicator, by other figures, gone and come back: nothing new. */
static void of_a_known_late_rank_no_more_is_told(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    for (int i = 0; i < 3; i++)
        look_late(&watch, &emitted, 1, RANKS(2));
    for (int i = 0; i < 3; i++)
        look_late(&watch, &emitted, 7, RANKS(2));
    look_late(&watch, &emitted, 0, NULL);
    look_late(&watch, &emitted, 1, RANKS(2));
    look_late(&watch, &emitted, 1, RANKS(2));
    assert_int_equal(emitted.n, 1);
    /* One more culprit is. */
    look_late(&watch, &emitted, 1, RANKS(2, 3));
    look_late(&watch, &emitted, 1, RANKS(3, 2));
    assert_int_equal(emitted.n, 2);
    assert_int_equal(emitted.finding[1].ranks, 2);
    look_late(&watch, &emitted, 1, RANKS(3));
    look_late(&watch, &emitted, 1, RANKS(3));
    assert_int_equal(emitted.n, 2);
    assert_int_equal(muster_watch_unresolved(&watch), 2);
    assert_int_equal(muster_watch_hanging(&watch), 0);
    muster_watch_free(&watch);
}

static void look_slow(struct muster_watch *watch, struct emitted *emitted, uint64_t comm,
                      const int *ranks)
{
    struct muster_findings now = {0};
    add(&now, MUSTER_FINDING_SLOW_TRANSFER, comm, ranks);
    muster_watch_slow(watch, &now, false, emit, emitted);
    muster_findings_free(&now);
}

/* One look that finds rank 1 late, at such a cost. */
static void look_at_cost(struct muster_watch *watch, struct emitted *emitted, double cost_s,
                         double share)
{
    struct muster_findings now = {0};
    add(&now, MUSTER_FINDING_LATE_RANK, 7, RANKS(1));
    now.finding[0].cost_s = cost_s;
    now.finding[0].cost_share = share;
    muster_watch_slow(watch, &now, false, emit, emitted);
    muster_findings_free(&now);
}

static void what_costs_next_to_nothing_is_not_told(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    for (unsigned i = 0; i < 6; i++)
        look_at_cost(&watch, &emitted, i % 2 ? 0.0006 : 2, i % 2 ? 0.02 : 0.009);
    muster_watch_end(&watch, emit, &emitted);
    assert_int_equal(emitted.n, 0);
    look_at_cost(&watch, &emitted, 0.02, 0.02);
    look_at_cost(&watch, &emitted, 0.02, 0.02);
    assert_int_equal(emitted.n, 1);
    /* What was told is not taken back for costing less since. */
    for (unsigned i = 0; i < 10; i++)
        look_at_cost(&watch, &emitted, 0.02, 0.002);
    assert_int_equal(emitted.n, 1);
    muster_watch_free(&watch);
}

/* One look that finds rank 1 late from second `since` to `until`, held against one other alone. */
static void look_at_pair(struct muster_watch *watch, struct emitted *emitted, uint64_t since,
                         uint64_t until, bool last)
{
    struct muster_findings now = {0};
    add(&now, MUSTER_FINDING_LATE_RANK, 7, RANKS(1));
    now.finding[0].against_one = true;
    now.finding[0].since_unix_ns = since * MUSTER_NS_PER_S;
    now.finding[0].stretch[0].until_unix_ns = until * MUSTER_NS_PER_S;
    now.finding[0].stretches = 1;
    muster_watch_slow(watch, &now, last, emit, emitted);
    muster_findings_free(&now);
}

/* What a look sees is shorter than that: looks in a row count together. */
static void who_is_late_beside_one_other_is_told_after_ten_seconds(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    for (uint64_t s = 100; s < 106; s++)
        look_at_pair(&watch, &emitted, s, s + 4, s == 105);
    muster_watch_end(&watch, emit, &emitted);
    assert_int_equal(emitted.n, 0);
    assert_false(muster_watch_suspects(&watch));
    look_late(&watch, &emitted, 0, NULL);
    for (uint64_t s = 107; s < 113; s++)
        look_at_pair(&watch, &emitted, s, s + 4, false);
    assert_int_equal(emitted.n, 0);
    look_at_pair(&watch, &emitted, 113, 117, false);
    assert_int_equal(emitted.n, 1);
    muster_watch_free(&watch);
}

static void a_slow_transfer_is_told_when_it_lasts(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    for (int i = 0; i < 9; i++)
        look_slow(&watch, &emitted, 1, RANKS(1, 2));
    assert_int_equal(emitted.n, 0);
    look_late(&watch, &emitted, 0, NULL);
    for (int i = 0; i < 9; i++)
        look_slow(&watch, &emitted, 1, RANKS(1, 2));
    assert_int_equal(emitted.n, 0);
    look_slow(&watch, &emitted, 1, RANKS(1, 2));
    look_slow(&watch, &emitted, 1, RANKS(1, 2));
    assert_int_equal(emitted.n, 1);
    muster_watch_free(&watch);
}

static void a_transfer_has_a_direction_or_a_communicator(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    for (int i = 0; i < 10; i++)
        look_slow(&watch, &emitted, 1, RANKS(1, 2));
    for (int i = 0; i < 10; i++)
        look_slow(&watch, &emitted, 1, RANKS(2, 1));
    assert_int_equal(emitted.n, 2);
    assert_int_equal(emitted.finding[1].rank[0], 2);
    static const int nobody[] = {-1};
    for (int i = 0; i < 10; i++)
        look_slow(&watch, &emitted, 1, nobody);
    for (int i = 0; i < 10; i++)
        look_slow(&watch, &emitted, 2, nobody);
    assert_int_equal(found_new(&emitted), 4);
    muster_watch_free(&watch);
}

static void what_is_not_found_any_more_is_retracted(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    for (int i = 0; i < 2; i++)
        look_late(&watch, &emitted, 1, RANKS(2));
    for (int i = 0; i < 2; i++)
        look_late(&watch, &emitted, 0, NULL);
    assert_int_equal(emitted.n, 1);
    assert_int_equal(muster_watch_unresolved(&watch), 1);
    for (int i = 0; i < 5; i++)
        look_late(&watch, &emitted, 0, NULL);
    assert_int_equal(emitted.n, 2);
    assert_true(emitted.finding[1].retracted);
    assert_false(emitted.finding[1].resolved);
    assert_int_equal(emitted.finding[1].rank[0], 2);
    assert_int_equal(muster_watch_unresolved(&watch), 0);
    char text[500];
    muster_finding_sentence(&emitted.finding[1], text, sizeof text);
    assert_non_null(strstr(text, "late_rank (retracted): rank 2"));
    assert_non_null(strstr(text, "does not hold"));
    /* Should it come again, it is told again. */
    for (int i = 0; i < 2; i++)
        look_late(&watch, &emitted, 1, RANKS(2));
    assert_int_equal(emitted.n, 3);
    assert_false(emitted.finding[2].retracted);
    muster_watch_free(&watch);
}

/* Another of its ranks is still found: it is not withdrawn. */
static void look_and_drop(struct muster_watch *watch, struct emitted *emitted, uint64_t comm,
                          const int *ranks)
{
    struct muster_findings now = {0};
    if (comm)
        add(&now, MUSTER_FINDING_LATE_RANK, comm, ranks);
    muster_watch_slow(watch, &now, false, emit, emitted);
    muster_watch_drop_over(watch, &now, emit, emitted);
    muster_findings_free(&now);
}

/* The window has left what it rested on: it was right, and is over. Once more, it is new. */
static void what_is_over_is_resolved_where_it_is_shown(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    muster_watch_window(&watch, 1000);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 2; i++)
            look_and_drop(&watch, &emitted, 1, RANKS(2));
        assert_int_equal(emitted.n, 2 * round + 1);
        look_and_drop(&watch, &emitted, 0, RANKS(2));
        look_and_drop(&watch, &emitted, 7, RANKS(2)); /* elsewhere: still late */
        look_and_drop(&watch, &emitted, 0, RANKS(2));
        look_and_drop(&watch, &emitted, 0, RANKS(2));
        assert_int_equal(emitted.n, 2 * round + 1);
        look_and_drop(&watch, &emitted, 0, RANKS(2));
        assert_int_equal(emitted.n, 2 * round + 2);
        assert_true(emitted.finding[emitted.n - 1].resolved &&
                    !emitted.finding[emitted.n - 1].retracted);
    }
    muster_watch_free(&watch);
}

/* While the window holds what it rested on, it was wrong: retracted, once, and not resolved, too.
 */
static void what_was_retracted_is_not_resolved_as_well(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    for (unsigned i = 0; i < 2; i++)
        look_and_drop(&watch, &emitted, 1, RANKS(2));
    for (unsigned i = 0; i < 8; i++)
        look_and_drop(&watch, &emitted, 0, RANKS(2));
    assert_int_equal(emitted.n, 2);
    assert_true(emitted.finding[1].retracted && !emitted.finding[1].resolved);
    assert_int_equal(muster_watch_unresolved(&watch), 0);
    muster_watch_free(&watch);
}

static void what_holds_in_part_is_not_retracted(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    for (int i = 0; i < 2; i++)
        look_late(&watch, &emitted, 1, RANKS(2, 3));
    for (int i = 0; i < 9; i++)
        look_late(&watch, &emitted, 7, RANKS(3));
    assert_int_equal(emitted.n, 1);
    muster_watch_free(&watch);
}

/* The window has gone on: whether it was so cannot be looked at any more. */
static void what_the_window_has_left_stands(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    for (int i = 0; i < 2; i++)
        look_late(&watch, &emitted, 1, RANKS(2));
    muster_watch_window(&watch, 1);
    for (int i = 0; i < 20; i++)
        look_late(&watch, &emitted, 0, NULL);
    assert_int_equal(emitted.n, 1);
    assert_int_equal(muster_watch_unresolved(&watch), 1);
    muster_watch_free(&watch);
}

static void what_was_found_once_is_told_at_the_end(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    look_late(&watch, &emitted, 1, RANKS(2));
    muster_watch_end(&watch, emit, &emitted);
    muster_watch_end(&watch, emit, &emitted);
    assert_int_equal(emitted.n, 1);
    struct muster_findings now = {0};
    add(&now, MUSTER_FINDING_LATE_RANK, 1, RANKS(3));
    muster_watch_slow(&watch, &now, true, emit, &emitted);
    assert_int_equal(emitted.n, 2);
    muster_findings_free(&now);
    muster_watch_free(&watch);
}

static void look_hang(struct muster_watch *watch, struct emitted *emitted, size_t alive, bool hangs)
{
    struct muster_findings now = {0};
    if (hangs)
        add(&now, MUSTER_FINDING_HANG_ABSENT, 1, RANKS(1));
    muster_watch_alive(watch, alive);
    muster_watch_update(watch, &now, emit, emitted);
    muster_findings_free(&now);
}

static void a_hang_is_told_at_once_and_when_it_is_over(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    look_hang(&watch, &emitted, 4, true);
    look_hang(&watch, &emitted, 4, true);
    assert_int_equal(emitted.n, 1);
    assert_int_equal(muster_watch_hanging(&watch), 1);
    look_hang(&watch, &emitted, 4, false);
    look_hang(&watch, &emitted, 4, false);
    assert_int_equal(emitted.n, 2);
    assert_true(emitted.finding[1].resolved);
    assert_int_equal(muster_watch_hanging(&watch), 0);
    muster_watch_free(&watch);
}

/* The same operation still hangs, and somebody else is the reason. */
static void a_hang_with_another_reason_is_retracted(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    struct muster_findings now = {0};
    look_hang(&watch, &emitted, 4, true);
    add(&now, MUSTER_FINDING_HANG_ABSENT, 1, RANKS(3));
    muster_watch_alive(&watch, 4);
    muster_watch_update(&watch, &now, emit, &emitted);
    assert_int_equal(emitted.n, 3);
    assert_true(emitted.finding[1].retracted);
    assert_false(emitted.finding[1].resolved);
    assert_int_equal(emitted.finding[1].rank[0], 1);
    assert_int_equal(emitted.finding[2].rank[0], 3);
    assert_int_equal(muster_watch_hanging(&watch), 1);
    muster_findings_free(&now);
    muster_watch_free(&watch);
}

static void a_hang_that_is_killed_is_not_resolved(void **state)
{
    (void)state;
    struct muster_watch watch = {0};
    struct emitted emitted = {.n = 0};
    look_hang(&watch, &emitted, 4, true);
    look_hang(&watch, &emitted, 3, false);
    look_hang(&watch, &emitted, 3, false);
    look_hang(&watch, &emitted, 0, false);
    assert_int_equal(emitted.n, 1);
    assert_int_equal(muster_watch_unresolved(&watch), 1);
    muster_watch_free(&watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_rank_is_told_when_it_was_found_twice),
        cmocka_unit_test(of_a_known_late_rank_no_more_is_told),
        cmocka_unit_test(what_costs_next_to_nothing_is_not_told),
        cmocka_unit_test(who_is_late_beside_one_other_is_told_after_ten_seconds),
        cmocka_unit_test(a_slow_transfer_is_told_when_it_lasts),
        cmocka_unit_test(a_transfer_has_a_direction_or_a_communicator),
        cmocka_unit_test(what_was_found_once_is_told_at_the_end),
        cmocka_unit_test(what_is_not_found_any_more_is_retracted),
        cmocka_unit_test(what_is_over_is_resolved_where_it_is_shown),
        cmocka_unit_test(what_was_retracted_is_not_resolved_as_well),
        cmocka_unit_test(what_holds_in_part_is_not_retracted),
        cmocka_unit_test(what_the_window_has_left_stands),
        cmocka_unit_test(a_hang_with_another_reason_is_retracted),
        cmocka_unit_test(a_hang_is_told_at_once_and_when_it_is_over),
        cmocka_unit_test(a_hang_that_is_killed_is_not_resolved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
