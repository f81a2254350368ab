/* NCCL_OOB_NET_IFNAME: of the devices of NCCL's network (RDMA's, else interfaces) the one by which
 * ranks meet at the start of a communicator. It counts with NCCL_OOB_NET_ENABLE alone. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "doctor/doctor.h"

struct named {
    struct muster_check *check;
    const char *list;
    int taken;
    char first[64];
};

static void note(struct named *named, const char *device)
{
    muster_check_evidence(named->check, "this host has %.63s", device);
    if (!muster_interfaces_match(named->list, device))
        return;
    if (named->taken++ == 0)
        snprintf(named->first, sizeof named->first, "%.63s", device);
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(a, b);
}

/* In the order of their names: that of a folder is no order. */
static void note_rdma(const struct muster_doctor *doctor, struct named *named)
{
    enum { DEVICES_MAX = 64 };
    char path[PATH_MAX], device[DEVICES_MAX][64];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/class/infiniband", doctor->sysfs);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && n < DEVICES_MAX && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            snprintf(device[n++], sizeof *device, "%.63s", entry->d_name);
    if (dir)
        closedir(dir);
    qsort(device, n, sizeof *device, by_name);
    for (size_t i = 0; i < n; i++)
        note(named, device[i]);
}

void muster_doctor_oob(struct muster_doctor *doctor, const struct muster_interfaces *interfaces)
{
    const char *list = muster_env("NCCL_OOB_NET_IFNAME"), *on = muster_env("NCCL_OOB_NET_ENABLE");
    if (!list || !*list)
        return;
    struct muster_check *check = muster_check_begin(doctor->checks, "net.oob", "F19,F20");
    struct named named = {.check = check, .list = list};
    muster_check_expected(check, "a device of NCCL's network that the other hosts reach");
    if (!on || strtol(on, NULL, 0) == 0) {
        muster_check_found(check, "without effect, as NCCL_OOB_NET_ENABLE is not 1");
        return;
    }
    bool rdma = muster_doctor_uses_rdma(doctor);
    if (rdma)
        note_rdma(doctor, &named);
    for (int i = 0; !rdma && i < interfaces->n; i++)
        if (interfaces->at[i].flags & IFF_RUNNING)
            note(&named, interfaces->at[i].name);
    if (named.taken == 0) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "NCCL_OOB_NET_IFNAME=%.80s names no %s: NCCL fails at init", list,
                           rdma ? "RDMA device of this host" : "interface that is up");
        muster_check_advice(check, "unset NCCL_OOB_NET_IFNAME, or name what NCCL's network has "
                                   "here: RDMA devices (mlx5_0) where it uses RDMA");
        return;
    }
    muster_check_found(check, "%s", named.first);
    if (!rdma && strcmp(named.first, "lo") == 0 && muster_doctor_several_hosts()) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check,
                            "lo reaches no other host: name the right one in NCCL_OOB_NET_IFNAME");
    }
}
