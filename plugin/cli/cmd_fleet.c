/* `muster fleet`: jobs over all their hosts, live. */
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/fleet_options.h"
#include "config/settings.h"
#include "fleet/nats/worker.h"

static const struct muster_opt options[] = {
    MUSTER_NATS_OPTIONS(offsetof(struct muster_worker_options, nats), "",
                        "the NATS that agents tell: nats://HOST:4222, or tls://... "
                        "(nats://127.0.0.1:4222)"),
    MUSTER_LISTEN_OPTIONS(struct muster_worker_options, "9418", "; \"\": nowhere"),
    {.name = NULL},
};

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct muster_worker_options given = {
        .nats = {.url = "nats://127.0.0.1:4222"}, .listen = "127.0.0.1:9418", .log = stderr};
    struct muster_settings settings;
    struct muster_err err;
    int status;
    if (!muster_opt_parse_all(self, argc, argv, &given, &status))
        return status;
    muster_cmd_settings(self, &settings);
    given.settings = &settings;
    if (muster_worker_run(&given, &err) == 0)
        return MUSTER_STATUS_OK;
    fprintf(stderr, "muster fleet: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

const struct muster_cmd muster_cmd_fleet = {
    .name = "fleet",
    .summary = "find late ranks and hangs over all hosts of a job, live",
    .usage = "[options]",
    .about =
        "Takes what the agents of all hosts tell NATS (muster agent --nats), and names the rank\n"
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
