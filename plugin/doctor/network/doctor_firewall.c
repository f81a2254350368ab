/* What keeps connections of other hosts out, and those of this host's own ranks. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "doctor/rules/packet_filter.h"
#include "launch/bounded.h"
#include "launch/child.h"
#include "topology/sysfs.h"

enum { CONNECT_MS = 2000, RULES_MS = 3000, PORTS_TRIED = 5 };

/* Whether a line of a file begins so. */
static bool has_line(const struct muster_doctor *doctor, const char *path, const char *line)
{
    char full[PATH_MAX], *text = muster_doctor_room(doctor);
    snprintf(full, sizeof full, "%s%s", doctor->root, path);
    const char *at = muster_doctor_read_file(full, text) ? strstr(text, line) : NULL;
    while (at && at != text && at[-1] != '\n')
        at = strstr(at + 1, line);
    return at != NULL;
}

static bool is_there(const struct muster_doctor *doctor, const char *path)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", doctor->root, path);
    return access(full, F_OK) == 0;
}

/* A connection to the own address, on a port that the kernel chooses, as NCCL's are. */
static int connect_work(void *arg, int fd, struct muster_err *err)
{
    const struct muster_interface *to = arg;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.any = {.sa_family = (sa_family_t)to->family}};
    socklen_t n = to->family == AF_INET ? sizeof address.v4 : sizeof address.v6;
    if (to->family == AF_INET)
        memcpy(&address.v4.sin_addr, &to->address, 4);
    else
        memcpy(&address.v6.sin6_addr, &to->address, 16);
    int server = socket(to->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(to->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || client < 0 || bind(server, &address.any, n) || listen(server, 1) ||
        getsockname(server, &address.any, &n) || connect(client, &address.any, n))
        return muster_fail(err, "%s", strerror(errno));
    return muster_bounded_write(fd, "ok", 2, err);
}

static void try_own_address(const struct muster_doctor *doctor, struct muster_check *check)
{
    struct muster_interfaces *interfaces = muster_doctor_interfaces(doctor);
    struct muster_choice choice;
    struct muster_err err;
    char text[96];
    size_t n;
    if (interfaces)
        muster_doctor_choose(doctor, interfaces, &choice);
    if (interfaces && choice.n && muster_doctor_is_live(doctor) &&
        !muster_interfaces_link_local(&interfaces->at[choice.at[0]])) {
        struct muster_interface *to = &interfaces->at[choice.at[0]];
        muster_doctor_address(to, text, sizeof text);
        if (muster_bounded("a connection", connect_work, to, CONNECT_MS, NULL, &n, &err)) {
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
            muster_check_found(check, "not even this host reaches its own address");
            muster_check_evidence(check, "%s: %s", text, err.text);
            muster_check_advice(check, "a firewall on this host keeps NCCL's connections out");
        }
    }
}

/* Root alone: prints the rules. Both programs load the kernel's modules where they are not, so they
 * run only where there are rules. */
static int print_rules(void *arg, int fd, struct muster_err *err)
{
    const char *const *argv = arg;
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC), status = 0;
    const int files[] = {nothing, fd, nothing};
    const struct muster_child child = {.argv = argv, .program = argv[0], .files = files};
    pid_t pid;
    if (nothing < 0)
        return muster_fail(err, "/dev/null: %s", strerror(errno));
    if (muster_child_start(&child, &pid, err) == 0)
        muster_child_reap(pid, &status);
    else
        status = -1;
    close(nothing);
    return status == 0 ? 0 : muster_fail(err, "%s failed", argv[0]);
}

/* What a program of root's prints, or a recorded host's file; NULL: none. Free it. */
static char *read_rules(const struct muster_doctor *doctor, const char *const *argv,
                        const char *recorded)
{
    char *text = NULL, path[PATH_MAX];
    struct muster_err err;
    size_t n;
    if (!muster_doctor_is_live(doctor)) {
        char *room = muster_doctor_room(doctor);
        snprintf(path, sizeof path, "%s/run/%s", doctor->root, recorded);
        return muster_doctor_read_file(path, room) ? strdup(room) : NULL;
    }
    if (geteuid() != 0 || access(argv[0], X_OK) != 0 ||
        muster_bounded(recorded, print_rules, (void *)(uintptr_t)argv, RULES_MS, &text, &n, &err))
        return NULL;
    return text;
}

struct rules {
    char *iptables, *nft;
    bool there; /* the kernel has loaded a packet filter */
};

static bool has_module(const struct muster_doctor *doctor, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/module/%s", doctor->sysfs, name);
    return access(path, F_OK) == 0;
}

static struct rules find_rules(const struct muster_doctor *doctor)
{
    static const char *const legacy[] = {"/usr/sbin/iptables-legacy-save", NULL};
    static const char *const save[] = {"/usr/sbin/iptables-save", NULL};
    static const char *const nft[] = {"/usr/sbin/nft", "list", "ruleset", NULL};
    struct rules rules = {.there = false};
    bool tables = has_module(doctor, "iptable_filter"), newer = has_module(doctor, "nf_tables");
    rules.there = tables || newer;
    if (tables || !muster_doctor_is_live(doctor))
        rules.iptables =
            read_rules(doctor, access(legacy[0], X_OK) == 0 ? legacy : save, "iptables-save");
    if (newer || !muster_doctor_is_live(doctor))
        rules.nft = read_rules(doctor, nft, "nft-ruleset");
    return rules;
}

/* The worst answer for ports all over the range from which NCCL's are. */
static struct muster_filter_answer ask(const struct muster_doctor *doctor,
                                       const struct rules *rules,
                                       struct muster_filter_packet packet)
{
    struct muster_filter_answer worst = {.verdict = MUSTER_FILTER_NONE};
    char range[64];
    unsigned low = 32768, high = 60999;
    if (muster_sysfs_line(doctor->procfs, range, sizeof range, "sys/net/ipv4/ip_local_port_range"))
        sscanf(range, "%u %u", &low, &high);
    for (unsigned i = 0; i < PORTS_TRIED; i++) {
        packet.port = low + (high > low ? (high - low) / (PORTS_TRIED - 1) * i : 0);
        if (rules->iptables)
            muster_filter_iptables(rules->iptables, &packet, &worst);
        if (rules->nft)
            muster_filter_nft(rules->nft, &packet, &worst);
    }
    return worst;
}

static void report_dropped(struct muster_check *check, const struct muster_filter_answer *answer,
                           const char *interface, bool own)
{
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "a firewall rule drops connections %s: %s",
                       own ? "of this host's ranks to each other" : "of the job's other hosts",
                       answer->rule);
    muster_check_evidence(check, "a new connection on %s to a port of net.ports meets: %s",
                          interface, answer->rule);
    muster_check_advice(check,
                        own ? "let lo in before that rule (iptables -I INPUT -i lo -j ACCEPT)"
                            : "let the subnet of the job's hosts in before that rule, on all "
                              "of them (iptables -I INPUT -s SUBNET -j ACCEPT; ufw allow "
                              "from SUBNET; firewall-cmd --zone=trusted --add-source=SUBNET)");
}

/* What the rules do with the job's connections; true: they were read. */
static bool evaluate_rules(struct muster_doctor *doctor, struct muster_check *check,
                           const struct rules *rules)
{
    struct muster_interfaces *interfaces = muster_doctor_interfaces(doctor);
    struct muster_choice choice = {.n = 0};
    if ((!rules->iptables && !rules->nft) || !interfaces)
        return false;
    muster_doctor_choose(doctor, interfaces, &choice);
    if (choice.n == 0 || interfaces->at[choice.at[0]].family != AF_INET)
        return false;
    const struct muster_interface *on = &interfaces->at[choice.at[0]];
    struct in_addr address;
    memcpy(&address, &on->address, sizeof address);
    struct muster_filter_packet packet = {
        .interface = "lo", .from = ntohl(address.s_addr), .prefix = 32};
    struct muster_filter_answer own = ask(doctor, rules, packet);
    packet.interface = on->name;
    packet.prefix = on->prefix;
    struct muster_filter_answer others = ask(doctor, rules, packet);
    if (own.verdict == MUSTER_FILTER_DROPS)
        report_dropped(check, &own, "lo", true);
    else if (others.verdict == MUSTER_FILTER_DROPS && muster_doctor_several_hosts())
        report_dropped(check, &others, on->name, false);
    else if (others.verdict == MUSTER_FILTER_MAY_PASS && muster_doctor_several_hosts())
        muster_check_suspect(check,
                             "a firewall rule may drop connections of the job's other hosts: "
                             "%.100s",
                             others.rule);
    else
        muster_check_found(check, others.verdict == MUSTER_FILTER_DROPS
                                      ? "its rules keep other hosts out, which this job has none of"
                                      : "its rules let NCCL's connections in");
    return true;
}

/* Enabled, and its rules could not be read. */
static void suspect_enabled(struct muster_check *check, const char *active)
{
    if (muster_doctor_several_hosts()) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "NCCL listens on ports that the kernel chooses, not on "
                                   "MASTER_PORT: let the subnet of the job's hosts in, on all of "
                                   "them (ufw allow from SUBNET)");
        return;
    } /* ranks of one host connect to its address, too */
    muster_check_suspect(check,
                         "%s is enabled here: one of its rules may close the address of "
                         "this host to its own ranks",
                         active);
    muster_check_advice(check, "look at its rules as root (ufw status verbose, nft list "
                               "ruleset), let this host and the subnet of its pods in, or try "
                               "NCCL_SOCKET_IFNAME=lo for a job of one host");
}

void muster_doctor_firewall(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.firewall", "F25");
    struct rules rules = find_rules(doctor);
    const char *active = has_line(doctor, "/etc/ufw/ufw.conf", "ENABLED=yes") ? "ufw"
                         : is_there(doctor, "/run/firewalld")                 ? "firewalld"
                                                                              : NULL;
    muster_check_expected(check, "no firewall between the hosts of a job, or one that lets them in "
                                 "on all ports (net.ports)");
    muster_check_found(check, active ? "%s is enabled here" : "none seen", active);
    if (!evaluate_rules(doctor, check, &rules)) {
        if (rules.there || active)
            muster_check_evidence(check, "firewall rules not readable without root");
        if (active)
            suspect_enabled(check, active);
        else if (rules.there)
            muster_check_unchecked(check, "firewall rules not readable without root");
    }
    try_own_address(doctor, check);
    free(rules.iptables);
    free(rules.nft);
}
