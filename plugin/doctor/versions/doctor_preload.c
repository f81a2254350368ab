/* Libraries that the loader puts between a job and CUDA or NCCL: LD_PRELOAD, /etc/ld.so.preload. */
#include <stdlib.h>

#include "doctor/doctor.h"

/* What lends parts of a GPU counts memory and launches, and knows no NCCL. */
static const struct between {
    const char *name, *what, *advice;
} between[] = {
    {"libvgpu.so", "HAMi, which lends parts of GPUs",
     "CUDA_DISABLE_CONTROL=true in the container's environment shows whether it is that; then "
     "whole GPUs for this job, without HAMi, or a newer one"},
    {"libgemhook", "Gemini, which lends parts of GPUs", "whole GPUs for this job, without it"},
    {"libnvshare", "nvshare, which lends GPUs in turn", "whole GPUs for this job, without it"},
    {"libcuda", "", "try the job without it"},
    {"libnvidia-ml", "", "try the job without it"},
    {"nccl", "", "try the job without it"},
};

static bool suspect(struct muster_check *check, const char *list, const char *by)
{
    for (size_t i = 0; list && i < sizeof between / sizeof *between; i++) {
        const struct between *at = &between[i];
        if (!strstr(list, at->name))
            continue;
        muster_check_suspect(check, "%s puts %.60s%s%s%s between the job and its libraries", by,
                             list, *at->what ? " (" : "", at->what, *at->what ? ")" : "");
        muster_check_advice(check, "%s", at->advice);
        if (*at->what) {
            check->suspect_of = "hang_absent hang_stuck init_error hang_dead slow_transfer";
            check->suspect_weight = 6; /* before bugs of NCCL that few jobs meet */
        }
        return true;
    }
    return false;
}

void muster_doctor_preload(const struct muster_doctor *doctor, struct muster_check *check)
{
    char path[PATH_MAX], *text = muster_doctor_room(doctor);
    if (suspect(check, getenv("LD_PRELOAD"), "LD_PRELOAD") || !text)
        return;
    snprintf(path, sizeof path, "%s/etc/ld.so.preload", doctor->root);
    if (muster_doctor_read_file(path, text)) {
        text[strcspn(text, "\n")] = '\0';
        suspect(check, text, "/etc/ld.so.preload");
    }
}
