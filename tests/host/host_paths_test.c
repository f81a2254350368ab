/* What a job's processes find out about their GPUs, and what is concluded from it: two ranks on a
 * machine whose driver is made up (tests/host/nvml). */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "diagnose/diagnose.h"
#include "host_testbed.h"

#include <cmocka.h>

enum { API = 5, RANKS = 2, OPS = 60 };

static char machine[64];
static const char *const one_pci[RANKS] = {"0000:10:00.0", "0000:11:00.0"};

/* What the ranks of a scenario do; set by the test before it runs. */
static struct {
    bool network;     /* their data go over the network */
    bool two_hosts;   /* by NCCL_HOSTID */
    bool killed;      /* they end by SIGKILL */
    bool slow;        /* an all-reduce of 64 MiB takes 8 ms, not 0.2 */
    bool blind;       /* they wait for nothing */
    unsigned samples; /* they wait for: 0: for nothing but that the driver is being asked */
    const char *const *pci;
} job;

static void machine_is(const char *text)
{
    FILE *file = fopen(machine, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static bool read_facts(struct muster_facts *facts)
{
    char path[600];
    DIR *dir = opendir(getenv("MUSTER_SEGMENT_DIR"));
    struct dirent *entry;
    bool found = false;
    while (dir && !found && (entry = readdir(dir))) {
        struct muster_seg_identity identity;
        size_t at = offsetof(struct muster_segment, identity);
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".seg") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", getenv("MUSTER_SEGMENT_DIR"), entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        found = pread(fd, &identity, sizeof identity, (off_t)at) == (ssize_t)sizeof identity &&
                identity.pid == (uint32_t)getpid() &&
                pread(fd, facts, sizeof *facts, offsetof(struct muster_segment, facts)) ==
                    (ssize_t)sizeof *facts;
        close(fd);
    }
    if (dir)
        closedir(dir);
    return found;
}

static void wait_for_facts(void)
{
    struct muster_facts facts;
    uint64_t begin = muster_now_ns();
    for (;;) {
        if (read_facts(&facts) &&
            (job.samples ? facts.use[0].samples >= job.samples
                         : facts.head.state != MUSTER_FACTS_NONE && facts.head.nic[0]))
            return;
        if (muster_now_ns() - begin > 60 * MUSTER_NS_PER_S)
            standin_die("no facts after a minute");
        sched_yield();
    }
}

static void one_rank(struct standin *nccl)
{
    const char *text = getenv("STANDIN_RANK");
    int rank = atoi(text);
    setenv("RANK", text, 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("FAKE_CUDA_PCI", job.pci[rank], 1);
    setenv("FAKE_CUDA_INDEX", text, 1);
    if (job.two_hosts)
        setenv("NCCL_HOSTID", rank ? "host-b" : "host-a", 1);
    /* NCCL has it open, too. */
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
        standin_die("no made-up driver: %s", dlerror());
    struct standin_comm *comm = standin_comm_init(
        nccl, &(struct standin_comm_config){
                  .hash = 0xab, .rank = rank, .nranks = RANKS, .nnodes = job.two_hosts ? 2 : 1});
    struct standin_op op = {
        .func = "AllReduce", .count = 1 << 24, .gpu_ns = job.slow ? 8000000 : 200000};
    if (job.network || job.two_hosts) {
        op.net_ops = 1;
        op.net_peer = 1 - rank;
        op.net_steps = 4;
        op.net_chunk = 65536;
        op.net_send = true;
    }
    standin_call_times(comm, &op, OPS);
    standin_comm_sync(comm);
    if (!job.blind)
        wait_for_facts();
    if (job.killed)
        raise(SIGKILL);
    standin_comm_destroy(comm);
}

static int diagnose_run(const struct muster_run *run, struct muster_findings *findings,
                        struct muster_err *err)
{
    struct muster_view view;
    if (muster_view_of_run(run, &view, err) != 0)
        return -1;
    int rc = muster_diagnose_view(&view, 10 * MUSTER_NS_PER_S, findings, err);
    muster_view_free(&view);
    return rc;
}

/* A run of two ranks, its variables "NAME=value ...", and the findings about paths. */
static void run_job(struct standin_testbed *testbed, const char *variables,
                    struct muster_findings *findings)
{
    char text[256], *rest = NULL;
    struct muster_err err;
    snprintf(text, sizeof text, "%s", variables);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value = '\0';
        setenv(word, value + 1, 1);
    }
    standin_testbed_run_ranks(testbed, API, "channels", one_rank, RANKS, job.killed);
    snprintf(text, sizeof text, "%s", variables);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        word[strcspn(word, "=")] = '\0';
        unsetenv(word);
    }
    assert_int_equal(testbed->run.processes, RANKS);
    memset(findings, 0, sizeof *findings);
    if (diagnose_run(&testbed->run, findings, &err) != 0)
        fail_msg("%s", err.text);
}

static const struct muster_finding *only(const struct muster_findings *findings,
                                         enum muster_finding_kind kind)
{
    const struct muster_finding *found = NULL;
    for (size_t i = 0; i < findings->n; i++) {
        if (findings->finding[i].kind != kind)
            continue;
        assert_null(found);
        found = &findings->finding[i];
    }
    return found;
}

static bool describes(const struct muster_finding_lines *lines, const char *text)
{
    for (unsigned i = 0; i < lines->n; i++)
        if (strstr(lines->line[i], text))
            return true;
    return false;
}

static void expect_no_path(const char *variables)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    run_job(&testbed, variables, &findings);
    assert_null(only(&findings, MUSTER_FINDING_PATH_MISSING));
    assert_null(only(&findings, MUSTER_FINDING_PATH_DEGRADED));
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static int fresh_job(void **state)
{
    (void)state;
    memset(&job, 0, sizeof job);
    job.samples = 1;
    job.pci = one_pci;
    machine_is("gpus 4\n");
    return 0;
}

static void facts_are_recorded_with_the_job(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    machine_is("gpus 4\ngpu 1 limits 0x4\ngpu 1 clock 1200\ngpu 1 power 200000\n");
    run_job(&testbed, "NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo", &findings);
    const struct muster_facts *facts = &testbed.run.process[1].segment->facts;
    assert_int_equal(facts->head.state, MUSTER_FACTS_READ);
    assert_string_equal(facts->head.driver, "580.95.05");
    assert_string_equal(facts->head.nic, "lo");
    assert_string_equal(facts->head.value[MUSTER_VAR_NET], "Socket");
    assert_false(facts->head.variables & 1u << MUSTER_VAR_P2P_DISABLE);
    assert_string_equal(facts->gpu[0].pci, one_pci[1]);
    assert_int_equal(facts->gpu[0].nvlinks, 18);
    assert_int_equal(facts->gpu[0].peers, 3);
    assert_int_equal(facts->gpu[0].peer[0].class, MUSTER_PATH_NVLINK);
    assert_int_equal(facts->gpu[0].peer[0].limit_mbs, 18 * 26562);
    assert_int_equal(facts->gpu[1].named, 0);
    assert_true(facts->use[0].samples >= 1);
    assert_int_equal(facts->use[0].limited[MUSTER_LIMIT_POWER_CAP], facts->use[0].samples);
    assert_int_equal(facts->use[0].waiting, facts->use[0].samples);
    assert_int_equal(facts->use[0].last.sm_mhz, 1200);
    assert_int_equal(testbed.run.process[0].segment->facts.use[0].limited_any, 0);
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static void expect_disabled(struct standin_testbed *testbed, const struct muster_findings *findings)
{
    const struct muster_finding *finding = only(findings, MUSTER_FINDING_PATH_MISSING);
    assert_non_null(finding);
    assert_int_equal(finding->ranks, 2);
    assert_int_equal(finding->rank[0], 0);
    assert_int_equal(finding->rank[1], 1);
    assert_string_equal(finding->host, testbed->run.process[0].identity.host);
    assert_true(describes(&finding->evidence, "18 NVLinks, 478 GB/s"));
    assert_true(describes(&finding->evidence, "NCCL_P2P_DISABLE=1 in the environment of rank 0"));
    assert_true(describes(&finding->evidence, "8.4 GB/s bus bandwidth"));
    assert_non_null(strstr(finding->advice, "unset NCCL_P2P_DISABLE"));
    assert_null(only(findings, MUSTER_FINDING_PATH_DEGRADED));
}

static void peer_access_turned_off_is_a_missing_path(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    job.slow = true;
    run_job(&testbed, "NCCL_P2P_DISABLE=1", &findings);
    expect_disabled(&testbed, &findings);
    assert_false(
        describes(&only(&findings, MUSTER_FINDING_PATH_MISSING)->evidence, "over the network"));
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);

    job.network = true;
    run_job(&testbed, "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1", &findings);
    expect_disabled(&testbed, &findings);
    assert_true(
        describes(&only(&findings, MUSTER_FINDING_PATH_MISSING)->evidence, "over the network"));
    assert_true(describes(&only(&findings, MUSTER_FINDING_PATH_MISSING)->evidence,
                          "NCCL_SHM_DISABLE=1 as well"));
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static void what_turns_nothing_off_is_no_finding(void **state)
{
    (void)state;
    expect_no_path("NCCL_SHM_DISABLE=1");
    expect_no_path("NCCL_P2P_DISABLE=0");
    expect_no_path("NCCL_P2P_LEVEL=NVL");
    /* Without NVLink and without a PCI tree nothing better is known to be there. */
    machine_is("gpus 4\ngpu * links 0\n");
    expect_no_path("NCCL_P2P_DISABLE=1");
    /* Other hosts are reached by the network anyway. */
    machine_is("gpus 4\n");
    job.two_hosts = true;
    expect_no_path("NCCL_P2P_DISABLE=1");
}

static void the_network_inside_a_host_needs_no_variable_to_be_found(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    job.network = true;
    run_job(&testbed, "NCCL_NET=Socket", &findings);
    const struct muster_finding *finding = only(&findings, MUSTER_FINDING_PATH_MISSING);
    assert_non_null(finding);
    assert_true(describes(&finding->evidence, "over the network"));
    assert_true(describes(&finding->not_observable, "why NCCL does not use"));
    assert_true(finding->confidence <= 0.5);
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static void a_driver_that_refuses_is_named(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    machine_is("gpus 4\np2p 0 1 1\n");
    run_job(&testbed, "NCCL_NET=Socket", &findings);
    const struct muster_finding *finding = only(&findings, MUSTER_FINDING_PATH_MISSING);
    assert_non_null(finding);
    assert_true(describes(&finding->evidence, "chipset not supported"));
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static void links_that_are_down_are_a_degraded_path(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    machine_is("gpus 4\ngpu 1 link 3 down\ngpu 1 link 4 down\n");
    run_job(&testbed, "NCCL_NET=Socket", &findings);
    const struct muster_finding *finding = only(&findings, MUSTER_FINDING_PATH_DEGRADED);
    assert_non_null(finding);
    assert_int_equal(finding->rank[0], 1);
    assert_true(
        describes(&finding->evidence, "16 active NVLinks, GPUs of its model on this host have 18"));
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static void nvlink_as_slow_as_a_network_is_degraded(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    job.slow = true;
    run_job(&testbed, "NCCL_NET=Socket", &findings);
    const struct muster_finding *finding = only(&findings, MUSTER_FINDING_PATH_DEGRADED);
    assert_non_null(finding);
    assert_true(describes(&finding->evidence, "joined by 18 NVLinks"));
    assert_true(describes(&finding->evidence, "reached 8.4 GB/s"));
    assert_true(finding->confidence <= 0.5);
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
    /* Few channels explain it. */
    expect_no_path("NCCL_MAX_NCHANNELS=1");
}

static void facts_outlive_a_kill(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    job.killed = job.slow = true;
    run_job(&testbed, "NCCL_P2P_DISABLE=1", &findings);
    expect_disabled(&testbed, &findings);
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static void a_driver_that_never_answers_holds_nobody_up(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    job.samples = 0;
    machine_is("gpus 4\nhang nvmlInit_v2\n");
    run_job(&testbed, "NCCL_P2P_DISABLE=1 NCCL_SOCKET_IFNAME=lo", &findings);
    const struct muster_facts *facts = &testbed.run.process[0].segment->facts;
    assert_int_equal(facts->head.state, MUSTER_FACTS_READING);
    assert_string_equal(facts->head.value[MUSTER_VAR_P2P_DISABLE], "1");
    assert_string_equal(facts->head.nic, "lo");
    assert_int_equal(facts->gpu[0].named, 0);
    assert_int_equal(testbed.run.process[0].state, MUSTER_PROCESS_FINALIZED);
    assert_null(only(&findings, MUSTER_FINDING_PATH_MISSING));
    assert_true(describes(&findings.not_observable, "the GPU driver did not answer"));
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static void without_a_driver_the_job_is_recorded_all_the_same(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    job.samples = 0;
    machine_is("fail nvmlInit_v2 9\n");
    run_job(&testbed, "NCCL_SOCKET_IFNAME=lo", &findings);
    assert_int_equal(testbed.run.process[1].ops, OPS);
    assert_null(only(&findings, MUSTER_FINDING_PATH_MISSING));
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static void nobody_looks_if_told_not_to(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    (void)state;
    job.blind = true;
    run_job(&testbed, "NCCL_P2P_DISABLE=1 MUSTER_GPUS=0", &findings);
    assert_int_equal(testbed.run.process[0].segment->facts.head.state, MUSTER_FACTS_NONE);
    assert_null(only(&findings, MUSTER_FINDING_PATH_MISSING));
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

/* Some file systems lose the segment, never the log. */
static void facts_are_in_the_log_too(void **state)
{
    struct standin_testbed testbed;
    struct muster_findings findings;
    struct muster_err err;
    struct dirent *entry;
    const char *run = testbed.dir;
    (void)state;
    job.slow = true;
    run_job(&testbed, "NCCL_P2P_DISABLE=1", &findings);
    muster_findings_free(&findings);
    muster_run_free(&testbed.run);
    DIR *dir = opendir(testbed.dir);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (strstr(entry->d_name, ".seg"))
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    closedir(dir);
    struct muster_run_query query = {.run = &run, .runs = 1, .segment_dir = testbed.segment_dir};
    assert_int_equal(muster_run_load(&query, &testbed.run, &err), 0);
    memset(&findings, 0, sizeof findings);
    assert_int_equal(diagnose_run(&testbed.run, &findings, &err), 0);
    expect_disabled(&testbed, &findings);
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

static void sixty_four_gpus_and_wide_domains_are_told_apart(void **state)
{
    static const char *const pci[RANKS] = {"10000:3e:00.0", "0000:3f:00.0"};
    struct standin_testbed testbed;
    struct muster_findings findings;
    char text[64 * 40] = "gpus 64\n";
    (void)state;
    for (int i = 0; i < 64; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "gpu %d pci %05x:%02x:00.0\n", i,
                 i % 2 ? 0u : 0x10000u, i);
    machine_is(text);
    job.pci = pci;
    job.slow = true;
    run_job(&testbed, "NCCL_P2P_DISABLE=1", &findings);
    const struct muster_fact_gpu *gpu = &testbed.run.process[0].segment->facts.gpu[0];
    assert_int_equal(testbed.run.process[0].segment->facts.head.gpus, 64);
    assert_int_equal(gpu->peers, 63);
    assert_int_equal(gpu->nvlinks, 18);
    expect_disabled(&testbed, &findings);
    muster_findings_free(&findings);
    standin_testbed_end(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(facts_are_recorded_with_the_job, fresh_job),
        cmocka_unit_test_setup(peer_access_turned_off_is_a_missing_path, fresh_job),
        cmocka_unit_test_setup(what_turns_nothing_off_is_no_finding, fresh_job),
        cmocka_unit_test_setup(the_network_inside_a_host_needs_no_variable_to_be_found, fresh_job),
        cmocka_unit_test_setup(a_driver_that_refuses_is_named, fresh_job),
        cmocka_unit_test_setup(links_that_are_down_are_a_degraded_path, fresh_job),
        cmocka_unit_test_setup(nvlink_as_slow_as_a_network_is_degraded, fresh_job),
        cmocka_unit_test_setup(facts_outlive_a_kill, fresh_job),
        cmocka_unit_test_setup(a_driver_that_never_answers_holds_nobody_up, fresh_job),
        cmocka_unit_test_setup(without_a_driver_the_job_is_recorded_all_the_same, fresh_job),
        cmocka_unit_test_setup(nobody_looks_if_told_not_to, fresh_job),
        cmocka_unit_test_setup(facts_are_in_the_log_too, fresh_job),
        cmocka_unit_test_setup(sixty_four_gpus_and_wide_domains_are_told_apart, fresh_job),
    };
    snprintf(machine, sizeof machine, "/tmp/muster-machine-%d", (int)getpid());
    setenv("FAKE_NVML", machine, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(machine);
    return failed;
}
