#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "diagnose/evidence.h"
#include "diagnose/evidence_wait.h"

/* Made-up /proc and /sys trees. Process 7 is the one looked at. */
static char root[64], proc[80], sys[80];
static const struct muster_evidence_roots roots = {proc, sys};

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static int make_trees(void **state)
{
    (void)state;
    strcpy(root, "/tmp/muster-evidence-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(sys, sizeof sys, "%s/sys", root);
    put("proc/7/cgroup", "1:name=x:/\n0::/job/rank1\n");
    put("proc/7/status", "Name:\tpython\nState:\tS (sleeping)\nCpus_allowed_list:\t0-3,8\n");
    put("proc/7/wchan", "futex_wait_queue");
    put("proc/7/task/7/schedstat", "1000 200 3\n");
    put("proc/7/task/9/schedstat", "3000 100 3\n");
    put("proc/vmstat", "nr_free_pages 5\npswpin 40\npswpout 2\n");
    put("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n");
    put("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000\n");
    put("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000\n");
    put("sys/fs/cgroup/job/rank1/cpu.stat",
        "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 70000\n");
    put("sys/fs/cgroup/job/rank1/cpu.max", "50000 100000\n");
    put("sys/fs/cgroup/job/rank1/memory.events", "low 0\nmax 5\noom 1\noom_kill 2\n");
    put("sys/class/net/eth0/statistics/rx_dropped", "10\n");
    put("sys/class/net/lo/statistics/rx_dropped", "1000\n");
    return 0;
}

static int remove_trees(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static struct muster_evidence reading(uint64_t at_s)
{
    struct muster_evidence evidence = {.at_ns = at_s * 1000000000};
    muster_evidence_read(&roots, 7, &evidence);
    return evidence;
}

static bool describes(const struct muster_finding_lines *lines, const char *text)
{
    for (unsigned i = 0; i < lines->n; i++)
        if (strstr(lines->line[i], text))
            return true;
    return false;
}

static void every_source_is_read(void **state)
{
    (void)state;
    struct muster_evidence evidence = reading(0);
    assert_int_equal(evidence.quota_percent, 50);
    assert_int_equal(evidence.throttled, 4);
    assert_int_equal(evidence.throttled_us, 70000);
    assert_int_equal(evidence.oom_kills, 2);
    assert_int_equal(evidence.memory_limited, 5);
    assert_int_equal(evidence.run_ns, 4000);
    assert_int_equal(evidence.wait_ns, 300);
    assert_int_equal(evidence.cpus, 5);
    assert_int_equal(evidence.state, 'S');
    assert_string_equal(evidence.wchan, "futex_wait_queue");
    assert_int_equal(evidence.stall_us[0], 1000);
    assert_int_equal(evidence.stall_us[2], 3000);
    assert_int_equal(evidence.swapped_in, 40);
    assert_int_equal(evidence.net_drops, 10);
}

/* Twenty seconds in which it read 3 GiB and its main thread ran throughout; the other waits. */
static void what_it_does_instead_is_said(void **state)
{
    (void)state;
    put("proc/7/io", "rchar: 9\nread_bytes: 1000\nwrite_bytes: 500\ncancelled_write_bytes: 0\n");
    struct muster_evidence culprit[2] = {reading(10), {0}}, others[1][2];
    others[0][0] = others[0][1] = culprit[0];
    others[0][0].at_ns = 20ull * 1000000000;
    others[0][1].at_ns = 30ull * 1000000000;
    others[0][1].read_bytes += 100 << 20;
    put("proc/7/io", "read_bytes: 3221226472\nwrite_bytes: 500\n");
    put("proc/7/task/7/schedstat", "19000001000 200 3\n");
    culprit[1] = reading(30);
    struct muster_finding_lines lines = {.n = 0};
    muster_evidence_compare(culprit, (const struct muster_evidence(*)[2])others, 1, &lines);
    assert_true(describes(&lines, "it read 3 GiB from storage in 20 s"));
    assert_true(describes(&lines, "its main thread ran for 19.0 s of 20 s"));
    assert_false(describes(&lines, "it wrote"));
    /* The other one reads half as much in half the time: nothing stands out. */
    others[0][1].read_bytes += 1536ull << 20;
    lines.n = 0;
    muster_evidence_compare(culprit, (const struct muster_evidence(*)[2])others, 1, &lines);
    assert_false(describes(&lines, "from storage"));
}

static void connect_fd(const char *target)
{
    char path[256];
    put("proc/7/fd/none", "");
    snprintf(path, sizeof path, "%s/7/fd/5", proc);
    unlink(path);
    assert_int_equal(symlink(target, path), 0);
}

static void a_wait_for_a_socket_is_named_by_its_peer(void **state)
{
    (void)state;
    char call[64];
    static const char head[] = "  sl  local_address rem_address   st tx_queue rx_queue\n";
    char rows[512];
    snprintf(rows, sizeof rows,
             "%s   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 "
             "       0 7 1\n   1: 0400000A:D4A2 0500000A:733C 01 00000000:00000000 00:00000000 "
             "00000000  1000        0 4711 1\n",
             head);
    put("proc/7/net/tcp", rows);
    snprintf(call, sizeof call, "%ld 0x5 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f\n", (long)SYS_recvfrom);
    put("proc/7/syscall", call);
    connect_fd("socket:[4711]");
    struct muster_finding_lines lines = {.n = 0};
    muster_evidence_absent(&roots, 7, 3, &lines);
    assert_true(describes(&lines, "rank 3's main thread is in recvfrom of a TCP connection to "
                                  "10.0.0.5:29500"));
    connect_fd("socket:[4712]");
    lines.n = 0;
    muster_evidence_absent(&roots, 7, 3, &lines);
    assert_true(describes(&lines, "in recvfrom of a socket that is no TCP connection"));
    connect_fd("/data/train-0001.tar");
    snprintf(call, sizeof call, "%ld 0x5 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f\n", (long)SYS_read);
    put("proc/7/syscall", call);
    lines.n = 0;
    muster_evidence_absent(&roots, 7, 3, &lines);
    assert_true(describes(&lines, "in read of /data/train-0001.tar"));
    put("proc/7/syscall", "running\n");
    lines.n = 0;
    muster_evidence_absent(&roots, 7, 3, &lines);
    assert_false(describes(&lines, "main thread is in"));
}

static void an_address_of_the_newer_kind_is_read(void **state)
{
    (void)state;
    char peer[64];
    static const char row[] =
        "   3: 00000000000000000000000001000000:1F90 B80D0120000000000000000005000000:733C 01 "
        "00000000:00000000 00:00000000 00000000  1000        0 99 1 0";
    assert_true(muster_wait_parse_tcp(row, 99, peer, sizeof peer));
    assert_string_equal(peer, "[2001:db8::5]:29500");
    assert_false(muster_wait_parse_tcp(row, 98, peer, sizeof peer));
    assert_false(muster_wait_parse_tcp("   3: zz", 99, peer, sizeof peer));
    assert_false(muster_wait_parse_tcp("", 99, peer, sizeof peer));
}

/* The controllers' own hierarchies, of a process whose unified cgroup has none. */
static void make_v1(const char *cpu, const char *path)
{
    char cgroup[256], at[128];
    snprintf(cgroup, sizeof cgroup, "9:name=systemd:/x\n5:%s:%s\n4:memory:%s\n0::/\n", cpu, path,
             path);
    put("proc/7/cgroup", cgroup);
    snprintf(at, sizeof at, "sys/fs/cgroup/%s", cpu);
    char name[256];
    snprintf(name, sizeof name, "%s/job/cpu.stat", at);
    put(name, "nr_periods 10\nnr_throttled 4\nthrottled_time 70000000\n");
    snprintf(name, sizeof name, "%s/job/cpu.cfs_quota_us", at);
    put(name, "250000\n");
    snprintf(name, sizeof name, "%s/job/cpu.cfs_period_us", at);
    put(name, "100000\n");
    snprintf(name, sizeof name, "%s/cpu.stat", at);
    put(name, "nr_periods 1\nnr_throttled 1\nthrottled_time 5000\n");
    snprintf(name, sizeof name, "%s/cpu.cfs_quota_us", at);
    put(name, "-1\n");
    put("sys/fs/cgroup/memory/job/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    put("sys/fs/cgroup/memory/job/memory.failcnt", "11\n");
}

static void the_older_cgroups_are_read(void **state)
{
    (void)state;
    static const char *const controllers[] = {"cpu", "cpu,cpuacct"};
    for (int i = 0; i < 2; i++) {
        make_v1(controllers[i], "/job");
        struct muster_evidence evidence = reading(0);
        assert_int_equal(evidence.quota_percent, 250);
        assert_int_equal(evidence.throttled, 4);
        assert_int_equal(evidence.throttled_us, 70000);
        assert_int_equal(evidence.oom_kills, 3);
        assert_int_equal(evidence.memory_limited, 11);
        /* In a container the path is the host's, and what is mounted is its own group. */
        make_v1(controllers[i], "/docker/4711");
        evidence = reading(0);
        assert_int_equal(evidence.throttled_us, 5);
        assert_true(evidence.quota_percent == MUSTER_EVIDENCE_NONE);
        assert_true(evidence.oom_kills == MUSTER_EVIDENCE_NONE);
        char command[160];
        snprintf(command, sizeof command, "rm -rf '%s/fs/cgroup/cpu'", sys);
        assert_int_equal(system(command), 0);
    }
}

static void a_senseless_cgroup_file_is_passed_over(void **state)
{
    (void)state;
    static const char *const text[] = {
        "", "\n\n", "0:", "0::", "::::", "5:cpu:/../..\n", "x\n5:cpux:/job\n", "5:cpu", "5:,,:/"};
    make_v1("cpu", "/job");
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        put("proc/7/cgroup", text[i]);
        struct muster_evidence evidence = reading(0);
        assert_true(evidence.throttled_us == MUSTER_EVIDENCE_NONE);
    }
}

static void what_is_not_there_is_not_known(void **state)
{
    (void)state;
    const struct muster_evidence_roots nowhere = {"/nonexistent", "/nonexistent"};
    struct muster_evidence pair[2] = {{.at_ns = 0}, {.at_ns = 1}};
    struct muster_finding_lines lines = {.n = 0};
    muster_evidence_read(&nowhere, 7, &pair[0]);
    muster_evidence_read(&nowhere, 7, &pair[1]);
    assert_true(pair[0].throttled_us == MUSTER_EVIDENCE_NONE);
    assert_true(pair[0].cpus == MUSTER_EVIDENCE_NONE);
    muster_evidence_compare(pair, NULL, 0, &lines);
    muster_evidence_absent(&nowhere, 7, 1, &lines);
    assert_int_equal(lines.n, 0);
}

/* Each source, moved for the culprit's process alone, and then for all. */
static void what_moved_for_the_guilty_one_alone_is_said(void **state)
{
    (void)state;
    struct muster_evidence culprit[2] = {reading(0), reading(0)}, others[1][2];
    memcpy(others[0], culprit, sizeof culprit);
    struct muster_finding_lines lines = {.n = 0};
    put("sys/fs/cgroup/job/rank1/cpu.stat", "nr_throttled 90\nthrottled_usec 6070000\n");
    put("sys/fs/cgroup/job/rank1/memory.events", "max 9\noom_kill 3\n");
    put("proc/7/task/7/schedstat", "1000 2000000200 3\n");
    put("proc/7/status", "Name:\tpython\nState:\tD (disk sleep)\nCpus_allowed_list:\t2\n");
    put("proc/7/wchan", "nfs_wait_bit");
    culprit[1] = reading(10);
    others[0][1].at_ns = culprit[1].at_ns;
    muster_evidence_compare(culprit, (const struct muster_evidence(*)[2])others, 1, &lines);
    assert_true(describes(&lines, "throttled it for 6.00 s of 10 s (quota: 0.50 CPUs)"));
    assert_true(describes(&lines, "had no CPU for 2.00 s of 10 s"));
    assert_true(describes(&lines, "may use 1 CPUs, the others at least 5"));
    assert_true(describes(&lines, "1 processes killed"));
    assert_true(describes(&lines, "met its memory limit 4 times"));
    assert_true(describes(&lines, "(state D) in nfs_wait_bit"));

    memcpy(others[0], culprit, sizeof culprit);
    lines.n = 0;
    muster_evidence_compare(culprit, (const struct muster_evidence(*)[2])others, 1, &lines);
    assert_int_equal(lines.n, 1); /* the state alone */
}

/* Before, it was in the root cgroup, which has nothing to say about throttling. */
static void a_process_that_came_under_a_quota_is_seen(void **state)
{
    (void)state;
    put("proc/7/cgroup", "0::/\n");
    put("sys/fs/cgroup/cpu.stat", "usage_usec 900\nuser_usec 800\nsystem_usec 100\n");
    struct muster_evidence culprit[2] = {reading(0), reading(0)};
    struct muster_finding_lines lines = {.n = 0};
    assert_int_equal(culprit[0].throttled_us, 0);
    put("proc/7/cgroup", "0::/job/rank1\n");
    put("sys/fs/cgroup/job/rank1/cpu.stat",
        "usage_usec 1000\nnr_throttled 90\nthrottled_usec 6000000\n");
    culprit[1] = reading(10);
    muster_evidence_compare(culprit, NULL, 0, &lines);
    assert_true(describes(&lines, "throttled it for 6.00 s of 10 s (quota: 0.50 CPUs)"));
}

static void the_host_is_said_to_be_pressed(void **state)
{
    (void)state;
    struct muster_evidence culprit[2] = {reading(0), reading(0)};
    struct muster_finding_lines lines = {.n = 0};
    put("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5003000\n");
    put("proc/vmstat", "pswpin 140\n");
    put("sys/class/net/eth0/statistics/tx_dropped", "7\n");
    culprit[1] = reading(10);
    muster_evidence_compare(culprit, NULL, 0, &lines);
    assert_true(describes(&lines, "waited for I/O 50 % of the time"));
    assert_true(describes(&lines, "100 pages swapped in"));
    assert_true(describes(&lines, "7 packets dropped"));
    assert_int_equal(lines.n, 3);
}

static void an_absent_rank_is_described_and_left_alone(void **state)
{
    (void)state;
    struct muster_finding_lines lines = {.n = 0};
    put("proc/7/syscall", "202 0x7f 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f12\n");
    muster_evidence_absent(&roots, 7, 1, &lines);
    assert_true(describes(&lines, "state S, waits in futex_wait_queue, system call 202"));
    assert_true(describes(&lines, "py-spy dump --pid 7"));
    put("proc/7/status", "Name:\tpython\nState:\tT (stopped)\n");
    lines.n = 0;
    muster_evidence_absent(&roots, 7, 1, &lines);
    assert_true(describes(&lines, "kill -CONT 7"));
}

static void a_rank_that_is_gone_may_have_been_killed_for_memory(void **state)
{
    (void)state;
    struct muster_finding_lines lines = {.n = 0};
    struct muster_evidence before = {.oom_kills = 2}, now = {.oom_kills = 2};
    muster_evidence_gone(&before, &now, 3, &lines);
    assert_int_equal(lines.n, 0);
    now.oom_kills = MUSTER_EVIDENCE_NONE;
    muster_evidence_gone(&before, &now, 3, &lines);
    muster_evidence_gone(NULL, &now, 3, &lines);
    assert_int_equal(lines.n, 0);
    now.oom_kills = 3;
    muster_evidence_gone(&before, &now, 3, &lines);
    muster_evidence_gone(NULL, &now, 3, &lines);
    assert_int_equal(lines.n, 2);
    assert_string_equal(lines.line[0],
                        "the OOM killer ended 1 process of rank 3's cgroup meanwhile");
    assert_string_equal(
        lines.line[1],
        "the OOM killer ended 3 processes of rank 3's cgroup so far, perhaps earlier");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_source_is_read, make_trees, remove_trees),
        cmocka_unit_test_setup_teardown(what_it_does_instead_is_said, make_trees, remove_trees),
        cmocka_unit_test_setup_teardown(a_wait_for_a_socket_is_named_by_its_peer, make_trees,
                                        remove_trees),
        cmocka_unit_test_setup_teardown(an_address_of_the_newer_kind_is_read, make_trees,
                                        remove_trees),
        cmocka_unit_test_setup_teardown(the_older_cgroups_are_read, make_trees, remove_trees),
        cmocka_unit_test_setup_teardown(a_senseless_cgroup_file_is_passed_over, make_trees,
                                        remove_trees),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_not_known, make_trees, remove_trees),
        cmocka_unit_test_setup_teardown(what_moved_for_the_guilty_one_alone_is_said, make_trees,
                                        remove_trees),
        cmocka_unit_test_setup_teardown(a_process_that_came_under_a_quota_is_seen, make_trees,
                                        remove_trees),
        cmocka_unit_test_setup_teardown(the_host_is_said_to_be_pressed, make_trees, remove_trees),
        cmocka_unit_test_setup_teardown(an_absent_rank_is_described_and_left_alone, make_trees,
                                        remove_trees),
        cmocka_unit_test(a_rank_that_is_gone_may_have_been_killed_for_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
