/* Whether the NCCL that is loaded holds code for the GPUs of this host: one that was built for
 * others starts, and fails at its first kernel. */
#include <string.h>

#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/gpu_code.h"
#include "doctor/rules/known_bad.h"

/* NCCL itself may run by PTX; the framework that was built with it mostly has none. Of one major
 * version one NCCL serves frameworks of several CUDAs (2.26.2+cuda12.2 those of 12.8). */
static void suspect_cuda(const struct muster_doctor *doctor, struct muster_check *check)
{
    const struct muster_nvml *nvml = doctor->survey->nvml;
    int built = doctor->library[doctor->loaded].cuda;
    for (int i = 0; i < nvml->gpus && built; i++) {
        const struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        int first = muster_known_first_cuda(gpu->major, gpu->minor);
        if (built / 1000 >= first / 1000)
            continue;
        muster_check_suspect(check,
                             "NCCL, and so the framework with it, is built for CUDA %d.%d, which "
                             "has no code for %.40s (%d.%d)",
                             built / 1000, built % 1000 / 10, gpu->name, gpu->major, gpu->minor);
        muster_check_advice(check, "a build of the framework for CUDA %d.%d or later", first / 1000,
                            first % 1000 / 10);
        return;
    }
}

/* "cuda: Optional[str] = '12.4'" in what its build left: 12040; 0: not there. */
static int cuda_of_torch(const char *file, char *text)
{
    unsigned major, minor;
    if (!text || !muster_doctor_read_file(file, text))
        return 0;
    for (char *rest, *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        const char *value = strncmp(line, "cuda", 4) == 0 ? strchr(line, '\'') : NULL;
        if (value && sscanf(value, "'%2u.%2u'", &major, &minor) == 2)
            return (int)(major * 1000 + minor * 10);
    }
    return 0;
}

/* The first GPU that came after a CUDA; NULL: it has code for all. */
static const struct muster_nvml_gpu *gpu_after(const struct muster_nvml *nvml, int built)
{
    for (int i = 0; i < nvml->gpus; i++)
        if (built < muster_known_first_cuda(nvml->gpu[i].major, nvml->gpu[i].minor))
            return &nvml->gpu[i];
    return NULL;
}

static void name_torch(struct muster_check *check, const char *file, int built,
                       const struct muster_nvml_gpu *gpu)
{
    int first = muster_known_first_cuda(gpu->major, gpu->minor);
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check,
                       "PyTorch is built for CUDA %d.%d, which has no code for %.60s (%d.%d)",
                       built / 1000, built % 1000 / 10, gpu->name, gpu->major, gpu->minor);
    muster_check_evidence(check, "%.300s", file);
    muster_check_advice(check,
                        "PyTorch for CUDA %d.%d or later, which brings its NCCL (pip install torch "
                        "--index-url https://download.pytorch.org/whl/cu%d%d)",
                        first / 1000, first % 1000 / 10, first / 1000, first % 1000 / 10);
}

/* The PyTorch that stands beside pip's NCCL, unless another one knows the GPUs: wheels for CUDA
 * 11.6 to 12.8 have no PTX that the driver could compile (manywheel/build_cuda.sh). */
static bool evaluate_torch(const struct muster_doctor *doctor, struct muster_check *check)
{
    char file[PATH_MAX], before[PATH_MAX] = "";
    int oldest = 0;
    for (int i = 0; i < doctor->libraries; i++) {
        const char *path = doctor->library[i].path, *at = strstr(path, "/nvidia/nccl/lib/");
        snprintf(file, sizeof file, "%.*s/torch/version.py", at ? (int)(at - path) : 0, path);
        int built = at ? cuda_of_torch(file, muster_doctor_room(doctor)) : 0;
        if (built && !gpu_after(doctor->survey->nvml, built))
            return false;
        if (built && !oldest) {
            oldest = built;
            muster_text_copy(before, sizeof before, file);
        }
    }
    if (oldest)
        name_torch(check, before, oldest, gpu_after(doctor->survey->nvml, oldest));
    return oldest;
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
    if (evaluate_torch(doctor, check))
        return;
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
