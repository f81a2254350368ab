/* Which RDMA ports NCCL will take, by NCCL_IB_HCA or without it: from sysfs alone. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/rdma/doctor_ports.h"
#include "topology/sysfs.h"

#define PORT "class/infiniband/%s/ports/%u/" /* of a device and a number */

enum { PORTS_MAX = 64 };

struct port {
    char device[32];
    unsigned number;
    double gbs; /* 10^9 bits a second; 0: unknown */
    bool active, ethernet;
};

struct ports {
    struct port at[PORTS_MAX];
    int n;
};

static void add_port(const struct muster_doctor *doctor, struct ports *ports, const char *device,
                     unsigned number)
{
    char text[64];
    struct port *port = &ports->at[ports->n++];
    *port = (struct port){.number = number};
    snprintf(port->device, sizeof port->device, "%.31s", device);
    muster_sysfs_line(doctor->sysfs, text, sizeof text, PORT "state", device, number);
    port->active = strstr(text, "ACTIVE") != NULL;
    muster_sysfs_line(doctor->sysfs, text, sizeof text, PORT "link_layer", device, number);
    port->ethernet = strcmp(text, "Ethernet") == 0;
    if (muster_sysfs_line(doctor->sysfs, text, sizeof text, PORT "rate", device, number))
        port->gbs = strtod(text, NULL);
}

static void read_ports(const struct muster_doctor *doctor, struct ports *ports)
{
    char path[PATH_MAX], text[8];
    ports->n = 0;
    snprintf(path, sizeof path, "%s/class/infiniband", doctor->sysfs);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        for (unsigned number = 1; entry->d_name[0] != '.' && number < 3; number++)
            if (ports->n < PORTS_MAX && muster_sysfs_line(doctor->sysfs, text, sizeof text,
                                                          PORT "state", entry->d_name, number))
                add_port(doctor, ports, entry->d_name, number);
    if (dir)
        closedir(dir);
}

/* NCCL's rule: prefixes, or whole names after "=", each with a port or not; "^" turns it round. */
static bool names_port(const char *list, const struct port *port)
{
    bool turned = *list == '^', exact, hit = false;
    list += turned;
    exact = *list == '=';
    list += exact;
    while (*list) {
        size_t n = strcspn(list, ","), name = strcspn(list, ",:");
        bool same = exact ? strlen(port->device) == name : strlen(port->device) >= name;
        unsigned long number = list[name] == ':' ? strtoul(list + name + 1, NULL, 10) : 0;
        hit |= same && name && strncmp(port->device, list, name) == 0 &&
               (number == 0 || number == port->number);
        list += n + (list[n] == ',');
    }
    return hit != turned;
}

bool muster_doctor_takes_port(const struct muster_doctor *doctor,
                              const struct muster_doctor_port *port)
{
    const char *list = muster_doctor_variable(doctor, "NCCL_IB_HCA", NULL);
    struct port is = {.number = (unsigned)strtoul(port->number, NULL, 10)};
    snprintf(is.device, sizeof is.device, "%.31s", port->device);
    return muster_doctor_uses_rdma(doctor) && (!list || !*list || names_port(list, &is));
}

/* "mlx5_1" spelt out where there is an mlx5_10, too. */
static const struct port *taken_by_prefix(const char *list, const struct ports *ports)
{
    for (int i = 0; i < ports->n && *list != '=' && *list != '^'; i++)
        for (int j = 0; j < ports->n; j++) {
            const char *name = ports->at[i].device, *spelt = strstr(list, name);
            size_t n = strlen(name);
            char behind = 'x';
            if (spelt)
                behind = spelt[n];
            if ((behind == '\0' || behind == ',' || behind == ':') &&
                strlen(ports->at[j].device) > n && strncmp(ports->at[j].device, name, n) == 0)
                return &ports->at[j];
        }
    return NULL;
}

static void evaluate_given(struct muster_check *check, const struct ports *ports, const char *list)
{
    int taken = 0, active = 0, all = 0;
    for (int i = 0; i < ports->n; i++) {
        bool named = names_port(list, &ports->at[i]);
        taken += named;
        active += named && ports->at[i].active;
        all += ports->at[i].active;
    }
    const struct port *more = taken_by_prefix(list, ports);
    if (active == 0) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "NCCL_IB_HCA=%.80s names no %s: NCCL uses TCP", list,
                           taken ? "port that is up" : "device of this host");
        for (int i = 0; i < ports->n; i++)
            muster_check_evidence(check, "this host has %s port %u%s", ports->at[i].device,
                                  ports->at[i].number,
                                  ports->at[i].active ? "" : ", which is down");
        muster_check_advice(check, "name devices as /sys/class/infiniband has them, or unset it");
    } else if (more) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "NCCL_IB_HCA also takes %s, which it does not name",
                           more->device);
        muster_check_advice(check, "put = before the names: =%.100s", list);
    } else if (active < all) {
        muster_check_suspect(check, "NCCL_IB_HCA takes %d of the %d RDMA ports that are up", active,
                             all);
        muster_check_advice(check, "are the others of another network? Else name all, or unset it");
    }
}

/* Queue pairs of iWARP are connected by another protocol than NCCL's. */
static bool is_iwarp(const struct muster_doctor *doctor, const struct port *port)
{
    char type[64] = "";
    return muster_sysfs_line(doctor->sysfs, type, sizeof type, "class/infiniband/%s/node_type",
                             port->device) &&
           strstr(type, "RNIC");
}

static bool has_prefix(const struct port *port, const char *prefix)
{
    return strncmp(port->device, prefix, strlen(prefix)) == 0;
}

/* Devices with verbs that NCCL takes, though it was not made for them. */
static void evaluate_kind(const struct muster_doctor *doctor, struct muster_check *check,
                          const struct port *port)
{
    if (is_iwarp(doctor, port) && muster_doctor_several_hosts()) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "NCCL takes %s, an iWARP card, with which it cannot connect",
                           port->device);
        muster_check_advice(check,
                            "RoCE in place of iWARP (irdma: roce_ena=1), else "
                            "NCCL_IB_HCA=^%s, or NCCL_IB_DISABLE=1",
                            port->device);
    } else if (has_prefix(port, "hfi1") || has_prefix(port, "opa")) {
        muster_check_suspect(check,
                             "NCCL takes %s, Omni-Path, by verbs that its driver makes in software",
                             port->device);
        muster_check_advice(check,
                            "NCCL_IB_DISABLE=1 (sockets by the card's IP interface) shows "
                            "whether it is that; NCCL has a plugin for Omni-Path (psm2-nccl)");
    } else if (has_prefix(port, "rxe") || has_prefix(port, "siw")) {
        muster_check_suspect(check, "NCCL takes %s, RDMA that the kernel makes in software",
                             port->device);
        muster_check_advice(check, "NCCL_IB_HCA=^%s, or NCCL_IB_DISABLE=1", port->device);
    }
}

/* As boards with NVSwitches have some for their own management, and hosts some for storage. */
static void suspect_beside_efa(const struct muster_doctor *doctor, struct muster_check *check,
                               const struct ports *ports)
{
    const struct port *other = NULL;
    int efa = 0;
    for (int i = 0; i < ports->n; i++) {
        bool is_efa = muster_doctor_is_efa(doctor, ports->at[i].device);
        efa += is_efa;
        other = !is_efa && ports->at[i].active ? &ports->at[i] : other;
    }
    if (!efa || !other)
        return;
    muster_check_suspect(check,
                         "%s, which is none of EFA's, stands beside EFA's devices: libfabric or "
                         "NCCL may take it in their place",
                         other->device);
    muster_check_advice(check, "give a container EFA's devices alone (vpc.amazonaws.com/efa of the "
                               "device plugin, no hostPath of /dev/infiniband); else "
                               "FI_PROVIDER=efa and NCCL_NET=\"AWS Libfabric\"");
}

/* What is named by NCCL_IB_HCA, or all. */
static void evaluate_kinds(const struct muster_doctor *doctor, struct muster_check *check,
                           const struct ports *ports, const char *list)
{
    if (!list)
        suspect_beside_efa(doctor, check, ports);
    for (int i = 0; i < ports->n && check->status == MUSTER_CHECK_OK && !check->suspect[0]; i++)
        if (ports->at[i].active && (!list || names_port(list, &ports->at[i])))
            evaluate_kind(doctor, check, &ports->at[i]);
}

/* Ports for storage or management beside those of the fabric: NCCL takes them all. */
static void suspect_mixed(struct muster_check *check, const struct ports *ports)
{
    double least = 0, most = 0;
    int ethernet = 0, active = 0;
    for (int i = 0; i < ports->n; i++) {
        const struct port *port = &ports->at[i];
        if (!port->active)
            continue;
        active++;
        ethernet += port->ethernet;
        least = port->gbs > 0 && (least <= 0 || port->gbs < least) ? port->gbs : least;
        most = port->gbs > most ? port->gbs : most;
    }
    if (ethernet && ethernet < active)
        muster_check_suspect(check, "NCCL takes InfiniBand and RoCE ports together: %d and %d",
                             active - ethernet, ethernet);
    else if (least > 0 && most >= 2 * least)
        muster_check_suspect(check, "NCCL takes RDMA ports of %.0f and of %.0f Gb/s together",
                             least, most);
    if (check->suspect[0])
        muster_check_advice(check, "name those of the job's fabric in NCCL_IB_HCA (with =), on all "
                                   "hosts");
}

/* Whether `other` has the name of `port` in a further PCI domain: rocep1s0f0 and roceP2p1s0f0, as
 * of boards with two PCIe connections for one card (DGX Spark). */
static bool is_other_half(const struct port *port, const struct port *other)
{
    static const char family[] = "roce";
    const size_t n = sizeof family - 1;
    const char *domain = other->device + n;
    if (strncmp(port->device, family, n) != 0 || strncmp(other->device, "roceP", n + 1) != 0)
        return false;
    domain += 1 + strspn(domain + 1, "0123456789");
    return strcmp(port->device + n, domain) == 0;
}

static void suspect_halves(struct muster_check *check, const struct ports *ports)
{
    for (int i = 0; i < ports->n; i++)
        for (int j = 0; j < ports->n; j++) {
            const struct port *a = &ports->at[i], *b = &ports->at[j];
            if (!a->active || !b->active || !is_other_half(a, b))
                continue;
            muster_check_suspect(check,
                                 "%s and %s may be one socket for a cable: each reaches its card "
                                 "by a PCIe connection of half the rate",
                                 a->device, b->device);
            muster_check_advice(check,
                                "NCCL_IB_HCA==%s,%s on all hosts, with an address of an own "
                                "subnet for each; the log has both behind NET/IB",
                                a->device, b->device);
            check->suspect_of = "slow_transfer";
            return;
        }
}

static void evaluate_pkey(const struct muster_doctor *doctor, struct muster_check *check,
                          const struct ports *ports)
{
    const char *given = muster_env("NCCL_IB_PKEY");
    uint64_t index;
    if (!given || !muster_text_u64(given, &index) || index > 127)
        return;
    for (int i = 0; i < ports->n; i++) {
        char key[32] = "";
        const struct port *port = &ports->at[i];
        bool there = muster_sysfs_line(doctor->sysfs, key, sizeof key, PORT "pkeys/%u",
                                       port->device, port->number, (unsigned)index);
        if (port->ethernet || !port->active || (there && strcmp(key, "0x0000") != 0))
            continue;
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "NCCL_IB_PKEY=%s: that place of the partition table is empty",
                           given);
        muster_check_evidence(check, "%s port %u", port->device, port->number);
        muster_check_advice(check, "NCCL_IB_PKEY is an index, not a key: see "
                                   "/sys/class/infiniband/*/ports/*/pkeys");
    }
}

static void evaluate_asked(struct muster_check *check, const struct ports *ports)
{
    const char *net = muster_env("NCCL_NET");
    if (ports->n || !net || strcmp(net, "IB") != 0)
        return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "NCCL_NET=IB, and this host shows no RDMA device: init fails");
    muster_check_advice(check, "give the host or container its devices, or unset NCCL_NET");
}

void muster_doctor_hca(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "ib.hca", "F60,F63");
    const char *list = muster_doctor_variable(doctor, "NCCL_IB_HCA", NULL);
    struct ports *ports = muster_arena_array(doctor->memory, 1, sizeof *ports);
    if (!ports)
        return;
    read_ports(doctor, ports);
    muster_check_expected(check, "ports of one network, that are up");
    evaluate_asked(check, ports);
    if (ports->n == 0) {
        if (check->status == MUSTER_CHECK_OK)
            muster_check_unchecked(check, "no RDMA device");
        return;
    }
    muster_check_found(check, "nothing against NCCL's choice of ports");
    if (!muster_doctor_uses_rdma(doctor))
        return;
    if (list && !*list)
        list = NULL;
    evaluate_kinds(doctor, check, ports, list);
    if (list)
        evaluate_given(check, ports, list);
    else if (!check->suspect[0] && check->status == MUSTER_CHECK_OK)
        suspect_mixed(check, ports);
    if (!list && !check->suspect[0] && check->status == MUSTER_CHECK_OK)
        suspect_halves(check, ports);
    evaluate_pkey(doctor, check, ports);
}
