/* What the steps of `muster doctor --hosts` take in simulated time: what members wait for each
 * other, added up as their loops do, with the constants of hosts_patience.h. No clock is read. */
#ifndef MUSTER_TESTS_UNIT_DOCTOR_HOSTS_COST_H
#define MUSTER_TESTS_UNIT_DOCTOR_HOSTS_COST_H

enum { HOSTS_COST_ANSWER_MS = 5 }; /* of whoever is there, with all others asking, too */

/* How each connection or datagram of a member ends: a letter of enum muster_hosts_end. */
struct hosts_cost_ends {
    char (*end)(const void *self, unsigned peer, unsigned target);
    const void *self;
    unsigned n, member, targets; /* the first target of all others, then the second */
};

/* Until the last connection of a member has ended. */
double hosts_cost_connect_ms(const struct hosts_cost_ends *ends, unsigned timeout_ms);
/* The same of frames or RDMA's datagrams, each of which is sent several times. */
double hosts_cost_datagrams_ms(const struct hosts_cost_ends *ends);
/* Of all rounds: a pair begins when both have ended the round before. Partners as in the order to
 * measure. */
double hosts_cost_rounds_ms(const int *partner, unsigned rounds, unsigned n, unsigned ms);

#endif
