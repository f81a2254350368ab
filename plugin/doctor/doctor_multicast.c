/* NVLink SHARP (NVLS): NCCL asks the driver for multicast objects over the NVSwitches, and gives up
 * where these are refused. Nothing shows before: no such object is made here. */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "doctor/rules/job_log.h"

enum { FIRST_WITH_NVLS = 21700, FIRST_THAT_GOES_WITHOUT = 22703, HOPPER = 9 };

/* NCCL_NVLS_ENABLE=0, or an NCCL_ALGO without it. */
static bool is_off(const struct muster_doctor *doctor)
{
    const char *enable = muster_doctor_setting(doctor, "NCCL_NVLS_ENABLE");
    const char *algo = muster_doctor_setting(doctor, "NCCL_ALGO");
    if (doctor->log && doctor->log->nvls_none)
        return true;
    if (enable && strcmp(enable, "0") == 0)
        return true;
    bool named = algo && strcasestr(algo, "nvls");
    return algo && *algo && (*algo == '^' ? named : !named);
}

/* Boards without NVLink have no switch, whatever fabric the driver reports. */
static bool has_switches(const struct muster_nvml_gpu *gpu)
{
    bool to_switch = false, linked = false;
    for (int i = 0; i < MUSTER_NVML_LINKS; i++)
        if (gpu->link[i].state == MUSTER_NVLINK_ACTIVE) {
            linked = true;
            to_switch |= gpu->link[i].remote == MUSTER_NVLINK_TO_SWITCH;
        }
    return (to_switch || (linked && gpu->fabric_state > 0)) && gpu->major >= HOPPER;
}

/* Behind every known bug that gives wrong data. */
static void suspect_order(struct muster_check *check)
{
    check->suspect_of = "wrong_result";
    check->suspect_weight = 0;
    muster_check_suspect(check,
                         "NVLink SHARP (NVLS) adds in no fixed order: results differ in their "
                         "last bits from run to run (nccl#1497, nccl#2360)");
    muster_check_advice(check,
                        "NCCL_NVLS_ENABLE=0, or NCCL_ALGO=Ring, where runs have to agree bit "
                        "for bit; more than the last bits is something else");
}

static void suspect(const struct muster_doctor *doctor, struct muster_check *check)
{
    check->suspect_of = "init_error hang_stuck allreduce.small allreduce.large";
    check->suspect_weight = 3;
    if (doctor->symptoms && strstr(doctor->symptoms, "wrong_result")) {
        suspect_order(check);
        return;
    }
    const bool bare = muster_doctor_lacks_caps(doctor);
    /* from 2.27.3 on NCCL goes without what is refused, where it was not set to insist (its notes)
     */
    const char *enable = muster_doctor_setting(doctor, "NCCL_NVLS_ENABLE");
    if (!bare && muster_doctor_version(doctor) >= FIRST_THAT_GOES_WITHOUT &&
        (!enable || strcmp(enable, "1") != 0)) {
        check->suspect_of = "hang_stuck";
        check->suspect_weight = 1;
    }
    check->suspect_of_kind = !bare;
    muster_check_suspect(check,
                         "NVLink SHARP (NVLS) needs multicast, which a driver or fabric manager "
                         "refuses without being asked before%s",
                         bare ? ", and this container has no /dev/nvidia-caps" : "");
    muster_check_advice(
        check, "NCCL_NVLS_ENABLE=0 shows whether it is that (\"CUDA error 401\", "
               "\"invalid argument\" in nvls.cc). If so: the fabric manager first, then the "
               "driver, as both start; a reset of the GPUs");
}

void muster_doctor_multicast(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_doctor_begin_gpu(doctor, "gpu.multicast", "F49,F50",
                                                         "NVLink SHARP that works, or none");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    int with = 0, version = muster_doctor_version(doctor);
    if (!nvml)
        return;
    for (int i = 0; i < nvml->gpus; i++)
        with += has_switches(&nvml->gpu[i]);
    bool used = with > 1 && (version == 0 || version >= FIRST_WITH_NVLS) && !is_off(doctor);
    muster_check_found(check,
                       used ? "NCCL will try NVLink SHARP" : "NCCL will not try NVLink SHARP");
    if (used)
        suspect(doctor, check);
}
