/*
 * Bandwidth and loss between this member and one partner a round. First one TCP connection, half of
 * the time each way; then datagrams of a full frame both ways at a pace that no network minds, so
 * that what is missing was lost and not crowded out. One thread; the ear is not used by others.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_MEASURE_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_MEASURE_H

#include "doctor/hosts/hosts_ear.h"

struct muster_hosts_measuring {
    const struct muster_hosts_ear *ear;
    const struct muster_hosts_member *members;
    unsigned n, self;
    const char *ends;            /* of this member's own connections, as muster_hosts_reach's */
    const unsigned *frame_bytes; /* that pass from here to each */
    unsigned ms;                 /* of each of both measurements */
};

/* All rounds of a message, into the arena. What could not be measured has negative gbps. */
void muster_hosts_measure(const struct muster_hosts_measuring *measuring,
                          const struct muster_hosts_message *rounds, struct muster_arena *arena,
                          struct muster_hosts_message *measured);

#endif
