/* The fabric manager of a host with NVSwitches, as a process and as a package: before Hopper the
 * driver itself does not report whether it runs. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "topology/sysfs.h"

/* PCI's class "other bridge", of NVIDIA. */
static int count_switches(const struct muster_doctor *doctor)
{
    char path[PATH_MAX], class[16], vendor[16];
    int n = 0;
    snprintf(path, sizeof path, "%s/bus/pci/devices", doctor->sysfs);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.' &&
             muster_sysfs_line(doctor->sysfs, class, sizeof class, "bus/pci/devices/%s/class",
                               entry->d_name) &&
             strncmp(class, "0x0680", 6) == 0 &&
             muster_sysfs_line(doctor->sysfs, vendor, sizeof vendor, "bus/pci/devices/%s/vendor",
                               entry->d_name) &&
             strcmp(vendor, "0x10de") == 0;
    if (dir)
        closedir(dir);
    return n;
}

/* The kernel cuts names to 15 bytes. */
static const char *const manager[] = {"nv-fabricmanage", NULL};

/* Debian's list of packages: the version of one whose name begins so; false: not installed. */
static bool installed(const struct muster_doctor *doctor, const char *package, char *version,
                      size_t size)
{
    char path[PATH_MAX], line[512];
    bool ours = false, found = false;
    snprintf(path, sizeof path, "%s/var/lib/dpkg/status", doctor->root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        if (strncmp(line, "Package: ", 9) == 0)
            ours = strncmp(line + 9, package, strlen(package)) == 0 && !strstr(line, "dev");
        else if (ours && strncmp(line, "Status: ", 8) == 0)
            ours = strstr(line, " installed") != NULL;
        else if (ours && strncmp(line, "Version: ", 9) == 0)
            found = true;
    if (found)
        snprintf(version, size, "%.*s", (int)strcspn(line + 9, "-\n"), line + 9);
    if (file)
        fclose(file);
    return found;
}

/* Seconds from boot to the start of a process, by its stat: the 22nd word, in hundredths. -1. */
static long long started(const struct muster_doctor *doctor, const char *process)
{
    char stat[512];
    if (!muster_sysfs_line(doctor->procfs, stat, sizeof stat, "%s/stat", process))
        return -1;
    const char *at = strrchr(stat, ')');
    for (int i = 2; at && i < 22; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) / 100 : -1;
}

/* GPUs in use while the manager starts again keep what the switches no longer know. */
static void suspect_restart(const struct muster_doctor *doctor, struct muster_check *check)
{
    enum { LATE_S = 3600 };
    char process[24];
    if (check->status != MUSTER_CHECK_OK || !muster_doctor_process(doctor, manager, process))
        return;
    long long after = started(doctor, process);
    if (after < LATE_S)
        return;
    muster_check_suspect(check,
                         "the fabric manager was started %lld h after this host: GPUs that were "
                         "in use then have lost the fabric",
                         after / 3600);
    muster_check_advice(check, "reboot; or end all that uses the GPUs (nvidia-persistenced, dcgm), "
                               "reset them, and restart nvidia-fabricmanager");
}

void muster_doctor_manager(struct muster_doctor *doctor, struct muster_check *check)
{
    const struct muster_nvml *nvml = doctor->survey->nvml;
    char version[64], process[24];
    int switches = count_switches(doctor);
    bool reported =
        nvml->gpus > 0 && nvml->gpu[0].fabric_state > 0; /* by the driver, from Hopper on */
    if (reported)
        suspect_restart(doctor, check);
    if (switches == 0 || nvml->gpus == 0)
        return;
    muster_check_evidence(check, "%d NVSwitches in the PCI tree", switches);
    if (installed(doctor, "nvidia-fabricmanager", version, sizeof version) && nvml->driver[0] &&
        strcmp(version, nvml->driver) != 0) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "the fabric manager is of version %s, the driver of %s", version,
                           nvml->driver);
        muster_check_advice(check,
                            "install nvidia-fabricmanager of exactly the driver's version, and "
                            "hold both packages; then restart it and reset the GPUs");
    } else if (!muster_doctor_container(doctor) &&
               !muster_doctor_process(doctor, manager, process)) {
        if (reported) {
            muster_check_suspect(check, "no fabric manager runs now, though the fabric was set up");
        } else {
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
            muster_check_found(check, "no fabric manager runs, and this host has NVSwitches");
        }
        muster_check_advice(check, "systemctl enable --now nvidia-fabricmanager, of exactly the "
                                   "driver's version");
    }
}
