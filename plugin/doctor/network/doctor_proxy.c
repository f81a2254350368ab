/* A proxy for the web in the environment: programs of the job that speak HTTP or gRPC to each other
 * go by it, too. NCCL and PyTorch's store do not. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/env.h"
#include "doctor/doctor.h"
#include "topology/sysfs.h"

/* The one that is set. Its value may hold a password, and is not shown. */
static const char *find_proxy(void)
{
    static const char *const names[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
                                        "all_proxy",  "ALL_PROXY",  "grpc_proxy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (muster_env(names[i]))
            return names[i];
    return NULL;
}

/* Whether "10.0.0.0/8" holds the address. */
static bool holds_address(const char *network, size_t n, const char *host)
{
    char text[64];
    struct in_addr base, address;
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), network);
    char *slash = strchr(text, '/');
    unsigned long bits = slash ? strtoul(slash + 1, NULL, 10) : 33;
    if (!slash || bits > 32)
        return false;
    *slash = '\0';
    uint32_t mask = bits ? UINT32_MAX << (32 - bits) : 0;
    return inet_pton(AF_INET, text, &base) == 1 && inet_pton(AF_INET, host, &address) == 1 &&
           ((ntohl(base.s_addr) ^ ntohl(address.s_addr)) & mask) == 0;
}

/* An entry is a name, what names end with (with a dot before or a star), or a network. */
static bool is_left_out(const char *list, const char *host)
{
    size_t length = strlen(host);
    for (list += strspn(list, ", "); *list; list += strspn(list, ", ")) {
        size_t n = strcspn(list, ", ");
        size_t star = strspn(list, "*");
        const char *end = list + (star < n ? star : n);
        size_t left = (size_t)(list + n - end);
        if (left == 0 || (left <= length && strncasecmp(host + length - left, end, left) == 0) ||
            holds_address(list, n, host))
            return true;
        list += n;
    }
    return false;
}

static bool is_excepted(const char *host)
{
    static const char *const names[] = {"no_proxy", "NO_PROXY", "no_grpc_proxy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *list = muster_env(names[i]);
        if (list && is_left_out(list, host))
            return true;
    }
    return false;
}

/* To whom the job's own processes speak: on one host to themselves, else to the first host. NULL:
 * not known, or the proxy is not for it. */
static const char *find_target(void)
{
    const char *master = muster_env("MASTER_ADDR");
    static const char *const own[] = {"localhost", "127.0.0.1"};
    if (muster_doctor_several_hosts())
        return master && !is_excepted(master) ? master : NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!is_excepted(own[i]))
            return own[i];
    return NULL;
}

void muster_doctor_proxy(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.proxy", "F20,F36");
    const char *proxy = find_proxy(), *target = proxy ? find_target() : NULL;
    muster_check_expected(check, "no proxy between the job's own processes");
    muster_check_found(check, proxy ? "%s is set" : "no proxy is set", proxy);
    if (!target)
        return;
    muster_check_suspect(check,
                         "%s also takes what the job's processes send to %.60s by HTTP or gRPC "
                         "(vLLM's server, Ray, JAX, TensorFlow)",
                         proxy, target);
    muster_check_advice(check, "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy, or "
                               "no_proxy=localhost,127.0.0.1 with all hosts of the job, NO_PROXY "
                               "the same");
    check->suspect_of = "hang_absent";
    check->suspect_weight = 6; /* before bugs of NCCL that few jobs meet */
}
