/* `muster diagnose`: which rank, which path, which hang. */
#include <stdlib.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/diagnose/diagnose_follow.h"
#include "cli/diagnose/diagnose_look.h"
#include "cli/fleet_options.h"
#include "cli/progress.h"
#include "fleet/nats/worker.h"
#include "ras/ras_ask.h"
#include "run/beside_work.h"

enum format { FORMAT_TEXT, FORMAT_JSON };

struct options {
    bool live, follow;
    int format;
    struct muster_fleet_question fleet; /* job: NULL without --fleet */
    uint64_t hang_seconds;              /* 0: as configured */
};

static const char *const formats[] = {"text", "json", NULL};

static const struct muster_opt table[] = {
    {"live", 0, MUSTER_OPT_FLAG, offsetof(struct options, live),
     .help = "every job of yours on this host, each by itself"},
    {"follow", 0, MUSTER_OPT_FLAG, offsetof(struct options, follow),
     .help = "look each second, print what is new and what is over, until interrupted"},
    {"format", 'f', MUSTER_OPT_CHOICE, offsetof(struct options, format), "FORMAT", formats,
     .help = "text or json; with --follow one JSON object per line (text)"},
    MUSTER_FLEET_OPTIONS(struct options,
                         "what muster fleet found in a job that runs on many hosts"),
    {"ras", 0, MUSTER_OPT_TEXT, offsetof(struct options, fleet.ras), "HOST:PORT",
     .help = "if something hangs, also ask NCCL's RAS on a host of the job, once: localhost:28028"},
    {"hang-seconds", 0, MUSTER_OPT_U64, offsetof(struct options, hang_seconds), "N", .min = 1,
     .max = 1000000, .help = "how long nothing may move (MUSTER_HANG_SECONDS, else 10)"},
    {.name = NULL},
};

/* ---- once, and again and again ---- */

/* Looks at each of the jobs, or at all that the query takes where there are none. Returns how many
 * could be read, the worst first in `order`; what keeps another from it is printed. */
static size_t look_at(struct muster_look *look, struct muster_look **order, size_t n,
                      const struct muster_look_how *how)
{
    struct muster_err err;
    size_t read = 0;
    for (size_t i = 0; i < n; i++) {
        int failed = muster_look_take(&look[i], how, &err);
        if (!failed && how->query.live && n == 1 && muster_run_alive(&look[i].run) == 0)
            failed = muster_live_none(&look[i].run, "muster diagnose", &err);
        if (failed)
            fprintf(stderr, "muster diagnose: %s%s%s\n", muster_look_name(&look[i]),
                    muster_look_name(&look[i])[0] ? ": " : "", err.text);
        else
            order[read++] = &look[i];
    }
    muster_looks_order(order, read);
    return read;
}

/* NCCL's own word on what hangs, beside the evidence. That nobody answers is printed and no
 * failure. */
static void hear_ras(const char *where, struct muster_look **order, size_t n)
{
    struct muster_ras_report report = {0};
    struct muster_err err;
    bool asked = false, answered = false;
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < order[i]->findings.n; f++) {
            struct muster_finding *finding = &order[i]->findings.finding[f];
            if (!muster_finding_is_hang(finding) || finding->resolved)
                continue;
            if (!asked) {
                asked = true;
                answered = muster_ras_ask(where, &report, &err) == 0;
            }
            if (answered)
                muster_ras_describe(&report, finding->comm, &finding->evidence);
        }
    }
    if (asked && !answered)
        fprintf(stderr, "muster diagnose: %s\n", err.text);
    muster_ras_free(&report);
}

static int once(const struct options *options, const struct muster_look_how *how)
{
    struct muster_live_job *job = NULL;
    struct muster_progress *progress = muster_progress_begin("diagnose", "reading the run", 0);
    size_t jobs = how->query.live ? muster_live_jobs(&how->query, &job) : 0, n = jobs ? jobs : 1;
    struct muster_arena memory = {0};
    struct muster_err err;
    struct muster_look *look = muster_arena_array(&memory, n, sizeof *look);
    struct muster_look **order = muster_arena_array(&memory, n, sizeof(struct muster_look *));
    bool known = muster_arena_check(&memory, &err, "a look at each job") == 0;
    for (size_t i = 0; known && i < jobs; i++)
        look[i].job = &job[i];
    size_t read = known ? look_at(look, order, n, how) : 0;
    muster_progress_end(progress);
    if (!known)
        fprintf(stderr, "muster diagnose: %s\n", err.text);
    if (options->fleet.ras)
        hear_ras(options->fleet.ras, order, read);
    int status = read ? MUSTER_STATUS_OK : MUSTER_STATUS_USAGE;
    for (size_t i = 0; i < read; i++)
        status = muster_look_unresolved(order[i]) ? MUSTER_STATUS_FINDING : status;
    if (read)
        (options->format == FORMAT_JSON ? muster_looks_json : muster_looks_text)(order, read,
                                                                                 stdout);
    for (size_t i = 0; known && i < n; i++) {
        muster_look_end(&look[i]);
        muster_run_free(&look[i].run);
    }
    muster_arena_free(&memory);
    free(job);
    return status;
}

static void emit(void *arg, const char *job, const struct muster_finding *finding)
{
    const struct options *options = arg;
    struct muster_json json;
    if (options->format == FORMAT_TEXT) {
        const struct muster_terminal terminal = muster_terminal_of(STDOUT_FILENO);
        muster_finding_print(finding, job, &terminal, stdout);
    } else {
        muster_json_begin(&json, stdout, false);
        muster_json_object(&json, NULL);
        muster_finding_json(finding, &json);
        if (job)
            muster_json_str(&json, "job", job);
        muster_json_end(&json);
    }
    fflush(stdout);
}

/* What the workers of a fleet found. */
static int ask_fleet(const struct muster_cmd *self, struct options *options, bool more)
{
    struct muster_err err;
    size_t found;
    options->fleet.json = options->format == FORMAT_JSON;
    if (!options->fleet.job || !options->fleet.nats.url)
        return muster_opt_wrong(self, "--fleet JOB and --nats URL go together");
    if (more || options->live || options->follow)
        return muster_opt_wrong(self, "--fleet asks for one job, without RUN, --live and --follow");
    if (muster_fleet_ask(&options->fleet, stdout, &found, &err) == 0)
        return found ? MUSTER_STATUS_FINDING : MUSTER_STATUS_OK;
    fprintf(stderr, "muster diagnose: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct options options = {.format = FORMAT_TEXT};
    int status;
    int at = muster_opt_parse(self, argc, argv, &options, &status);
    if (at < 0)
        return status;
    if (muster_fleet_given(options.fleet.job, &options.fleet.nats))
        return ask_fleet(self, &options, at < argc);
    if (options.live && at < argc)
        return muster_opt_wrong(self, "--live takes what lives here, not also \"%s\"", argv[at]);
    const struct muster_look_how how = {
        .query = {.run = (const char *const *)&argv[at],
                  .runs = (size_t)(argc - at),
                  .live = options.live,
                  .streamed = true},
        .hang_ns = muster_look_hang_ns(options.hang_seconds),
        .follows = options.follow,
    };
    if (options.follow && options.fleet.ras)
        return muster_opt_wrong(self, "--ras asks once, not with --follow");
    if (!options.follow) {
        muster_beside_permit();
        return once(&options, &how);
    }
    return muster_follow(&how, emit, &options) ? MUSTER_STATUS_FINDING : MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_diagnose = {
    .name = "diagnose",
    .summary = "which rank or path holds a job back, and why it hangs",
    .usage = "[RUN... | --live] [options]",
    .about =
        "RUN is a run directory or the pid of a live process; several are taken together, of\n"
        "several hosts, too. Without RUN: the newest ./muster-* directory. --live judges each job\n"
        "(run directory) by itself, the worst first. The kinds and fields of findings are\n"
        "explained in docs/interface.md. --follow ends when the last job does. Exit status: 1\n"
        "with unresolved findings, 0 without, 2 if nothing can be read.\n",
    .examples = "What runs here now, where everybody is, and why it hangs:\n"
                "  muster diagnose --live\n"
                "A run that is over, and one that is watched until it ends:\n"
                "  muster diagnose muster-4711\n"
                "  muster diagnose --follow muster-4711\n"
                "A job on many hosts, while it runs:\n"
                "  muster diagnose --fleet muster-4711 --nats nats://head:4222\n",
    .options = table,
    .run = run,
};
