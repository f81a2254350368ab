/* RDMA devices whose network interface is in another network namespace: the kernel shows every
 * device to every container, and its addresses only where its interface is. */
#include <glob.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "doctor/rdma/doctor_ports.h"
#include "topology/sysfs.h"

enum { GIDS = 256 };

/* /sys of a container may be its host's. */
static bool is_here(const struct muster_doctor *doctor, const char *name)
{
    char path[PATH_MAX];
    if (strcmp(doctor->sysfs, "/sys") == 0)
        return if_nametoindex(name) != 0;
    snprintf(path, sizeof path, "%s/class/net/%.31s", doctor->sysfs, name);
    return access(path, F_OK) == 0;
}

/* A GID's interface may be one that is made on top of the card's own (macvlan, a VLAN). */
static bool has_gid_here(const struct muster_doctor *doctor, const struct muster_doctor_port *port,
                         char *elsewhere)
{
    char name[32];
    for (int i = 0; i < GIDS; i++) {
        if (!muster_sysfs_line(doctor->sysfs, name, sizeof name,
                               "class/infiniband/%s/ports/%s/gid_attrs/ndevs/%d", port->device,
                               port->number, i) ||
            !name[0])
            continue;
        if (is_here(doctor, name))
            return true;
        snprintf(elsewhere, 32, "%.31s", name);
    }
    return false;
}

static bool has_card_here(const struct muster_doctor *doctor, const struct muster_doctor_port *port,
                          char *elsewhere)
{
    char pattern[PATH_MAX];
    glob_t found;
    bool here = false;
    snprintf(pattern, sizeof pattern, "%s/class/infiniband/%.31s/device/net/*", doctor->sysfs,
             port->device);
    if (glob(pattern, 0, NULL, &found))
        return false;
    for (size_t i = 0; i < found.gl_pathc && !here; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/') + 1;
        here = is_here(doctor, name);
        if (!here)
            snprintf(elsewhere, 32, "%.31s", name);
    }
    globfree(&found);
    return here;
}

static bool is_active(const struct muster_doctor *doctor, const struct muster_doctor_port *port)
{
    char state[32] = "";
    muster_sysfs_line(doctor->sysfs, state, sizeof state, "class/infiniband/%s/ports/%s/state",
                      port->device, port->number);
    return strstr(state, "ACTIVE") != NULL;
}

struct seen {
    int here, gone; /* ports */
    char good[256]; /* "mlx5_0,mlx5_1" */
    char first[32]; /* that is gone */
    bool named;     /* one that is gone names an interface that is not here */
};

static void look(const struct muster_doctor *doctor, struct muster_check *check,
                 const struct muster_doctor_port *port, struct seen *seen, struct muster_text *good)
{
    char elsewhere[32] = "";
    if (has_gid_here(doctor, port, elsewhere) || has_card_here(doctor, port, elsewhere)) {
        muster_text_add(good, "%s%s", seen->here++ ? "," : "", port->device);
        return;
    }
    seen->named |= elsewhere[0] != '\0';
    if (seen->gone++ == 0)
        snprintf(seen->first, sizeof seen->first, "%.31s", port->device);
    if (elsewhere[0])
        muster_check_evidence(check, "%s port %s: its interface %s is not here", port->device,
                              port->number, elsewhere);
    else
        muster_check_evidence(check, "%s port %s: it has no interface here", port->device,
                              port->number);
}

/* A card whose driver hangs its interface elsewhere looks alike: one that has its own beside it, or
 * a container, distinguishes them. */
static void report_gone(const struct muster_doctor *doctor, struct muster_check *check,
                        const struct seen *seen)
{
    if (seen->here)
        muster_check_advice(
            check, "NCCL_IB_HCA=\"=%s\", or give the container its own devices alone", seen->good);
    else
        muster_check_advice(check, "docker, podman: --network=host; Kubernetes: hostNetwork: true, "
                                   "or a second interface on the card (macvlan, SR-IOV) beside its "
                                   "resource; else NCCL_IB_DISABLE=1");
    if (seen->here || seen->named || muster_doctor_container(doctor)) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "NCCL takes RDMA devices whose network interface is not here");
        return;
    }
    muster_check_found(check, "no interface of a RoCE port is known");
    muster_check_suspect(check,
                         "NCCL takes %s, whose network interface is not in this network namespace",
                         seen->first);
}

void muster_doctor_netns(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n)
{
    struct muster_check *check = muster_doctor_begin_ports(
        doctor, n, "ib.netns", "F57,F63",
        "the network interface of every RoCE port that NCCL takes, in this network namespace");
    struct seen seen = {.here = 0};
    struct muster_text good = muster_text_begin(seen.good, sizeof seen.good);
    for (int i = 0; i < n; i++)
        if (strcmp(port[i].layer, "Ethernet") == 0 && is_active(doctor, &port[i]) &&
            muster_doctor_takes_port(doctor, &port[i]))
            look(doctor, check, &port[i], &seen, &good);
    if (seen.gone)
        report_gone(doctor, check, &seen);
    else if (n)
        muster_check_found(check, seen.here ? "every RoCE port that NCCL takes has its interface"
                                            : "no RoCE port that NCCL takes");
}
