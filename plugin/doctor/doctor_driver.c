/* Whether the NVIDIA driver is there and answers: by its own name, because all that asks it is
 * unchecked where it does not. */
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "doctor/doctor.h"
#include "topology/sysfs.h"

static int count(const char *root, const char *below)
{
    char pattern[PATH_MAX];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/%s", root, below);
    if (glob(pattern, 0, NULL, &found))
        return 0;
    int n = (int)found.gl_pathc;
    globfree(&found);
    return n;
}

struct signs {
    int in_tree, files; /* GPUs of NVIDIA; files in /dev */
    bool module;
};

static struct signs look_for_signs(const struct muster_doctor *doctor)
{
    const struct muster_machine *machine = doctor->survey->machine;
    char text[128];
    struct signs signs = {.files = count(doctor->devfs, "nvidia[0-9]*")};
    for (int i = 0; i < machine->gpus; i++)
        signs.in_tree += machine->gpu[i].node >= 0;
    signs.module = muster_sysfs_line(doctor->sysfs, text, sizeof text, "module/nvidia/version") ||
                   muster_sysfs_line(doctor->procfs, text, sizeof text, "driver/nvidia/version");
    return signs;
}

static const char *what_to_do(const struct signs *signs, const char *why)
{
    if (strstr(why, "no answer"))
        return "a driver that hangs: look for Xid and D-state processes, end what holds the GPUs, "
               "reset them or reboot; an NVLink bridge that is not fully plugged in does that, too";
    if (strstr(why, "Unknown Error"))
        return "in a container: systemctl daemon-reload on the host took its devices away: start "
               "it "
               "again, and use docker's cgroupfs driver or name the devices (--device "
               "/dev/nvidia0)";
    if (strstr(why, "Insufficient Permissions")) /* nvidia-docker#676, container-toolkit#210 */
        return "with SELinux: --security-opt label=disable, or setsebool -P container_use_devices "
               "1 on the host; podman without root: --group-add keep-groups; on a host: who may "
               "open /dev/nvidia* (ls -l), and NVreg_DeviceFileMode in /etc/modprobe.d";
    if (strstr(why, "mismatch"))
        return "the library is of another version than the loaded module: reload it or reboot";
    if (strstr(why, "libnvidia-ml"))
        return signs->files
                   ? "the container has GPUs but not the driver's libraries: docker: --gpus "
                     "all; enroot: NVIDIA_VISIBLE_DEVICES=all; both with "
                     "NVIDIA_DRIVER_CAPABILITIES=compute,utility; podman: "
                     "--device nvidia.com/gpu=all; apptainer: --nv"
                   : "install the driver; in a container: docker: --gpus all; podman: --device "
                     "nvidia.com/gpu=all; Kubernetes: nvidia.com/gpu in the limits and the NVIDIA "
                     "runtime class; enroot: NVIDIA_VISIBLE_DEVICES=all; apptainer: --nv";
    return signs->module
               ? "nvidia-smi on the host tells more; reload the module or reboot"
               : "load the module (modprobe nvidia); after a kernel update it may have to "
                 "be built again (dkms status)";
}

/* NVML does without /dev/nvidia-uvm, CUDA does not ("unknown error" at its start). Outside of
 * containers its first use makes the file. */
static void evaluate_memory_file(const struct muster_doctor *doctor, struct muster_check *check,
                                 int files)
{
    if (files == 0 || count(doctor->devfs, "nvidia-uvm") > 0)
        return;
    if (muster_doctor_container(doctor)) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check,
                           "the container has GPUs but no /dev/nvidia-uvm: CUDA does not start");
        muster_check_advice(
            check, "docker: --gpus all, podman: --device nvidia.com/gpu=all (both: or --device "
                   "/dev/nvidia-uvm); apptainer: --nv; after nvidia-modprobe -u -c 0 on the host");
    } else {
        muster_check_suspect(check,
                             "there is no /dev/nvidia-uvm, without which CUDA does not start");
        muster_check_advice(check,
                            "nvidia-modprobe -u -c 0, or modprobe nvidia-uvm: is the module of the "
                            "driver's version?");
    }
}

void muster_doctor_driver(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.driver", "F35,F49");
    const char *why = doctor->survey->no_nvml.text;
    struct signs signs = look_for_signs(doctor);
    muster_check_expected(check, "an NVIDIA driver that answers");
    if (doctor->survey->nvml) {
        muster_check_found(check, "driver %s answers", doctor->survey->nvml->driver);
        evaluate_memory_file(doctor, check, signs.files);
        return;
    }
    if (doctor->survey->refused) {
        muster_check_unchecked(check, "%s", why);
        muster_text_copy(doctor->no_driver, sizeof doctor->no_driver, check->found);
        return;
    }
    bool hangs = strstr(why, "no answer") != NULL;
    if (!signs.in_tree && !signs.files && !signs.module && !hangs) {
        muster_check_unchecked(check, "no NVIDIA GPU seen here");
        muster_check_evidence(check, "%s", why);
        muster_text_copy(doctor->no_driver, sizeof doctor->no_driver, check->found);
        return;
    }
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "the NVIDIA driver does not answer: %.300s", why);
    muster_text_copy(doctor->no_driver, sizeof doctor->no_driver, check->found);
    muster_check_evidence(check,
                          "%d GPUs of NVIDIA in the PCI tree, %d device files, %s kernel module",
                          signs.in_tree, signs.files, signs.module ? "a" : "no");
    muster_check_advice(check, "%s", what_to_do(&signs, why));
}
