/* Who measures with whom: rounds of disjoint pairs, so that no two measurements share a host. Pure.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_ROUNDS_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_ROUNDS_H

enum { MUSTER_HOSTS_ROUNDS = 16 };

/* How many there are for n hosts: at most MUSTER_HOSTS_ROUNDS, fewer where all pairs have met. */
unsigned muster_hosts_rounds(unsigned n);
/* The partner of a host in a round, and the other way round; -1: it rests. No pair meets twice. */
int muster_hosts_partner(unsigned n, unsigned round, unsigned host);

#endif
