/* Variables that contradict each other, and those that cost. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "doctor/env/env_rules.h"

#define GIVEN(name)             muster_env_find(input, name)
#define NUMBER(name, otherwise) muster_env_number(input, name, otherwise)

static bool has_value(const struct muster_env_input *input, const char *name, const char *value)
{
    const struct muster_env_variable *variable = GIVEN(name);
    return variable && strcasecmp(variable->value, value) == 0;
}

static long long either(const struct muster_env_input *input, const char *name, const char *legacy,
                        long long otherwise)
{
    return NUMBER(name, NUMBER(legacy, otherwise));
}

static void contradiction(struct muster_env_remarks *remarks, const struct muster_env_variable *of,
                          const char *text)
{
    if (of)
        muster_env_remark(remarks, MUSTER_ENV_CONTRADICTION, false, of, "%s", text);
}

static void evaluate_paths(const struct muster_env_input *input, struct muster_env_remarks *remarks)
{
    bool p2p_off = NUMBER("NCCL_P2P_DISABLE", 0) == 1;
    bool ib_off = NUMBER("NCCL_IB_DISABLE", 0) == 1;
    if (p2p_off)
        contradiction(remarks, GIVEN("NCCL_P2P_LEVEL"),
                      "not read, because NCCL_P2P_DISABLE=1 wins: no P2P, no NVLink");
    if (ib_off)
        contradiction(remarks, GIVEN("NCCL_IB_HCA"), "without effect under NCCL_IB_DISABLE=1");
    if (ib_off && has_value(input, "NCCL_NET", "IB"))
        contradiction(remarks, GIVEN("NCCL_NET"),
                      "asks for what NCCL_IB_DISABLE=1 forbids: init fails");
    if (has_value(input, "NCCL_NET", "Socket"))
        contradiction(remarks, GIVEN("NCCL_IB_HCA"), "without effect under NCCL_NET=Socket");
    if (NUMBER("NCCL_NVLS_ENABLE", 2) == 0 && GIVEN("NCCL_ALGO") &&
        !strchr(GIVEN("NCCL_ALGO")->value, '^') &&
        strncasecmp(GIVEN("NCCL_ALGO")->value, "NVLS", 4) == 0)
        contradiction(remarks, GIVEN("NCCL_ALGO"),
                      "asks for NVLS, which NCCL_NVLS_ENABLE=0 forbids");
    if (NUMBER("NCCL_CUMEM_ENABLE", -2) == 0 && NUMBER("NCCL_NVLS_ENABLE", 2) == 1)
        contradiction(remarks, GIVEN("NCCL_NVLS_ENABLE"),
                      "NVLS needs cuMem, which NCCL_CUMEM_ENABLE=0 turns off");
}

static void evaluate_order(const struct muster_env_input *input, struct muster_env_remarks *remarks,
                           const char *low, const char *high)
{
    const struct muster_env_variable *least = GIVEN(low);
    if (least && GIVEN(high) && NUMBER(low, 0) > NUMBER(high, 0) && NUMBER(high, 0) > 0)
        muster_env_remark(remarks, MUSTER_ENV_CONTRADICTION, false, least, "more than %s=%.20s",
                          high, GIVEN(high)->value);
}

static void evaluate_torch(const struct muster_env_input *input, struct muster_env_remarks *remarks)
{
    const struct muster_env_variable *blocking = GIVEN("TORCH_NCCL_BLOCKING_WAIT");
    if (!blocking)
        blocking = GIVEN("NCCL_BLOCKING_WAIT");
    bool waits = either(input, "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT", 0) != 0;
    if (waits &&
        either(input, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING", 0) != 0)
        contradiction(
            remarks, blocking,
            "with asynchronous error handling: PyTorch then keeps blocking wait alone and "
            "starts no watchdog");
    if (NUMBER("TORCH_NCCL_ENABLE_MONITORING", 1) == 0)
        contradiction(remarks, GIVEN("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
                      "without effect under TORCH_NCCL_ENABLE_MONITORING=0");
    if (NUMBER("TORCH_NCCL_TRACE_BUFFER_SIZE", 1) == 0 &&
        NUMBER("TORCH_NCCL_DUMP_ON_TIMEOUT", 0) == 1)
        contradiction(remarks, GIVEN("TORCH_NCCL_DUMP_ON_TIMEOUT"),
                      "nothing to dump with TORCH_NCCL_TRACE_BUFFER_SIZE=0");
    if (waits)
        muster_env_remark(remarks, MUSTER_ENV_COSTLY, false, blocking,
                          "each wait() blocks its thread, and no watchdog looks after hangs");
}

static void evaluate_log(const struct muster_env_input *input, struct muster_env_remarks *remarks)
{
    const struct muster_env_variable *level = GIVEN("NCCL_DEBUG");
    if (!level || has_value(input, "NCCL_DEBUG", "VERSION") ||
        has_value(input, "NCCL_DEBUG", "WARN")) {
        contradiction(remarks, GIVEN("NCCL_DEBUG_SUBSYS"),
                      "without effect unless NCCL_DEBUG is INFO or TRACE");
        if (!level)
            contradiction(remarks, GIVEN("NCCL_DEBUG_FILE"), "without effect without NCCL_DEBUG");
    }
    if (has_value(input, "NCCL_DEBUG", "TRACE"))
        muster_env_remark(remarks, MUSTER_ENV_COSTLY, false, level, "logs on the critical path");
    const struct muster_env_variable *subsystems = GIVEN("NCCL_DEBUG_SUBSYS");
    if (has_value(input, "NCCL_DEBUG", "INFO") && subsystems &&
        (strcasecmp(subsystems->value, "ALL") == 0 || strstr(subsystems->value, "COLL")))
        muster_env_remark(remarks, MUSTER_ENV_COSTLY, false, subsystems,
                          "a line for every collective");
}

struct cost {
    const char *name;
    long long from, to; /* values that cost */
    const char *text;
};

enum { COSTS_INSIDE = 4 }; /* rows of what passes inside a host */

static const struct cost costs[] = {
    {"NCCL_P2P_DISABLE", 1, 1, "no NVLink and no PCIe P2P: GPUs talk through host memory"},
    {"NCCL_SHM_DISABLE", 1, 1, "ranks of one host talk through the network where P2P cannot"},
    {"NCCL_P2P_DIRECT_DISABLE", 1, 1, "no direct access between GPUs of one process"},
    {"NCCL_NVB_DISABLE", 1, 1, "no NVLink by way of another GPU"},
    {"NCCL_PXN_DISABLE", 1, 1, "no network by way of another GPU's NIC"},
    {"NCCL_NVLS_ENABLE", 0, 0, "no reduction in NVSwitches"},
    {"NCCL_CUMEM_ENABLE", 0, 0, "no cuMem memory: no NVLS, no user buffer registration"},
    {"NCCL_DMABUF_ENABLE", 0, 0, "no GPUDirect RDMA by DMA-BUF"},
    {"NCCL_NET_GDR_READ", 0, 0, "sends are staged through host memory"},
    {"NCCL_CHECK_POINTERS", 1, 1, "each call checks its pointers with the driver"},
    {"NCCL_MAX_NCHANNELS", 1, 2, "so few channels cost most of the bandwidth"},
    {"NCCL_MAX_CTAS", 1, 2, "so few channels cost most of the bandwidth"},
    {"NCCL_MAX_NRINGS", 1, 2, "so few channels cost most of the bandwidth"},
    {"NCCL_BUFFSIZE", 1, 1048575, "buffers below 1 MiB cost bandwidth"},
    {"NCCL_NTHREADS", 1, 128, "so few threads cost bandwidth"},
    {"NCCL_IB_TIMEOUT", 1, 13, "a short link drop ends the job"},
    {"NCCL_IB_RETRY_CNT", 1, 6, "a short link drop ends the job"},
    {"NCCL_LAUNCH_ORDER_IMPLICIT", 1, 1, "kernels of different communicators are serialised"},
    {"CUDA_LAUNCH_BLOCKING", 1, 1, "every kernel is waited for; it also hides races"},
    {"TORCH_NCCL_ENABLE_TIMING", 1, 1, "two timed events for every collective"},
    {"TORCH_NCCL_NAN_CHECK", 1, 1, "every buffer is read once more"},
    {"TORCH_NCCL_DESYNC_DEBUG", 1, 1, "every collective is written to the store"},
};

static void evaluate_costs(const struct muster_env_input *input, struct muster_env_remarks *remarks)
{
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        const struct muster_env_variable *variable = GIVEN(costs[i].name);
        long long value = NUMBER(costs[i].name, costs[i].from - 1);
        bool nvlink_lost = strcmp(costs[i].name, "NCCL_P2P_DISABLE") == 0 && input->nvlink;
        bool inside = i < COSTS_INSIDE;
        if (variable && value >= costs[i].from && value <= costs[i].to &&
            !(inside && input->one_rank_a_host))
            muster_env_remark(remarks, MUSTER_ENV_COSTLY, nvlink_lost, variable, "%s",
                              costs[i].text);
    }
    if (NUMBER("NCCL_BUFFSIZE", 0) >= 1ll << 28)
        muster_env_remark(remarks, MUSTER_ENV_UNSAFE, true, GIVEN("NCCL_BUFFSIZE"),
                          "buffers of 256 MiB and more a channel and peer take the GPU's memory, "
                          "and network cards may not register them (default 4 MiB)");
    if (has_value(input, "TORCH_DISTRIBUTED_DEBUG", "DETAIL"))
        muster_env_remark(remarks, MUSTER_ENV_COSTLY, false, GIVEN("TORCH_DISTRIBUTED_DEBUG"),
                          "every collective is checked against all ranks first");
    if (has_value(input, "NCCL_LAUNCH_MODE", "GROUP"))
        muster_env_remark(remarks, MUSTER_ENV_COSTLY, false, GIVEN("NCCL_LAUNCH_MODE"),
                          "cooperative launches; of use in single-process jobs only");
    if (has_value(input, "NCCL_P2P_LEVEL", "LOC") || has_value(input, "NCCL_P2P_LEVEL", "0"))
        muster_env_remark(remarks, MUSTER_ENV_COSTLY, input->nvlink, GIVEN("NCCL_P2P_LEVEL"),
                          "the same as NCCL_P2P_DISABLE=1: no NVLink, no P2P");
    if (has_value(input, "NCCL_NET_GDR_LEVEL", "LOC"))
        muster_env_remark(remarks, MUSTER_ENV_COSTLY, false, GIVEN("NCCL_NET_GDR_LEVEL"),
                          "no GPUDirect RDMA");
}

static void evaluate_network(const struct muster_env_input *input,
                             struct muster_env_remarks *remarks)
{
    enum { DYNAMIC_GID = 22100 };
    if (NUMBER("NCCL_IB_DISABLE", 0) == 1)
        muster_env_remark(
            remarks, MUSTER_ENV_COSTLY, input->infiniband, GIVEN("NCCL_IB_DISABLE"), "%s",
            input->infiniband ? "this host has RDMA devices, and NCCL will use TCP"
                              : "harmless here; on a host with RDMA devices NCCL uses TCP");
    if (has_value(input, "NCCL_NET", "Socket") && input->infiniband)
        muster_env_remark(remarks, MUSTER_ENV_COSTLY, true, GIVEN("NCCL_NET"),
                          "this host has RDMA devices, and NCCL will use TCP");
    if (GIVEN("NCCL_IB_GID_INDEX") && NUMBER("NCCL_IB_GID_INDEX", -1) >= 0 &&
        (input->nccl == 0 || input->nccl >= DYNAMIC_GID))
        muster_env_remark(remarks, MUSTER_ENV_COSTLY, false, GIVEN("NCCL_IB_GID_INDEX"),
                          "since 2.21 NCCL finds the index itself; one set by hand may be wrong on "
                          "another host");
    long long threads = NUMBER("NCCL_SOCKET_NTHREADS", 1),
              each = NUMBER("NCCL_NSOCKS_PERTHREAD", 1);
    if (threads > 16 || (threads > 0 && each > 0 && threads * each > 64))
        muster_env_remark(remarks, MUSTER_ENV_VALUE, false,
                          GIVEN("NCCL_SOCKET_NTHREADS") ? GIVEN("NCCL_SOCKET_NTHREADS")
                                                        : GIVEN("NCCL_NSOCKS_PERTHREAD"),
                          "at most 16 threads and 64 sockets in all are used");
}

static void evaluate_forced(const struct muster_env_input *input,
                            struct muster_env_remarks *remarks)
{
    static const char *const forced[] = {"NCCL_ALGO", "NCCL_PROTO"};
    for (size_t i = 0; i < sizeof forced / sizeof *forced; i++) {
        const struct muster_env_variable *variable = GIVEN(forced[i]);
        if (!variable || !*variable->value)
            continue;
        if (*variable->value != '^')
            muster_env_remark(
                remarks, MUSTER_ENV_COSTLY, false, variable,
                "forced for every size: what is best for one size is not for another");
        if (GIVEN("NCCL_TUNER_PLUGIN") && !has_value(input, "NCCL_TUNER_PLUGIN", "none"))
            muster_env_remark(
                remarks, MUSTER_ENV_CONTRADICTION, false, variable,
                "beside NCCL_TUNER_PLUGIN: some tuners do not load then, and none can "
                "choose what is excluded here");
    }
}

static void evaluate_versions(const struct muster_env_input *input,
                              struct muster_env_remarks *remarks)
{
    if (input->nccl == 22602 && NUMBER("NCCL_CUMEM_ENABLE", -2) == 0)
        muster_env_remark(remarks, MUSTER_ENV_UNSAFE, true, GIVEN("NCCL_CUMEM_ENABLE"),
                          "NCCL 2.26.2 hangs in send and receive with it");
    if (GIVEN("NCCL_GRAPH_FILE") && *GIVEN("NCCL_GRAPH_FILE")->value)
        muster_env_remark(
            remarks, MUSTER_ENV_UNSAFE, false, GIVEN("NCCL_GRAPH_FILE"),
            "for debugging: a search result of another machine, another number of GPUs "
            "or another NCCL fails or is slow");
    if (NUMBER("NCCL_IGNORE_DISABLED_P2P", 0) == 1)
        muster_env_remark(remarks, MUSTER_ENV_UNSAFE, false, GIVEN("NCCL_IGNORE_DISABLED_P2P"),
                          "hides that P2P over NVLink does not work here");
    if (NUMBER("NCCL_P2P_USE_CUDA_MEMCPY", 0) == 1)
        muster_env_remark(remarks, MUSTER_ENV_UNSAFE, false, GIVEN("NCCL_P2P_USE_CUDA_MEMCPY"),
                          "hangs were seen with it");
    if (NUMBER("NCCL_COLLNET_ENABLE", 0) == 1 && !input->infiniband)
        contradiction(remarks, GIVEN("NCCL_COLLNET_ENABLE"),
                      "needs SHARP's plugin and switches; this host has no RDMA device");
    if (NUMBER("NCCL_MULTI_RANK_GPU_ENABLE", 0) == 1)
        muster_env_remark(remarks, MUSTER_ENV_UNSAFE, false, GIVEN("NCCL_MULTI_RANK_GPU_ENABLE"),
                          "two ranks on one GPU by mistake are no longer refused");
    if (NUMBER("NCCL_SHM_DISABLE", 0) == 1 && NUMBER("NCCL_P2P_DISABLE", 0) == 1 &&
        !input->one_rank_a_host)
        muster_env_remark(remarks, MUSTER_ENV_UNSAFE, false, GIVEN("NCCL_SHM_DISABLE"),
                          "with NCCL_P2P_DISABLE=1: ranks of one host speak through its network "
                          "interface alone, slowly, and hang where that does not lead back to the "
                          "host; unset both, or NCCL_SOCKET_IFNAME=lo for a job of one host");
}

void muster_env_evaluate_together(const struct muster_env_input *input,
                                  struct muster_env_remarks *remarks)
{
    evaluate_paths(input, remarks);
    evaluate_order(input, remarks, "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS");
    evaluate_order(input, remarks, "NCCL_MIN_CTAS", "NCCL_MAX_CTAS");
    evaluate_order(input, remarks, "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS");
    evaluate_order(input, remarks, "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS");
    evaluate_torch(input, remarks);
    evaluate_log(input, remarks);
    evaluate_costs(input, remarks);
    evaluate_network(input, remarks);
    evaluate_forced(input, remarks);
    evaluate_versions(input, remarks);
}
