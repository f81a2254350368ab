#include "nccl/tuner_abi.h"

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), "NCCL's layout")
#define AT(type, member, position)                                                                 \
    _Static_assert(offsetof(type, member) == (position), "NCCL's layout")

SIZE(struct nccl_nvl_domains, 12);
AT(struct nccl_nvl_domains, domains, 0);
AT(struct nccl_nvl_domains, min_ranks, 4);
AT(struct nccl_nvl_domains, max_ranks, 8);

SIZE(struct nccl_tuner_constants_v5, 1152);
AT(struct nccl_tuner_constants_v5, base_latency, 0);
AT(struct nccl_tuner_constants_v5, hw_latency, 168);
AT(struct nccl_tuner_constants_v5, ll_max_bw, 672);
AT(struct nccl_tuner_constants_v5, ring_ll128_bw, 768);
AT(struct nccl_tuner_constants_v5, tree_ll128_bw, 864);
AT(struct nccl_tuner_constants_v5, tree_bw, 960);
AT(struct nccl_tuner_constants_v5, nvls_tree_bw, 1056);

SIZE(struct nccl_tuner_constants_v7, 1272);
AT(struct nccl_tuner_constants_v7, base_latency, 0);
AT(struct nccl_tuner_constants_v7, hw_latency, 168);
AT(struct nccl_tuner_constants_v7, ll_max_bw, 672);
AT(struct nccl_tuner_constants_v7, ring_ll128_bw, 792);
AT(struct nccl_tuner_constants_v7, tree_ll128_bw, 912);
AT(struct nccl_tuner_constants_v7, tree_bw, 1032);
AT(struct nccl_tuner_constants_v7, nvls_tree_bw, 1152);

#define TABLE(type, last)                                                                          \
    AT(type, name, 0);                                                                             \
    AT(type, init, 8);                                                                             \
    AT(type, get_coll_info, 16);                                                                   \
    AT(type, last, 24)

SIZE(struct nccl_tuner_v2, 32);
TABLE(struct nccl_tuner_v2, destroy);
SIZE(struct nccl_tuner_v3, 32);
TABLE(struct nccl_tuner_v3, destroy);
SIZE(struct nccl_tuner_v4, 32);
TABLE(struct nccl_tuner_v4, destroy);
SIZE(struct nccl_tuner_v5, 32);
TABLE(struct nccl_tuner_v5, finalize);
SIZE(struct nccl_tuner_v6, 40);
TABLE(struct nccl_tuner_v6, finalize);
AT(struct nccl_tuner_v6, get_chunk_size, 32);
