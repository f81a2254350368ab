/* How long a member waits for the others, and how many it asks at once: what `muster doctor
 * --hosts` costs where a network is broken. Pure. */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_PATIENCE_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_PATIENCE_H

enum {
    /* connections */
    MUSTER_HOSTS_CONNECT_MS = 3000, /* a lost first packet is sent again after one second */
    MUSTER_HOSTS_CONNECTS = 512,    /* at once, where this process may have so many files */
    MUSTER_HOSTS_IMPATIENCE = 3,    /* so much less for a host whose first port is silent */
    /* frames, and datagrams of RDMA */
    MUSTER_HOSTS_DATAGRAMS = 256, /* at once */
    MUSTER_HOSTS_TRIES = 3,       /* of a size: one may be lost by chance */
    MUSTER_HOSTS_TRY_MS = 400,
    MUSTER_HOSTS_RDMA_MS = 15000, /* what is not asked by then stays so */
    /* rounds: the time of a measurement twice, and this */
    MUSTER_HOSTS_TAIL_MS = 300, /* for the last datagrams on their way */
};

#endif
