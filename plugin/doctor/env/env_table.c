#include "doctor/env/env_table.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

const struct muster_env_known muster_env_nccl[] = {
#include "nccl-env.inc"
};
const size_t muster_env_nccl_n = COUNT(muster_env_nccl);

const struct muster_env_removed muster_env_gone[] = {
#include "nccl-env-removed.inc"
};
const size_t muster_env_gone_n = COUNT(muster_env_gone);

const struct muster_env_torch muster_env_pytorch[] = {
#include "torch-env.inc"
};
const size_t muster_env_pytorch_n = COUNT(muster_env_pytorch);
