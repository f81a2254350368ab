/* When a path is called missing or degraded, and what is cited for findings of others. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/path/path.h"

enum { MOST = 8, OPS = 30, LARGE = 4 << 20 /* 16 MiB of float32 */ };

/* Ranks whose processes have a GPU each, all joined alike. */
struct testbed {
    struct ranks ranks;
    struct muster_facts facts[MOST];
    unsigned n;
    struct muster_findings findings;
};

static void set_variable(struct testbed *testbed, unsigned rank, enum muster_fact_var variable,
                         const char *value)
{
    testbed->facts[rank].head.variables |= 1u << variable;
    snprintf(testbed->facts[rank].head.value[variable], MUSTER_FACT_VALUE, "%s", value);
}

static void know_gpu(struct muster_facts *facts, unsigned rank, unsigned n)
{
    struct muster_fact_gpu *gpu = &facts->gpu[0];
    facts->head.state = MUSTER_FACTS_READ;
    gpu->named = gpu->known = 1;
    snprintf(gpu->pci, sizeof gpu->pci, "0001:%02x:00.0", 0x20 + rank);
    gpu->nvlinks = gpu->nvlinks_present = gpu->nvlinks_usual = 18;
    gpu->nic_class = gpu->near_class = MUSTER_PATH_UNKNOWN;
    for (unsigned i = 0; i < n; i++)
        if (i != rank)
            gpu->peer[gpu->peers++] = (struct muster_fact_peer){.domain = 1,
                                                                .bus = (uint8_t)(0x20 + i),
                                                                .class = MUSTER_PATH_NVLINK,
                                                                .nvlinks = 18,
                                                                .p2p = MUSTER_P2P_OK,
                                                                .limit_mbs = 478116};
}

static struct testbed *begin(unsigned n)
{
    struct testbed *testbed = calloc(1, sizeof *testbed);
    assert_non_null(testbed);
    testbed->n = n;
    ranks_begin(&testbed->ranks, n);
    ranks_comm(&testbed->ranks, 0, 0, 1, n, n);
    for (unsigned r = 0; r < n; r++) {
        struct muster_view_gpu *gpu = &testbed->ranks.view.gpu[r];
        know_gpu(&testbed->facts[r], r, n);
        gpu->facts = &testbed->facts[r];
        gpu->fact = &testbed->facts[r].gpu[0];
        gpu->use = &testbed->facts[r].use[0];
    }
    for (unsigned i = 0; i < OPS; i++)
        ranks_do(&testbed->ranks, 0, LARGE, MS, true, 0);
    return testbed;
}

/* All pairs of GPUs are joined by PCIe alone. */
static void by_pcie(struct testbed *testbed, enum muster_path_class class, enum muster_p2p p2p)
{
    for (unsigned r = 0; r < testbed->n; r++) {
        struct muster_fact_gpu *gpu = &testbed->facts[r].gpu[0];
        gpu->nvlinks = gpu->nvlinks_present = gpu->nvlinks_usual = 0;
        for (unsigned i = 0; i < gpu->peers; i++) {
            gpu->peer[i].class = (uint8_t) class;
            gpu->peer[i].p2p = (uint8_t)p2p;
            gpu->peer[i].nvlinks = 0;
            gpu->peer[i].limit_mbs = 63000;
        }
    }
}

static void send_to(struct testbed *testbed, unsigned from, int32_t to)
{
    struct muster_seg_net net = {
        .peer = to, .send = 1, .count = OPS, .bytes = 1 << 30, .steps = 1000};
    muster_view_add_net(&testbed->ranks.view, testbed->ranks.member[0][from], &net);
}

static const struct muster_finding *evaluate(struct testbed *testbed)
{
    struct muster_err err;
    const struct muster_view *view = ranks_view(&testbed->ranks);
    assert_int_equal(muster_diagnose_path(view, &testbed->findings, &err), 0);
    return testbed->findings.finding;
}

static void end(struct testbed *testbed)
{
    muster_findings_free(&testbed->findings);
    ranks_end(&testbed->ranks);
    free(testbed);
}

static void expect_nothing(struct testbed *testbed)
{
    evaluate(testbed);
    assert_int_equal(testbed->findings.n, 0);
    end(testbed);
}

static void test_one_finding_stands_for_a_host(void **state)
{
    (void)state;
    struct testbed *testbed = begin(4);
    set_variable(testbed, 2, MUSTER_VAR_P2P_DISABLE, "1");
    const struct muster_finding *finding = evaluate(testbed);
    assert_int_equal(testbed->findings.n, 1);
    assert_int_equal(finding->kind, MUSTER_FINDING_PATH_MISSING);
    assert_int_equal(finding->rank[0], 0);
    assert_int_equal(finding->rank[1], 2);
    assert_true(ranks_has_line(&finding->evidence, "in the environment of rank 2"));
    assert_true(ranks_has_line(&finding->evidence, "2 more pairs"));
    assert_true(ranks_has_line(&finding->evidence, "25.2 GB/s bus bandwidth"));
    end(testbed);
}

static void test_each_host_has_its_own(void **state)
{
    (void)state;
    struct testbed *testbed = begin(4);
    testbed->ranks.view.gpu[2].host = testbed->ranks.view.gpu[3].host = "other";
    for (unsigned r = 0; r < 4; r++)
        set_variable(testbed, r, MUSTER_VAR_P2P_DISABLE, "1");
    evaluate(testbed);
    assert_int_equal(testbed->findings.n, 2);
    assert_string_equal(testbed->findings.finding[0].host, "host");
    assert_string_equal(testbed->findings.finding[1].host, "other");
    end(testbed);
}

static void test_ranks_of_different_hosts_miss_nothing(void **state)
{
    static const char *const hosts[] = {"a", "b", "c", "d"};
    (void)state;
    struct testbed *testbed = begin(4);
    for (unsigned r = 0; r < 4; r++) {
        testbed->ranks.view.gpu[r].host = hosts[r];
        set_variable(testbed, r, MUSTER_VAR_P2P_DISABLE, "1");
    }
    send_to(testbed, 0, 1);
    expect_nothing(testbed);
}

static void test_only_one_means_yes(void **state)
{
    static const char *const no[] = {"0", "2", "true", "yes", ""};
    (void)state;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        struct testbed *testbed = begin(2);
        set_variable(testbed, 0, MUSTER_VAR_P2P_DISABLE, no[i]);
        expect_nothing(testbed);
    }
}

static void test_levels(void **state)
{
    static const struct {
        enum muster_path_class class;
        const char *level;
        bool missing;
    } cases[] = {
        {MUSTER_PATH_NVLINK, "LOC", true},  {MUSTER_PATH_NVLINK, "0", true},
        {MUSTER_PATH_NVLINK, "NVL", false}, {MUSTER_PATH_NVLINK, "1", false},
        {MUSTER_PATH_PIX, "NVL", true},     {MUSTER_PATH_PIX, "PIX", false},
        {MUSTER_PATH_PXB, "PIX", true},     {MUSTER_PATH_PXB, "1", true},
        {MUSTER_PATH_PXB, "2", false},      {MUSTER_PATH_PXB, "5", false},
        {MUSTER_PATH_PXB, "99", false},     {MUSTER_PATH_PXB, "nvl", false},
        {MUSTER_PATH_NVLINK, "NVB", false}, {MUSTER_PATH_PIX, "NVB", true},
        {MUSTER_PATH_PIX, "C2C", true},     {MUSTER_PATH_PXB, "P2C", false},
        {MUSTER_PATH_PXB, "PXN", false},    {MUSTER_PATH_PXB, "PHB", false},
        {MUSTER_PATH_PHB, "NVL", false}, /* NCCL may leave it out by itself */
        {MUSTER_PATH_SYS, "0", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct testbed *testbed = begin(2);
        if (cases[i].class != MUSTER_PATH_NVLINK)
            by_pcie(testbed, cases[i].class, MUSTER_P2P_OK);
        set_variable(testbed, 1, MUSTER_VAR_P2P_LEVEL, cases[i].level);
        evaluate(testbed);
        if (testbed->findings.n != cases[i].missing)
            fail_msg("class %d, level %s: %zu findings", cases[i].class, cases[i].level,
                     testbed->findings.n);
        end(testbed);
    }
}

static void test_what_the_driver_refuses_on_pcie_is_not_expected(void **state)
{
    (void)state;
    struct testbed *testbed = begin(2);
    by_pcie(testbed, MUSTER_PATH_PIX, MUSTER_P2P_CHIPSET);
    set_variable(testbed, 0, MUSTER_VAR_P2P_DISABLE, "1");
    expect_nothing(testbed);
    testbed = begin(2);
    testbed->facts[0].gpu[0].peer[0].p2p = MUSTER_P2P_NOT_SUPPORTED;
    assert_true(ranks_has_line(&evaluate(testbed)->evidence, "not supported"));
    assert_int_equal(testbed->findings.n, 1);
    end(testbed);
}

static void test_without_facts_there_are_no_findings(void **state)
{
    (void)state;
    struct testbed *testbed = begin(2);
    for (unsigned r = 0; r < 2; r++) {
        testbed->ranks.view.gpu[r].facts = NULL;
        testbed->ranks.view.gpu[r].fact = NULL;
        testbed->ranks.view.gpu[r].use = NULL;
    }
    evaluate(testbed);
    assert_int_equal(testbed->findings.n, 0);
    assert_int_equal(testbed->findings.not_observable.n, 0);
    end(testbed);
    /* It matters where the network is seen inside a host. */
    testbed = begin(2);
    testbed->ranks.view.gpu[0].fact = NULL;
    send_to(testbed, 0, 1);
    evaluate(testbed);
    assert_int_equal(testbed->findings.n, 0);
    assert_true(
        ranks_has_line(&testbed->findings.not_observable, "could reach each other directly"));
    end(testbed);
    /* And where somebody turned direct paths off without anybody knowing what that costs. */
    testbed = begin(2);
    testbed->ranks.view.gpu[0].fact = NULL;
    set_variable(testbed, 0, MUSTER_VAR_P2P_DISABLE, "1");
    snprintf(testbed->facts[0].head.no_nvml, sizeof testbed->facts[0].head.no_nvml,
             "no NVML: gone");
    evaluate(testbed);
    assert_int_equal(testbed->findings.n, 0);
    assert_true(ranks_has_line(&testbed->findings.not_observable, "no NVML: gone"));
    end(testbed);
}

static void test_gpus_that_do_not_see_each_other(void **state)
{
    (void)state;
    struct testbed *testbed = begin(2);
    testbed->facts[0].gpu[0].peers = 0;
    set_variable(testbed, 0, MUSTER_VAR_P2P_DISABLE, "1");
    send_to(testbed, 0, 1);
    evaluate(testbed);
    assert_int_equal(testbed->findings.n, 0);
    assert_true(ranks_has_line(&testbed->findings.not_observable, "rank 0 sends to another rank"));
    end(testbed);
}

static void test_a_slow_pcie_link_that_is_used(void **state)
{
    static const char text[] = "PCIe link 0001:1f:00.0 - 0001:20:00.0 runs gen1 x16";
    (void)state;
    for (int low = MUSTER_FACT_FULL; low < MUSTER_FACT_LOWS; low++) {
        struct testbed *testbed = begin(2);
        struct muster_fact_gpu *gpu = &testbed->facts[0].gpu[0];
        by_pcie(testbed, MUSTER_PATH_PIX, MUSTER_P2P_OK);
        gpu->peer[0].low = (uint8_t)low;
        gpu->host_low = (uint8_t)low;
        snprintf(gpu->low, sizeof gpu->low, "%s", text);
        evaluate(testbed);
        assert_int_equal(testbed->findings.n, low == MUSTER_FACT_LOW);
        assert_int_equal(ranks_has_line(&testbed->findings.not_observable, text),
                         low == MUSTER_FACT_LOW_IDLE);
        if (low == MUSTER_FACT_LOW) {
            assert_int_equal(testbed->findings.finding[0].kind, MUSTER_FINDING_PATH_DEGRADED);
            assert_true(ranks_has_line(&testbed->findings.finding[0].evidence, text));
        }
        end(testbed);
    }
}

static void test_a_slow_link_to_the_network(void **state)
{
    (void)state;
    for (int abroad = 0; abroad < 2; abroad++) {
        struct testbed *testbed = begin(2);
        struct muster_fact_gpu *gpu = &testbed->facts[0].gpu[0];
        gpu->host_low = MUSTER_FACT_LOW;
        snprintf(gpu->low, sizeof gpu->low, "PCIe link a - b runs gen5 x4");
        if (abroad) {
            testbed->ranks.view.gpu[1].host = "other";
            send_to(testbed, 0, 1);
        }
        evaluate(testbed);
        /* Over NVLink nobody takes it. */
        assert_int_equal(testbed->findings.n, abroad);
        end(testbed);
    }
}

static void test_a_nic_of_the_other_socket(void **state)
{
    (void)state;
    for (int abroad = 0; abroad < 2; abroad++) {
        struct testbed *testbed = begin(2);
        struct muster_facts *facts = &testbed->facts[0];
        facts->gpu[0].nic_class = MUSTER_PATH_SYS;
        facts->gpu[0].near_class = MUSTER_PATH_PIX;
        snprintf(facts->gpu[0].near, sizeof facts->gpu[0].near, "mlx5_0");
        snprintf(facts->head.nic_verbs, sizeof facts->head.nic_verbs, "mlx5_3");
        set_variable(testbed, 0, MUSTER_VAR_IB_HCA, "=mlx5_3");
        testbed->ranks.view.gpu[1].host = "other";
        if (abroad)
            send_to(testbed, 0, 1);
        evaluate(testbed);
        assert_int_equal(testbed->findings.n, abroad);
        if (abroad) {
            const struct muster_finding *finding = &testbed->findings.finding[0];
            assert_int_equal(finding->kind, MUSTER_FINDING_PATH_MISSING);
            assert_true(ranks_has_line(&finding->evidence, "data between hosts take mlx5_3"));
            assert_true(ranks_has_line(&finding->evidence, "mlx5_0 is nearer (PIX)"));
            assert_true(ranks_has_line(&finding->evidence, "NCCL_IB_HCA==mlx5_3 chooses it"));
        }
        end(testbed);
    }
}

static void test_links_lost_during_the_job(void **state)
{
    (void)state;
    struct testbed *testbed = begin(2);
    testbed->facts[1].use[0].samples = 5;
    testbed->facts[1].use[0].last.nvlinks = 17;
    const struct muster_finding *finding = evaluate(testbed);
    assert_int_equal(testbed->findings.n, 1);
    assert_int_equal(finding->kind, MUSTER_FINDING_PATH_DEGRADED);
    assert_int_equal(finding->rank[0], 1);
    assert_true(
        ranks_has_line(&finding->evidence, "had 18 active NVLinks when the job began and has 17"));
    end(testbed);
}

/* A link that is down is still there; a driver that does not tell of some is only busy. */
static void test_links_that_are_down_and_links_not_told(void **state)
{
    (void)state;
    for (int down = 0; down < 2; down++) {
        struct testbed *testbed = begin(2);
        struct muster_fact_gpu *gpu = &testbed->facts[1].gpu[0];
        gpu->nvlinks = 6;
        gpu->nvlinks_present = down ? 18 : 6;
        evaluate(testbed);
        assert_int_equal(testbed->findings.n, down);
        if (down)
            assert_true(ranks_has_line(&testbed->findings.finding[0].evidence, "6 active NVLinks"));
        end(testbed);
    }
}

/* ---- What is cited ---- */

static void sample(struct testbed *testbed, unsigned rank, uint32_t samples)
{
    struct muster_fact_use *use = &testbed->facts[rank].use[0];
    *use = (struct muster_fact_use){
        .samples = samples, .busy = samples, .clocked = samples, .sum_sm_mhz = 1980ull * samples};
}

static const struct muster_finding_lines *
cite(struct testbed *testbed, enum muster_finding_kind kind, int32_t from, int32_t to)
{
    struct muster_err err;
    const struct muster_view *view = ranks_view(&testbed->ranks);
    struct muster_finding *finding = muster_findings_add(&testbed->findings);
    assert_non_null(finding);
    finding->kind = kind;
    finding->comm = 0x100;
    finding->rank[0] = from;
    finding->rank[1] = to;
    finding->ranks = to < 0 ? 1 : 2;
    assert_int_equal(muster_path_cite(view, &testbed->findings, &err), 0);
    return &finding->evidence;
}

static void test_limits_of_the_guilty_alone_are_cited(void **state)
{
    (void)state;
    struct testbed *testbed = begin(4);
    for (unsigned r = 0; r < 4; r++)
        sample(testbed, r, 30);
    struct muster_fact_use *use = &testbed->facts[2].use[0];
    use->limited[MUSTER_LIMIT_POWER_CAP] = 28;
    use->sum_sm_mhz = 1200ull * 30;
    use->max_temperature = 71;
    use->last.pcie_replays = 9;
    use->xid = 79;
    const struct muster_finding_lines *lines = cite(testbed, MUSTER_FINDING_LATE_RANK, 2, -1);
    assert_true(ranks_has_line(lines,
                               "GPU 0001:22:00.0 of rank 2: clocks limited by power cap in 93 % "
                               "of 30 samples, those of the others in 0 %"));
    assert_true(
        ranks_has_line(lines, "1200 MHz while busy, the others 1980 MHz (up to 71 degrees"));
    assert_true(ranks_has_line(lines, "9 PCIe replays during the job"));
    assert_true(ranks_has_line(lines, "Xid 79"));
    end(testbed);
}

static void test_one_sample_with_a_limit_may_be_chance(void **state)
{
    (void)state;
    struct testbed *testbed = begin(4);
    for (unsigned r = 0; r < 4; r++)
        sample(testbed, r, 3);
    testbed->facts[2].use[0].limited[MUSTER_LIMIT_POWER_CAP] = 1;
    const struct muster_finding_lines *lines = cite(testbed, MUSTER_FINDING_LATE_RANK, 2, -1);
    assert_false(ranks_has_line(lines, "power cap"));
    end(testbed);
}

static void test_what_all_share_is_not_cited(void **state)
{
    (void)state;
    struct testbed *testbed = begin(4);
    for (unsigned r = 0; r < 4; r++) {
        sample(testbed, r, 30);
        testbed->facts[r].use[0].limited[MUSTER_LIMIT_POWER_CAP] = 25 + r;
    }
    const struct muster_finding_lines *lines = cite(testbed, MUSTER_FINDING_LATE_RANK, 3, -1);
    assert_int_equal(lines->n, 1);
    assert_true(ranks_has_line(lines, "clocks, limits and errors as of the others (30 samples)"));
    end(testbed);
}

static void test_low_power_marks_who_waits(void **state)
{
    (void)state;
    struct testbed *testbed = begin(4);
    for (unsigned r = 0; r < 4; r++) {
        sample(testbed, r, 20);
        testbed->facts[r].use[0].waiting = r == 1 ? 1 : 18;
    }
    assert_true(
        ranks_has_line(cite(testbed, MUSTER_FINDING_LATE_RANK, 1, -1), "the other GPUs wait"));
    end(testbed);
    testbed = begin(4);
    for (unsigned r = 0; r < 4; r++) {
        sample(testbed, r, 20);
        testbed->facts[r].use[0].waiting = r == 1 ? 18 : 1;
    }
    assert_true(ranks_has_line(cite(testbed, MUSTER_FINDING_LATE_RANK, 1, -1),
                               "against it: the GPU of "
                               "rank 1"));
    end(testbed);
}

static void test_nothing_is_cited_without_samples(void **state)
{
    (void)state;
    struct testbed *testbed = begin(4);
    assert_int_equal(cite(testbed, MUSTER_FINDING_LATE_RANK, 1, -1)->n, 0);
    end(testbed);
}

static void test_interfaces_of_a_slow_transfer_are_cited(void **state)
{
    (void)state;
    struct testbed *testbed = begin(4);
    snprintf(testbed->facts[1].head.nic, sizeof testbed->facts[1].head.nic, "mv0");
    testbed->facts[1].head.nic_mbps = 10000;
    snprintf(testbed->facts[2].head.nic, sizeof testbed->facts[2].head.nic, "mv1");
    const struct muster_finding_lines *lines = cite(testbed, MUSTER_FINDING_SLOW_TRANSFER, 1, 2);
    assert_true(ranks_has_line(lines,
                               "rank 1 sends through mv0, 10000 Mb/s by its driver; 25.17 GB/s "
                               "achieved"));
    assert_true(ranks_has_line(lines, "rank 2 receives through mv1, rate not told by its driver"));
    end(testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_finding_stands_for_a_host),
        cmocka_unit_test(test_each_host_has_its_own),
        cmocka_unit_test(test_ranks_of_different_hosts_miss_nothing),
        cmocka_unit_test(test_only_one_means_yes),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_what_the_driver_refuses_on_pcie_is_not_expected),
        cmocka_unit_test(test_without_facts_there_are_no_findings),
        cmocka_unit_test(test_gpus_that_do_not_see_each_other),
        cmocka_unit_test(test_a_slow_pcie_link_that_is_used),
        cmocka_unit_test(test_a_slow_link_to_the_network),
        cmocka_unit_test(test_a_nic_of_the_other_socket),
        cmocka_unit_test(test_links_lost_during_the_job),
        cmocka_unit_test(test_links_that_are_down_and_links_not_told),
        cmocka_unit_test(test_limits_of_the_guilty_alone_are_cited),
        cmocka_unit_test(test_one_sample_with_a_limit_may_be_chance),
        cmocka_unit_test(test_what_all_share_is_not_cited),
        cmocka_unit_test(test_low_power_marks_who_waits),
        cmocka_unit_test(test_nothing_is_cited_without_samples),
        cmocka_unit_test(test_interfaces_of_a_slow_transfer_are_cited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
