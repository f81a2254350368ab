/* Who only seems to be late: clocks that change, hosts that fell behind, turns. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS = 4, BLOCK = 60, BLOCKS_APART = 2000 };

/* From 0 to 99, the same in each run. */
static unsigned percent(uint32_t *chance)
{
    *chance = *chance * 1664525 + 1013904223;
    return (*chance >> 16) % 100;
}

static struct ranks four(uint8_t timing)
{
    struct ranks ranks;
    ranks_begin(&ranks, RANKS);
    for (unsigned r = 0; r < RANKS; r++)
        ranks.view.gpu[r].timing = timing;
    ranks_comm(&ranks, 0, 0, 1, RANKS, RANKS);
    return ranks;
}

/* A timed block: steps of two operations, before the first of which all work for a millisecond. */
static void block(struct ranks *ranks, unsigned late, uint64_t late_ns)
{
    ranks->number[0] += BLOCKS_APART;
    for (unsigned i = 0; i < BLOCK / 2; i++) {
        for (unsigned r = 0; r < RANKS; r++)
            ranks_work(ranks, r, 1 * MS + (r == late ? late_ns : 0));
        ranks_do(ranks, 0, 1 << 20, 100 * US, true, 0);
        ranks_do(ranks, 0, 256, 10 * US, true, 0);
    }
}

static void assert_named(struct ranks *ranks, int rank)
{
    struct muster_findings findings = ranks_diagnose(ranks);
    assert_int_equal(findings.n, rank >= 0);
    if (rank >= 0) {
        assert_int_equal(findings.finding[0].ranks, 1);
        assert_int_equal(findings.finding[0].rank[0], rank);
    }
    muster_findings_free(&findings);
    ranks_end(ranks);
}

static void test_a_rank_late_in_every_block_is_named(void **state)
{
    (void)state;
    struct ranks ranks = four(MUSTER_TIMING_AUTO);
    for (unsigned b = 0; b < 8; b++)
        block(&ranks, 1, 300 * US);
    assert_named(&ranks, 1);
}

/* Rank 1 has as many late operations as it takes, but others are by turns as late as it. */
static void test_turns_of_whole_blocks_are_nobodys_fault(void **state)
{
    (void)state;
    static const unsigned late[] = {1, 0, 1, 2, 1, 3, 1, 1, 0, 1};
    struct ranks ranks = four(MUSTER_TIMING_AUTO);
    for (unsigned b = 0; b < 10; b++)
        block(&ranks, late[b], 300 * US);
    assert_named(&ranks, -1);
}

static void test_slower_by_what_gpus_differ_is_not_late(void **state)
{
    (void)state;
    struct ranks ranks = four(MUSTER_TIMING_AUTO);
    for (unsigned b = 0; b < 8; b++)
        block(&ranks, 1, 120 * US);
    assert_named(&ranks, -1);
}

static void test_over_a_long_time_a_tenth_is_late(void **state)
{
    (void)state;
    struct ranks ranks = four(MUSTER_TIMING_AUTO);
    for (unsigned b = 0; b < 8; b++) {
        for (unsigned r = 0; r < RANKS; r++)
            ranks_work(&ranks, r, 2000 * MS);
        block(&ranks, 1, 120 * US);
    }
    assert_named(&ranks, 1);
}

/* One block is little to go by: it takes more than a GPU's clock does for so long. */
static void test_one_block_names_only_what_is_plain(void **state)
{
    (void)state;
    struct ranks ranks = four(MUSTER_TIMING_AUTO);
    block(&ranks, 2, 120 * US);
    assert_named(&ranks, -1);
    ranks = four(MUSTER_TIMING_AUTO);
    block(&ranks, 2, 2 * MS);
    assert_named(&ranks, 2);
}

/* Every operation waits for its host. Rank 3's is 50 ms behind and takes `slower_ns` longer from
 * call to call; the others run ahead. */
static struct ranks host_bound(uint64_t slower_ns)
{
    struct ranks ranks = four(MUSTER_TIMING_FULL);
    for (unsigned i = 0; i < 200; i++) {
        for (unsigned r = 0; r < RANKS; r++) {
            uint64_t pace_ns = 1 * MS + (r == 3 ? slower_ns : 0);
            uint64_t behind_ns = r == 3 ? 50 * MS : r * 500 * US;
            uint64_t call_ns = 2000 * MS + i * pace_ns + behind_ns;
            ranks.call_ns[r] = call_ns - 10 * US; /* ranks_do adds these */
            ranks.arrived_ns[r] = call_ns + 20 * US > ranks.arrived_ns[r] + 5 * US
                                      ? call_ns + 20 * US
                                      : ranks.arrived_ns[r] + 5 * US;
        }
        ranks_do(&ranks, 0, 1 << 20, 100 * US, true, 0);
    }
    return ranks;
}

static void test_a_host_that_fell_behind_once_is_not_late(void **state)
{
    (void)state;
    struct ranks ranks = host_bound(0);
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 0);
    assert_true(ranks_has_line(&findings.not_observable, "all waited for a host that was behind"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_a_slower_host_is_late(void **state)
{
    (void)state;
    struct ranks ranks = host_bound(400 * US);
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].rank[0], 3);
    assert_int_equal(findings.finding[0].cause, MUSTER_CAUSE_HOST);
    /* What it took longer, not how far it is behind. */
    assert_true(findings.finding[0].cost_s < 200 * 450e-6);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* All ranks often take a third longer, by chance; rank 1 no more often, but sometimes three times
 * as long: the rate of short delays hides the long ones. */
static void test_long_delays_show_among_many_short_ones(void **state)
{
    (void)state;
    struct ranks ranks = four(MUSTER_TIMING_FULL);
    uint32_t chance = 1;
    for (unsigned i = 0; i < 600; i++) {
        for (unsigned r = 0; r < RANKS; r++) {
            unsigned drawn = percent(&chance);
            bool longer = r == 1 && drawn < 12, late = drawn < 45;
            ranks_work(&ranks, r, 2 * MS + (longer ? 4 * MS : late ? 700 * US : 0));
        }
        ranks_do(&ranks, 0, 1 << 20, 100 * US, true, 0);
    }
    assert_named(&ranks, 1);
}

/* Two ranks alone do the same, and their GPUs wait for their hosts, of which one is a fifth slower:
 * as much as hosts differ by. Nearly twice as slow it is late. */
static struct ranks two_hosts(uint64_t slower_ns)
{
    struct ranks ranks;
    ranks_begin(&ranks, 2);
    ranks_comm(&ranks, 0, 0, 1, 2, 2);
    uint64_t over_ns = 1000 * MS;
    for (unsigned i = 0; i < 300; i++) {
        for (unsigned r = 0; r < 2; r++) {
            uint64_t work_ns = 1 * MS + (r == 1 ? slower_ns : 0) + i % 3 * US;
            ranks.call_ns[r] = over_ns + work_ns - 10 * US; /* ranks_do adds these */
            ranks.arrived_ns[r] = over_ns + work_ns + 20 * US;
        }
        ranks_do(&ranks, 0, 1 << 20, 100 * US, true, 0);
        over_ns = ranks.arrived_ns[0];
    }
    return ranks;
}

/* Two ranks, each late before another of two all-reduces; `moves`: one of them after the other. */
static struct ranks uneven(uint64_t first_ns, uint64_t second_ns, bool moves)
{
    struct ranks ranks;
    ranks_begin(&ranks, 2);
    ranks_comm(&ranks, 0, 0, 1, 2, 2);
    for (unsigned i = 0; i < 200; i++) {
        for (unsigned place = 0; place < 2; place++) {
            bool late = !moves || (i < 100) == (place == 0);
            uint64_t late_ns = !late ? 0 : place ? second_ns : first_ns;
            for (unsigned r = 0; r < 2; r++)
                ranks_work(&ranks, r, 3 * MS + (r == place ? late_ns : 0) + i % 3 * US);
            ranks_do(&ranks, 0, place ? 1 << 18 : 1 << 20, 100 * US, true, 0);
        }
    }
    return ranks;
}

/* Who costs more than twice as much as the other is named; else their work is uneven. */
static void test_who_is_late_twice_as_much_as_the_other_is_named(void **state)
{
    (void)state;
    struct ranks ranks = uneven(2 * MS, 900 * US, false);
    assert_named(&ranks, 0);
    ranks = uneven(2 * MS, 1600 * US, false);
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void test_ranks_that_are_late_one_after_the_other_are_no_uneven_work(void **state)
{
    (void)state;
    struct ranks ranks = uneven(2 * MS, 1600 * US, true);
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 2);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* Two ranks, each late by a millisecond before some of 100 operations. */
static struct ranks by_turns(unsigned first, unsigned second)
{
    struct ranks ranks;
    ranks_begin(&ranks, 2);
    ranks_comm(&ranks, 0, 0, 1, 2, 2);
    uint32_t chance = 1;
    for (unsigned i = 0; i < 3000; i++) {
        for (unsigned r = 0; r < 2; r++) {
            bool late = percent(&chance) < (r ? second : first);
            ranks_work(&ranks, r, 3 * MS + (late ? 1 * MS : 0) + i % 3 * US);
        }
        ranks_do(&ranks, 0, 1 << 20, 100 * US, true, 0);
    }
    return ranks;
}

/* In each of 100 operations either rank 1 is late by a millisecond or, in `first` of them, rank 0
 * is by less, or neither. */
static struct ranks either(unsigned first, unsigned second)
{
    struct ranks ranks;
    ranks_begin(&ranks, 2);
    ranks_comm(&ranks, 0, 0, 1, 2, 2);
    uint32_t chance = 1;
    for (unsigned i = 0; i < 3000; i++) {
        unsigned drawn = percent(&chance);
        bool one = drawn < second, other = !one && drawn < first + second;
        ranks_work(&ranks, 0, 3 * MS + (other ? 600 * US : 0) + i % 3 * US);
        ranks_work(&ranks, 1, 3 * MS + (one ? 1 * MS : 0) + i % 3 * US);
        ranks_do(&ranks, 0, 1 << 20, 100 * US, true, 0);
    }
    return ranks;
}

static void test_who_is_late_hardly_more_than_the_other_is_not_named(void **state)
{
    (void)state;
    struct ranks ranks = either(36, 43);
    assert_named(&ranks, -1);
    ranks = either(15, 43);
    assert_named(&ranks, 1);
}

/* Two are never quite alike: who costs the job 3 % more than the other would is not named. */
static void test_of_two_ranks_one_costs_more_than_the_other_by_chance(void **state)
{
    (void)state;
    struct ranks ranks = by_turns(0, 10);
    assert_named(&ranks, -1);
    ranks = by_turns(15, 27);
    assert_named(&ranks, -1);
    ranks = by_turns(0, 25);
    assert_named(&ranks, 1);
}

static void test_two_hosts_differ_by_chance(void **state)
{
    (void)state;
    struct ranks ranks = two_hosts(200 * US);
    assert_named(&ranks, -1);
    ranks = two_hosts(900 * US);
    assert_named(&ranks, 1);
}

/* Three pairs, and what the first and the second of each do together. Of rank 5, which is the
 * partner of the late one, nothing is seen: ranks 1 and 3 always wait for it. How long they would
 * not have is known of ranks 0, 2 and 4. */
static void test_what_an_unseen_rank_passed_on_is_charged_to_its_partner(void **state)
{
    (void)state;
    enum { STEPS = 300, EVEN = 3, ODD = 4 };
    struct ranks ranks;
    ranks_begin(&ranks, 6);
    for (unsigned c = 0; c < 3; c++)
        ranks_comm(&ranks, c, 2 * c, 1, c < 2 ? 2 : 1, 2);
    ranks_comm(&ranks, EVEN, 0, 2, 3, 3);
    ranks_comm(&ranks, ODD, 1, 2, 2, 3);
    for (unsigned s = 0; s < STEPS; s++) {
        for (unsigned r = 0; r < 6; r++)
            ranks_work(&ranks, r, 1 * MS + (r == 4 ? 400 * US : 0));
        for (unsigned c = 0; c < 3; c++)
            ranks_do(&ranks, c, 1 << 20, 20 * US, true, 0);
        uint64_t passed_on_ns = ranks.arrived_ns[4] - ranks.arrived_ns[1];
        ranks_do(&ranks, EVEN, 1 << 22, 100 * US, true, 0);
        ranks_do(&ranks, ODD, 1 << 22, passed_on_ns + 100 * US, true, 0);
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].rank[0], 4);
    assert_in_range((uint64_t)(findings.finding[0].cost_s * 1e6), STEPS * 360, STEPS * 440);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_delays_show_among_many_short_ones),
        cmocka_unit_test(test_who_is_late_twice_as_much_as_the_other_is_named),
        cmocka_unit_test(test_ranks_that_are_late_one_after_the_other_are_no_uneven_work),
        cmocka_unit_test(test_who_is_late_hardly_more_than_the_other_is_not_named),
        cmocka_unit_test(test_of_two_ranks_one_costs_more_than_the_other_by_chance),
        cmocka_unit_test(test_two_hosts_differ_by_chance),
        cmocka_unit_test(test_a_rank_late_in_every_block_is_named),
        cmocka_unit_test(test_turns_of_whole_blocks_are_nobodys_fault),
        cmocka_unit_test(test_slower_by_what_gpus_differ_is_not_late),
        cmocka_unit_test(test_over_a_long_time_a_tenth_is_late),
        cmocka_unit_test(test_one_block_names_only_what_is_plain),
        cmocka_unit_test(test_a_host_that_fell_behind_once_is_not_late),
        cmocka_unit_test(test_a_slower_host_is_late),
        cmocka_unit_test(test_what_an_unseen_rank_passed_on_is_charged_to_its_partner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
