/* `muster agent`: what runs on this host, for Prometheus. */
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/fleet_options.h"
#include "config/settings.h"
#include "fleet/nats/publish.h"

struct agent_given {
    const char *listen, *web;
    struct muster_nats_access nats; /* url: NULL without --nats */
    bool once, own, all, quiet;
    int format;
};

enum format { FORMAT_CLASSIC, FORMAT_OPEN };
static const char *const formats[] = {"prometheus", "openmetrics", NULL};

static const struct muster_opt options[] = {
    MUSTER_LISTEN_OPTIONS(struct agent_given, "9417", ""),
    {"once", 0, MUSTER_OPT_FLAG, offsetof(struct agent_given, once),
     .help = "print the metrics and end"},
    {"format", 'f', MUSTER_OPT_CHOICE, offsetof(struct agent_given, format), "FORMAT", formats,
     .help = "of --once: prometheus or openmetrics (prometheus)"},
    {"all", 0, MUSTER_OPT_FLAG, offsetof(struct agent_given, all),
     .help = "of all users whose segments may be read (as root)"},
    MUSTER_NATS_OPTIONS(offsetof(struct agent_given, nats), "",
                        "tell muster fleet of this host's jobs by NATS: nats://HOST:4222, or "
                        "tls://..."),
    {"own", 0, MUSTER_OPT_FLAG, offsetof(struct agent_given, own),
     .help = "of this user alone (as anybody else)"},
    {"quiet", 'q', MUSTER_OPT_FLAG, offsetof(struct agent_given, quiet),
     .help = "say nothing but errors"},
    {.name = NULL},
};

/* Serves, and publishes by NATS if that was asked for. */
static int serve(const struct agent_given *given, struct muster_agent_options *agent,
                 struct muster_err *err)
{
    struct muster_publish *publish = NULL;
    const struct muster_publish_options nats = {.nats = given->nats,
                                                .segment_dir = agent->segment_dir,
                                                .all = agent->all,
                                                .log = stderr,
                                                .quiet = given->quiet};
    muster_agent_block_signals(); /* for all threads that come */
    if (given->nats.url && muster_publish_start(&nats, &publish, err) != 0)
        return -1;
    if (publish) {
        agent->more = muster_publish_metrics;
        agent->more_arg = publish;
        agent->report = muster_publish_findings;
        agent->found = muster_publish_found;
        agent->report_arg = publish;
    }
    int rc =
        muster_agent_serve(agent, given->listen, given->web, given->quiet ? NULL : stderr, err);
    muster_publish_stop(publish);
    return rc;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct agent_given given = {.listen = "127.0.0.1:9417"};
    struct muster_settings settings;
    struct muster_err err;
    int status;
    if (!muster_opt_parse_all(self, argc, argv, &given, &status))
        return status;
    if (given.own && given.all)
        return muster_opt_wrong(self, "--own and --all exclude each other");
    if (!given.nats.url && (given.nats.credentials || given.nats.ca))
        return muster_opt_wrong(self, "--nats-credentials and --nats-ca are of --nats URL");
    if (given.nats.url && given.once)
        return muster_opt_wrong(self, "--once tells nobody: without --nats");
    muster_cmd_settings(self, &settings);
    struct muster_agent_options agent = {
        .segment_dir = settings.segment_dir,
        .all = given.all || (geteuid() == 0 && !given.own),
        .hang_ns = settings.hang_seconds * MUSTER_NS_PER_S,
    };
    int rc = given.once ? muster_agent_once(&agent, given.format == FORMAT_OPEN, stdout, &err)
                        : serve(&given, &agent, &err);
    if (rc == 0)
        return MUSTER_STATUS_OK;
    fprintf(stderr, "muster agent: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

const struct muster_cmd muster_cmd_agent = {
    .name = "agent",
    .summary = "serve metrics of this host's jobs to Prometheus",
    .usage = "[options]",
    .about =
        "Reads the segments of what lives on this host, and nothing else of the jobs; writes\n"
        "nothing. Start it once a host, by systemd or a DaemonSet: docs/fleet.md. With --nats\n"
        "it also tells muster fleet of them, which compares the ranks of all hosts. It ends\n"
        "by SIGINT or SIGTERM. Exit status: 0, or 2 if it cannot serve.\n",
    .examples = "For a Prometheus elsewhere; and what it serves, printed once:\n"
                "  muster agent --listen :9417\n"
                "  muster agent --once\n",
    .options = options,
    .run = run,
};
