/*
 * The six tuner tables that NCCL looks up. Each entry turns its version's arguments into one call
 * into steering.h. What is not equal on all ranks (`registered`) goes no further than here; the
 * constants of NCCL's model stay as they are.
 */
#include "nccl/profiler_abi.h"
#include "nccl/tuner_abi.h"
#include "nccl/tuner_hooks.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define EXPORTED      __attribute__((visibility("default")))

static ALWAYS_INLINE int init_v2(unsigned api, size_t ranks, size_t nodes, void **context)
{
    struct muster_steering_init init = {.api = api, .ranks = ranks, .nodes = nodes};
    void *opened = muster_steering_open(&init);
    if (context)
        *context = opened;
    return NCCL_SUCCESS;
}

static ALWAYS_INLINE int init_v5(unsigned api, void **context, size_t ranks, size_t nodes,
                                 const struct nccl_nvl_domains *nvl, const void *caller)
{
    struct muster_steering_init init = {.api = api,
                                        .ranks = ranks,
                                        .nodes = nodes,
                                        .nvlink_domains =
                                            nvl && nvl->domains > 0 ? (uint64_t)nvl->domains : 0,
                                        .nccl = muster_process_nccl(caller)};
    void *opened = muster_steering_open(&init);
    if (context)
        *context = opened;
    return NCCL_SUCCESS;
}

static int info_v2(void *context, int func, size_t bytes, int collnet, int nvls, int pipe_ops,
                   int *algo, int *proto, int *channels)
{
    (void)collnet;
    (void)nvls;
    /* Obeyed without a check that this job has them, against NCCL_ALGO as well: left alone. */
    (void)algo;
    (void)proto;
    (void)channels;
    muster_steering_decide(context, &(struct muster_steering_call){.func = (unsigned)func,
                                                                   .bytes = bytes,
                                                                   .pipe_ops = pipe_ops});
    return NCCL_SUCCESS;
}

static int info_v3(void *context, int func, size_t bytes, int pipe_ops, float *cost, int algos,
                   int protos, int *channels)
{
    muster_steering_decide(context, &(struct muster_steering_call){.func = (unsigned)func,
                                                                   .bytes = bytes,
                                                                   .pipe_ops = pipe_ops,
                                                                   .cost = cost,
                                                                   .algos = algos,
                                                                   .protos = protos,
                                                                   .channels = channels});
    return NCCL_SUCCESS;
}

static int info_v4(void *context, int func, size_t bytes, int pipe_ops, float *cost, int algos,
                   int protos, int registered, int *channels)
{
    (void)registered;
    return info_v3(context, func, bytes, pipe_ops, cost, algos, protos, channels);
}

/* Shapes are the process's: nothing belongs to the communicator. */
static int finalize(void *context)
{
    (void)context;
    return NCCL_SUCCESS;
}

#define INIT_2(api)                                                                                \
    static int init_##api(size_t ranks, size_t nodes, nccl_tuner_logger *logger, void **context)   \
    {                                                                                              \
        (void)logger; /* it writes into the text that ncclGetLastError returns */                  \
        return init_v2(api, ranks, nodes, context);                                                \
    }
#define INIT_5(api)                                                                                \
    static int init_##api(void **context, uint64_t comm_id, size_t ranks, size_t nodes,            \
                          nccl_tuner_logger *logger, const struct nccl_nvl_domains *nvl,           \
                          void *constants)                                                         \
    {                                                                                              \
        (void)comm_id;                                                                             \
        (void)logger;                                                                              \
        (void)constants;                                                                           \
        return init_v5(api, context, ranks, nodes, nvl, __builtin_return_address(0));              \
    }

INIT_2(2)
INIT_2(3)
INIT_2(4)
INIT_5(5)
INIT_5(6)
INIT_5(7)

#define TABLE(api, shape, info)                                                                    \
    extern EXPORTED const struct nccl_tuner_v##shape ncclTunerPlugin_v##api;                       \
    const struct nccl_tuner_v##shape ncclTunerPlugin_v##api = {"muster", init_##api, info, finalize}
/* No chunk size: NCCL keeps its own where the function is missing. */
#define TABLE_6(api)                                                                               \
    extern EXPORTED const struct nccl_tuner_v6 ncclTunerPlugin_v##api;                             \
    const struct nccl_tuner_v6 ncclTunerPlugin_v##api = {"muster", init_##api, info_v4, finalize,  \
                                                         NULL}

TABLE(2, 2, info_v2);
TABLE(3, 3, info_v3);
TABLE(4, 4, info_v4);
TABLE(5, 5, info_v4);
TABLE_6(6);
TABLE_6(7);
