/* Ports of RDMA devices, beyond their state: subnet manager, frames, flaps, and the libraries that
 * NCCL opens for them. */
#include <dlfcn.h>
#include <glob.h>
#include <string.h>

#include "base/env.h"
#include "doctor/rdma/doctor_ports.h"
#include "launch/bounded.h"
#include "launch/library_trust.h"
#include "topology/sysfs.h"

enum {
    LIBRARY_MS = 5000,
    ROCE_FRAME = 4200,  /* for an RDMA MTU of 4096 with its headers */
    FAST_MBPS = 100000, /* where small frames cost */
};

int muster_doctor_list_ports(const struct muster_doctor *doctor, struct muster_doctor_port *port)
{
    char pattern[PATH_MAX];
    glob_t found;
    int n = 0;
    snprintf(pattern, sizeof pattern, "%s/class/infiniband/*/ports/*", doctor->sysfs);
    if (glob(pattern, 0, NULL, &found))
        return 0;
    for (size_t i = 0; i < found.gl_pathc && n < MUSTER_DOCTOR_PORTS; i++) {
        const char *below =
            found.gl_pathv[i] + strlen(doctor->sysfs) + strlen("/class/infiniband/");
        if (sscanf(below, "%31[^/]/ports/%7[^/]", port[n].device, port[n].number) != 2)
            continue;
        muster_sysfs_line(doctor->sysfs, port[n].layer, sizeof port[n].layer,
                          "class/infiniband/%s/ports/%s/link_layer", port[n].device,
                          port[n].number);
        n++;
    }
    globfree(&found);
    return n;
}

int muster_doctor_roce_ports(const struct muster_doctor *doctor)
{
    struct muster_doctor_port port[MUSTER_DOCTOR_PORTS];
    int n = muster_doctor_list_ports(doctor, port), roce = 0;
    for (int i = 0; i < n; i++)
        roce += strcmp(port[i].layer, "Ethernet") == 0;
    return roce;
}

struct muster_check *muster_doctor_begin_ports(struct muster_doctor *doctor, int ports,
                                               const char *id, const char *class_id,
                                               const char *expected)
{
    struct muster_check *check = muster_check_begin(doctor->checks, id, class_id);
    muster_check_expected(check, "%s", expected);
    if (ports == 0)
        muster_check_unchecked(check, "no RDMA device");
    return check;
}

/* A port whose cable is in and that no subnet manager has configured stays in INIT. */
static void check_subnet(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n)
{
    struct muster_check *check = muster_doctor_begin_ports(
        doctor, n, "ib.subnet", "F60", "a subnet manager that configures every port");
    int infiniband = 0, waiting = 0;
    for (int i = 0; i < n; i++) {
        char state[32] = "";
        if (strcmp(port[i].layer, "InfiniBand") != 0)
            continue;
        infiniband++;
        muster_sysfs_line(doctor->sysfs, state, sizeof state, "class/infiniband/%s/ports/%s/state",
                          port[i].device, port[i].number);
        if (!strstr(state, "INIT"))
            continue;
        waiting++;
        muster_check_evidence(check, "%s port %s: %s", port[i].device, port[i].number, state);
    }
    if (n)
        muster_check_found(check, waiting      ? "ports that wait for a subnet manager"
                                  : infiniband ? "every port is configured"
                                               : "no InfiniBand port");
    if (waiting) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check, "start opensm, or look at the switch's subnet manager (sminfo)");
    }
}

long long muster_doctor_port_mtu(const struct muster_doctor *doctor,
                                 const struct muster_doctor_port *port, char *net)
{
    char pattern[PATH_MAX];
    glob_t found;
    long long mtu = 0;
    snprintf(pattern, sizeof pattern, "%s/class/infiniband/%.31s/device/net/*", doctor->sysfs,
             port->device);
    if (glob(pattern, 0, NULL, &found))
        return 0;
    if (found.gl_pathc > 0) {
        snprintf(net, 32, "%.31s", strrchr(found.gl_pathv[0], '/') + 1);
        mtu = muster_sysfs_number(doctor->sysfs, 0, "class/net/%s/mtu", net);
    }
    globfree(&found);
    return mtu;
}

static bool is_fast(const struct muster_doctor *doctor, const struct muster_doctor_port *port)
{
    return muster_sysfs_number(doctor->sysfs, 0, "class/infiniband/%s/ports/%s/rate", port->device,
                               port->number) *
               1000 >=
           FAST_MBPS;
}

static void check_frames(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n)
{
    struct muster_check *check = muster_doctor_begin_ports(
        doctor, n, "ib.frames", "F26,F60", "one MTU on all RoCE ports, of 4200 or more");
    long long first = 0;
    bool differs = false, small = false;
    char net[32] = "";
    for (int i = 0; i < n; i++) {
        long long mtu = strcmp(port[i].layer, "Ethernet") == 0
                            ? muster_doctor_port_mtu(doctor, &port[i], net)
                            : 0;
        if (mtu <= 0)
            continue;
        differs |= first && mtu != first;
        small |= mtu < ROCE_FRAME && is_fast(doctor, &port[i]);
        first = mtu;
        muster_check_evidence(check, "%s port %s: %s has MTU %lld", port[i].device, port[i].number,
                              net, mtu);
    }
    if (n)
        muster_check_found(check, differs ? "RoCE ports of different MTUs"
                                  : small ? "RoCE in small frames"
                                  : first ? "one MTU on all RoCE ports"
                                          : "no RoCE port whose MTU can be read");
    if (differs || small) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, differs
                                       ? "the same MTU on all ports, of this host and of others: "
                                         "RDMA between different ones fails or hangs"
                                       : "MTU 9000 on hosts and switches: at 1500 RoCE sends "
                                         "1024 bytes a packet");
    }
}

long long muster_doctor_downs(const struct muster_doctor *doctor,
                              const struct muster_doctor_port *port)
{
    return muster_sysfs_number(doctor->sysfs, 0,
                               "class/infiniband/%s/ports/%s/counters/link_downed", port->device,
                               port->number);
}

/* What goes down in a job ends it. */
static void check_flaps(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n)
{
    struct muster_check *check = muster_doctor_begin_ports(
        doctor, n, "ib.flaps", "F58", "links that stay up: link_downed below 3");
    if (n)
        muster_check_found(check, "no link that goes down again and again");
    for (int i = 0; i < n; i++) {
        long long down = muster_doctor_downs(doctor, &port[i]);
        if (down < MUSTER_DOCTOR_FLAPS)
            continue;
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "links that go down");
        muster_check_evidence(check,
                              "%s port %s: went down %lld times since its counters were reset",
                              port[i].device, port[i].number, down);
        muster_check_advice(check,
                            "cable, transceiver or switch port; until then NCCL_IB_TIMEOUT=22 "
                            "outlives short drops");
    }
}

static int load_work(void *arg, int fd, struct muster_err *err)
{
    return dlopen(arg, RTLD_NOW | RTLD_LOCAL) ? muster_bounded_write(fd, "ok", 2, err)
                                              : muster_fail(err, "%s", dlerror());
}

/* Whether it is here. */
static bool need_library(struct muster_check *check, const char *name, const char *package)
{
    struct muster_err err;
    size_t n;
    if (muster_library_ask(name, &err)) {
        muster_check_evidence(check, "%s", err.text);
        return true;
    }
    if (muster_bounded(name, load_work, (void *)(uintptr_t)name, LIBRARY_MS, NULL, &n, &err) == 0)
        return true;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "a library is missing that NCCL opens for RDMA");
    muster_check_evidence(check, "%s", err.text);
    muster_check_advice(check, "install %s here, in the container: NCCL uses TCP without a word",
                        package);
    return false;
}

/* Where installers put the plugin for libfabric, which no loader looks into by itself. */
static void find_plugin(const struct muster_doctor *doctor, struct muster_check *check)
{
    static const char *const folders[] = {"opt/amazon/ofi-nccl/lib", "opt/amazon/ofi-nccl/lib64",
                                          "opt/amazon/ofi-nccl/lib/*-linux-gnu",
                                          "opt/amazon/aws-ofi-nccl/lib", "opt/aws-ofi-nccl/lib"};
    char pattern[PATH_MAX];
    glob_t found;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s/libnccl-net*.so", doctor->root, folders[i]);
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        char *file = found.gl_pathv[0];
        muster_check_evidence(check, "%s is there, outside of the loader's path", file);
        muster_check_advice(
            check,
            "LD_LIBRARY_PATH=%.*s, on all hosts, or that folder in /etc/ld.so.conf.d; "
            "its dependencies (libhwloc, libfabric) besides",
            (int)(strrchr(file, '/') - file), file);
        globfree(&found);
        return;
    }
}

bool muster_doctor_is_efa(const struct muster_doctor *doctor, const char *device)
{
    char type[64] = "";
    muster_sysfs_line(doctor->sysfs, type, sizeof type, "class/infiniband/%s/node_type", device);
    return strncmp(device, "efa", 3) == 0 || strncmp(device, "rdmap", 5) == 0 ||
           strstr(type, "unspecified");
}

/* HPE's Slingshot, which has no RDMA devices: NCCL reaches it through libfabric alone. */
static int count_slingshot(const struct muster_doctor *doctor)
{
    return muster_doctor_entries(doctor->sysfs, "class/cxi");
}

bool muster_doctor_needs_net_plugin(const struct muster_doctor *doctor)
{
    struct muster_doctor_port port[MUSTER_DOCTOR_PORTS];
    int n = muster_doctor_list_ports(doctor, port);
    for (int i = 0; i < n; i++)
        if (muster_doctor_is_efa(doctor, port[i].device))
            return true;
    return count_slingshot(doctor) > 0;
}

static void check_libraries(struct muster_doctor *doctor, const struct muster_doctor_port *port,
                            int n)
{
    int slingshot = count_slingshot(doctor);
    struct muster_check *check =
        muster_doctor_begin_ports(doctor, n + slingshot, "ib.libraries", "F63",
                                  "libibverbs and what the devices need besides");
    bool fabric = slingshot > 0, mlx5 = false;
    if (n + slingshot == 0)
        return;
    muster_check_found(check, "what NCCL opens for RDMA is here");
    for (int i = 0; i < n; i++) {
        fabric |= muster_doctor_is_efa(doctor, port[i].device);
        mlx5 |= strncmp(port[i].device, "mlx5", 4) == 0;
    }
    if (n > 0)
        need_library(check, "libibverbs.so.1", "libibverbs1");
    if (mlx5)
        need_library(check, "libmlx5.so.1", "ibverbs-providers");
    if (fabric) {
        need_library(check, "libfabric.so.1", slingshot ? "HPE's libfabric" : "the EFA installer");
        if (!muster_env("NCCL_NET_PLUGIN") &&
            !need_library(check, "libnccl-net.so", "aws-ofi-nccl"))
            find_plugin(doctor, check);
    }
}

void muster_doctor_ports(struct muster_doctor *doctor)
{
    struct muster_doctor_port port[MUSTER_DOCTOR_PORTS];
    int n = muster_doctor_list_ports(doctor, port);
    check_subnet(doctor, port, n);
    check_frames(doctor, port, n);
    muster_doctor_roce(doctor, port, n);
    check_flaps(doctor, port, n);
    muster_doctor_loss(doctor, port, n);
    muster_doctor_netns(doctor, port, n);
    check_libraries(doctor, port, n);
}
