/* Late ranks by when hosts call, where no operation has GPU times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "made_ranks.h"

enum { RANKS = 4, STEPS = 120, LATE = 2 };

/* Spread over 0 to 200 us; another one for each rank and step. */
static uint64_t noise(unsigned rank, unsigned step)
{
    return (rank * 7919u + step * 104729u) * 2654435761u % 200 * US;
}

/* What the job is like. */
struct how {
    unsigned n;
    bool wait; /* hosts for their GPUs, once a step */
    uint64_t late_ns, next_ns;
};

/* Steps of 20 ms with three all-reduces. Where hosts wait, all go on together when the last one's
 * GPU is through; else each goes on by itself. Rank LATE, of two the last, needs `late_ns` longer
 * in its input, and rank 0 `next_ns`. */
static void play(struct ranks *ranks, const struct how *how)
{
    unsigned late = how->n > LATE ? LATE : how->n - 1;
    ranks_begin(ranks, how->n);
    ranks_comm(ranks, 0, 0, 1, how->n, how->n);
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t last_ns = 0;
        for (unsigned r = 0; r < how->n; r++)
            last_ns = ranks->call_ns[r] > last_ns ? ranks->call_ns[r] : last_ns;
        for (unsigned r = 0; r < how->n; r++) {
            ranks->call_ns[r] = (how->wait ? last_ns : ranks->call_ns[r]) + 20 * MS +
                                noise(r, step) + (r == late ? how->late_ns : 0) +
                                (r == 0 ? how->next_ns : 0);
        }
        for (unsigned i = 0; i < 3; i++)
            ranks_do(ranks, 0, 1u << (18 + 2 * i), MS, false, 0);
    }
}

static void test_a_host_that_goes_on_late_after_each_wait(void **state)
{
    (void)state;
    struct ranks ranks;
    play(&ranks, &(struct how){.n = RANKS, .wait = true, .late_ns = 3 * MS});
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->kind, MUSTER_FINDING_LATE_RANK);
    assert_int_equal(finding->ranks, 1);
    assert_int_equal(finding->rank[0], LATE);
    assert_int_equal(finding->mode, MUSTER_MODE_PERSISTENT);
    assert_true(finding->cost_s > 0.7 * STEPS * 0.003 && finding->cost_s < 1.1 * STEPS * 0.003);
    assert_true(ranks_has_line(&finding->not_observable, "no GPU times"));
    assert_true(ranks_has_line(&findings.not_observable, "when their hosts call"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void nothing_is_told(const struct how *how)
{
    struct ranks ranks;
    play(&ranks, how);
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 0);
    assert_true(ranks_has_line(&findings.not_observable, "no GPU times"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_hosts_that_never_wait_tell_nothing(void **state)
{
    (void)state;
    nothing_is_told(&(struct how){.n = RANKS, .late_ns = 3 * MS});
}

static void test_hosts_that_are_alike_are_not_late(void **state)
{
    (void)state;
    nothing_is_told(&(struct how){.n = RANKS, .wait = true});
}

static void test_of_two_ranks_nobody_knows_what_is_usual(void **state)
{
    (void)state;
    nothing_is_told(&(struct how){.n = 2, .wait = true, .late_ns = 3 * MS});
}

static void test_late_is_only_who_is_much_later_than_the_next_one(void **state)
{
    (void)state;
    nothing_is_told(&(struct how){.n = RANKS, .wait = true, .late_ns = 3 * MS, .next_ns = 2 * MS});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_host_that_goes_on_late_after_each_wait),
        cmocka_unit_test(test_hosts_that_never_wait_tell_nothing),
        cmocka_unit_test(test_hosts_that_are_alike_are_not_late),
        cmocka_unit_test(test_of_two_ranks_nobody_knows_what_is_usual),
        cmocka_unit_test(test_late_is_only_who_is_much_later_than_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
