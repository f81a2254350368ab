/* When a link is called slow. */
#include "made_ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { OPS = 40 };

/* Four ranks on two hosts in a ring: 1 sends to 2, 3 sends to 0. 10 ms an operation. */
static struct ranks job(unsigned seen, uint64_t late_ns)
{
    struct ranks ranks;
    ranks_begin(&ranks, 4);
    ranks_comm(&ranks, 0, 0, 1, seen, 4);
    for (unsigned i = 0; i < OPS; i++) {
        ranks_work(&ranks, 0, late_ns);
        ranks_do(&ranks, 0, 8 << 20, 10 * MS, true, 0);
    }
    return ranks;
}

static void link_of(struct ranks *ranks, unsigned from, int32_t to, uint64_t net_wait_ns)
{
    struct muster_seg_net net = {.peer = to,
                                 .send = 1,
                                 .count = OPS,
                                 .bytes = 1ull << 30,
                                 .steps = 1000,
                                 .gpu_wait_ns = 400 * MS,
                                 .net_wait_ns = net_wait_ns};
    muster_view_add_net(&ranks->view, ranks->member[0][from], &net);
    net.send = 0;
    net.peer = (int32_t)from;
    net.net_wait_ns = 390 * MS; /* high everywhere */
    muster_view_add_net(&ranks->view, ranks->member[0][to], &net);
}

static void test_slow_link_by_its_senders_wait(void **state)
{
    (void)state;
    struct ranks ranks = job(4, 0);
    link_of(&ranks, 1, 2, 350 * MS);
    link_of(&ranks, 3, 0, 7 * MS);
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->kind, MUSTER_FINDING_SLOW_TRANSFER);
    assert_int_equal(finding->ranks, 2);
    assert_int_equal(finding->rank[0], 1);
    assert_int_equal(finding->rank[1], 2);
    /* At most by the pace of the other link; its sender waited for its GPU for longer than for the
     * network, so that it may as well be nothing; half way between. */
    assert_true(fabs(finding->cost_high_s - 0.4 * (1 - 7.0 / 350)) < 0.02);
    assert_true(finding->cost_low_s < 1e-6);
    assert_true(fabs(finding->cost_s - 0.2) < 0.01);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

static void expect_none(struct ranks *ranks)
{
    struct muster_findings findings = ranks_diagnose(ranks);
    for (size_t i = 0; i < findings.n; i++)
        assert_int_not_equal(findings.finding[i].kind, MUSTER_FINDING_SLOW_TRANSFER);
    muster_findings_free(&findings);
    ranks_end(ranks);
}

static void test_links_that_wait_alike_are_fine(void **state)
{
    (void)state;
    struct ranks ranks = job(4, 0);
    link_of(&ranks, 1, 2, 200 * MS);
    link_of(&ranks, 3, 0, 170 * MS);
    expect_none(&ranks);
}

static void test_short_waits_are_fine(void **state)
{
    (void)state;
    struct ranks ranks = job(4, 0);
    link_of(&ranks, 1, 2, 50 * MS);
    link_of(&ranks, 3, 0, 1 * MS);
    expect_none(&ranks);
}

static void test_nothing_is_said_beside_a_late_rank(void **state)
{
    (void)state;
    struct ranks ranks = job(4, 3 * MS);
    link_of(&ranks, 1, 2, 350 * MS);
    link_of(&ranks, 3, 0, 7 * MS);
    expect_none(&ranks);
}

static void test_nothing_is_said_of_a_replay_at_full_speed(void **state)
{
    (void)state;
    struct ranks ranks = job(4, 0);
    link_of(&ranks, 1, 2, 350 * MS);
    link_of(&ranks, 3, 0, 7 * MS);
    for (uint32_t g = 0; g < ranks.view.gpus; g++)
        ranks.view.gpu[g].host_times = false;
    expect_none(&ranks);
}

static void test_nothing_is_said_from_a_part_of_the_ranks(void **state)
{
    (void)state;
    struct ranks ranks = job(3, 0);
    struct muster_seg_net net = {.peer = 2,
                                 .send = 1,
                                 .count = OPS,
                                 .bytes = 1 << 30,
                                 .steps = 1000,
                                 .net_wait_ns = 900 * MS};
    muster_view_add_net(&ranks.view, ranks.member[0][1], &net);
    net.net_wait_ns = 1;
    net.peer = 1;
    muster_view_add_net(&ranks.view, ranks.member[0][0], &net);
    expect_none(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_link_by_its_senders_wait),
        cmocka_unit_test(test_links_that_wait_alike_are_fine),
        cmocka_unit_test(test_short_waits_are_fine),
        cmocka_unit_test(test_nothing_is_said_beside_a_late_rank),
        cmocka_unit_test(test_nothing_is_said_of_a_replay_at_full_speed),
        cmocka_unit_test(test_nothing_is_said_from_a_part_of_the_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
