/* `muster top`: a screen of what runs here. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/fleet_options.h"
#include "config/settings.h"
#include "fleet/nats/asker.h"
#include "top/top_fleet.h"
#include "top/top_host.h"
#include "top/top_screen.h"
#include "top/top_terminal.h"

struct top_given {
    bool once, own, all;
    uint64_t interval_s;
    struct muster_asker_options fleet; /* job: NULL without --fleet */
};

static const struct muster_opt options[] = {
    {"interval", 'i', MUSTER_OPT_U64, offsetof(struct top_given, interval_s), "S", .min = 1,
     .max = 3600, .help = "look every S seconds (1)"},
    {"once", 0, MUSTER_OPT_FLAG, offsetof(struct top_given, once),
     .help = "print one screen after one interval and end; needs no terminal"},
    {"all", 0, MUSTER_OPT_FLAG, offsetof(struct top_given, all),
     .help = "jobs of all users whose segments may be read (as root)"},
    {"own", 0, MUSTER_OPT_FLAG, offsetof(struct top_given, own),
     .help = "jobs of this user alone (as anybody else)"},
    MUSTER_FLEET_OPTIONS(struct top_given, "a job over all its hosts, as muster fleet hears of it"),
    {.name = NULL},
};

/* As long as there are lines: a page of the ranks that somebody reads later. */
static int print_once(const struct muster_top_source *source, size_t job, uint64_t interval_ns)
{
    enum { HEADER = 9 };
    struct muster_screen *screen = calloc(1, sizeof *screen);
    struct muster_top_view view = {.utf8 = true};
    struct muster_top top;
    uint64_t end = muster_now_ns() + interval_ns, now;
    if (!screen)
        return -1;
    while ((now = muster_now_ns()) < end) {
        uint64_t due = source->take(source->arg);
        uint64_t ns = (due < end ? due : end) - now;
        nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / MUSTER_NS_PER_S),
                                     .tv_nsec = (long)(ns % MUSTER_NS_PER_S)},
                  NULL);
    }
    source->look(source->arg);
    source->fill(source->arg, job, &top);
    screen->width = muster_terminal_of(STDOUT_FILENO).width;
    screen->height = (unsigned)top.ranks + HEADER;
    muster_top_draw(&top, &view, screen);
    screen->used = screen->used ? screen->used - 1 : 0; /* the keys mean nothing here */
    muster_screen_print(screen, stdout);
    free(screen);
    return 0;
}

static int nothing_runs(const char *operand, bool all)
{
    if (operand)
        fprintf(stderr, "muster top: nothing of %s runs here%s\n", operand,
                all ? "" : " as this user");
    else
        fprintf(stderr,
                "muster top: no job recorded by muster is running here%s. muster cannot attach to "
                "a job that was started without it: muster run -- COMMAND\n",
                all ? "" : " as this user");
    return MUSTER_STATUS_USAGE;
}

static int show(const struct muster_top_source *source, size_t job, const struct top_given *given)
{
    struct muster_err err;
    uint64_t interval_ns = given->interval_s * MUSTER_NS_PER_S;
    int failed = 0;
    if (given->once)
        failed = print_once(source, job, interval_ns) ? muster_fail_memory(&err, "a screen") : 0;
    else
        failed = muster_top_terminal(source, job, interval_ns, &err);
    if (failed)
        fprintf(stderr, "muster top: %s\n", err.text);
    return failed ? MUSTER_STATUS_USAGE : MUSTER_STATUS_OK;
}

/* ---- a job of a fleet ---- */

struct asked {
    struct muster_asker *asker;
    struct muster_top_fleet *fleet;
    struct muster_err err; /* of the newest look */
    bool failed;
};

/* Without an answer what was known stays on the screen, and grows no younger. */
static void look_fleet(void *arg)
{
    struct asked *asked = arg;
    struct muster_answer answer;
    asked->failed = muster_asker_ask(asked->asker, &answer, &asked->err) != 0 ||
                    muster_top_fleet_take(asked->fleet, answer.name, answer.state, answer.line,
                                          answer.lines, &asked->err) != 0;
    muster_answer_free(&answer);
}

static uint64_t take_fleet(void *arg)
{
    (void)arg;
    return UINT64_MAX;
}

static void fill_fleet(void *arg, size_t job, struct muster_top *top)
{
    const struct asked *asked = arg;
    (void)job;
    muster_top_fleet_fill(asked->fleet, top);
}

static int run_fleet(const struct top_given *given)
{
    struct asked asked = {.fleet = muster_top_fleet_new()};
    const struct muster_top_source source = {&asked, look_fleet, take_fleet, fill_fleet};
    int status = MUSTER_STATUS_USAGE;
    asked.failed = true;
    if (!asked.fleet)
        muster_fail_memory(&asked.err, "a screen");
    else if (muster_asker_open(&given->fleet, &asked.asker, &asked.err) == 0)
        look_fleet(&asked);
    if (asked.failed)
        fprintf(stderr, "muster top: %s\n", asked.err.text);
    else
        status = show(&source, 0, given);
    muster_asker_close(asked.asker);
    muster_top_fleet_free(asked.fleet);
    return status;
}

/* ---- all ---- */

static int run_host(const struct top_given *given, const char *operand)
{
    struct muster_settings settings;
    char folder[4096];
    muster_cmd_settings(&muster_cmd_top, &settings);
    uint64_t pid = 0;
    bool is_pid = operand && muster_text_u64(operand, &pid) && pid <= INT32_MAX;
    struct muster_top_host_options options_of_host = {
        .segment_dir = settings.segment_dir,
        .all = given->all || (geteuid() == 0 && !given->own),
        .hang_ns = settings.hang_seconds * MUSTER_NS_PER_S,
        .pid = is_pid ? (uint32_t)pid : 0,
    };
    if (operand && !is_pid)
        options_of_host.run = realpath(operand, folder) ? folder : operand;
    struct muster_top_host *host = muster_top_host_new(&options_of_host);
    if (!host)
        return MUSTER_STATUS_USAGE;
    muster_top_host_look(host);
    size_t job = muster_top_host_largest(host);
    const struct muster_top_source source = muster_top_host_source(host);
    int status =
        job == SIZE_MAX ? nothing_runs(operand, options_of_host.all) : show(&source, job, given);
    muster_top_host_free(host);
    return status;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct top_given given = {.interval_s = 1, .fleet = {.who = "muster top"}};
    int status;
    int at = muster_opt_parse(self, argc, argv, &given, &status);
    if (at < 0)
        return status;
    if (at + 1 < argc)
        return muster_opt_wrong(self, "one RUN, not also \"%s\"", argv[at + 1]);
    if (given.own && given.all)
        return muster_opt_wrong(self, "--own and --all exclude each other");
    if (!muster_fleet_given(given.fleet.job, &given.fleet.nats))
        return run_host(&given, at < argc ? argv[at] : NULL);
    if (!given.fleet.job || !given.fleet.nats.url)
        return muster_opt_wrong(self, "--fleet JOB and --nats URL go together");
    if (at < argc || given.own || given.all)
        return muster_opt_wrong(self, "--fleet shows one job, without RUN, --own and --all");
    return run_fleet(&given);
}

const struct muster_cmd muster_cmd_top = {
    .name = "top",
    .summary = "a screen of what runs here: ranks by what they cost the others",
    .usage = "[RUN] [options]",
    .about =
        "RUN is the run directory of a job that runs, or the pid of one of its processes; without\n"
        "it the largest job of this host is shown first. Keys: r ranks, c communicators,\n"
        "o operations, f findings, Enter one rank, s another order, n the next job, space stop\n"
        "and go on, ? help, q quit. It reads segments and touches nothing of the job. Exit\n"
        "status: 0; 2 if nothing runs here or the terminal cannot be drawn on.\n",
    .examples = "The largest job of this host, and one that is named:\n"
                "  muster top\n"
                "  muster top muster-4711\n"
                "A job of many hosts, as a fleet's worker hears of it:\n"
                "  muster top --fleet muster-4711 --nats nats://head:4222\n"
                "A screen into a file, from a script:\n"
                "  muster top --once\n",
    .options = options,
    .run = run,
};
