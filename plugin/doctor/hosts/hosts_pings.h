/* The child of hosts_rdma: sends datagrams through RDMA ports and answers those of others. */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_PINGS_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_PINGS_H

#include "doctor/hosts/hosts_member.h"

/* What it sends first. */
struct muster_hosts_pings_hello {
    unsigned ports; /* 0: why */
    struct muster_verbs_address port[MUSTER_VERBS_PORTS];
    struct muster_err why;
};

/* What it is sent then: this, and n peers behind it. It answers with a letter for each port of each
 * peer, in their order. */
struct muster_hosts_pings_plan {
    unsigned n, self;
};
struct muster_hosts_pings_peer {
    uint64_t token;
    unsigned ports;
    struct muster_verbs_address port[MUSTER_VERBS_PORTS];
};

/* Until the other end of `fd` is closed. `token`: this member's. Returns an exit status. */
int muster_hosts_pings_run(const char *sysfs, uint64_t token, int fd);

#endif
