/* Interfaces, addresses and ports that the job's set-up will use. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "topology/interfaces.h"
#include "topology/sysfs.h"

/* Of the host that MUSTER_PROCFS is from; false: its files do not show it. */
static bool read_recorded(const struct muster_doctor *doctor, struct muster_interfaces *interfaces)
{
    enum { DEV, ROUTE, TRIE, INET6, FILES };
    static const char *const names[FILES] = {"net/dev", "net/route", "net/fib_trie",
                                             "net/if_inet6"};
    char *text[FILES] = {NULL}, state[32];
    bool ok = !muster_doctor_is_live(doctor);
    for (int i = 0; i < FILES && ok; i++) {
        text[i] = muster_doctor_room(doctor);
        ok = text[i] && (muster_doctor_read_proc(doctor, names[i], text[i]) || i == INET6);
    }
    if (ok) {
        const struct muster_proc_net net = {text[DEV], text[ROUTE], text[TRIE], text[INET6]};
        muster_interfaces_from_proc(&net, interfaces);
    }
    for (int i = 0; ok && i < interfaces->n; i++) {
        muster_sysfs_line(doctor->sysfs, state, sizeof state, "class/net/%s/operstate",
                          interfaces->at[i].name);
        bool lo = strcmp(interfaces->at[i].name, "lo") == 0;
        interfaces->at[i].flags =
            (strcmp(state, "down") ? IFF_UP | IFF_RUNNING : IFF_UP) | (lo ? IFF_LOOPBACK : 0u);
    }
    return ok;
}

static int read_interfaces(const struct muster_doctor *doctor, struct muster_interfaces *interfaces)
{
    char path[PATH_MAX];
    if (!read_recorded(doctor, interfaces) && muster_interfaces_read(interfaces))
        return -1;
    for (int i = 0; i < interfaces->n; i++) {
        struct muster_interface *at = &interfaces->at[i];
        snprintf(path, sizeof path, "%s/devices/virtual/net/%s", doctor->sysfs, at->name);
        at->is_virtual = access(path, F_OK) == 0;
        at->mtu = (unsigned)muster_sysfs_number(doctor->sysfs, 0, "class/net/%s/mtu", at->name);
    }
    return 0;
}

void muster_doctor_address(const struct muster_interface *interface, char *text, size_t size)
{
    char address[INET6_ADDRSTRLEN] = "?";
    inet_ntop(interface->family, &interface->address, address, sizeof address);
    if (interface->name[0])
        snprintf(text, size, "%s %s/%u", interface->name, address, interface->prefix);
    else
        snprintf(text, size, "%s", address);
}

/* A container's namespace holds nothing but virtual interfaces, and these are the right ones. */
static bool has_real(const struct muster_interfaces *interfaces)
{
    for (int i = 0; i < interfaces->n; i++)
        if (!interfaces->at[i].is_virtual && interfaces->at[i].flags & IFF_RUNNING)
            return true;
    return false;
}

/* Networks of containers and private networks, whose names have dots and prefixes of others. */
static bool is_overlay(const char *name)
{
    static const char *const prefixes[] = {"flannel", "cali", "cilium", "weave", "vxlan",
                                           "lxc",     "kube", "vnet",   "veth"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* As docker calls the bridges of its networks, br- and twelve digits, and libvirt its own. */
static bool is_bridges_name(const char *name)
{
    static const char digits[] = "0123456789abcdef";
    if (strncmp(name, "virbr", 5) == 0)
        return true;
    return strncmp(name, "br-", 3) == 0 && strlen(name) == 15 && strspn(name + 3, digits) == 12;
}

/* A bridge, a veth or a tunnel; bonds and their like are as good as what they are made of. */
static bool is_odd(const struct muster_interface *at)
{
    if (is_bridges_name(at->name))
        return true;
    if (is_overlay(at->name))
        return at->is_virtual;
    return at->is_virtual && strncmp(at->name, "bond", 4) != 0 &&
           strncmp(at->name, "team", 4) != 0 && strncmp(at->name, "vlan", 4) != 0 &&
           strncmp(at->name, "ib", 2) != 0 && !strchr(at->name, '.');
}

/* lo carries a job of one host; who names it means it. */
static bool is_meant(struct muster_check *check, const char *ifname)
{
    if (!muster_doctor_one_host() && (!ifname || *ifname == '^'))
        return false;
    muster_check_evidence(check, "lo carries a job of one host, and reaches no other");
    if (muster_doctor_one_host())
        return true;
    muster_check_suspect(check, "NCCL_SOCKET_IFNAME=%.60s takes lo, which reaches no other host",
                         ifname);
    muster_check_advice(check, "in a job of several hosts name the interface between them in "
                               "NCCL_SOCKET_IFNAME");
    check->suspect_of = "init_error hang_absent";
    check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
    return true;
}

static void evaluate_chosen(struct muster_check *check, const struct muster_interfaces *interfaces,
                            const struct muster_interface *first, const char *ifname)
{
    bool several_hosts = muster_doctor_several_hosts();
    if (muster_interfaces_loopback(first)) {
        if (!several_hosts && is_meant(check, ifname))
            return;
        muster_check_worse(check, several_hosts ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
        muster_check_advice(check, "lo reaches no other host: name the right interface in "
                                   "NCCL_SOCKET_IFNAME, or unset it (^docker0 alone lets lo in, "
                                   "which stands first: ^docker,lo); NCCL leaves both out by "
                                   "itself");
    } else if (muster_interfaces_link_local(first)) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "a link-local address is not routed: name the right interface "
                                   "in NCCL_SOCKET_IFNAME");
    } else if (is_odd(first) && has_real(interfaces)) {
        muster_check_worse(check, several_hosts ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
        muster_check_advice(check,
                            "%s is a virtual interface (bridge, veth, tunnel): other hosts may "
                            "not reach it; name the right one in NCCL_SOCKET_IFNAME",
                            first->name);
    }
}

/* A list of what is left out takes lo first, as it takes everything else: NCCL's own list of last
 * resorts does not count beside it. */
static void evaluate_excluded(struct muster_check *check, const struct muster_interface *first,
                              const char *ifname, const char *from)
{
    if (!muster_interfaces_loopback(first) || !ifname || *ifname != '^')
        return;
    muster_check_found(check, "%s, which NCCL_SOCKET_IFNAME=%.100s does not leave out", first->name,
                       ifname);
    if (*from)
        muster_check_advice(check,
                            "in %.200s write NCCL_SOCKET_IFNAME=^docker,lo, or delete the line: "
                            "NCCL leaves both out by itself, and lo, which stands first, reaches "
                            "no other host",
                            from);
}

/* Networks that containers get which ask for none; on each host another one, of the same addresses.
 */
static const struct own_network {
    uint8_t address[2]; /* of 16 bits */
    const char *of;
} own_networks[] = {{{172, 17}, "docker"}, {{10, 88}, "podman"}};

/* Whose own network the interface is in; NULL: nobody's, or not known. */
static const char *own_network_of(const struct muster_doctor *doctor,
                                  const struct muster_interface *at)
{
    if (at->family != AF_INET || !muster_doctor_container(doctor) ||
        getenv("KUBERNETES_SERVICE_HOST"))
        return NULL;
    for (size_t i = 0; i < sizeof own_networks / sizeof *own_networks; i++)
        if (at->prefix == 16 && memcmp(&at->address, own_networks[i].address, 2) == 0)
            return own_networks[i].of;
    return NULL;
}

static void evaluate_bridge(const struct muster_doctor *doctor, struct muster_check *check,
                            const struct muster_interface *first)
{
    const char *of = own_network_of(doctor, first);
    if (check->status != MUSTER_CHECK_OK || !muster_doctor_several_hosts() || !of)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check, "%s is in %s's own network, which other hosts do not reach",
                       first->name, of);
    muster_check_advice(check,
                        "docker, podman: --network=host, or an overlay network of all hosts");
}

/* NCCL's sockets take all that is neither docker's nor lo: hosts of containers have veths besides.
 */
static void suspect_further(struct muster_check *check, const struct muster_interfaces *interfaces,
                            const struct muster_interface *at, bool several_hosts)
{
    if (check->suspect[0])
        return;
    if (several_hosts && at->family == AF_INET && muster_interfaces_link_local(at)) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "NCCL's data also takes %s, whose address no other host reaches",
                           at->name);
        muster_check_advice(check,
                            "NCCL_SOCKET_IFNAME=^docker,lo,%s, or the name of the interface "
                            "that other hosts reach",
                            at->name);
        return;
    }
    if (!is_odd(at) || !has_real(interfaces))
        return;
    muster_check_suspect(check,
                         "NCCL's data also takes %s, a virtual interface that leads to no "
                         "other host",
                         at->name);
    muster_check_advice(check, "name the interface that other hosts reach in NCCL_SOCKET_IFNAME");
}

/* Whether one of them lies in the other's network: their masks may differ. */
static bool share_network(const struct muster_interface *a, const struct muster_interface *b)
{
    return muster_interfaces_same_subnet(a, b) || muster_interfaces_same_subnet(b, a);
}

/* Nobody named one: the first by name may be there for something else. */
static void suspect_another_network(const struct muster_doctor *doctor, struct muster_check *check,
                                    const struct muster_interfaces *interfaces,
                                    const struct muster_choice *choice)
{
    const struct muster_interface *first = &interfaces->at[choice->at[0]];
    if (check->suspect[0] || check->status != MUSTER_CHECK_OK || !muster_doctor_several_hosts() ||
        muster_doctor_variable(doctor, "NCCL_SOCKET_IFNAME", NULL) ||
        muster_doctor_uses_rdma(doctor))
        return;
    for (int i = 1; i < choice->n; i++) {
        const struct muster_interface *at = &interfaces->at[choice->at[i]];
        if (at->is_virtual || at->family != first->family || share_network(first, at))
            continue;
        muster_check_suspect(check,
                             "hosts meet at %s, the first by name, and %s is in another network: "
                             "one of them may not lead to the other hosts",
                             first->name, at->name);
        muster_check_advice(check,
                            "NCCL_SOCKET_IFNAME=%s, or %s, whichever all hosts reach; "
                            "`muster doctor --hosts` tries both",
                            at->name, first->name);
        check->suspect_of = "init_error hang_stuck hang_absent";
        check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
        return;
    }
}

/* 10^6 bits a second, as its driver reports; 0: unknown, or down. */
static long long speed_of(const struct muster_doctor *doctor, const char *name)
{
    long long speed = muster_sysfs_number(doctor->sysfs, 0, "class/net/%s/speed", name);
    return speed > 0 && speed < 10000000 ? speed : 0;
}

bool muster_doctor_uses_rdma(const struct muster_doctor *doctor)
{
    const char *net = muster_doctor_variable(doctor, "NCCL_NET", NULL);
    const char *off = muster_doctor_variable(doctor, "NCCL_IB_DISABLE", NULL);
    return muster_doctor_entries(doctor->sysfs, "class/infiniband") > 0 &&
           !(off && strcmp(off, "1") == 0) && !(net && strcasecmp(net, "Socket") == 0);
}

/* As management networks are slower than what data should take; RDMA takes its own ports. */
static void evaluate_speed(const struct muster_doctor *doctor, struct muster_check *check,
                           const struct muster_interfaces *interfaces, int chosen)
{
    enum { MUCH_FASTER = 8, SLOW_MBPS = 1000 };
    const struct muster_interface *first = &interfaces->at[chosen];
    long long own = speed_of(doctor, first->name), best = 0;
    const char *name = "";
    for (int i = 0; i < interfaces->n; i++)
        if (!interfaces->at[i].is_virtual && interfaces->at[i].flags & IFF_RUNNING &&
            speed_of(doctor, interfaces->at[i].name) > best) {
            best = speed_of(doctor, interfaces->at[i].name);
            name = interfaces->at[i].name;
        }
    if (own)
        muster_check_evidence(check, "%s: %lld Mb/s", first->name, own);
    if (muster_doctor_uses_rdma(doctor) || !muster_doctor_several_hosts() ||
        check->status != MUSTER_CHECK_OK)
        return;
    if (own && best >= MUCH_FASTER * own) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "NCCL's data goes over %s at %lld Mb/s, and %s has %lld",
                           first->name, own, name, best);
        muster_check_advice(check, "NCCL_SOCKET_IFNAME=%s on all hosts, or RDMA", name);
    } else if ((own && own <= SLOW_MBPS) || strncmp(first->name, "wl", 2) == 0) {
        muster_check_suspect(check, "NCCL's data goes over %s, which is slow", first->name);
        muster_check_advice(check,
                            "a faster network between the hosts: gradients of a large model take "
                            "minutes over this one");
    }
}

/* What most often stops a job of several hosts, and what one host alone cannot rule out. */
static void suspect_meeting(const struct muster_doctor *doctor, struct muster_check *check,
                            const char *meeting)
{
    const char *given = doctor->symptoms;
    bool rdma = muster_doctor_uses_rdma(doctor);
    if (!given || check->suspect[0] || check->status != MUSTER_CHECK_OK ||
        !muster_doctor_several_hosts() ||
        !(strstr(given, "init_error") || strstr(given, "hang_stuck") ||
          strstr(given, "hang_absent")))
        return;
    muster_check_suspect(check,
                         "hosts meet at %s: one host alone does not show whether all others reach "
                         "it there, on every port%s, nor whether they have the same NCCL",
                         meeting, rdma ? " and by RDMA" : "");
    muster_check_advice(check,
                        "`muster doctor --hosts` tries all pairs and ports, and compares "
                        "NCCL, drivers and variables. Else %sthe same NCCL on all; open all "
                        "ports between the hosts (firewall, security group), not "
                        "MASTER_PORT alone; NCCL_SOCKET_IFNAME of the interface between "
                        "them, on all; containers with --network=host",
                        rdma ? "NCCL_IB_DISABLE=1 shows whether it is RDMA; " : "");
    check->suspect_of = "init_error hang_stuck hang_absent";
    check->suspect_weight = 1;
    check->suspect_blind = true;
}

/* As most hosts: worth a look where a job is slow and nothing else is seen. */
static void suspect_no_rdma(const struct muster_doctor *doctor, struct muster_check *check,
                            const char *name)
{
    long long mbps = speed_of(doctor, name);
    char speed[48] = "";
    if (check->suspect[0] || check->status != MUSTER_CHECK_OK || !muster_doctor_several_hosts() ||
        muster_doctor_uses_rdma(doctor) || muster_doctor_needs_net_plugin(doctor))
        return;
    if (mbps)
        snprintf(speed, sizeof speed, " at %lld Gb/s", mbps / 1000);
    muster_check_suspect(check, "hosts exchange data by sockets over %s%s: %s", name, speed,
                         muster_doctor_entries(doctor->sysfs, "class/infiniband") > 0
                             ? "RDMA is switched off"
                             : "no RDMA (InfiniBand, RoCE, EFA) is seen here");
    muster_check_advice(check, "hosts with RDMA, or its devices in the container "
                               "(/dev/infiniband, libibverbs); else fewer bytes between hosts: "
                               "sharding inside of a host, gradients over more steps, "
                               "NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD above 25 Gb/s");
    check->suspect_of = "slow_transfer";
}

static void check_choice(struct muster_doctor *doctor, const struct muster_interfaces *interfaces)
{
    struct muster_choice choice;
    const char *from, *ifname = muster_doctor_variable(doctor, "NCCL_SOCKET_IFNAME", &from);
    char text[96];
    struct muster_check *check =
        muster_check_begin(doctor->checks, "net.interface", "F19,F20,F21,F24");
    muster_doctor_choose(doctor, interfaces, &choice);
    muster_check_expected(check, "an interface that the other hosts reach");
    if (choice.n == 0) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "no interface%s%s: NCCL fails at init",
                           ifname ? " for NCCL_SOCKET_IFNAME=" : "", ifname ? ifname : "");
        muster_check_advice(check, "unset NCCL_SOCKET_IFNAME, or name one of this host's");
        for (int i = 0; i < interfaces->n; i++)
            if (interfaces->at[i].flags & IFF_RUNNING) {
                muster_doctor_address(&interfaces->at[i], text, sizeof text);
                muster_check_evidence(check, "this host has %s", text);
            }
    } else {
        muster_doctor_address(&interfaces->at[choice.at[0]], text, sizeof text);
        muster_check_found(check, "%s (%s)", interfaces->at[choice.at[0]].name,
                           muster_interfaces_why(choice.why));
        muster_check_evidence(check, "bootstrap: %s", text);
        if (*from)
            muster_check_evidence(check, "NCCL_SOCKET_IFNAME=%.100s is set in %s", ifname, from);
        for (int i = 1; i < choice.n; i++) {
            muster_doctor_address(&interfaces->at[choice.at[i]], text, sizeof text);
            muster_check_evidence(check, "also for data without RDMA: %s", text);
            suspect_further(check, interfaces, &interfaces->at[choice.at[i]],
                            muster_doctor_several_hosts());
        }
        evaluate_chosen(check, interfaces, &interfaces->at[choice.at[0]], ifname);
        evaluate_excluded(check, &interfaces->at[choice.at[0]], ifname, from);
        evaluate_bridge(doctor, check, &interfaces->at[choice.at[0]]);
        evaluate_speed(doctor, check, interfaces, choice.at[0]);
        suspect_another_network(doctor, check, interfaces, &choice);
        muster_doctor_address(&interfaces->at[choice.at[0]], text, sizeof text);
        suspect_meeting(doctor, check, text);
        suspect_no_rdma(doctor, check, interfaces->at[choice.at[0]].name);
    }
    for (int i = 0; i < interfaces->n; i++)
        if (!(interfaces->at[i].flags & IFF_RUNNING)) {
            muster_doctor_address(&interfaces->at[i], text, sizeof text);
            muster_check_evidence(check, "not running, left out: %s", text);
        }
}

/* A container's frames that are larger than what its host, or an overlay below it, lets through. */
static void suspect_mtu(const struct muster_doctor *doctor, struct muster_check *check,
                        const struct muster_interfaces *interfaces,
                        const struct muster_interface *chosen)
{
    for (int i = 0; i < interfaces->n; i++) {
        const struct muster_interface *at = &interfaces->at[i];
        if (!is_odd(at) || muster_interfaces_loopback(at) || at->mtu <= chosen->mtu || !chosen->mtu)
            continue;
        muster_check_suspect(check, "%s has MTU %u, and %s, below it, %u", at->name, at->mtu,
                             chosen->name, chosen->mtu);
        muster_check_advice(check, "docker: \"mtu\" in daemon.json, at most the interface's own");
        return;
    }
    if (muster_doctor_container(doctor) && chosen->is_virtual && chosen->mtu >= 1500) {
        muster_check_suspect(check,
                             "a container's interface with MTU %u: an overlay or a cloud's "
                             "network below it may let less through",
                             chosen->mtu);
        muster_check_advice(check, "muster doctor --hosts sends full frames between the hosts "
                                   "(hosts.frames)");
    }
}

/* For `compare`: what is too large for another host on the way is lost without a word. */
static void check_mtu(struct muster_doctor *doctor, const struct muster_interfaces *interfaces)
{
    struct muster_choice choice;
    char list[128];
    struct muster_text text = muster_text_begin(list, sizeof list);
    struct muster_check *check = muster_check_begin(doctor->checks, "net.mtu", "F26");
    muster_check_expected(check, "the same on every host, and all the way between them (needs the "
                                 "other hosts: not checked)");
    muster_doctor_choose(doctor, interfaces, &choice);
    for (int i = 0; i < choice.n; i++) {
        const struct muster_interface *at = &interfaces->at[choice.at[i]];
        if (at->mtu)
            muster_text_add(&text, "%s%u", text.used ? ", " : "", at->mtu);
    }
    if (*list)
        muster_check_found(check, "MTU %s", list);
    if (choice.n)
        suspect_mtu(doctor, check, interfaces, &interfaces->at[choice.at[0]]);
    if (!*list)
        muster_check_unchecked(check, "no interface with an MTU that can be read");
}

static void check_pattern(struct muster_doctor *doctor, const struct muster_interfaces *interfaces)
{
    const char *ifname = muster_doctor_variable(doctor, "NCCL_SOCKET_IFNAME", NULL);
    struct muster_check *check = muster_check_begin(doctor->checks, "net.pattern", "F22");
    muster_check_expected(check, "a pattern that takes only what it names");
    for (int i = 0; ifname && i < interfaces->n; i++)
        if (interfaces->at[i].family == AF_INET &&
            muster_interfaces_by_prefix(ifname, interfaces->at[i].name)) {
            muster_check_evidence(check, "NCCL_SOCKET_IFNAME=%s also takes %s", ifname,
                                  interfaces->at[i].name);
        }
    muster_check_found(check,
                       check->evidences > 1 ? "the pattern takes %d interfaces by prefix"
                                            : "nothing unexpected",
                       check->evidences);
    if (check->evidences > 1) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "put = before the name: =%s", ifname);
    }
}

static void check_subnets(struct muster_doctor *doctor, const struct muster_interfaces *interfaces)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.subnet", "F23");
    char a[96], b[96];
    muster_check_expected(check, "one interface a subnet");
    for (int i = 0; i < interfaces->n; i++)
        for (int j = i + 1; j < interfaces->n; j++) {
            const struct muster_interface *x = &interfaces->at[i], *y = &interfaces->at[j];
            if (strcmp(x->name, y->name) == 0 || x->family != AF_INET || y->family != AF_INET ||
                muster_interfaces_link_local(x) || x->prefix >= 32 || y->prefix >= 32 ||
                !muster_interfaces_same_subnet(x, y) || x->prefix != y->prefix)
                continue;
            muster_doctor_address(x, a, sizeof a);
            muster_doctor_address(y, b, sizeof b);
            muster_check_evidence(check, "%s and %s", a, b);
        }
    muster_check_found(check, "%s", check->evidences ? "interfaces share a subnet" : "none shared");
    if (check->evidences) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check,
                            "the kernel sends through either: separate subnets, or routes by "
                            "source address");
    }
}

static void check_ports(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.ports", "F25");
    char range[64];
    unsigned low, high;
    if (!muster_sysfs_line(doctor->procfs, range, sizeof range,
                           "sys/net/ipv4/ip_local_port_range") ||
        sscanf(range, "%u %u", &low, &high) != 2) {
        muster_check_unchecked(check, "ip_local_port_range cannot be read");
        return;
    }
    muster_check_found(check, "NCCL will listen on ports %u to %u", low, high);
    muster_check_expected(check, "open between all hosts, both ways (needs the other hosts: not "
                                 "checked)");
    if (high < low || high - low < 1000) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "a large job needs more ports");
    }
    const char *port = getenv("MASTER_PORT");
    uint64_t number;
    bool launcher_took_it =
        muster_env("TORCHELASTIC_RUN_ID") != NULL; /* torchrun: one that is free */
    if (!port || launcher_took_it || !muster_text_u64(port, &number) || number < low ||
        number > high)
        return;
    muster_check_suspect(check,
                         "MASTER_PORT=%.8s is one that the kernel gives to connections (%u to %u): "
                         "any process may have it when the job starts",
                         port, low, high);
    muster_check_advice(check, "a MASTER_PORT below %u", low);
    check->suspect_of = "init_error"; /* whoever finds it taken fails, and waits for nobody */
    check->suspect_weight = 6;
}

struct muster_interfaces *muster_doctor_interfaces(const struct muster_doctor *doctor)
{
    struct muster_interfaces *interfaces =
        muster_arena_array(doctor->memory, 1, sizeof *interfaces);
    return interfaces && read_interfaces(doctor, interfaces) == 0 ? interfaces : NULL;
}

void muster_doctor_choose(const struct muster_doctor *doctor,
                          const struct muster_interfaces *interfaces, struct muster_choice *choice)
{
    muster_interfaces_choose(interfaces, muster_doctor_variable(doctor, "NCCL_SOCKET_IFNAME", NULL),
                             muster_doctor_variable(doctor, "NCCL_SOCKET_FAMILY", NULL), NULL,
                             muster_doctor_version(doctor), choice);
}

void muster_doctor_network(struct muster_doctor *doctor)
{
    struct muster_interfaces *interfaces = muster_doctor_interfaces(doctor);
    if (!interfaces) {
        muster_check_unchecked(muster_check_begin(doctor->checks, "net.interface", "F19"),
                               "interfaces cannot be listed: %s", strerror(errno));
    } else {
        check_choice(doctor, interfaces);
        muster_doctor_oob(doctor, interfaces);
        muster_doctor_mpi(doctor, interfaces);
        check_mtu(doctor, interfaces);
        check_pattern(doctor, interfaces);
        check_subnets(doctor, interfaces);
        muster_doctor_master(doctor, interfaces);
    }
    check_ports(doctor);
}
