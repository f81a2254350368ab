/*
 * What hosts send each other: who they are, how they can be reached, what they found. One process a
 * host is a member; one of them leads. Texts are JSON objects of one line.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_MEMBER_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_MEMBER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "doctor/verbs/verbs.h"
#include "topology/interfaces.h"

enum {
    MUSTER_HOSTS_MAX = 4096,
    MUSTER_HOSTS_ADDRESSES = 4, /* of a host: those of the interfaces that NCCL will take */
    MUSTER_HOSTS_PORTS = 4,     /* one in each quarter of the range that NCCL's ports are from */
    MUSTER_HOSTS_TARGETS = MUSTER_HOSTS_PORTS + MUSTER_HOSTS_ADDRESSES - 1,
};

/* How a connection went, a letter each in what a member reports. */
enum muster_hosts_end {
    MUSTER_HOSTS_REACHED = '.',
    MUSTER_HOSTS_SILENT = 't',  /* no answer within the time */
    MUSTER_HOSTS_REFUSED = 'r', /* an answer: no */
    MUSTER_HOSTS_NO_ROUTE = 'u',
    MUSTER_HOSTS_STRANGER = 'w', /* somebody else answered */
    MUSTER_HOSTS_FAILED = 'e',   /* something on this side */
    MUSTER_HOSTS_UNTESTED = '-',
    MUSTER_HOSTS_SMALLER = 's', /* frames: only smaller ones came through */
};

struct muster_hosts_member {
    char name[64], id[128];
    int rank; /* in the job; -1: not from its launcher */
    unsigned addresses;
    struct muster_interface address[MUSTER_HOSTS_ADDRESSES];
    uint16_t port[MUSTER_HOSTS_PORTS]; /* where it listens; 0: could not */
    uint16_t frames;                   /* where it answers datagrams */
    unsigned low, high;                /* the range of ports that NCCL's are from */
    uint64_t token; /* sent when asked: who answers may be somebody else. Below 2^62 */
    unsigned rdmas; /* RDMA ports, those that NCCL takes */
    struct muster_verbs_address rdma[MUSTER_VERBS_PORTS];
    char no_rdma[160]; /* why there are none */
};

/* The first port at each address, and the others at the first address. */
static inline unsigned muster_hosts_targets(const struct muster_hosts_member *member)
{
    return member->addresses ? MUSTER_HOSTS_PORTS + member->addresses - 1 : 0;
}
/* Address and port of target t. */
void muster_hosts_target(const struct muster_hosts_member *member, unsigned t,
                         struct sockaddr_storage *to, socklen_t *size);

/* What one host measured with one other. */
struct muster_hosts_flow {
    unsigned peer;
    double gbps; /* 10^9 bits a second that came from the peer; negative: not measured */
    uint64_t retransmitted, sent;     /* TCP segments to the peer */
    uint64_t expected, lost, dropped; /* datagrams from the peer; dropped: by this host itself */
};

enum muster_hosts_kind {
    MUSTER_HOSTS_BEGIN,       /* leader: look at yourself */
    MUSTER_HOSTS_HELLO,       /* member: its report */
    MUSTER_HOSTS_REACH,       /* leader: connect to all of these */
    MUSTER_HOSTS_REACHED_ALL, /* member: how that went */
    MUSTER_HOSTS_MEASURE,     /* leader: measure with these */
    MUSTER_HOSTS_MEASURED,
    MUSTER_HOSTS_END,     /* leader */
    MUSTER_HOSTS_FAILURE, /* member: it cannot go on, and why */
};

/* A message; which fields count depends on its kind. All of it lives in the arena it was read into.
 */
struct muster_hosts_message {
    enum muster_hosts_kind kind;
    /* begin: variables to be set where they are not */
    const char *const *name;
    const char *const *value;
    size_t variables;
    bool active;
    /* hello */
    struct muster_hosts_member member;
    const char *report; /* JSON of `muster doctor` */
    /* reach */
    const struct muster_hosts_member *members;
    unsigned n;
    unsigned timeout_ms;
    /* reached: of each member its targets, one after the other; of each member one letter */
    const char *ends, *frame_ends;
    const unsigned *frame_bytes; /* of each member: what came through, with IP's header */
    const char *rdma_ends;       /* of each member its RDMA ports, one after the other */
    /* measure: of each round and member its partner */
    const int *partner;
    unsigned rounds, ms;
    /* measured */
    const struct muster_hosts_flow *flow;
    size_t flows;
    const char *why; /* failure */
};

/* One line without its end, in the arena; "" without memory. */
const char *muster_hosts_write(const struct muster_hosts_message *message,
                               struct muster_arena *arena);
/* -1: not a message, with err. */
int muster_hosts_read(const char *text, size_t size, struct muster_arena *arena,
                      struct muster_hosts_message *message, struct muster_err *err);

#endif
