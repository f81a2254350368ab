/* Names and addresses that processes of other hosts are given. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/env.h"
#include "base/host.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "launch/bounded.h"
#include "topology/sysfs.h"

enum { RESOLVE_MS = 3000 };

static int resolve_work(void *arg, int fd, struct muster_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    struct sockaddr_storage first = {0};
    int rc = getaddrinfo(arg, NULL, &hints, &list);
    if (rc)
        return muster_fail(err, "%s", gai_strerror(rc));
    memcpy(&first, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return muster_bounded_write(fd, &first, sizeof first, err);
}

int muster_doctor_resolve(const char *name, struct muster_interface *to, struct muster_err *err)
{
    char *bytes;
    size_t n;
    if (muster_bounded("the resolver", resolve_work, (void *)(uintptr_t)name, RESOLVE_MS, &bytes,
                       &n, err))
        return -1;
    if (n != sizeof(struct sockaddr_storage)) {
        free(bytes);
        return muster_fail(err, "the resolver gave no answer");
    }
    *to = (struct muster_interface){.prefix = 0};
    muster_interfaces_address(to, (const struct sockaddr *)(const void *)bytes);
    free(bytes);
    return 0;
}

/* What the recorded host's /etc/hosts has for a name: its own resolver cannot be asked. */
enum recorded { NO_FILE, NOT_THERE, THERE };
static enum recorded look_up_recorded(const struct muster_doctor *doctor, const char *name,
                                      struct muster_interface *to)
{
    char path[PATH_MAX], line[512];
    bool found = false;
    snprintf(path, sizeof path, "%s/etc/hosts", doctor->root);
    FILE *hosts = fopen(path, "re");
    while (hosts && !found && fgets(line, sizeof line, hosts)) {
        char *rest, *address = strtok_r(line, " \t\n", &rest);
        *to = (struct muster_interface){.family = AF_INET};
        if (!address || inet_pton(AF_INET, address, &to->address) != 1)
            continue;
        for (char *word = strtok_r(NULL, " \t\n", &rest); word && *word != '#';
             word = strtok_r(NULL, " \t\n", &rest))
            found |= strcmp(word, name) == 0;
    }
    if (!hosts)
        return NO_FILE;
    fclose(hosts);
    return found ? THERE : NOT_THERE;
}

int muster_doctor_resolve_there(const struct muster_doctor *doctor, const char *name,
                                struct muster_interface *to, struct muster_err *err)
{
    if (!muster_doctor_is_live(doctor) && look_up_recorded(doctor, name, to) == THERE)
        return 0;
    return muster_doctor_resolve(name, to, err);
}

bool muster_doctor_is_number(const char *name)
{
    struct in_addr address;
    int dots = 0;
    for (const char *at = name; *at; at++)
        dots += *at == '.';
    return dots < 3 && inet_aton(name, &address) != 0;
}

const struct muster_interface *muster_doctor_owner(const struct muster_interfaces *interfaces,
                                                   const struct muster_interface *of)
{
    for (int i = 0; i < interfaces->n; i++)
        if (interfaces->at[i].family == of->family &&
            memcmp(&interfaces->at[i].address, &of->address, of->family == AF_INET ? 4 : 16) == 0)
            return &interfaces->at[i];
    return NULL;
}

static bool is_bridge(const struct muster_interface *interface)
{
    static const char *const names[] = {"docker", "br-", "virbr", "cni", "flannel", "podman"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(interface->name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* In a subnet where none of the interfaces is that NCCL takes. */
static bool is_elsewhere(const struct muster_doctor *doctor,
                         const struct muster_interfaces *interfaces,
                         const struct muster_interface *on)
{
    struct muster_choice choice;
    muster_doctor_choose(doctor, interfaces, &choice);
    for (int i = 0; i < choice.n; i++) {
        const struct muster_interface *taken = &interfaces->at[choice.at[i]];
        if (strcmp(taken->name, on->name) == 0 || muster_interfaces_same_subnet(taken, on))
            return false;
    }
    return choice.n > 0;
}

/* Hosts with a network for management are named in that: fine, unless it is closed to jobs. */
static void suspect_address(struct muster_check *check, const char *what,
                            const struct muster_interface *on)
{
    if (on)
        muster_check_suspect(check, "%.100s is on %s, in another subnet than what NCCL takes", what,
                             on->name);
    else
        muster_check_suspect(check, "%.100s is an address that this host does not have", what);
    muster_check_advice(check,
                        "do other hosts reach that address (muster doctor --hosts)? Else name "
                        "the interface in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME, or the "
                        "right address in /etc/hosts");
}

/* Whether an address of this host that is given to others leads them anywhere. */
static void evaluate_address(const struct muster_doctor *doctor, struct muster_check *check,
                             const struct muster_interfaces *interfaces, const char *what,
                             const struct muster_interface *is)
{
    char text[96];
    const struct muster_interface *on = muster_doctor_owner(interfaces, is);
    muster_doctor_address(is, text, sizeof text);
    bool loopback = muster_interfaces_loopback(is), bridge = on && is_bridge(on);
    muster_check_evidence(check, "%s is %s%s%s", what, text, on ? " on " : "", on ? on->name : "");
    if (!loopback && !bridge) {
        if (!on || is_elsewhere(doctor, interfaces, on))
            suspect_address(check, what, on);
        return;
    }
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "%s is an address that other hosts cannot reach", what);
    muster_check_advice(check, "%s",
                        loopback ? "name the host's own address: in /etc/hosts the host "
                                   "name must not stand at 127.0.1.1, or name the "
                                   "interface (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME)"
                                 : "docker: --network host; else name the interface "
                                   "that other hosts reach");
}

static void read_hostname(const struct muster_doctor *doctor, char *name, size_t size)
{
    if (!muster_sysfs_line(doctor->procfs, name, size, "sys/kernel/hostname") &&
        gethostname(name, size - 1))
        name[0] = '\0';
}

static void report_no_address(struct muster_check *check, const char *what)
{
    muster_check_advice(check, "GLOO_SOCKET_IFNAME of an interface that is here (ip -br addr), or "
                               "the name with this host's address in /etc/hosts");
    if (muster_doctor_several_hosts()) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "%s does not resolve", what);
        return;
    }
    muster_check_suspect(check, "%s has no address here: Gloo, MPI and Ray look for one", what);
    check->suspect_of = "init_error hang_absent";
    check->suspect_weight = 6; /* before bugs of NCCL that few jobs meet */
}

/* Gloo, and PyTorch's RPC, give others the address of the own name unless an interface is named. */
static void evaluate_own_name(struct muster_doctor *doctor, struct muster_check *check,
                              const struct muster_interfaces *interfaces, const char *name)
{
    char what[160];
    struct muster_interface address;
    struct muster_err err;
    bool several = muster_doctor_several_hosts();
    snprintf(what, sizeof what, "this host's name %s", name);
    if (!muster_doctor_is_live(doctor)) {
        const enum recorded recorded = look_up_recorded(doctor, name, &address);
        if (recorded == THERE) {
            if (several)
                evaluate_address(doctor, check, interfaces, what, &address);
        } else if (!several && recorded == NOT_THERE) {
            report_no_address(check, what);
        }
        return;
    }
    if (!several && !doctor->symptoms) /* a slow resolver is not waited for */
        return;
    if (muster_doctor_resolve(name, &address, &err)) {
        muster_check_evidence(check, "%s: %.120s", name, err.text);
        report_no_address(check, what);
    } else if (several) {
        evaluate_address(doctor, check, interfaces, what, &address);
    }
}

/* As of containers that are called by the number of their job. */
static void evaluate_number(struct muster_check *check, const char *name)
{
    struct in_addr address;
    char text[INET_ADDRSTRLEN];
    if (!muster_doctor_is_number(name) || inet_aton(name, &address) == 0)
        return;
    inet_ntop(AF_INET, &address, text, sizeof text);
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check, "this host's name %s is a number, which is taken for the address %s",
                       name, text);
    muster_check_advice(check, "another name for the host or container (docker --hostname); else "
                               "an address where a name is asked for: MASTER_ADDR, "
                               "--rdzv-endpoint=127.0.0.1:29500 on one host in place of "
                               "--standalone, GLOO_SOCKET_IFNAME");
}

static void evaluate_interface(struct muster_check *check,
                               const struct muster_interfaces *interfaces, const char *variable)
{
    const char *name = muster_env(variable);
    if (!name)
        return;
    size_t n = strcspn(name, ",");
    for (int i = 0; i < interfaces->n; i++)
        if (strlen(interfaces->at[i].name) == n && strncmp(interfaces->at[i].name, name, n) == 0)
            return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "%s=%.60s: no such interface here", variable, name);
    muster_check_advice(check, "Gloo and TensorPipe take exact names, without = or ^");
}

static void evaluate_comm_id(const struct muster_doctor *doctor, struct muster_check *check,
                             const struct muster_interfaces *interfaces)
{
    const char *id = muster_env("NCCL_COMM_ID");
    char name[128];
    struct muster_interface address;
    struct muster_err err;
    if (!id || !strrchr(id, ':'))
        return;
    snprintf(name, sizeof name, "%.*s", (int)(strrchr(id, ':') - id), id);
    if (muster_doctor_resolve(name, &address, &err) == 0) {
        evaluate_address(doctor, check, interfaces, "NCCL_COMM_ID", &address);
        return;
    }
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "NCCL_COMM_ID=%.100s does not resolve: %.100s", id, err.text);
    muster_check_advice(check, "the address and port of rank 0's host");
}

void muster_doctor_names(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.names", "F20,F24,F36");
    struct muster_interfaces *interfaces = muster_doctor_interfaces(doctor);
    char name[128] = "";
    muster_check_expected(check, "names that lead other hosts here");
    muster_check_found(check, "nothing against them");
    if (!interfaces) {
        muster_check_unchecked(check, "interfaces cannot be listed");
        return;
    }
    evaluate_interface(check, interfaces, "GLOO_SOCKET_IFNAME");
    evaluate_interface(check, interfaces, "TP_SOCKET_IFNAME");
    read_hostname(doctor, name, sizeof name);
    if (name[0])
        evaluate_number(check, name);
    if (name[0] && check->status == MUSTER_CHECK_OK && !muster_env("GLOO_SOCKET_IFNAME"))
        evaluate_own_name(doctor, check, interfaces, name);
    if (muster_doctor_several_hosts())
        evaluate_comm_id(doctor, check, interfaces);
}
