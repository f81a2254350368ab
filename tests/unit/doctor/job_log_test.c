/* What a job printed: the table of lines, what a log gives, and what leads then. */
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

static struct muster_job_log *read_text(const char *text)
{
    struct muster_job_log *log = calloc(1, sizeof *log);
    assert_non_null(log);
    muster_job_log_take(log, text, strlen(text));
    return log;
}

static unsigned long lines_of(const struct muster_job_log *log, const char *id)
{
    for (size_t i = 0; muster_job_log_kind(i); i++)
        if (strcmp(muster_job_log_kind(i)->id, id) == 0)
            return log->of[i].lines;
    fail_msg("there is no kind %s", id);
    return 0;
}

static bool is_documented(const char *id)
{
    char line[2048], start[80];
    bool found = false;
    FILE *document = fopen(DOCUMENT, "r");
    assert_non_null(document);
    snprintf(start, sizeof start, "| %s |", id);
    while (!found && fgets(line, sizeof line, document))
        found = strncmp(line, start, strlen(start)) == 0;
    fclose(document);
    return found;
}

static bool is_a_check(const char *id)
{
    for (size_t i = 0; i < muster_cause_rows_n; i++)
        if (strcmp(muster_cause_rows[i].cause, id) == 0)
            return true;
    return false;
}

static bool has_a_line(const char *id)
{
    const struct muster_job_log_line *line;
    for (size_t i = 0; (line = muster_job_log_line(i)); i++)
        if (strcmp(line->id, id) == 0)
            return true;
    return false;
}

static void the_table_is_whole(void **state)
{
    (void)state;
    const struct muster_job_log_kind *kind;
    size_t kinds = 0;
    for (; (kind = muster_job_log_kind(kinds)); kinds++) {
        char causes[512], *rest;
        if (!has_a_line(kind->id))
            fail_msg("%s: no line is known by it", kind->id);
        if (kind->weight && !is_documented(kind->id))
            fail_msg("%s is not in docs/doctor-lines.md", kind->id);
        if (!muster_symptom_find(kind->shows, strlen(kind->shows)))
            fail_msg("%s shows %s, which is no symptom", kind->id, kind->shows);
        assert_in_range(kind->weight, 0, 9);
        assert_int_equal(kind->weight > 0, kind->advice[0] != '\0');
        snprintf(causes, sizeof causes, "%s", kind->causes);
        for (char *at = strtok_r(causes, " ", &rest); at; at = strtok_r(NULL, " ", &rest))
            if (!is_a_check(at))
                fail_msg("%s fits %s, which is no check", kind->id, at);
    }
    assert_in_range(kinds, 50, MUSTER_JOB_LOG_KINDS);
    const struct muster_job_log_line *line;
    for (size_t i = 0; (line = muster_job_log_line(i)); i++)
        assert_non_null(muster_job_log_find(line->id));
}

/* Each line's words, with something between its parts. */
static void every_line_is_known_by_its_words(void **state)
{
    (void)state;
    const struct muster_job_log_line *line;
    for (size_t i = 0; (line = muster_job_log_line(i)); i++) {
        bool begin = line->words[0] == '^';
        char text[400] = "";
        snprintf(text, sizeof text, "%s", begin ? "" : "node:1:2 [0] ");
        for (const char *at = line->words + begin; *at; at++)
            if (*at != '$')
                strncat(text, *at == '*' ? " x " : (char[]){*at, '\0'},
                        sizeof text - strlen(text) - 1);
        struct muster_job_log *log = read_text(text);
        if (lines_of(log, line->id) != 1)
            fail_msg("\"%s\" is not known as %s", text, line->id);
        free(log);
    }
}

/* As programs print them, with what they fill in. */
static const struct {
    const char *text, *id;
} printed[] = {
    {"RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running "
     "collective: "
     "CollectiveFingerPrint(OpType=ALLGATHER, TensorShape=[4]), but Rank 1 is running",
     "log.collective_mismatch"},
    {"torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving "
     "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got "
     "error: "
     "Socket Timeout",
     "log.rank_zero"},
    {"RuntimeError: [1]: params[0] in this process with sizes [96, 32] appears not to match "
     "sizes "
     "of the same param in process 0.",
     "log.model_differs"},
    {"ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
     "variable RANK expected, but not set",
     "log.launch_variables"},
    {"RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms",
     "log.absent_rank"},
    {"[rank0]:[F] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making "
     "progress",
     "log.watchdog"},
    {"slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2025-02-01T10:00:00 DUE TO TIME LIMIT "
     "***",
     "log.time_limit"},
    {"[ 9.1] neighbour: arp_cache: neighbor table overflow!", "log.neighbours"},
    {"[ 9.1] nf_conntrack: nf_conntrack: table full, dropping packet", "log.conntrack"},
    {"[ 9.1] nvidia-nvswitch3: SXid (PCI:0000:8a:00.0): 12028, Non-fatal, Link 32", "log.nvswitch"},
    {"[ 9.1] mlx5_core 0000:5e:00.0: poll_health:795: device's health compromised - reached "
     "miss "
     "count",
     "log.nic_failed"},
    {"n1:7:9 [0] transport/net_ib/p2p.cc:9 NCCL WARN NET/IB: Got completion from peer "
     "10.0.0.2<4> "
     "with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129",
     "log.rdma_timeout"},
    {"n1:7:9 [0] NCCL WARN NET/IB : mlx5_0:1 async fatal event on QP (0x7f): QP error",
     "log.rdma_async"},
    {"n1:7:9 [0] NCCL WARN Error: failed to create shared memory file /dev/shm/nccl-x, error "
     "Permission denied (13)",
     "log.shm_files"},
    {"n1:7:9 [0] NCCL WARN Invalid NCCL_COMM_ID, please use format: <ipv4>:<port>", "log.comm_id"},
    {"n1:7:9 [0] misc/argcheck.cc:30 NCCL WARN AllReduce : sendbuff argument is NULL",
     "log.argument"},
    {"NCCL WARN ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor "
     "AF_INET6(10)",
     "log.no_address"},
    {"RuntimeError: Address already in use", "log.port_taken"},
    {"ConnectionError: Tried to launch distributed communication on port `29500`, but another "
     "process is utilizing it.",
     "log.port_taken"},
    {"[2023-07-21 10:11:12,131] [ERROR] [launch.py:321:sigkill_handler] ['python', 'main.py'] "
     "exits "
     "with return code = -7",
     "log.bus_error"},
    {"subprocess.CalledProcessError: Command '['python', '-u', 'train.py']' died with "
     "<Signals.SIGKILL: 9>.",
     "log.killed"},
    {"srun: error: n1: task 3: Killed", "log.killed"},
    {"mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 11 (Segmentation "
     "fault).",
     "log.crashed"},
    {"ValueError: No slot '4' specified on host 'localhost'", "log.no_such_gpu"},
    {"RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at CUDAContext.cpp:49",
     "log.no_such_gpu"},
    {"ptxas fatal   : Value 'sm_86' is not defined for option 'gpu-name'", "log.gpu_code"},
    {"nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.1, please update "
     "your driver to a newer version",
     "log.old_driver"},
    {"RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:127] rp != "
     "nullptr. Unable to find address for: dgx-1.ai",
     "log.gloo_address"},
    {"[W socket.cpp:601] [c10d] The client socket has failed to connect to "
     "[::ffff:0.52.253.213]:59667 (errno: 110 - Connection timed out).",
     "log.zero_address"},
    {"requests.exceptions.ProxyError: HTTPConnectionPool(host='10.1.0.7', port=8000): Max retries "
     "exceeded with url: /health (Caused by ProxyError('Cannot connect to proxy.'))",
     "log.proxy"},
    {"n1:7:9 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3",
     "log.net_differs"},
    {"n1:7:9 [0] bootstrap.cc:279 NCCL WARN [Rem Allocator] Allocation failed (segment 0, fd 130)",
     "log.remote_memory"},
    {"RuntimeError: unable to write to file </torch_38_1234>: No space left on device (28)",
     "log.shm_full"},
    {"run.sh: line 3:  4321 Killed                  python train.py", "log.killed"},
    {"srun: Job 71 step creation temporarily disabled, retrying (Requested nodes are busy)",
     "log.step"},
    {"train.py: error: unrecognized arguments: --local-rank=0", "log.local_rank"},
    {"OSError: [Errno 99] Cannot assign requested address", "log.not_ours"},
    {"socket.gaierror: [Errno -5] No address associated with hostname", "log.name"},
    {"ERROR 04-22 pynccl.py:44] Failed to load NCCL library from libnccl.so.2 .", "log.symbols"},
    {"n1:7:9 [0] NCCL WARN Cuda failure 1 'invalid argument'", "log.cuda_refused"},
    {"n1:7:9 [0] NCCL WARN Cuda failure 999 'unknown error'", "log.unknown_error"},
    {"n1:7:9 [0] NCCL WARN Cuda failure 'unknown error'", "log.unknown_error"},
    {"n1: Test CUDA failure common.cu:1045 'unknown error'", "log.unknown_error"},
    {"[ 9.1] mce: [Hardware Error]: CPU 5: Machine Check Exception: 5 Bank 7: be00000000800400",
     "log.host_hardware"},
    {"[ 9.1] [Hardware Error]: Uncorrected, software restartable error.", "log.host_hardware"},
    {"[ 9.1] INFO: task python:4711 blocked for more than 120 seconds.", "log.kernel_stuck"},
    {"[ 9.1] NVRM: GPU0 GSP RPC buffer contains function 76 (GSP_RM_CONTROL) and data 0x0",
     "log.gsp"},
    {"No devices were found", "log.driver_down"},
    {"slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2025-02-01T10:00:00 DUE TO NODE FAILURE, "
     "SEE "
     "SLURMCTLD LOG FOR DETAILS ***",
     "log.preempted"},
    {"run.sh: line 3: 4321 Segmentation fault      python train.py", "log.crashed"},
    {"srun: error: n1: task 3: Segmentation fault (core dumped)", "log.crashed"},
    {"[W socket.cpp:464] [c10d] sendBytes failed on SocketImpl(fd=42): Broken pipe",
     "log.peer_gone"},
    {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
     "[10.1.0.1]:12345",
     "log.peer_gone"},
    {"slurmstepd: error: execve(): python: No such file or directory", "log.no_program"},
    {"torch.distributed.elastic.rendezvous.api.RendezvousClosedError", "log.closed"},
    {"jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: "
     "PjRT_Client_Connect::0.",
     "log.coordinator"},
    {"ValueError: The number of required GPUs exceeds the total number of available GPUs in the "
     "placement group.",
     "log.ray_gpus"},
    {"Failed: Cuda error csrc/custom_all_reduce.cuh:346 'invalid argument'", "log.own_all_reduce"},
    {"ORTE has lost communication with a remote daemon.", "log.host_lost"},
    {"select.c:514  UCX  ERROR   no active messages transport to <no debug data>: posix/memory",
     "log.ucx"},
};

static void lines_of_programs_are_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        struct muster_job_log *log = read_text(printed[i].text);
        if (lines_of(log, printed[i].id) != 1)
            fail_msg("\"%s\" is not known as %s", printed[i].text, printed[i].id);
        free(log);
    }
}

static void a_healthy_log_proves_nothing(void **state)
{
    static const char text[] =
        "node1:71:71 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n"
        "node1:71:71 [0] NCCL INFO Bootstrap : Using eth0:10.1.0.1<0>\n"
        "node1:71:71 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)\n"
        "node1:71:71 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot "
        "open "
        "shared object file: No such file or directory : when loading libnccl-net.so\n"
        "node1:71:71 [0] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v9 symbol.\n"
        "node1:71:71 [0] NCCL INFO cudaDriverVersion 12040\nNCCL version 2.21.5+cuda12.4\n"
        "node1:71:90 [0] NCCL INFO Failed to open libibverbs.so[.1]\n"
        "node1:71:90 [0] NCCL INFO NET/IB : No device found.\n"
        "node1:71:90 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.0.1<0>\n"
        "node1:71:90 [0] NCCL INFO TOPO/NET : Importing network plugins to topology\n"
        "node1:71:90 [0] NCCL INFO NVLS multicast support is not available on dev 0\n"
        "node1:71:90 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
        "node1:71:90 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 - Init COMPLETE\n"
        "node1:71:95 [0] NCCL INFO [Service thread] Connection closed by localRank 0\n"
        "node1:71:95 [0] NCCL INFO NET/IB : mlx5_0:1 Got async event : port active\n"
        "[ 3.1] mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged\n"
        "[ 3.1] mlx5_core 0000:5e:00.0: Detected insufficient power on the PCIe slot (27W).\n"
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n";
    char words[128];
    struct muster_job_log *log = read_text(text);
    (void)state;
    assert_int_equal(log->lines, 19);
    assert_int_equal(log->version, 22105);
    assert_int_equal(log->cuda, 12040);
    muster_job_log_symptoms(log, words, sizeof words);
    assert_string_equal(words, "");
    free(log);
}

/* Each alone, as machines and jobs print them that run well. */
static void a_line_of_a_healthy_job_is_no_problem(void **state)
{
    static const char *const lines[] = {
        "[ 9.1] mce: [Hardware Error]: Machine check events logged",
        "[ 9.1] mce: [Hardware Error]: CPU 5: Machine Check: 0 Bank 7: cc00000001010090",
        "[ 9.1] {1}[Hardware Error]: event severity: corrected",
        "[ 3.1] mlx5_core 0000:5e:00.0 eth2: Link down",
        "[ 3.1] mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged",
        "[ 3.1] ixgbe 0000:01:00.0 eno1: NIC Link is Down",
        "n1:7:9 [0] NCCL INFO ncclCommGrow: comm 0x55 rank 0 nranks 8 - Grow COMPLETE",
        "n1:7:9 [0] NCCL INFO Unable to use GIN: Peermem is not supported",
        "n1:7:9 [0] NCCL INFO Could not find a path for pattern 4, falling back to simple order",
        "[W socket.cpp] [c10d] connecting to [n0]:29500 (errno: 110 - Connection timed out).",
        "[W socket.cpp] [c10d] connecting to [n0]:29500 (errno: 113 - No route to host).",
        "[W socket.cpp:601] [c10d] failed to connect to 0.0.0.0:29500 (errno: 111 - refused).",
        "torch.OutOfMemoryError: CUDA out of memory. Retrying with batch 256\nstep 12 loss 2.31",
        "WARNING: CUDA out of memory. Tried to allocate 2.00 GiB\nbatch 256 from now on",
        "sbatch: JobState=PENDING ReqNodes=NODE_FAIL",
        "bluetoothd: No devices were found",
        "loader: queue blocked for more than 3 seconds",
        "handler installed for: Segmentation fault, Bus fault",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "[c10d] connecting to [localhost]:29500 (errno: 99 - Cannot assign requested address).",
        "Killed by signal 15.",
        "wandb: Network error (ProxyError), entering retry loop.",
        "uvicorn: port 8000: address in use, the next one is taken",
        "[launch.py:350:main] Process 4711 exits successfully.",
        "nginx: upstream: Connection closed by peer",
    };
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char words[128];
        struct muster_checks checks = {0};
        struct muster_job_log *log = read_text(lines[i]);
        muster_job_log_symptoms(log, words, sizeof words);
        muster_job_log_checks(log, "job.log", &checks);
        if (words[0] || muster_checks_exit(&checks) != 0)
            fail_msg("\"%s\" shows \"%s\"", lines[i], words);
        muster_checks_free(&checks);
        free(log);
    }
}

static void expect_shown(const char *text, const char *expected)
{
    char words[128];
    struct muster_job_log *log = read_text(text);
    muster_job_log_symptoms(log, words, sizeof words);
    if (strcmp(words, expected) != 0)
        fail_msg("\"%s\" shows \"%s\"", text, words);
    free(log);
}

static void memory_that_ran_out_counts_unless_the_job_went_on(void **state)
{
    static const char oom[] = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to "
                              "allocate 2.00 GiB.\n";
    char text[4000];
    (void)state;
    expect_shown(oom, "hang_dead");
    snprintf(text, sizeof text, "%sstep 12\nstep 13\n%s", oom, oom);
    expect_shown(text, "hang_dead");
    snprintf(text, sizeof text, "%sstep 12\nncclRemoteError\nRoot Cause:\n  time : 12:00\n", oom);
    expect_shown(text, "hang_dead");
    snprintf(text, sizeof text, "%s", oom);
    for (int i = 0; i < 60; i++)
        strncat(text, "step 12 loss 2.31\n", sizeof text - strlen(text) - 1);
    strncat(text, "Watchdog caught collective operation timeout\n", sizeof text - strlen(text) - 1);
    expect_shown(text, "hang_stuck");
}

static void preparing_counts_where_others_waited_for_it_too_long(void **state)
{
    static const char late[] = "Watchdog caught collective operation timeout\n";
    char text[4000];
    (void)state;
    expect_shown("Map (num_proc=8):  11%|#  | 11/100\n", "");
    snprintf(text, sizeof text, "Map (num_proc=8):  11%%|#  | 11/100\n%s", late);
    expect_shown(text, "hang_absent");
    snprintf(text, sizeof text, "Map (num_proc=8): 100%%|###| 100/100\n%s", late);
    expect_shown(text, "hang_stuck");
    snprintf(text, sizeof text, "Map (num_proc=8):  11%%|#  | 11/100\n");
    for (int i = 0; i < 60; i++)
        strncat(text, "step 12 loss 2.31\n", sizeof text - strlen(text) - 1);
    strncat(text, late, sizeof text - strlen(text) - 1);
    expect_shown(text, "hang_stuck");
}

static void what_follows_from_a_line_proves_nothing_besides(void **state)
{
    char words[128];
    struct muster_job_log *log =
        read_text("NCCL version 2.7.8+cuda11.0\n"
                  "NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9 bytes, error: No space "
                  "left on device (28)\nncclRemoteError\nConnection closed by remote peer");
    (void)state;
    muster_job_log_symptoms(log, words, sizeof words);
    assert_string_equal(words, "init_error");
    assert_int_equal(log->version, 20708);
    assert_int_equal(lines_of(log, "log.peer_gone"), 2);
    free(log);
    log = read_text("Watchdog caught collective operation timeout\r\nncclRemoteError\n");
    muster_job_log_symptoms(log, words, sizeof words);
    assert_string_equal(words, "hang_dead,hang_stuck");
    free(log);
}

static void any_bytes_are_lines(void **state)
{
    enum { LONG = 3 * MUSTER_JOB_LOG_LINE };
    static char text[LONG];
    struct muster_job_log *log = read_text("");
    (void)state;
    assert_int_equal(log->lines, 0);
    memset(text, 'x', sizeof text);
    memcpy(text + sizeof text - 22, "Duplicate GPU detected", 22); /* beyond what is looked at */
    memcpy(text + 100, "Too many open\0files", 19);
    muster_job_log_take(log, text, sizeof text);
    assert_int_equal(log->lines, 1);
    assert_int_equal(lines_of(log, "log.duplicate_gpu"), 0);
    assert_int_equal(lines_of(log, "log.open_files"), 1);
    muster_job_log_take(log, "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus\033[2J\n",
                        61);
    assert_int_equal(log->kernels, 1);
    assert_null(strchr(log->kernel[0], '\033'));
    free(log);
}

static void a_log_gives_settings_and_ways(void **state)
{
    (void)state;
    struct muster_job_log *log =
        read_text("n:1:2 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0,mlx5_1.\r\n"
                  "n:1:3 [1] NCCL INFO NCCL_IB_HCA set by environment to mlx5_9.\n"
                  "n:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.\n"
                  "n:1:2 [0] NCCL INFO NCCL_DEBUG_SUBSYS set by environment to ALL.\n"
                  "NCCL_ALGO set by environment to Ring.\n" /* no line of NCCL's */
                  "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
                  "n:1:2 [0] NCCL INFO Channel 00 : 15[7] -> 14[6] via SHM/direct/direct\n"
                  "n:1:2 [0] NCCL INFO Ring 00 : 1[1] -> 2[2] via direct shared memory\n"
                  "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(1)/GDRDMA\n"
                  "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0\n"
                  "n:1:2 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0\n"
                  "n:1:2 [0] NCCL INFO Channel 00/08 :    0   1\n");
    assert_int_equal(log->sets, 2);
    assert_string_equal(muster_job_log_value(log, "NCCL_IB_HCA"), "mlx5_0,mlx5_1");
    assert_string_equal(muster_job_log_value(log, "NCCL_IB_TIMEOUT"), "22");
    assert_null(muster_job_log_value(log, "NCCL_ALGO"));
    assert_int_equal(log->way[MUSTER_WAY_P2P], 1);
    assert_int_equal(log->way[MUSTER_WAY_SHM], 2);
    assert_int_equal(log->way[MUSTER_WAY_RDMA], 1);
    assert_int_equal(log->way[MUSTER_WAY_RDMA_HOST], 1);
    assert_int_equal(log->way[MUSTER_WAY_SOCKET], 1);
    assert_int_equal(lines_of(log, "log.way_shm"), 2);
    assert_int_equal(lines_of(log, "log.way_host"), 0);
    free(log);
}

static int make_checks(void **state)
{
    *state = calloc(1, sizeof(struct muster_checks));
    return *state ? 0 : -1;
}

static int free_checks(void **state)
{
    muster_checks_free(*state);
    free(*state);
    return 0;
}

static struct muster_check *add(struct muster_checks *checks, const char *id,
                                enum muster_check_status status)
{
    struct muster_check *check = muster_check_begin(checks, id, "F00");
    muster_check_found(check, "%s found", id);
    muster_check_worse(check, status);
    return check;
}

static void find(struct muster_checks *checks, const char *text, const char *given,
                 struct muster_causes *causes)
{
    struct muster_err err;
    char words[128] = "";
    struct muster_job_log *log = read_text(text);
    muster_job_log_checks(log, "job.log", checks);
    if (!given)
        muster_job_log_symptoms(log, words, sizeof words);
    assert_int_equal(muster_causes_find(checks, given ? given : words, causes, &err), 0);
    free(log);
}

static const char *first(const struct muster_checks *checks, const struct muster_causes *causes)
{
    assert_true(causes->n > 0);
    return checks->at[causes->at[0].check].id;
}

static void the_host_explains_the_line(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    add(checks, "env.unsafe", MUSTER_CHECK_WARNING);
    add(checks, "version.nccl_bad", MUSTER_CHECK_PROBLEM);
    add(checks, "ib.gid", MUSTER_CHECK_WARNING);
    find(checks, "NCCL WARN Call to ibv_modify_qp failed with error Connection timed out\n", NULL,
         &causes);
    assert_int_equal(causes.n, 1);
    assert_string_equal(first(checks, &causes), "ib.gid");
}

static void a_line_that_names_its_cause_leads(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    add(checks, "version.driver",
        MUSTER_CHECK_PROBLEM); /* explains init_error, but not this line */
    add(checks, "limit.memlock", MUSTER_CHECK_PROBLEM);
    find(checks, "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 2000\n", NULL,
         &causes);
    assert_int_equal(causes.n, 1);
    assert_string_equal(first(checks, &causes), "log.duplicate_gpu");
    assert_false(causes.at[0].suspect);
}

static void a_line_makes_a_suspect_of_what_is_fine(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    muster_check_suspect(add(checks, "net.firewall", MUSTER_CHECK_OK), "a firewall");
    muster_check_suspect(add(checks, "gpu.multicast", MUSTER_CHECK_OK), "NVLS");
    find(checks,
         "misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned "
         "113(No route to host)\n",
         NULL, &causes);
    assert_string_equal(first(checks, &causes), "net.firewall");
    assert_true(causes.at[0].suspect);
    assert_string_equal(checks->at[0].found, "a firewall");
    assert_int_equal(checks->at[0].status, MUSTER_CHECK_WARNING);
}

static void a_suspect_that_rests_on_little_stands_behind_the_line(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_check *bug = add(checks, "version.nccl_bad", MUSTER_CHECK_OK);
    muster_check_suspect(bug, "a bug that some programs meet");
    bug->suspect_of = "init_error";
    find(checks, "NCCL WARN Could not find real path of /sys/class/pci_bus/0000:21\n", NULL,
         &causes);
    assert_string_equal(first(checks, &causes), "log.topology");
    assert_false(causes.at[0].suspect);
    assert_int_equal(causes.at[0].others, 1);
}

static void what_makes_a_job_slow_explains_no_line_of_one_that_fails(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    struct muster_check *sockets = add(checks, "net.interface", MUSTER_CHECK_OK);
    muster_check_suspect(sockets, "hosts exchange data by sockets");
    sockets->suspect_of = "slow_transfer";
    find(checks,
         "misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned "
         "113(No route to host)\n",
         NULL, &causes);
    assert_string_equal(first(checks, &causes), "log.unreachable");
    assert_int_equal(causes.at[0].others, 0);
}

static void a_slow_way_counts_where_the_job_is_slow(void **state)
{
    struct muster_checks *checks = *state;
    struct muster_causes causes;
    find(checks, "NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n", "init_error",
         &causes);
    assert_int_equal(causes.n, 0);
    assert_int_equal(muster_checks_exit(checks), 0);
    muster_checks_free(checks);
    memset(checks, 0, sizeof *checks);
    find(checks, "NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
         "slow_transfer", &causes);
    assert_string_equal(first(checks, &causes), "log.no_gdr");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_whole),
        cmocka_unit_test(every_line_is_known_by_its_words),
        cmocka_unit_test(lines_of_programs_are_known),
        cmocka_unit_test(a_healthy_log_proves_nothing),
        cmocka_unit_test(a_line_of_a_healthy_job_is_no_problem),
        cmocka_unit_test(memory_that_ran_out_counts_unless_the_job_went_on),
        cmocka_unit_test(preparing_counts_where_others_waited_for_it_too_long),
        cmocka_unit_test(what_follows_from_a_line_proves_nothing_besides),
        cmocka_unit_test(any_bytes_are_lines),
        cmocka_unit_test(a_log_gives_settings_and_ways),
        cmocka_unit_test_setup_teardown(the_host_explains_the_line, make_checks, free_checks),
        cmocka_unit_test_setup_teardown(a_line_that_names_its_cause_leads, make_checks,
                                        free_checks),
        cmocka_unit_test_setup_teardown(a_line_makes_a_suspect_of_what_is_fine, make_checks,
                                        free_checks),
        cmocka_unit_test_setup_teardown(a_suspect_that_rests_on_little_stands_behind_the_line,
                                        make_checks, free_checks),
        cmocka_unit_test_setup_teardown(what_makes_a_job_slow_explains_no_line_of_one_that_fails,
                                        make_checks, free_checks),
        cmocka_unit_test_setup_teardown(a_slow_way_counts_where_the_job_is_slow, make_checks,
                                        free_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
