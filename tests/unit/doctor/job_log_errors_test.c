/* Lines of programs, launchers, clusters and the kernel as they print them, and which of several
 * lines tells the cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/rules/causes.h"
#include "doctor/rules/job_log.h"

static void read_text(struct muster_job_log *log, const char *text)
{
    memset(log, 0, sizeof *log);
    muster_job_log_take(log, text, strlen(text));
}

static bool is_seen(const struct muster_job_log *log, const char *id)
{
    char words[2048], *rest;
    muster_job_log_kinds_seen(log, words, sizeof words);
    for (char *at = strtok_r(words, " ", &rest); at; at = strtok_r(NULL, " ", &rest))
        if (strcmp(at, id) == 0)
            return true;
    return false;
}

static const struct {
    const char *text, *id;
} printed[] = {
    {"[rank3]: KeyError: 'pixel_values'", "log.program"},
    {"RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x1024 and 768x3)", "log.program"},
    {"FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'", "log.data"},
    {"slurmstepd: error: couldn't chdir to `/scratch/me': No such file or directory", "log.data"},
    {"ModuleNotFoundError: No module named 'flash_attn'", "log.package"},
    {"ModuleNotFoundError: No module named 'mpi4py'", "log.launch_variables"},
    {"RuntimeError: pidfd_getfd: Operation not permitted", "log.pidfd"},
    {"agent/server/api.py:719] Received 1 death signal, shutting down workers", "log.hangup"},
    {"multiprocessing/api.py:900] Sending process 85005 closing signal SIGHUP", "log.hangup"},
    {"munmap_chunk(): invalid pointer", "log.crashed"},
    {"corrupted double-linked list", "log.crashed"},
    {"RuntimeError: pidfd_open:Operation not permitted", "log.pidfd"},
    {"NCCL WARN NCCL/NET (shim) mismatch enforced: NCCL_MIN_NCHANNELS=8 (expected 4)",
     "log.net_profile"},
    {"[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:47238: "
     "Connection refused",
     "log.gloo_address"},
    {"[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.1.0.7]:47238: "
     "Connection refused",
     "log.refused"},
    {"n1:1:2 [0] init.cc:213 NCCL WARN Mismatched collective detected, please check your calls",
     "log.collective_mismatch"},
    {"python: error while loading shared libraries: libmpi.so.40: cannot open", "log.package"},
    {"OSError: We couldn't connect to 'https://huggingface.co' to load this file", "log.download"},
    {"OSError: [Errno 28] No space left on device: '/ckpt/step_100'", "log.disk_full"},
    {"OSError: [Errno 116] Stale file handle", "log.file_system"},
    {"EXT4-fs error (device sda1): ext4_find_entry:1615: inode #2: comm python", "log.file_system"},
    {"PermissionError: [Errno 13] Permission denied: '/root/.cache'", "log.permission"},
    {"slurmstepd: error: execve(): ./train: Exec format error", "log.architecture"},
    {"api:failed (exitcode: -4) local_rank: 0 (pid: 12) of binary: python", "log.architecture"},
    {"RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling", "log.math_library"},
    {"CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error",
     "log.peer_fault"},
    {"Failed to initialize NVML: Unknown Error", "log.lost_devices"},
    {"RuntimeError: Error building extension 'fused_adam'", "log.build"},
    {"NotImplementedError: Using RTX 4000 series doesn't support faster communication broadband "
     "via P2P or IB.",
     "log.no_p2p_boards"},
    {"ValueError: Total number of attention heads (14) must be divisible by tensor parallel size "
     "(4).",
     "log.parallel_sizes"},
    {"ValueError: Free memory on device (10.0/79.0 GiB) on startup is less than desired GPU memory "
     "utilization (0.9, 71.1 GiB).",
     "log.serve_memory"},
    {"RuntimeError: Every node should have a unique IP address. Got 2 nodes", "log.host_ip"},
    {"ConnectionError: Could not find any running Ray instance.", "log.ray"},
    {"srun: error: Unable to create step for job 12: More processors requested than permitted",
     "log.resources"},
    {"srun: error: Task launch for StepId=12.0 failed on node node2: Socket timed out",
     "log.slurm"},
    {"slurmstepd: error: pyxis: container start failed with error code: 1", "log.container_start"},
    {"0/8 nodes are available: 8 Insufficient nvidia.com/gpu.", "log.unscheduled"},
    {"It looks like MPI_INIT failed for some reason; your parallel process is likely", "log.mpi"},
    {"mpirun has detected an attempt to run as root.", "log.mpi_root"},
    {"A request was made to bind to that would result in binding more processes than cpus on a "
     "resource:",
     "log.mpi_binding"},
    {"SignalException: Process 812 got signal: 1", "log.hangup"},
    {"ValueError: The port number of the rendezvous endpoint 'node1:99999' must be an integer",
     "log.endpoint"},
    {"[W socket.cpp:601] [c10d] The IPv6 network addresses of (/etc/job.env, 45458) cannot be "
     "retrieved (gai error: -3 - Temporary failure in name resolution).",
     "log.endpoint"},
    {"[c10d] The IPv4 network addresses of (None, 29500) cannot be retrieved (gai error: -2)",
     "log.endpoint"},
    {"[c10d] The IPv6 network addresses of (<host>, 29500) cannot be retrieved (gai error: -2)",
     "log.endpoint"},
    {"[c10d] The IPv6 network addresses of (node7, 29500) cannot be retrieved (gai error: -2)",
     "log.name"},
    {"RuntimeError: use_libuv was requested but PyTorch was build without libuv support",
     "log.libuv"},
    {"[c10d] Starting store with 4096 workers but somaxconn is 128.", "log.backlog"},
    {"misc/socket.cc:61 NCCL WARN Net : Call to recv from 10.0.0.2<4> failed : Connection timed "
     "out",
     "log.cut"},
    {"WARN: init failed for remote transport: ibrc", "log.nvshmem"},
    {"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "log.rank_failed"},
    {"slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2025-01-01T00:00:00 ***",
     "log.peer_gone"},
    {"NCCL error in: x.cpp:1, remote process exited or there was a network error", "log.peer_gone"},
    {"Cuda failure: NCCL error x.cpp:183 'unknown result code'", "log.symbols"},
    {"NCCL WARN socketStartConnect: Connect to 10.0.0.1<5> failed : Operation not permitted",
     "log.unreachable"},
    {"NCCL WARN Call to ibv_query_port failed with error Invalid argument", "log.rdma_device"},
    {"srun: error: node2: task 3: Out Of Memory", "log.killed"},
    {"double free or corruption (!prev)", "log.crashed"},
    {"RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)", "log.usage"},
    {"NCCL error in: x.cpp:1, invalid argument (run with NCCL_DEBUG=WARN)", "log.invalid"},
};

static void lines_are_known_as_they_are_printed(void **state)
{
    struct muster_job_log *log = *state;
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        read_text(log, printed[i].text);
        if (!is_seen(log, printed[i].id))
            fail_msg("\"%s\" is not known as %s", printed[i].text, printed[i].id);
    }
}

/* Healthy jobs print them, and what only looks like a line that is known. */
static void lines_of_healthy_jobs_are_not_known(void **state)
{
    static const char *const healthy[] = {
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [node1]:29500 "
        "(errno: "
        "97 - Address family not supported by protocol).",
        "[rank0]:[W] Warning: WARNING: process group has NOT been destroyed before we destruct "
        "ProcessGroupNCCL.",
        "node1:1:2 [0] NCCL INFO TUNER/Plugin: Could not find: libnccl-tuner.so",
        "node1:1:2 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open "
        "shared object file: No such file or directory : when loading libnccl-net.so",
        "bash: module: command not found",
        "PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168",
        "blk_update_request: I/O error, dev fd0, sector 0",
        "python3[812]: segfault at 0 ip 00007f error 4 in libfoo.so",
        "pcieport 0000:00:1c.0: AER: Corrected error received: 0000:00:1c.0",
    };
    struct muster_job_log *log = *state;
    for (size_t i = 0; i < sizeof healthy / sizeof *healthy; i++) {
        char words[2048];
        read_text(log, healthy[i]);
        muster_job_log_kinds_seen(log, words, sizeof words);
        if (words[0])
            fail_msg("\"%s\" is known as %s", healthy[i], words);
    }
    read_text(log, "SignalException: Process 812 got signal: 15");
    assert_false(is_seen(log, "log.hangup"));
}

static void any_error_is_less_than_what_tells_more(void **state)
{
    struct muster_job_log *log = *state;
    read_text(log, "ValueError: Error initializing torch.distributed using env:// rendezvous: "
                   "environment variable MASTER_ADDR expected, but not set\n");
    assert_true(is_seen(log, "log.launch_variables"));
    assert_false(is_seen(log, "log.program"));
}

static void an_error_that_was_caught_is_a_hint(void **state)
{
    struct muster_job_log *log = *state;
    char words[256] = "";
    read_text(log, "ModuleNotFoundError: No module named 'apex'\nfalling back to torch\n"
                   "step 1 loss 2.3\nstep 2 loss 2.2\n");
    muster_job_log_symptoms(log, words, sizeof words);
    assert_string_equal(words, "");
    read_text(log, "ModuleNotFoundError: No module named 'apex'\n"
                   "FileNotFoundError: [Errno 2] No such file or directory: '/cache'\n"
                   "NCCL INFO NET/IB : No device found.\nstep 1 loss 2.3\nstep 2 loss 2.2\n");
    muster_job_log_symptoms(log, words, sizeof words);
    assert_string_equal(words, "");
    read_text(log, "ModuleNotFoundError: No module named 'apex'\n"
                   "ERROR:api:failed (exitcode: 1) local_rank: 0 (pid: 12)\n");
    muster_job_log_symptoms(log, words, sizeof words);
    assert_string_equal(words, "init_error");
}

static void the_last_warning_that_a_framework_quotes_is_known(void **state)
{
    struct muster_job_log *log = *state;
    read_text(log, "[rank1]: ncclSystemError: System call failed.\n[rank1]: Last error:\n"
                   "[rank1]: socketStartConnect: Connect to 10.0.0.1<5> failed : Network is "
                   "unreachable\n");
    assert_true(is_seen(log, "log.unreachable"));
    read_text(log, "Last error:\nFailed to malloc 4096 bytes\nFailed to malloc 4096 bytes\n");
    assert_true(is_seen(log, "log.host_memory"));
    read_text(log, "INTERNAL: NCCL operation ncclCommInitRank failed: unhandled cuda error. Last "
                   "NCCL warning(error) log entry (may be unrelated) 'Cuda failure 'out of "
                   "memory''.\n");
    assert_true(is_seen(log, "log.gpu_memory"));
    read_text(log, "Failed to malloc 4096 bytes\n");
    assert_false(is_seen(log, "log.host_memory"));
}

static void the_rank_that_torchrun_saw_end_first_is_told(void **state)
{
    struct muster_job_log *log = *state;
    struct muster_checks checks = {0};
    read_text(log,
              "[1]:\n  host      : node1\n  rank      : 3 (local_rank: 3)\n"
              "Root Cause (first observed failure):\n[0]:\n  time      : 2024-03-05_07:01:51\n"
              "  host      : node2\n  rank      : 12 (local_rank: 4)\n  exitcode  : 1 (pid: 9)\n");
    muster_job_log_checks(log, "job.log", &checks);
    assert_string_equal(log->ended.host, "node2");
    assert_null(strstr(muster_checks_find(&checks, "log.job")->found, "rank 12"));
    muster_checks_free(&checks);
    memset(&checks, 0, sizeof checks);
    muster_job_log_take(log, "ChildFailedError:\n", strlen("ChildFailedError:\n"));
    muster_job_log_checks(log, "job.log", &checks);
    assert_non_null(strstr(muster_checks_find(&checks, "log.job")->found,
                           "the first error of rank 12 (local_rank: 4) may"));
    char words[256] = "";
    muster_job_log_symptoms(log, words, sizeof words);
    assert_string_equal(words, "");
    muster_checks_free(&checks);
}

static const char *leads(struct muster_job_log *log, struct muster_checks *checks, const char *text)
{
    struct muster_causes causes;
    char symptoms[256] = "";
    read_text(log, text);
    muster_checks_free(checks);
    memset(checks, 0, sizeof *checks);
    muster_job_log_checks(log, "job.log", checks);
    muster_job_log_symptoms(log, symptoms, sizeof symptoms);
    assert_int_equal(muster_causes_find(checks, symptoms, &causes, NULL), 0);
    return causes.n > 0 ? checks->at[causes.at[0].check].id : "";
}

static void what_follows_from_the_first_error_gives_way_to_it(void **state)
{
    struct muster_job_log *log = *state;
    struct muster_checks checks = {0};
    assert_string_equal(
        leads(log, &checks,
              "FileNotFoundError: [Errno 2] No such file or directory: '/data/a'\n"
              "NCCL WARN socketPollConnect: Connect to 10.0.0.4<5> returned 113(No route to host)\n"
              "torch.distributed.DistStoreError: Socket Timeout\n"
              "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n"),
        "log.data");
    for (int i = 0; i < checks.n; i++) {
        assert_string_not_equal(checks.at[i].id, "log.unreachable");
        assert_string_not_equal(checks.at[i].id, "log.store");
    }
    assert_string_equal(leads(log, &checks,
                              "torch.distributed.DistStoreError: Socket Timeout\n"
                              "TypeError: 'NoneType' object is not callable\n"),
                        "log.store");
    assert_string_equal(leads(log, &checks,
                              "[rank1]: IndexError: list index out of range\n"
                              "[rank0]: NCCL error: remote process exited or there was a network "
                              "error\n"),
                        "log.program");
    muster_checks_free(&checks);
}

static void where_ranks_of_several_hosts_meet_is_read(void **state)
{
    struct muster_job_log *log = *state;
    read_text(log, "rank=1 local_rank=1 distributed_init_method=tcp://10.0.0.1:29501\n");
    assert_null(muster_job_log_value(log, "MASTER_ADDR"));
    read_text(log, "x rank=1 local_rank=1 distributed_init_method=tcp://10.0.0.1:29501\n"
                   "x rank=2 local_rank=0 distributed_init_method=tcp://[fe80::1]:1\n"
                   "x rank=2 local_rank=0 distributed_init_method=tcp://127.0.0.1:1\n"
                   "x rank=3 local_rank=1 distributed_init_method=tcp://10.0.0.2:1\n");
    assert_string_equal(muster_job_log_value(log, "MASTER_ADDR"), "127.0.0.1");
}

static int make_log(void **state)
{
    *state = calloc(1, sizeof(struct muster_job_log));
    return *state ? 0 : -1;
}

static int free_log(void **state)
{
    free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_known_as_they_are_printed),
        cmocka_unit_test(lines_of_healthy_jobs_are_not_known),
        cmocka_unit_test(any_error_is_less_than_what_tells_more),
        cmocka_unit_test(an_error_that_was_caught_is_a_hint),
        cmocka_unit_test(the_last_warning_that_a_framework_quotes_is_known),
        cmocka_unit_test(the_rank_that_torchrun_saw_end_first_is_told),
        cmocka_unit_test(what_follows_from_the_first_error_gives_way_to_it),
        cmocka_unit_test(where_ranks_of_several_hosts_meet_is_read),
    };
    return cmocka_run_group_tests(tests, make_log, free_log);
}
