/* `muster fleet`: jobs over all their hosts, live. */
#include <stdio.h>

#include "cli/cmd.h"
#include "config/settings.h"
#include "fleet/nats/worker.h"

static const struct muster_opt options[] = {
    {"nats", 0, MUSTER_OPT_TEXT, offsetof(struct muster_worker_options, url), "URL",
     .help = "the NATS that agents tell: nats://HOST:4222, or tls://... (nats://127.0.0.1:4222)"},
    {"nats-credentials", 0, MUSTER_OPT_TEXT, offsetof(struct muster_worker_options, credentials),
     "FILE", .help = "a NATS credentials file, or a line USER:PASSWORD or TOKEN"},
    {"nats-ca", 0, MUSTER_OPT_TEXT, offsetof(struct muster_worker_options, ca), "FILE",
     .help = "certificates to check the server's with (the system's)"},
    {"listen", 0, MUSTER_OPT_TEXT, offsetof(struct muster_worker_options, listen), "ADDR:PORT",
     .help = "where to serve /metrics (127.0.0.1:9418); :PORT: on all addresses; \"\": nowhere"},
    {"web-config", 0, MUSTER_OPT_TEXT, offsetof(struct muster_worker_options, web), "FILE",
     .help = "TLS and users, in Prometheus' usual web configuration file"},
    {.name = NULL},
};

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct muster_worker_options given = {.url = "nats://127.0.0.1:4222",
                                          .listen = "127.0.0.1:9418",
                                          .log = stderr};
    struct muster_settings settings;
    struct muster_err err;
    int status;
    int at = muster_opt_parse(self, argc, argv, &given, &status);
    if (at < 0)
        return status;
    if (at < argc)
        return muster_opt_wrong(self, "unexpected \"%s\"", argv[at]);
    if (muster_settings_load(&settings, &err) != 0)
        fprintf(stderr, "muster fleet: %s; the defaults are taken\n", err.text);
    given.settings = &settings;
    if (muster_worker_run(&given, &err) == 0)
        return MUSTER_STATUS_OK;
    fprintf(stderr, "muster fleet: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

const struct muster_cmd muster_cmd_fleet = {
    .name = "fleet",
    .summary = "judge jobs over all their hosts, live",
    .usage = "[options]",
    .about = "Takes what the agents of all hosts tell NATS (muster agent --nats), and names the rank\n"
             "or host that is late and what hangs, while the jobs run: docs/fleet.md. Findings go\n"
             "to NATS, to /metrics, and to commands of `on:`, each once. Start one worker, or some\n"
             "for many jobs: each job has one of them, and another within two seconds of its end.\n"
             "Ask with muster diagnose --fleet JOB. Ends by SIGINT or SIGTERM. Exit status: 0, or 2\n"
             "if it cannot work.\n",
    .examples = "A worker; on each host `muster agent --nats nats://head:4222`:\n"
                "  muster fleet --nats nats://head:4222\n"
                "What it says of a job:\n"
                "  muster diagnose --fleet muster-4711 --nats nats://head:4222\n",
    .options = options,
    .run = run,
};
