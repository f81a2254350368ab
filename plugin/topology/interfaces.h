/*
 * NCCL's choice of network interfaces, step by step as its sockets do it (2.30.7, the rules are the
 * same since 2.3 but for IFF_RUNNING). The choice is pure: addresses in, choice out.
 */
#ifndef MUSTER_TOPOLOGY_INTERFACES_H
#define MUSTER_TOPOLOGY_INTERFACES_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>

enum { MUSTER_INTERFACES = 256, MUSTER_CHOSEN = 16 };

/* One address of an interface, in getifaddrs' order. */
struct muster_interface {
    char name[IFNAMSIZ];
    int family; /* AF_INET or AF_INET6; others are left out */
    unsigned flags;
    struct in6_addr address; /* IPv4 in the first four bytes */
    unsigned prefix;         /* bits of the netmask */
    bool is_virtual;         /* below /sys/devices/virtual */
    unsigned mtu;            /* 0: unknown */
};

struct muster_interfaces {
    struct muster_interface at[MUSTER_INTERFACES];
    int n;
};

/* Family and address, where it is IPv4 or IPv6. */
void muster_interfaces_address(struct muster_interface *to, const struct sockaddr *from);

/* Of this process's network namespace. -1: errno is set. */
int muster_interfaces_read(struct muster_interfaces *interfaces);

/* Its rate by its driver, 10^6 bits a second; 0: nothing. Asks by name in this process's network
 * namespace, whose interfaces /sys may not show. */
unsigned muster_interfaces_mbps(const char *name);

/* Texts of /proc/net of a host that is not this one: dev, route, fib_trie and if_inet6. Addresses
 * in getifaddrs' order; flags, is_virtual and mtu are left 0. */
struct muster_proc_net {
    const char *dev, *route, *fib_trie, *if_inet6;
};
void muster_interfaces_from_proc(const struct muster_proc_net *net,
                                 struct muster_interfaces *interfaces);

enum muster_choice_why {
    MUSTER_CHOICE_VARIABLE, /* NCCL_SOCKET_IFNAME */
    MUSTER_CHOICE_IB,       /* a name that begins with ib */
    MUSTER_CHOICE_COMM_ID,  /* the subnet of NCCL_COMM_ID */
    MUSTER_CHOICE_OTHER,    /* the first that is not docker, lo or virbr */
    MUSTER_CHOICE_DOCKER,
    MUSTER_CHOICE_LO,
    MUSTER_CHOICE_VIRBR,
    MUSTER_CHOICE_ANY, /* the first that is not docker or lo: virbr, too, before NCCL 2.28.3 */
    MUSTER_CHOICE_NONE,
};

struct muster_choice {
    int at[MUSTER_CHOSEN]; /* indexes; the first carries the bootstrap */
    int n;
    enum muster_choice_why why;
};

/* `comm_id`: address of NCCL_COMM_ID, or NULL. Variables: NULL where not set. `nccl`: its version,
 * 22803 for 2.28.3, from which on it takes virbr last; 0: unknown, as the newest. */
void muster_interfaces_choose(const struct muster_interfaces *interfaces, const char *ifname,
                              const char *family, const struct muster_interface *comm_id, int nccl,
                              struct muster_choice *choice);

/* Whether a list of prefixes (^, =, commas) takes this name: ifname's own rule. */
bool muster_interfaces_match(const char *list, const char *name);
/* Names that a list takes though it does not spell them out: bond0 also takes bond0.12. */
bool muster_interfaces_by_prefix(const char *list, const char *name);
bool muster_interfaces_same_subnet(const struct muster_interface *a,
                                   const struct muster_interface *b);
/* fe80::/10, 169.254/16 */
bool muster_interfaces_link_local(const struct muster_interface *interface);
bool muster_interfaces_loopback(const struct muster_interface *interface);
const char *muster_interfaces_why(enum muster_choice_why why);

#endif
