/* A host that is late as a whole, while the job runs: its ranks hide each other no longer than it
 * takes to see the other hosts. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BEFORE = 20, HOST = 4 };

/* Steps of half a second; then so many in which `late` ranks of the first host are late by a tenth.
 * Returns the kind of what is named; -1: nothing. `first`: the first rank of it. */
static int named(unsigned ranks_n, unsigned late, unsigned steps, int32_t *first)
{
    struct ranks ranks;
    ranks_begin(&ranks, ranks_n);
    ranks_comm(&ranks, 0, 0, 1, ranks_n, ranks_n);
    for (unsigned r = 0; r < ranks_n; r++)
        ranks.view.gpu[r].host = r / HOST == 0   ? "node0"
                                 : r / HOST == 1 ? "node1"
                                 : r / HOST == 2 ? "node2"
                                                 : "node3";
    for (unsigned s = 0; s < BEFORE + steps; s++) {
        for (unsigned r = 0; r < ranks.n; r++)
            ranks_work(&ranks, r, 500 * MS + (s >= BEFORE && r < late ? 50 * MS : 0));
        ranks_do(&ranks, 0, 1 << 20, 100 * US, true, 0);
        ranks_do(&ranks, 0, 256, 10 * US, true, 0);
    }
    ranks.view.window = 1;
    struct muster_findings findings = ranks_diagnose(&ranks);
    int kind = findings.n ? (int)findings.finding[0].kind : -1;
    *first = findings.n ? findings.finding[0].rank[0] : -1;
    assert_true(findings.n <= 1);
    muster_findings_free(&findings);
    ranks_end(&ranks);
    return kind;
}

/* By how many late steps it is named; 0: by no number that was tried. */
static unsigned steps_to_name(unsigned ranks, unsigned late, int kind)
{
    int32_t first;
    for (unsigned steps = 1; steps <= 40; steps++) {
        int said = named(ranks, late, steps, &first);
        assert_true(said == -1 || said == kind);
        assert_true(said == -1 || first == 0);
        if (said == kind)
            return steps;
    }
    return 0;
}

static void test_a_late_host_takes_hardly_more_steps_than_a_late_rank(void **state)
{
    (void)state;
    for (unsigned ranks = 2 * HOST; ranks <= 4 * HOST; ranks += 2 * HOST) {
        unsigned rank = steps_to_name(ranks, 1, MUSTER_FINDING_LATE_RANK);
        unsigned host = steps_to_name(ranks, HOST, MUSTER_FINDING_LATE_HOST);
        assert_true(rank > 0 && host > 0);
        assert_true(host <= 2 * rank);
    }
}

static void test_one_late_step_names_nobody(void **state)
{
    int32_t first;
    (void)state;
    for (unsigned late = 0; late <= HOST; late++)
        assert_int_equal(named(4 * HOST, late, late > 0, &first), -1);
}

/* Hosts of two ranks: one reduction of all by steps, and one of the first ranks of all hosts that
 * comes so often as `often` says, of which each of host node0's is late. */
static int named_where(unsigned often, unsigned all, uint64_t often_ns, uint64_t all_ns)
{
    static const char *const hosts[] = {"node0", "node1", "node2", "node3"};
    struct ranks ranks;
    ranks_begin(&ranks, 8);
    for (unsigned r = 0; r < ranks.n; r++)
        ranks.view.gpu[r].host = hosts[r / 2];
    ranks_comm(&ranks, 0, 0, 1, 8, 8);
    ranks_comm(&ranks, 1, 0, 2, 4, 4);
    for (unsigned s = 0; s < often; s++) {
        for (unsigned r = 0; r < ranks.n; r += 2)
            ranks_work(&ranks, r, 250 * MS + (r == 0 ? often_ns : 0));
        ranks_do(&ranks, 1, 1 << 20, 100 * US, true, 0);
        ranks_do(&ranks, 1, 256, 10 * US, true, 0);
        for (unsigned r = 0; r < ranks.n; r++)
            ranks_work(&ranks, r, 250 * MS + (r < 2 ? all_ns : 0));
        ranks_do(&ranks, 0, 1 << 10, 100 * US, s < all, 0);
        ranks_do(&ranks, 0, 512, 10 * US, s < all, 0);
    }
    ranks.view.window = 10;
    struct muster_findings findings = ranks_diagnose(&ranks);
    int kind = findings.n ? (int)findings.finding[0].kind : -1;
    muster_findings_free(&findings);
    ranks_end(&ranks);
    return kind;
}

/* One of them is late in more operations that were timed, and so by four times as much in all. */
static void test_ranks_of_a_late_host_need_not_be_late_by_as_much(void **state)
{
    (void)state;
    assert_int_equal(named_where(40, 16, 25 * MS, 25 * MS), MUSTER_FINDING_LATE_HOST);
}

/* As of those that wait in a chain of sends for one of them: late as often, by much less. */
static void test_who_is_late_behind_a_rank_makes_no_late_host(void **state)
{
    (void)state;
    assert_int_equal(named_where(40, 40, 250 * MS, 25 * MS), MUSTER_FINDING_LATE_RANK);
}

/* Of the other one too little is timed for a name of its own. */
static void test_one_suspect_of_a_late_host_is_enough(void **state)
{
    (void)state;
    assert_int_equal(named_where(40, 11, 25 * MS, 25 * MS), MUSTER_FINDING_LATE_HOST);
}

/* Hosts with a communicator each, of which the second is late, and was heard of a step later: then
 * it met no place of the step often enough to be sure of its program. */
static void test_who_is_heard_of_later_has_the_same_program(void **state)
{
    enum { HOSTS = 4, STEPS = 17, OPS = 8, MORE = 8 };
    static const char *const hosts[] = {"node0", "node1", "node2", "node3"};
    struct ranks ranks;
    (void)state;
    ranks_begin(&ranks, HOSTS * HOST);
    for (unsigned c = 0; c < HOSTS; c++)
        ranks_comm(&ranks, c, c * HOST, 1, HOST, HOST);
    for (unsigned r = 0; r < ranks.n; r++)
        ranks.view.gpu[r].host = hosts[r / HOST];
    ranks.number[1] = OPS + MORE;
    for (unsigned s = 0; s < STEPS; s++) {
        for (unsigned i = 0; i < OPS + (s % 2 ? 0 : MORE); i++) {
            for (unsigned r = 0; r < ranks.n; r++)
                ranks_work(&ranks, r, 20 * MS + (r / HOST == 1 ? 20 * MS : 0));
            for (unsigned c = 0; c < HOSTS; c++)
                if (c != 1 || s > 0)
                    ranks_do(&ranks, c, 1 << (10 + i), 100 * US, true, 0);
        }
    }
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].kind, MUSTER_FINDING_LATE_HOST);
    assert_string_equal(findings.finding[0].host, "node1");
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_heard_of_later_has_the_same_program),
        cmocka_unit_test(test_ranks_of_a_late_host_need_not_be_late_by_as_much),
        cmocka_unit_test(test_who_is_late_behind_a_rank_makes_no_late_host),
        cmocka_unit_test(test_one_suspect_of_a_late_host_is_enough),
        cmocka_unit_test(test_a_late_host_takes_hardly_more_steps_than_a_late_rank),
        cmocka_unit_test(test_one_late_step_names_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
