#include "doctor/rules/known_torch.h"

#include <stdio.h>

const struct muster_known_torch muster_known_torch[] = {
    {11200, 11200, false, false, false, "init_error",
     "begins with CUDA in the process that forks the ranks, as notebooks do", "PyTorch 1.12.1",
     "pytorch-lightning#14043"},
    {20700, 20700, false, false, false, "hang_stuck",
     "hangs at random where init_process_group() gets a device_id",
     "PyTorch 2.7.1, or TORCH_NCCL_USE_COMM_NONBLOCKING=0", "pytorch#153960, pytorch#154055"},
    {21000, 21000, true, true, true, "hang_stuck",
     "hangs between hosts with ARM CPUs (DGX Spark), with one busy and the other idle",
     "PyTorch 2.9.1, or the system's NCCL in place of pip's (vllm#42354)",
     "spark-vllm-docker#24, gpustack#5109"},
};
const size_t muster_known_torch_n = sizeof muster_known_torch / sizeof *muster_known_torch;

int muster_torch_version(const char *text)
{
    int major, minor, patch, end = 0;
    if (sscanf(text, "%2d.%2d.%2d%n", &major, &minor, &patch, &end) != 3 || major < 0 ||
        minor < 0 || patch < 0 || (text[end] != '\0' && text[end] != '+' && text[end] != '\''))
        return 0;
    return major * 10000 + minor * 100 + patch;
}

const struct muster_known_torch *muster_known_torch_find(int version, bool arm, bool hosts)
{
    for (size_t i = 0; i < muster_known_torch_n; i++) {
        const struct muster_known_torch *bug = &muster_known_torch[i];
        if (version >= bug->first && version <= bug->last && (arm || !bug->arm) &&
            (hosts || !bug->hosts))
            return bug;
    }
    return NULL;
}
