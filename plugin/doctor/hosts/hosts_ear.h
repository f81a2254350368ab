/*
 * Where a member listens: a TCP port in each quarter of the range from which the kernel takes
 * NCCL's, and a port for datagrams. And what is sent there: fixed packets, in the byte order of
 * hosts, which are of one kind.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_EAR_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_EAR_H

#include "doctor/hosts/hosts_member.h"

enum { MUSTER_HOSTS_ASK = 1, MUSTER_HOSTS_ANSWER, MUSTER_HOSTS_PACED, MUSTER_HOSTS_MEET };

/* The first bytes of a connection, of its answer, and of each datagram. */
struct muster_hosts_packet {
    char magic[8];
    uint64_t token; /* of whoever sent it */
    uint32_t kind;
    uint32_t cookie; /* of who asks, given back; a round */
    uint32_t number; /* bytes of a frame; a datagram's place */
    uint32_t spare;
};
extern const char muster_hosts_magic[8];

struct muster_hosts_ear {
    int tcp[MUSTER_HOSTS_PORTS], udp; /* -1: could not */
    uint64_t token;
};

/* Listens, and puts where into *member: ports, frames, low, high, token. -1: nowhere, with err. */
int muster_hosts_ear_open(struct muster_hosts_ear *ear, struct muster_hosts_member *member,
                          unsigned low, unsigned high, struct muster_err *err);
void muster_hosts_ear_close(struct muster_hosts_ear *ear);

/* A packet of this ear. */
struct muster_hosts_packet muster_hosts_packet(const struct muster_hosts_ear *ear, uint32_t kind,
                                               uint32_t cookie, uint32_t number);
bool muster_hosts_packet_is(const struct muster_hosts_packet *packet, uint32_t kind);

/* Sends `size` bytes that begin with a packet, whole and not in fragments. */
bool muster_hosts_datagram(const struct muster_hosts_ear *ear,
                           const struct muster_hosts_packet *packet, size_t size,
                           const struct sockaddr_storage *to, socklen_t to_size);

#endif
