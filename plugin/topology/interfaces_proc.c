/* Interfaces of a recorded host. The kernel's text files name an IPv4 address and its interface in
 * two places: fib_trie has the address, the route to its subnet the interface. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "topology/interfaces.h"

struct route {
    char name[IFNAMSIZ];
    uint32_t to, mask; /* as in the file: bytes in network order */
};

static const char *next_line(const char *text)
{
    text += strcspn(text, "\n");
    return text + (*text == '\n');
}

static bool has_address(const struct muster_interfaces *interfaces, const char *name)
{
    for (int i = 0; i < interfaces->n; i++)
        if (interfaces->at[i].family == AF_INET && strcmp(interfaces->at[i].name, name) == 0)
            return true;
    return false;
}

/* The interface of the narrowest subnet that holds the address; of two in one subnet, one that has
 * no address yet. */
static bool find_route(const char *text, const struct muster_interfaces *interfaces,
                       uint32_t address, struct route *best)
{
    bool found = false, free = false;
    for (; *text; text = next_line(text)) {
        struct route route;
        if (sscanf(text, "%15s %8x %*x %*x %*d %*d %*d %8x", route.name, &route.to, &route.mask) !=
                3 ||
            route.mask == 0 || (address & route.mask) != route.to)
            continue;
        bool is_free = !has_address(interfaces, route.name);
        if (found && (ntohl(route.mask) < ntohl(best->mask) ||
                      (route.mask == best->mask && (free || !is_free))))
            continue;
        *best = route;
        found = true;
        free = is_free;
    }
    return found;
}

static bool known(const struct muster_interfaces *interfaces, uint32_t address)
{
    for (int i = 0; i < interfaces->n; i++)
        if (interfaces->at[i].family == AF_INET &&
            memcmp(&interfaces->at[i].address, &address, sizeof address) == 0)
            return true;
    return false;
}

static void add_ipv4(const char *route, const char *dotted, struct muster_interfaces *interfaces)
{
    enum { LOOPBACK = 127 };
    struct route to = {.name = "lo", .mask = htonl(0xff000000)};
    uint32_t address;
    if (inet_pton(AF_INET, dotted, &address) != 1 || known(interfaces, address) ||
        interfaces->n == MUSTER_INTERFACES)
        return;
    if (ntohl(address) >> 24 != LOOPBACK && !find_route(route, interfaces, address, &to))
        return;
    struct muster_interface *added = &interfaces->at[interfaces->n++];
    *added = (struct muster_interface){.family = AF_INET,
                                       .prefix = (unsigned)__builtin_popcount(to.mask)};
    memcpy(added->name, to.name, sizeof added->name);
    memcpy(&added->address, &address, sizeof address);
}

/* "|-- 192.0.2.2", and on the next line "/32 host LOCAL" */
static void add_trie(const struct muster_proc_net *net, struct muster_interfaces *interfaces)
{
    char dotted[32] = "";
    for (const char *line = net->fib_trie; *line; line = next_line(line)) {
        const char *leaf = line + strspn(line, " ");
        size_t length = strcspn(leaf, "\n");
        if (strncmp(leaf, "|-- ", 4) == 0)
            snprintf(dotted, sizeof dotted, "%.*s", (int)(length - 4 < 31 ? length - 4 : 31),
                     leaf + 4);
        else if (*dotted && strncmp(leaf, "/32 host LOCAL", 14) == 0)
            add_ipv4(net->route, dotted, interfaces);
    }
}

static void add_ipv6(const char *text, struct muster_interfaces *interfaces)
{
    for (; *text && interfaces->n < MUSTER_INTERFACES; text = next_line(text)) {
        struct muster_interface added = {.family = AF_INET6};
        unsigned word[4];
        if (sscanf(text, "%8x%8x%8x%8x %*x %x %*x %*x %15s", &word[0], &word[1], &word[2], &word[3],
                   &added.prefix, added.name) != 6 ||
            added.prefix > 128)
            continue;
        for (int i = 0; i < 4; i++)
            word[i] = htonl(word[i]);
        memcpy(&added.address, word, sizeof word);
        interfaces->at[interfaces->n++] = added;
    }
}

/* Position in /proc/net/dev, which is in the order of the kernel's indexes. */
static int place(const char *dev, const char *name)
{
    int at = 0;
    for (; *dev; dev = next_line(dev), at++) {
        const char *begin = dev + strspn(dev, " ");
        if (strncmp(begin, name, strlen(name)) == 0 && begin[strlen(name)] == ':')
            break;
    }
    return at;
}

void muster_interfaces_from_proc(const struct muster_proc_net *net,
                                 struct muster_interfaces *interfaces)
{
    interfaces->n = 0;
    add_trie(net, interfaces);
    int ipv4 = interfaces->n;
    add_ipv6(net->if_inet6, interfaces);
    for (int i = 1; i < interfaces->n; i++) {
        struct muster_interface moved = interfaces->at[i];
        int to = i, first = i < ipv4 ? 0 : ipv4;
        for (; to > first &&
               place(net->dev, interfaces->at[to - 1].name) > place(net->dev, moved.name);
             to--)
            interfaces->at[to] = interfaces->at[to - 1];
        interfaces->at[to] = moved;
    }
}
