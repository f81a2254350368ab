/* The NCCL that vLLM opens by itself: that of VLLM_NCCL_SO_PATH, else, until May 2024, one that it
 * had put below ~/.config/vllm (vllm#5091). */
#include <errno.h>
#include <glob.h>
#include <unistd.h>

#include "base/env.h"
#include "base/nccl_types.h"
#include "doctor/doctor.h"

static void name_versions(const struct muster_doctor *doctor, int own, char text[2][32])
{
    muster_nccl_version_text(text[0], sizeof text[0], (uint32_t)own);
    muster_nccl_version_text(text[1], sizeof text[1], (uint32_t)muster_doctor_version(doctor));
}

static void evaluate_named(const struct muster_doctor *doctor, struct muster_check *check,
                           const char *path)
{
    char text[2][32] = {"", ""};
    int cuda, version = muster_nccl_version_in(path, &cuda);
    if (access(path, R_OK)) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "VLLM_NCCL_SO_PATH=%.200s: %s", path, strerror(errno));
    } else if (version && muster_doctor_version(doctor) &&
               version != muster_doctor_version(doctor)) {
        name_versions(doctor, version, text);
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "vLLM opens NCCL %s (VLLM_NCCL_SO_PATH) beside NCCL %s", text[0],
                           text[1]);
    } else {
        return;
    }
    muster_check_advice(check, "unset VLLM_NCCL_SO_PATH: then vLLM takes PyTorch's");
}

/* Later ones of vLLM leave the file alone. */
static void suspect_left(const struct muster_doctor *doctor, struct muster_check *check,
                         const char *path)
{
    char text[2][32] = {"", ""};
    int cuda, version = muster_nccl_version_in(path, &cuda);
    if (!version || !muster_doctor_version(doctor) || version == muster_doctor_version(doctor))
        return;
    name_versions(doctor, version, text);
    muster_check_evidence(check, "%s at %.300s", text[0], path);
    if (check->suspect[0])
        return;
    muster_check_suspect(check,
                         "vLLM until May 2024 opens an NCCL of its own, %s below "
                         "~/.config/vllm, beside PyTorch's %s",
                         text[0], text[1]);
    muster_check_advice(check, "VLLM_NCCL_SO_PATH with the path of PyTorch's, or a newer vLLM");
    check->suspect_of = "init_error hang_stuck hang_dead wrong_result";
    check->suspect_weight = 6; /* before bugs of NCCL that few jobs meet */
}

void muster_doctor_vllm(const struct muster_doctor *doctor, struct muster_check *check)
{
    const char *path = muster_env("VLLM_NCCL_SO_PATH"), *home = muster_env("HOME");
    char pattern[PATH_MAX];
    glob_t found = {0};
    if (check->status != MUSTER_CHECK_OK)
        return;
    if (path) {
        evaluate_named(doctor, check, path);
        return;
    }
    if (!home)
        return;
    snprintf(pattern, sizeof pattern, "%s/.config/vllm/nccl/*/libnccl.so*", home);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            suspect_left(doctor, check, found.gl_pathv[i]);
    globfree(&found);
}
