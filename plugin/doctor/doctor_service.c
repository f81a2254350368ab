/* The limits of the services that start jobs, which are not this shell's; and what a container of a
 * job has to be given. */
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

/* What docker has to be given, where another check found that it is missing. */
void muster_doctor_runtime(struct muster_doctor *doctor)
{
    static const struct {
        const char *id, *flag;
    } flags[] = {{"limit.shm", "--ipc=host (or --shm-size=8g)"},
                 {"ib.devices", "--device=/dev/infiniband"},
                 {"limit.memlock", "--ulimit memlock=-1 --cap-add=IPC_LOCK"},
                 {"limit.nofile", "--ulimit nofile=65536"},
                 {"net.interface", "--network=host"},
                 {"net.names", "--network=host"},
                 {"gpu.driver", "--gpus=all"},
                 {"limit.stack", "--ulimit stack=8388608"}};
    struct muster_check *check =
        muster_check_begin(doctor->checks, "host.container", "F24,F27,F29,F30");
    char missing[256] = "";
    muster_check_expected(check, "a container with the host's shared memory, network and devices");
    if (!muster_doctor_container(doctor)) {
        muster_check_found(check, "no container");
        return;
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const struct muster_check *other = muster_checks_find(doctor->checks, flags[i].id);
        size_t used = strlen(missing);
        if (!other || other->status < MUSTER_CHECK_WARNING || strstr(missing, flags[i].flag))
            continue;
        snprintf(missing + used, sizeof missing - used, "%s%s", used ? " " : "", flags[i].flag);
        muster_check_evidence(check, "%s: %s", other->id, other->found);
    }
    muster_check_found(check, *missing ? "the container lacks what NCCL needs"
                                       : "a container that lacks nothing seen here");
    if (!*missing)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_advice(check,
                        "docker run %s; in Kubernetes: an emptyDir of medium Memory at "
                        "/dev/shm, hostNetwork or a second interface, the RDMA device plugin",
                        missing);
}
