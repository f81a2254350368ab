/* Where a fleet's NATS is, for every command that comes to it. */
#ifndef MUSTER_CLI_FLEET_OPTIONS_H
#define MUSTER_CLI_FLEET_OPTIONS_H

#include "cli/opt.h"
#include "fleet/nats/nats_access.h"

/* Rows of an option table; `at`: offset of a struct muster_nats_access. `of` begins each help. */
/* clang-format off */
#define MUSTER_NATS_OPTIONS(at, of, where)                                                         \
    {"nats", 0, MUSTER_OPT_TEXT, (at) + offsetof(struct muster_nats_access, url), "URL",           \
     .help = of where},                                                                            \
    {"nats-credentials", 0, MUSTER_OPT_TEXT,                                                       \
     (at) + offsetof(struct muster_nats_access, credentials), "FILE",                              \
     .help = of "a NATS credentials file, or a line USER:PASSWORD or TOKEN"},                      \
    {"nats-ca", 0, MUSTER_OPT_TEXT, (at) + offsetof(struct muster_nats_access, ca), "FILE",        \
     .help = of "certificates to check the server's with (the system's)"}
/* clang-format on */

/* --fleet JOB, of a command whose struct has a `fleet` with `job` and `nats`. */
#define MUSTER_FLEET_OPTIONS(given, what)                                                          \
    {                                                                                              \
        "fleet",         0,                                                                        \
        MUSTER_OPT_TEXT, offsetof(given, fleet.job),                                               \
        "JOB",           .help = what "; with --nats"},                                            \
        MUSTER_NATS_OPTIONS(offsetof(given, fleet.nats),                                           \
                            "of --fleet: ", "nats://HOST:4222, or tls://...")

/* Where metrics are served, of a command whose struct has `listen` and `web`. */
#define MUSTER_LISTEN_OPTIONS(given, port, more)                                                   \
    {"listen",                                                                                     \
     0,                                                                                            \
     MUSTER_OPT_TEXT,                                                                              \
     offsetof(given, listen),                                                                      \
     "ADDR:PORT",                                                                                  \
     .help = "where to serve /metrics (127.0.0.1:" port "); :PORT: on all addresses" more},        \
    {                                                                                              \
        "web-config", 0, MUSTER_OPT_TEXT, offsetof(given, web), "FILE",                            \
            .help = "TLS and users, in Prometheus' usual web configuration file"                   \
    }

/* Whether anything of --fleet was given. */
static inline bool muster_fleet_given(const char *job, const struct muster_nats_access *nats)
{
    return job || nats->url || nats->credentials || nats->ca;
}

#endif
