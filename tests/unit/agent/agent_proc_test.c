/* Whose job a process is, by its cgroup and its variables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/agent_proc.h"
#include "base/host.h"

static void a_step_of_slurm(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_3\n",
        "9:memory:/slurm/uid_1000/job_4711/step_0/task_3\n1:name=systemd:/x\n",
    };
    for (size_t i = 0; i < 2; i++) {
        struct muster_agent_proc proc = {0};
        muster_agent_proc_cgroup(texts[i], &proc);
        assert_string_equal(proc.job_id, "4711");
        assert_string_equal(proc.step_id, "0");
        assert_string_equal(proc.pod_uid, "");
    }
}

static void a_pod(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0::/kubepods.slice/kubepods-besteffort.slice/"
        "kubepods-besteffort-pod8f3a1c52_11aa_4b0c_9d3e_0123456789ab.slice/cri-abc.scope\n",
        "4:cpu:/kubepods/burstable/pod8f3a1c52-11aa-4b0c-9d3e-0123456789ab/abc\n",
    };
    for (size_t i = 0; i < 2; i++) {
        struct muster_agent_proc proc = {0};
        muster_agent_proc_cgroup(texts[i], &proc);
        assert_string_equal(proc.pod_uid, "8f3a1c52-11aa-4b0c-9d3e-0123456789ab");
        assert_string_equal(proc.job_id, "");
    }
}

static void nothing_is_made_up(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "0::/\n", "0::/user.slice/job_7/podcast\n",
                                        "0::/kubepods/podium", "0::/kubepods/pod0123-"};
    static const struct muster_agent_proc empty;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct muster_agent_proc proc = {0};
        muster_agent_proc_cgroup(texts[i], &proc);
        assert_memory_equal(&proc, &empty, sizeof proc);
    }
}

static void variables_that_name_a_job(void **state)
{
    (void)state;
    static const char text[] = "SECRET=x\0SLURM_JOB_ID=12\0SLURM_JOB_ID=13\0SLURM_STEP_ID=\0"
                               "POD_NAME=trainer-0\0POD_NAMESPACE=ml\nx\0POD_UID";
    struct muster_agent_proc proc = {.job_id = ""};
    muster_agent_proc_environ(text, sizeof text - 1, &proc);
    assert_string_equal(proc.job_id, "12");
    assert_string_equal(proc.step_id, "");
    assert_string_equal(proc.pod, "trainer-0");
    assert_string_equal(proc.namespace, "ml?x");
    assert_string_equal(proc.pod_uid, "");
    /* What the kernel's cgroups said stands. */
    muster_agent_proc_environ("SLURM_JOB_ID=99", strlen("SLURM_JOB_ID=99"), &proc);
    assert_string_equal(proc.job_id, "12");
}

static void own_threads_are_found_by_name(void **state)
{
    (void)state;
    struct muster_agent_proc proc;
    uint64_t start = muster_process_start_ticks(0);
    prctl(PR_SET_NAME, "muster-test");
    muster_agent_proc_read("/proc", (uint32_t)getpid(), start, &proc);
    assert_int_equal(proc.tids, 1);
    assert_int_equal(proc.tid[0], getpid());
    assert_true(proc.cpu_ns > 0);
    uint64_t before = proc.cpu_ns;
    muster_agent_proc_cpu("/proc", (uint32_t)getpid(), &proc);
    assert_true(proc.cpu_ns >= before);
    /* A pid that somebody else has by now. */
    muster_agent_proc_read("/proc", (uint32_t)getpid(), start + 1, &proc);
    assert_int_equal(proc.tids, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_of_slurm),
        cmocka_unit_test(a_pod),
        cmocka_unit_test(nothing_is_made_up),
        cmocka_unit_test(variables_that_name_a_job),
        cmocka_unit_test(own_threads_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
