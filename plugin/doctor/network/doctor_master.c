/* Where the ranks meet first: MASTER_ADDR and MASTER_PORT. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/host_list.h"
#include "doctor/rules/proc_text.h"

enum { USUAL_PORT = 29500 }; /* of PyTorch's launchers */

static bool is_refused(int fd, const void *address, socklen_t bytes)
{
    int one = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off); /* fails of IPv4, which is well */
    int rc = bind(fd, address, bytes);
    if (rc == 0)
        rc = listen(fd, 1);
    return rc != 0 && errno == EADDRINUSE;
}

/* In IPv4 where there is no IPv6. */
static bool is_taken_here(unsigned port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool six = fd >= 0;
    if (fd < 0)
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool taken = six ? is_refused(fd, &any, sizeof any) : is_refused(fd, &any4, sizeof any4);
    close(fd);
    return taken;
}

/* A recorded host's sockets stand in its files. */
static bool is_taken(const struct muster_doctor *doctor, unsigned port)
{
    static const char *const files[] = {"net/tcp", "net/tcp6"};
    char *text = muster_doctor_is_live(doctor) ? NULL : muster_doctor_room(doctor);
    bool read = false, taken = false;
    for (size_t i = 0; i < sizeof files / sizeof *files && text; i++)
        if (muster_doctor_read_proc(doctor, files[i], text)) {
            read = true;
            taken |= muster_proc_listens(text, port);
        }
    return read ? taken : is_taken_here(port);
}

static void suspect_usual_port(const struct muster_doctor *doctor, struct muster_check *check)
{
    if (muster_env("MASTER_PORT") || !is_taken(doctor, USUAL_PORT))
        return;
    muster_check_suspect(check,
                         "port %d, which launchers take where none is named, is in use on this "
                         "host",
                         USUAL_PORT);
    muster_check_advice(check, "torchrun --standalone on one host, else a --master_port of the "
                               "job's own");
    check->suspect_of = "init_error";
    check->suspect_weight = 6; /* before bugs of NCCL that few jobs meet */
}

static void evaluate_port(const struct muster_doctor *doctor, struct muster_check *check)
{
    const char *port = muster_env("MASTER_PORT");
    uint64_t number;
    if (!port || !muster_text_u64(port, &number) || number == 0 || number > 65535 ||
        !is_taken(doctor, (unsigned)number))
        return;
    muster_check_evidence(check, "port %s is in use", port);
    if (check->status != MUSTER_CHECK_OK)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check, "port %s of MASTER_PORT is in use on this host", port);
    muster_check_advice(check, "unless the job runs already: another MASTER_PORT (one host: "
                               "torchrun --standalone takes a free one), and end processes that "
                               "were left behind (ss -ltnp)");
}

/* Whether this process, by the first of these that is set, is on the host of rank 0. */
static bool has_rank_zero(void)
{
    static const char *const names[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "NODE_RANK"};
    const char *rank = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !rank; i++)
        rank = muster_env(names[i]);
    return rank && strcmp(rank, "0") == 0;
}

/* torchrun's own meeting point may be on another host than rank 0, and a service or a translated
 * address may lead back to a container. */
static void evaluate_stranger(const struct muster_doctor *doctor, struct muster_check *check,
                              const char *address, const char *is)
{
    static const char advice[] =
        "the address of this host that the others reach (ip -br addr), the same on all hosts";
    if (!has_rank_zero() || muster_env("TORCHELASTIC_RUN_ID") || check->status != MUSTER_CHECK_OK)
        return;
    muster_check_advice(check, "%s", advice);
    if (muster_doctor_container(doctor)) {
        muster_check_suspect(check,
                             "rank 0 is here, and MASTER_ADDR=%.80s is no address of this "
                             "container",
                             address);
        return;
    }
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check,
                       "rank 0 is here, and MASTER_ADDR=%.100s (%.60s) is no address of this host: "
                       "nobody listens where the ranks meet",
                       address, is);
}

/* Whether both have the same first label: "head" and "head.cluster.org". */
static bool is_same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");
    return n > 0 && strcspn(b, ".") == n && strncmp(a, b, n) == 0;
}

/* As where a script asks for the host's name before Slurm has given it any nodes. */
static void evaluate_submit_host(struct muster_check *check, const char *address)
{
    const char *from = muster_env("SLURM_SUBMIT_HOST"), *nodes = muster_env("SLURM_JOB_NODELIST");
    char name[128];
    if (!from || !nodes || strspn(address, "0123456789.") == strlen(address) ||
        !is_same_host(address, from))
        return;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(address, "."), address);
    if (muster_host_list_has(nodes, name) || muster_host_list_has(nodes, address))
        return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check,
                       "MASTER_ADDR=%.100s is the host that submitted the job, and none of its "
                       "nodes, %.100s",
                       address, nodes);
    muster_check_advice(check, "the first node, in the job's own script: MASTER_ADDR=$(scontrol "
                               "show hostnames $SLURM_JOB_NODELIST | head -n 1)");
}

/* What scripts put there that is no name. */
static const char *advise_name(const char *address)
{
    const char *colon = strchr(address, ':');
    if (strchr(address, '['))
        return "one node of Slurm's list: scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1";
    if (strpbrk(address, " \t\n,"))
        return "one address alone: `hostname -I` prints several, scontrol show hostnames all nodes";
    if (colon && colon == strrchr(address, ':'))
        return "the address alone, without tcp:// and without the port, which is MASTER_PORT's";
    return "the address of rank 0's host in place of its name, or a name that DNS or /etc/hosts of "
           "all hosts have";
}

static void evaluate_address(const struct muster_doctor *doctor, struct muster_check *check,
                             const struct muster_interfaces *interfaces, const char *address)
{
    struct muster_interface master = {.prefix = 0};
    struct muster_err err;
    char text[96];
    if (muster_doctor_resolve_there(doctor, address, &master, &err)) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "MASTER_ADDR=%.100s does not resolve: %.120s", address, err.text);
        muster_check_advice(check, "%s", advise_name(address));
        return;
    }
    muster_doctor_address(&master, text, sizeof text);
    bool loopback = muster_interfaces_loopback(&master);
    bool local = loopback || muster_doctor_owner(interfaces, &master);
    muster_check_found(check, "MASTER_ADDR=%.100s is %.60s", address, text);
    muster_check_evidence(check, "%s", local ? "that is this host" : "that is another host");
    if (muster_doctor_is_number(address)) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check,
                           "MASTER_ADDR=%.60s is a number, which is taken for the address "
                           "%.60s",
                           address, text);
        muster_check_advice(check, "the address of rank 0's host, on one host 127.0.0.1");
    } else if (loopback && muster_doctor_several_hosts()) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check, "a loopback address means every host itself: use the address of "
                                   "rank 0's host");
    }
    if (local)
        evaluate_port(doctor, check);
    else
        evaluate_stranger(doctor, check, address, text);
}

void muster_doctor_master(struct muster_doctor *doctor, const struct muster_interfaces *interfaces)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.master", "F36");
    const char *address = muster_doctor_setting(doctor, "MASTER_ADDR");
    if (!address) {
        muster_check_found(check, "MASTER_ADDR is not set");
        suspect_usual_port(doctor, check);
        return;
    }
    muster_check_expected(check, "an address that every host reaches, and a free port");
    evaluate_address(doctor, check, interfaces, address);
    evaluate_submit_host(check, address);
}
