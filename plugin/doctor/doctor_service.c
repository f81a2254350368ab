/* The limits of the services that start jobs, which are not this shell's. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

static bool starts_jobs(const char *name)
{
    static const char *const names[] = {"slurmd",  "slurmstepd", "dockerd",  "containerd",
                                        "kubelet", "pbs_mom",    "sge_execd"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void evaluate_limit(struct muster_check *check, const char *service, const char *text,
                           const char *name, const char *setting, uint64_t wanted)
{
    uint64_t limit;
    char size[32];
    if (!muster_proc_limit(text, name, &limit) || limit >= wanted)
        return;
    muster_text_bytes(size, sizeof size, limit);
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check, "jobs are started with lower limits than needed");
    if (wanted == UINT64_MAX)
        muster_check_evidence(check, "%s: %s %s", service, name, size);
    else
        muster_check_evidence(check, "%s: %s %llu", service, name, (unsigned long long)limit);
    muster_check_advice(check, "in the service's unit: %s; a login's ulimit says nothing of jobs",
                        setting);
}

static bool has_rdma(const struct muster_doctor *doctor)
{
    return muster_doctor_entries(doctor->sysfs, "class/infiniband") > 0;
}

static int evaluate_process(const struct muster_doctor *doctor, struct muster_check *check,
                            const char *pid, char *text)
{
    char name[64], path[64];
    if (!muster_sysfs_line(doctor->procfs, name, sizeof name, "%.20s/comm", pid) ||
        !starts_jobs(name))
        return 0;
    snprintf(path, sizeof path, "%.20s/limits", pid);
    if (!muster_doctor_read_proc(doctor, path, text))
        return 0;
    if (has_rdma(doctor))
        evaluate_limit(check, name, text, "Max locked memory", "LimitMEMLOCK=infinity", UINT64_MAX);
    evaluate_limit(check, name, text, "Max open files", "LimitNOFILE=65536", 4096);
    return 1;
}

void muster_doctor_service(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.service", "F30,F32");
    char *text = muster_doctor_room(doctor);
    int seen = 0;
    muster_check_expected(check, "services that start jobs with the limits that jobs need");
    DIR *dir = text ? opendir(doctor->procfs) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (isdigit((unsigned char)entry->d_name[0]))
            seen += evaluate_process(doctor, check, entry->d_name, text);
    if (dir)
        closedir(dir);
    if (seen && !check->evidences)
        muster_check_found(check, "nothing against their limits");
    else if (!seen)
        muster_check_found(check, "no such service seen");
}
