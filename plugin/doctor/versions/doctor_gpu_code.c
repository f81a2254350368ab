/* Whether the NCCL that is loaded holds code for the GPUs of this host: one that was built for
 * others starts, and fails at its first kernel. */
#include <string.h>

#include "doctor/doctor.h"
#include "doctor/rules/gpu_code.h"
#include "doctor/rules/known_bad.h"

/* NCCL itself may run by PTX; the framework that was built with it mostly has none. */
static void suspect_cuda(const struct muster_doctor *doctor, struct muster_check *check)
{
    const struct muster_nvml *nvml = doctor->survey->nvml;
    int built = doctor->library[doctor->loaded].cuda;
    for (int i = 0; i < nvml->gpus && built; i++) {
        const struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        int first = muster_known_first_cuda(gpu->major, gpu->minor);
        if (built >= first)
            continue;
        muster_check_suspect(check,
                             "NCCL, and so the framework with it, is built for CUDA %d.%d, which "
                             "has no code for %.40s (%d.%d)",
                             built / 1000, built % 1000 / 10, gpu->name, gpu->major, gpu->minor);
        muster_check_advice(check, "a build of the framework for CUDA %d or later", first / 1000);
        return;
    }
}

void muster_doctor_gpu_code(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "version.gpu_code", "F35");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    struct muster_gpu_code code;
    char text[160];
    muster_check_expected(check, "an NCCL built for the GPUs of this host");
    if (!nvml || doctor->loaded < 0) {
        muster_check_unchecked(check, "no driver or no NCCL");
        return;
    }
    if (!muster_nccl_gpu_code(doctor->library[doctor->loaded].path, &code)) {
        muster_check_found(check, "the library does not say for which GPUs it was built");
        suspect_cuda(doctor, check);
        return;
    }
    muster_gpu_code_text(&code, text, sizeof text);
    muster_check_found(check, "NCCL has code for the GPUs");
    muster_check_evidence(check, "code of architectures %s%s", text, code.ptx ? ", and PTX" : "");
    for (int i = 0; i < nvml->gpus; i++) {
        const struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        if (!gpu->major || muster_gpu_code_runs(&code, gpu->major, gpu->minor))
            continue;
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "NCCL has no code for %.60s (%d.%d): it was built for %s",
                           gpu->name, gpu->major, gpu->minor, *text ? text : "later ones");
        muster_check_advice(check,
                            "an NCCL built for it: NVIDIA's own (for a CUDA that still has that "
                            "architecture), or -gencode=arch=compute_%d%d,code=sm_%d%d",
                            gpu->major, gpu->minor, gpu->major, gpu->minor);
        return;
    }
}
