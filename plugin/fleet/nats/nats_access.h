/* How to come to a NATS. The texts stay as long as whoever was given them works. */
#ifndef MUSTER_FLEET_NATS_NATS_ACCESS_H
#define MUSTER_FLEET_NATS_NATS_ACCESS_H

struct muster_nats_access {
    const char *url; /* "nats://host:4222", several with commas; tls:// for TLS */
    const char
        *credentials; /* of NATS (a JWT with its seed), or a line USER:PASSWORD or TOKEN; NULL */
    const char *ca;   /* certificates that a server's is checked with; NULL: the system's */
};

#endif
