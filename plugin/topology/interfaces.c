#include "topology/interfaces.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

/* ---- the choice ---- */

enum { LIST_MAX = 16, ADDRESS_BITS_4 = 32, ADDRESS_BITS_6 = 128 };

struct list {
    char prefix[LIST_MAX][64];
    int n;
    bool excludes, exact;
};

static void parse(const char *text, struct list *list)
{
    *list = (struct list){.n = 0};
    list->excludes = *text == '^';
    text += list->excludes;
    list->exact = *text == '=';
    text += list->exact;
    while (*text && list->n < LIST_MAX) {
        size_t n = strcspn(text, ","), name = strcspn(text, ",:");
        if (name)
            snprintf(list->prefix[list->n++], sizeof *list->prefix, "%.*s",
                     (int)(name < 63 ? name : 63), text);
        text += n + (text[n] != '\0');
    }
}

static bool takes(const struct list *list, const char *name)
{
    bool found = list->n == 0;
    for (int i = 0; i < list->n && !found; i++)
        found = list->exact ? strcmp(name, list->prefix[i]) == 0
                            : strncmp(name, list->prefix[i], strlen(list->prefix[i])) == 0;
    return found != list->excludes;
}

bool muster_interfaces_match(const char *text, const char *name)
{
    struct list list;
    parse(text, &list);
    return takes(&list, name);
}

bool muster_interfaces_by_prefix(const char *text, const char *name)
{
    struct list list;
    parse(text, &list);
    if (list.excludes || list.exact || list.n == 0 || !takes(&list, name))
        return false;
    for (int i = 0; i < list.n; i++)
        if (strcmp(list.prefix[i], name) == 0)
            return false;
    return true;
}

bool muster_interfaces_loopback(const struct muster_interface *interface)
{
    if (interface->family == AF_INET)
        return interface->address.s6_addr[0] == 127;
    return IN6_IS_ADDR_LOOPBACK(&interface->address);
}

bool muster_interfaces_link_local(const struct muster_interface *interface)
{
    const uint8_t *byte = interface->address.s6_addr;
    return interface->family == AF_INET ? byte[0] == 169 && byte[1] == 254
                                        : IN6_IS_ADDR_LINKLOCAL(&interface->address);
}

static bool usable(const struct muster_interface *interface, int family)
{
    if (interface->family != AF_INET && interface->family != AF_INET6)
        return false;
    if (!(interface->flags & IFF_RUNNING) || (family >= 0 && interface->family != family))
        return false;
    return interface->family == AF_INET || !muster_interfaces_loopback(interface);
}

static void take(const struct muster_interfaces *interfaces, int at, struct muster_choice *choice)
{
    for (int i = 0; i < choice->n; i++)
        if (strcmp(interfaces->at[choice->at[i]].name, interfaces->at[at].name) == 0)
            return;
    if (choice->n < MUSTER_CHOSEN)
        choice->at[choice->n++] = at;
}

static void find(const struct muster_interfaces *interfaces, const char *text, int family,
                 enum muster_choice_why why, struct muster_choice *choice)
{
    struct list list;
    parse(text, &list);
    choice->why = why;
    for (int i = 0; i < interfaces->n; i++)
        if (usable(&interfaces->at[i], family) && takes(&list, interfaces->at[i].name))
            take(interfaces, i, choice);
}

bool muster_interfaces_same_subnet(const struct muster_interface *a,
                                   const struct muster_interface *b)
{
    unsigned bits = a->family == AF_INET ? ADDRESS_BITS_4 : ADDRESS_BITS_6;
    unsigned prefix = a->prefix < bits ? a->prefix : bits;
    if (a->family != b->family)
        return false;
    for (unsigned i = 0; i < prefix; i++) {
        unsigned difference = a->address.s6_addr[i / 8] ^ b->address.s6_addr[i / 8];
        if (difference & 0x80u >> i % 8)
            return false;
    }
    return true;
}

static void find_subnet(const struct muster_interfaces *interfaces,
                        const struct muster_interface *of, struct muster_choice *choice)
{
    choice->why = MUSTER_CHOICE_COMM_ID;
    for (int i = 0; i < interfaces->n && choice->n == 0; i++)
        if (interfaces->at[i].family == of->family &&
            muster_interfaces_same_subnet(&interfaces->at[i], of))
            take(interfaces, i, choice);
}

void muster_interfaces_choose(const struct muster_interfaces *interfaces, const char *ifname,
                              const char *family, const struct muster_interface *comm_id, int nccl,
                              struct muster_choice *choice)
{
    enum { WITHOUT_VIRBR = 22803 }; /* the first that leaves virbr for last */
    const bool takes_virbr = nccl > 0 && nccl < WITHOUT_VIRBR;
    int wanted = !family                           ? -1
                 : strcmp(family, "AF_INET") == 0  ? AF_INET
                 : strcmp(family, "AF_INET6") == 0 ? AF_INET6
                                                   : -1;
    static const struct {
        const char *list;
        enum muster_choice_why why;
    } rest[] = {{"^docker,lo,virbr", MUSTER_CHOICE_OTHER},
                {"docker", MUSTER_CHOICE_DOCKER},
                {"lo", MUSTER_CHOICE_LO},
                {"virbr", MUSTER_CHOICE_VIRBR}};
    *choice = (struct muster_choice){.n = 0};
    if (ifname && strlen(ifname) > 1) {
        find(interfaces, ifname, wanted, MUSTER_CHOICE_VARIABLE, choice);
        return;
    }
    find(interfaces, "ib", wanted, MUSTER_CHOICE_IB, choice);
    if (choice->n == 0 && comm_id)
        find_subnet(interfaces, comm_id, choice);
    if (choice->n == 0 && takes_virbr)
        find(interfaces, "^docker,lo", wanted, MUSTER_CHOICE_ANY, choice);
    for (size_t i = 0; i < sizeof rest / sizeof *rest && choice->n == 0; i++)
        find(interfaces, rest[i].list, wanted, rest[i].why, choice);
    if (choice->n == 0)
        choice->why = MUSTER_CHOICE_NONE;
}

const char *muster_interfaces_why(enum muster_choice_why why)
{
    static const char *const words[] = {
        "NCCL_SOCKET_IFNAME names it",
        "its name begins with ib",
        "it is in the subnet of NCCL_COMM_ID",
        "the first that is not docker, lo or virbr",
        "nothing but docker interfaces",
        "nothing but lo",
        "nothing but virbr interfaces",
        "the first that is not docker or lo",
        "there is none",
    };
    return words[why];
}

/* ---- of this process ---- */

static unsigned mask_bits(const struct sockaddr *mask)
{
    const unsigned char *byte;
    unsigned n = 0, bytes;
    if (!mask)
        return 128;
    if (mask->sa_family == AF_INET6) {
        byte = ((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr.s6_addr;
        bytes = 16;
    } else {
        byte = (const unsigned char *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr;
        bytes = 4;
    }
    for (unsigned i = 0; i < bytes; i++)
        n += (unsigned)__builtin_popcount(byte[i]);
    return n;
}

void muster_interfaces_address(struct muster_interface *to, const struct sockaddr *from)
{
    to->family = from->sa_family;
    if (from->sa_family == AF_INET)
        memcpy(&to->address, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    else if (from->sa_family == AF_INET6)
        to->address = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
}

int muster_interfaces_read(struct muster_interfaces *interfaces)
{
    struct ifaddrs *list;
    if (getifaddrs(&list))
        return -1;
    interfaces->n = 0;
    for (struct ifaddrs *at = list; at && interfaces->n < MUSTER_INTERFACES; at = at->ifa_next) {
        if (!at->ifa_addr ||
            (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
            continue;
        struct muster_interface *to = &interfaces->at[interfaces->n++];
        *to = (struct muster_interface){.flags = at->ifa_flags};
        muster_text_copy(to->name, sizeof to->name, at->ifa_name);
        muster_interfaces_address(to, at->ifa_addr);
        to->prefix = mask_bits(at->ifa_netmask);
    }
    freeifaddrs(list);
    return 0;
}

unsigned muster_interfaces_mbps(const char *name)
{
    struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
    struct ifreq request = {.ifr_data = (void *)&command};
    muster_text_copy(request.ifr_name, sizeof request.ifr_name, name);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int rc = fd >= 0 ? ioctl(fd, SIOCETHTOOL, &request) : -1;
    if (fd >= 0)
        close(fd);
    unsigned mbps = (unsigned)command.speed_hi << 16 | command.speed;
    /* All ones: the driver does not know. */
    return rc == 0 && mbps < 100000000 ? mbps : 0;
}
