#include "topology/interfaces.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

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
