/*
 * A job whose NCCL is the stand-in, with a tuner as NCCL would ask it: one process a rank, each
 * does every operation as algorithm, protocol and channels were chosen and takes as long as those
 * take here. NCCL's own estimates are wrong on purpose: from 64 KiB on tree/ll128 is quickest.
 *
 * usage: steered RANKS ROUNDS    Environment: NCCL_PROFILER_PLUGIN and NCCL_TUNER_PLUGIN as NCCL
 * reads them. STEERED_POLICY_<rank>: that rank's MUSTER_POLICY_INLINE. STEERED_HOST_<rank>: its
 * NCCL_HOSTID. STEERED_RANK=N: the process is that rank alone, and no other is started; its
 * launcher has named it. STEERED_HOLD=1: the ranks stay until standard input ends.
 * STEERED_FAIL=ALGO: a rank that is to use it fails. STEERED_OFFER=ALGO: NCCL offers all-reduces
 * it, too, as the worst choice. STEERED_LATER_US=US: a tree makes the all-gather that follows so
 * much longer, times SLOWNESS; STEERED_LATER_FLOATS=N: only all-reduces of so many do that.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/nccl_types.h"
#include "nccl/tuner_abi.h"
#include "standin.h"

enum { ALGOS = 7, PROTOS = 3, ALL_GATHER = 2, ALL_REDUCE = 4, DEFAULT_CHANNELS = 8 };
/* Operations last so much longer than on a real GPU: what the host does between them, on a busy
 * machine, is little beside that. */
enum { SLOWNESS = 20 };

static const char *const algo_word[ALGOS] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
static const char *const proto_word[PROTOS] = {"LL", "LL128", "SIMPLE"};

static const struct {
    const char *func;
    int number;
    uint64_t floats; /* as the caller counts */
} operations[] = {
    {"AllReduce", ALL_REDUCE, 1 << 10},
    {"AllReduce", ALL_REDUCE, 1 << 15},
    {"AllReduce", ALL_REDUCE, 1 << 18},
    {"AllGather", ALL_GATHER, 1 << 12},
};
enum { OPERATIONS = sizeof(operations) / sizeof(*operations) };

struct rank {
    struct standin nccl;
    struct standin_comm *comm;
    const struct nccl_tuner_v5 *tuner;
    void *context;
    unsigned random;
};

struct choice {
    int algo, proto, channels;
};

static void log_nowhere(int level, unsigned long flags, const char *file, int line, const char *fmt,
                        ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)fmt;
}

static void load_tuner(struct rank *rank, int ranks)
{
    const char *name = getenv("NCCL_TUNER_PLUGIN");
    if (!name || !name[0])
        return;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        standin_die("%s", dlerror());
    rank->tuner = dlsym(library, "ncclTunerPlugin_v5");
    if (!rank->tuner || rank->tuner->init(&rank->context, rank->comm->hash, (size_t)ranks, 1,
                                          (void *)log_nowhere, NULL, NULL) != 0)
        standin_die("no tuner in %s", name);
}

/* What NCCL offers and believes, in microseconds; -1: not offered. */
static void fill_costs(float cost[ALGOS][PROTOS], int func)
{
    const char *offer = getenv("STEERED_OFFER");
    for (int a = 0; a < ALGOS; a++)
        for (int p = 0; p < PROTOS; p++)
            cost[a][p] = a == 1 || (a == 0 && func == ALL_REDUCE) ? (float)(10 + 3 * a + p) : -1;
    cost[1][2] = 1; /* ring/simple */
    for (int a = 2; offer && func == ALL_REDUCE && a < ALGOS; a++)
        if (strcmp(offer, algo_word[a]) == 0)
            cost[a][2] = 99;
}

static struct choice choose(struct rank *rank, int func, uint64_t bytes)
{
    float cost[ALGOS][PROTOS];
    struct choice choice = {1, 2, DEFAULT_CHANNELS};
    fill_costs(cost, func);
    if (rank->tuner && rank->tuner->get_coll_info(rank->context, func, bytes, 1, &cost[0][0], ALGOS,
                                                  PROTOS, 0, &choice.channels) != 0)
        standin_die("the tuner failed");
    float best = 3.4e38f;
    for (int a = 0; a < ALGOS; a++)
        for (int p = 0; p < PROTOS; p++)
            if (cost[a][p] >= 0 && cost[a][p] < best) {
                best = cost[a][p];
                choice.algo = a;
                choice.proto = p;
            }
    return choice;
}

/* How long it takes here, with 1 % of noise. */
static uint64_t duration_ns(struct rank *rank, const struct choice *choice, uint64_t bytes)
{
    uint64_t ns = SLOWNESS * (20000 + bytes / 8);
    if (choice->algo != 1 || choice->proto != 2)
        ns = ns * 3 / 2;
    if (choice->algo == 0 && choice->proto == 1 && bytes >= 1 << 16)
        ns = ns / 2;
    if (choice->channels < DEFAULT_CHANNELS)
        ns = ns * 2;
    rank->random = rank->random * 1103515245u + 12345u;
    return ns + ns * (rank->random >> 16 & 1023) / 1024 / 100;
}

static void one_round(struct rank *rank, int ranks)
{
    const char *fail = getenv("STEERED_FAIL"), *later = getenv("STEERED_LATER_US");
    const char *only = getenv("STEERED_LATER_FLOATS");
    uint64_t later_ns = 0;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        uint64_t bytes = operations[i].floats * 4;
        bytes *= operations[i].number == ALL_GATHER ? (uint64_t)ranks : 1;
        struct choice choice = choose(rank, operations[i].number, bytes);
        if (fail && strcmp(fail, algo_word[choice.algo]) == 0)
            _exit(3);
        bool pays = !only || strtoull(only, NULL, 10) == operations[i].floats;
        if (later && choice.algo == 0 && pays)
            later_ns += strtoull(later, NULL, 10) * 1000 * SLOWNESS;
        uint64_t waits_ns = operations[i].number == ALL_GATHER ? later_ns : 0;
        standin_call(rank->comm,
                     &(struct standin_op){.func = operations[i].func,
                                          .count = operations[i].floats,
                                          .algo = algo_word[choice.algo],
                                          .proto = proto_word[choice.proto],
                                          .channels = (unsigned)choice.channels,
                                          .gpu_ns = waits_ns + duration_ns(rank, &choice, bytes)});
    }
}

static int run_rank(int number, int ranks, int rounds)
{
    static struct rank rank;
    char name[32], end;
    snprintf(name, sizeof(name), "STEERED_POLICY_%d", number);
    if (getenv(name))
        setenv("MUSTER_POLICY_INLINE", getenv(name), 1);
    snprintf(name, sizeof(name), "STEERED_HOST_%d", number);
    if (getenv(name))
        setenv("NCCL_HOSTID", getenv(name), 1);
    const char *path = getenv("NCCL_PROFILER_PLUGIN");
    rank.random = (unsigned)getpid();
    standin_open(&rank.nccl, 5, NULL);
    rank.nccl.path = path && path[0] ? path : rank.nccl.path;
    rank.comm = standin_comm_init(
        &rank.nccl,
        &(struct standin_comm_config){
            .hash = 0x57ee0ull + (unsigned)ranks, .rank = number, .nranks = ranks, .nnodes = 1});
    load_tuner(&rank, ranks);
    for (int i = 0; i < rounds; i++) /* ahead of the GPU, which is never idle: beats are its own */
        one_round(&rank, ranks);
    standin_comm_sync(rank.comm);
    if (getenv("STEERED_HOLD"))
        while (read(STDIN_FILENO, &end, 1) > 0)
            ;
    standin_comm_destroy(rank.comm);
    standin_close(&rank.nccl);
    return 0;
}

static int run_forked(int number, int ranks, int rounds)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    setenv("RANK", text, 1);
    return run_rank(number, ranks, rounds);
}

int main(int argc, char **argv)
{
    const char *alone = getenv("STEERED_RANK");
    int ranks = argc == 3 ? atoi(argv[1]) : 0, rounds = argc == 3 ? atoi(argv[2]) : 0, failed = 0;
    if (ranks < 1 || ranks > 64 || rounds < 1) {
        fputs("usage: steered RANKS ROUNDS\n", stderr);
        return 2;
    }
    if (alone)
        return run_rank(atoi(alone), ranks, rounds);
    for (int r = 0; r < ranks; r++) {
        pid_t pid = fork();
        if (pid == 0)
            exit(run_forked(r, ranks, rounds));
        failed |= pid < 0;
    }
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    return failed ? 3 : 0;
}
