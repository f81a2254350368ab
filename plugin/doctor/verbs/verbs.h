/*
 * Datagrams between RDMA ports (unreliable datagram queue pairs), through libibverbs, which is
 * loaded by name. Whatever is called here may hang or crash in a driver: for child processes with a
 * deadline. One thread.
 */
#ifndef MUSTER_DOCTOR_VERBS_VERBS_H
#define MUSTER_DOCTOR_VERBS_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MUSTER_VERBS_PORTS = 8, MUSTER_VERBS_BYTES = 4096 };

/* Where datagrams to a port go. */
struct muster_verbs_address {
    char device[24];
    uint8_t port;
    bool ethernet;  /* RoCE: no LIDs */
    uint16_t lid;   /* 0 on Ethernet */
    uint16_t mtu;   /* bytes that one packet of this port carries */
    uint32_t queue; /* number of the queue pair */
    uint8_t gid[16];
};

struct muster_verbs; /* opaque: the ports of this host that NCCL takes, at most MUSTER_VERBS_PORTS
                      */

/* Ports that are active and that NCCL_IB_HCA takes, with NCCL_IB_GID_INDEX, NCCL_IB_SL, NCCL_IB_TC
 * and NCCL_IB_PKEY as NCCL reads them; `sysfs` stands for /sys. A host without a device has 0
 * ports. NULL: they cannot be used, and err has why. */
struct muster_verbs *muster_verbs_open(const char *sysfs, struct muster_err *err);
unsigned muster_verbs_ports(const struct muster_verbs *verbs);
const struct muster_verbs_address *muster_verbs_address(const struct muster_verbs *verbs,
                                                        unsigned port);

/* The way from a port to an address, to be kept for as long as it is used. On Ethernet the kernel
 * resolves the neighbour, which may take seconds. NULL: there is none, and errno is set. */
struct muster_ibv_ah *muster_verbs_way(struct muster_verbs *verbs, unsigned port,
                                       const struct muster_verbs_address *to);
/* false: no room for another one now, or (errno not EAGAIN) it cannot be sent. */
bool muster_verbs_send(struct muster_verbs *verbs, unsigned port, struct muster_ibv_ah *way,
                       uint32_t queue, const void *bytes, size_t n);
/* A datagram that came, at most MUSTER_VERBS_BYTES: its size. 0: none; -1: the port fails. */
int muster_verbs_take(struct muster_verbs *verbs, unsigned port, void *bytes);
/* Ends with the process: there is no close, as what may hang in a driver is not called twice. */

#endif
