/* When transfers are called slow against their own past, or against those of others. */
#include "made_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { OPS = 120 };

/* What operation `i` of communicator `comm` takes. */
typedef uint64_t transfer_of(unsigned comm, unsigned i);

static uint64_t noise(unsigned i)
{
    return i * 7919 % 37 * US;
}

static uint64_t slow_for_good(unsigned comm, unsigned i)
{
    return (comm == 0 && i >= 70 ? 3 : 1) * MS + noise(i);
}

static uint64_t slow_for_a_while(unsigned comm, unsigned i)
{
    return (comm == 0 && i >= 50 && i < 90 ? 3 : 1) * MS + noise(i);
}

static uint64_t slow_by_turns(unsigned comm, unsigned i)
{
    return (comm == 0 && i >= 60 && i % 3 ? 3 : 1) * MS + noise(i);
}

static uint64_t quick_for_good(unsigned comm, unsigned i)
{
    return (comm == 0 && i < 50 ? 3 : 1) * MS + noise(i);
}

static uint64_t third_pair_is_slow(unsigned comm, unsigned i)
{
    return (comm == 2 ? 4 : 1) * MS + noise(i);
}

static uint64_t pairs_differ(unsigned comm, unsigned i)
{
    return (1 + comm) * MS + noise(i);
}

/* One communicator of n ranks, of which `seen` are seen. Rank 0 is late by `late_ns`. */
static struct muster_findings one_comm(struct ranks *ranks, unsigned n, unsigned seen,
                                       uint64_t late_ns, transfer_of *transfer)
{
    ranks_begin(ranks, seen);
    ranks_comm(ranks, 0, 0, 1, seen, n);
    for (unsigned i = 0; i < OPS; i++) {
        for (unsigned r = 0; r < seen; r++)
            ranks_work(ranks, r, 300 * US + (r == 0 ? late_ns : 0));
        ranks_do(ranks, 0, 1 << 20, transfer(0, i), true, 0);
    }
    return ranks_diagnose(ranks);
}

static void end(struct ranks *ranks, struct muster_findings *findings)
{
    muster_findings_free(findings);
    ranks_end(ranks);
}

static void test_a_communicator_that_becomes_slow(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = one_comm(&ranks, 4, 4, 0, slow_for_good);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->kind, MUSTER_FINDING_SLOW_TRANSFER);
    assert_int_equal(finding->ranks, 0);
    assert_int_equal(finding->op.index, 70);
    assert_true(ranks_has_line(&finding->not_observable, "between whom"));
    assert_true(fabs(finding->cost_s - 50 * 0.002) < 0.002);
    assert_true(finding->confidence > 0.9);
    end(&ranks, &findings);
}

static void test_of_two_ranks_the_pair_is_known_but_not_the_direction(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = one_comm(&ranks, 2, 2, 0, slow_for_good);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 2);
    assert_true(ranks_has_line(&findings.finding[0].not_observable, "in which direction"));
    end(&ranks, &findings);
}

static void test_what_does_not_last_is_not_called_slow(void **state)
{
    (void)state;
    transfer_of *const fine[] = {slow_for_a_while, slow_by_turns, quick_for_good};
    for (unsigned i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        struct ranks ranks;
        struct muster_findings findings = one_comm(&ranks, 4, 4, 0, fine[i]);
        assert_int_equal(findings.n, 0);
        end(&ranks, &findings);
    }
}

static void test_a_part_of_the_ranks_tells_nothing(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = one_comm(&ranks, 4, 3, 0, slow_for_good);
    assert_int_equal(findings.n, 0);
    end(&ranks, &findings);
}

static void test_beside_a_late_rank_nothing_is_called_slow(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = one_comm(&ranks, 4, 4, 2 * MS, slow_for_good);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_LATE_RANK);
    end(&ranks, &findings);
}

/* Four pairs that do the same. */
static struct muster_findings pairs(struct ranks *ranks, transfer_of *transfer)
{
    ranks_begin(ranks, 8);
    for (unsigned comm = 0; comm < 4; comm++)
        ranks_comm(ranks, comm, 2 * comm, 1, 2, 2);
    for (unsigned i = 0; i < OPS; i++) {
        for (unsigned r = 0; r < 8; r++)
            ranks_work(ranks, r, 300 * US);
        for (unsigned comm = 0; comm < 4; comm++)
            ranks_do(ranks, comm, 1 << 20, transfer(comm, i), true, 0);
    }
    return ranks_diagnose(ranks);
}

static void test_a_pair_that_is_slower_than_its_like(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = pairs(&ranks, third_pair_is_slow);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_SLOW_TRANSFER);
    assert_int_equal(findings.finding[0].comm, 0x102);
    assert_int_equal(findings.finding[0].rank[0], 4);
    assert_int_equal(findings.finding[0].rank[1], 5);
    end(&ranks, &findings);
}

static void test_pairs_that_all_differ_prove_nothing(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = pairs(&ranks, pairs_differ);
    assert_int_equal(findings.n, 0);
    end(&ranks, &findings);
}

/* Rank `from` sends to the next, which receives: a group of `parts`, all of which take what the
 * launch takes. */
static void exchange(struct ranks *ranks, unsigned from, uint64_t number, unsigned parts,
                     uint64_t clock_ns, uint64_t took_ns)
{
    for (unsigned i = 0; i < 2 * parts; i++) {
        unsigned side = i % 2, rank = from + side;
        const struct muster_op op = {.number = number + i / 2,
                                     .enqueue_ns = clock_ns,
                                     .begin_ns = clock_ns + ranks->skew_ns[rank],
                                     .end_ns = clock_ns + took_ns + ranks->skew_ns[rank],
                                     .count = 1 << 20,
                                     .peer = (int32_t)(side ? from : from + 1),
                                     .func = side ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND,
                                     .dtype = MUSTER_DTYPE_FLOAT32,
                                     .source = MUSTER_SOURCE_GPU};
        muster_view_add_op(&ranks->view, ranks->member[0][rank], &op);
    }
}

/* A chain of three; what 1 sends to 2 takes three times as long from exchange 70 on. */
static void test_a_pair_of_a_chain_that_becomes_slow(void **state)
{
    (void)state;
    struct ranks ranks;
    uint64_t clock_ns = 1000 * MS;
    ranks_begin(&ranks, 3);
    ranks_comm(&ranks, 0, 0, 1, 3, 3);
    for (unsigned i = 0; i < OPS; i++) {
        for (unsigned from = 0; from < 2; from++) {
            uint64_t took_ns = (from == 1 && i >= 70 ? 3 : 1) * MS + noise(i);
            exchange(&ranks, from, i, 1, clock_ns, took_ns);
            clock_ns += took_ns + 300 * US;
        }
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_SLOW_TRANSFER);
    assert_int_equal(findings.finding[0].ranks, 2);
    assert_int_equal(findings.finding[0].rank[0], 1);
    assert_int_equal(findings.finding[0].rank[1], 2);
    assert_false(ranks_has_line(&findings.finding[0].not_observable, "direction"));
    end(&ranks, &findings);
}

/* 120 sends one by one, then as many in groups of eight, which take three times as long: the
 * program does something else. `slow`: from the middle of the groups on the link is slow as well.
 */
static struct muster_findings grouped_later(struct ranks *ranks, bool slow)
{
    enum { PARTS = 8 };
    uint64_t clock_ns = 1000 * MS, number = 0;
    ranks_begin(ranks, 2);
    ranks_comm(ranks, 0, 0, 1, 2, 2);
    for (unsigned i = 0; i < 2 * OPS; i++) {
        unsigned parts = i < OPS ? 1 : PARTS;
        uint64_t took_ns = (i < OPS ? 1 : slow && i >= OPS + OPS / 2 ? 9 : 3) * MS + noise(i);
        exchange(ranks, 0, number, parts, clock_ns, took_ns);
        clock_ns += took_ns + 300 * US;
        number += parts;
    }
    return ranks_diagnose(ranks);
}

static void test_sends_in_larger_groups_are_not_a_slow_link(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = grouped_later(&ranks, false);
    assert_int_equal(findings.n, 0);
    end(&ranks, &findings);
}

static void test_groups_of_sends_that_become_slow(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = grouped_later(&ranks, true);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_SLOW_TRANSFER);
    end(&ranks, &findings);
}

/* One of three comes `late_ns` after the others to a launch in which each sends to each. */
static void all_to_all(struct ranks *ranks, uint64_t number, uint64_t clock_ns, uint64_t late_ns)
{
    for (unsigned from = 0; from < 3; from++) {
        for (unsigned i = 0; i < 4; i++) {
            uint64_t own_ns = clock_ns + (from == 2 ? late_ns : 0) + ranks->skew_ns[from];
            const struct muster_op op = {.number = number,
                                         .enqueue_ns = clock_ns,
                                         .begin_ns = own_ns,
                                         .end_ns = clock_ns + late_ns + MS + ranks->skew_ns[from],
                                         .count = 1 << 20,
                                         .peer = (int32_t)((from + 1 + i / 2) % 3),
                                         .func = i % 2 ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND,
                                         .dtype = MUSTER_DTYPE_FLOAT32,
                                         .source = MUSTER_SOURCE_GPU};
            muster_view_add_op(&ranks->view, ranks->member[0][from], &op);
        }
    }
}

/* Of itself the search for transfers knows nobody who is late. */
static void test_a_partner_that_all_wait_for_is_no_slow_link(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = {0};
    struct muster_err err;
    ranks_begin(&ranks, 3);
    ranks_comm(&ranks, 0, 0, 1, 3, 3);
    for (unsigned i = 0; i < OPS; i++)
        all_to_all(&ranks, i, (1000 + 5 * i) * MS, i >= 70 ? 2 * MS : 0);
    assert_int_equal(muster_diagnose_transfer(ranks_view(&ranks), &findings, &err), 0);
    assert_int_equal(findings.n, 0);
    end(&ranks, &findings);
}

enum { RING = 8 };

/* Each sends to the next of a ring and receives from the one before, and is over once both were
 * there. From launch 70 on rank r begins apart_ns later than its neighbour that is farther from
 * rank 4, and transfers take took_ns. */
static struct muster_findings ring(struct ranks *ranks, uint64_t apart_ns, uint64_t took_ns)
{
    struct muster_findings findings = {0};
    struct muster_err err;
    ranks_begin(ranks, RING);
    ranks_comm(ranks, 0, 0, 1, RING, RING);
    for (unsigned i = 0; i < OPS; i++) {
        uint64_t begin_ns[RING];
        for (unsigned r = 0; r < RING; r++)
            begin_ns[r] =
                (1000 + 20 * i) * MS + (i >= 70 ? (r < RING - r ? r : RING - r) * apart_ns : 0);
        for (unsigned side = 0; side < 2 * RING; side++) {
            unsigned rank = side / 2, next = (rank + 1) % RING, last = (rank + RING - 1) % RING;
            uint64_t all_ns = begin_ns[next] > begin_ns[last] ? begin_ns[next] : begin_ns[last];
            all_ns = begin_ns[rank] > all_ns ? begin_ns[rank] : all_ns;
            const struct muster_op op = {.number = i,
                                         .enqueue_ns = begin_ns[rank],
                                         .begin_ns = begin_ns[rank] + ranks->skew_ns[rank],
                                         .end_ns = all_ns + (i >= 70 ? took_ns : 1 * MS) +
                                                   noise(i) + ranks->skew_ns[rank],
                                         .count = 1 << 20,
                                         .peer = (int32_t)(side % 2 ? last : next),
                                         .func = side % 2 ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND,
                                         .dtype = MUSTER_DTYPE_FLOAT32,
                                         .source = MUSTER_SOURCE_GPU};
            muster_view_add_op(&ranks->view, ranks->member[0][rank], &op);
        }
    }
    assert_int_equal(muster_diagnose_transfer(ranks_view(ranks), &findings, &err), 0);
    return findings;
}

/* Far from rank 4 everybody waits for a neighbour that waits for the next one. */
static void test_a_ring_whose_ranks_wait_one_for_the_next_is_no_slow_link(void **state)
{
    (void)state;
    struct ranks ranks;
    struct muster_findings findings = ring(&ranks, 2 * MS, 1 * MS);
    assert_int_equal(findings.n, 0);
    end(&ranks, &findings);
    findings = ring(&ranks, 0, 3 * MS);
    assert_true(findings.n > 0);
    end(&ranks, &findings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_communicator_that_becomes_slow),
        cmocka_unit_test(test_of_two_ranks_the_pair_is_known_but_not_the_direction),
        cmocka_unit_test(test_what_does_not_last_is_not_called_slow),
        cmocka_unit_test(test_a_part_of_the_ranks_tells_nothing),
        cmocka_unit_test(test_beside_a_late_rank_nothing_is_called_slow),
        cmocka_unit_test(test_a_pair_that_is_slower_than_its_like),
        cmocka_unit_test(test_pairs_that_all_differ_prove_nothing),
        cmocka_unit_test(test_a_pair_of_a_chain_that_becomes_slow),
        cmocka_unit_test(test_sends_in_larger_groups_are_not_a_slow_link),
        cmocka_unit_test(test_groups_of_sends_that_become_slow),
        cmocka_unit_test(test_a_partner_that_all_wait_for_is_no_slow_link),
        cmocka_unit_test(test_a_ring_whose_ranks_wait_one_for_the_next_is_no_slow_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
