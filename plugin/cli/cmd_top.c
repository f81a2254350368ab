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
#include "config/settings.h"
#include "top/top_host.h"
#include "top/top_screen.h"
#include "top/top_terminal.h"

struct top_given {
    bool once, own, all;
    uint64_t interval_s;
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
    {.name = NULL},
};

/* As long as there are lines: a page of the ranks that somebody reads later. */
static int print_once(struct muster_top_host *host, size_t job, uint64_t interval_ns)
{
    enum { HEADER = 9 };
    struct muster_screen *screen = calloc(1, sizeof *screen);
    struct muster_top_view view = {.utf8 = true};
    struct muster_top top;
    uint64_t end = muster_now_ns() + interval_ns, now;
    if (!screen)
        return -1;
    while ((now = muster_now_ns()) < end) {
        uint64_t due = muster_top_host_take(host);
        uint64_t ns = (due < end ? due : end) - now;
        nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / MUSTER_NS_PER_S),
                                     .tv_nsec = (long)(ns % MUSTER_NS_PER_S)},
                  NULL);
    }
    muster_top_host_look(host);
    muster_top_host_fill(host, job, &top);
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

static int show(struct muster_top_host *host, size_t job, const struct top_given *given)
{
    struct muster_err err;
    uint64_t interval_ns = given->interval_s * MUSTER_NS_PER_S;
    int failed = 0;
    if (given->once)
        failed = print_once(host, job, interval_ns) ? muster_fail_memory(&err, "a screen") : 0;
    else
        failed = muster_top_terminal(host, job, interval_ns, &err);
    if (failed)
        fprintf(stderr, "muster top: %s\n", err.text);
    return failed ? MUSTER_STATUS_USAGE : MUSTER_STATUS_OK;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct top_given given = {.interval_s = 1};
    struct muster_settings settings;
    struct muster_err err;
    char folder[4096];
    int status;
    int at = muster_opt_parse(self, argc, argv, &given, &status);
    if (at < 0)
        return status;
    if (at + 1 < argc)
        return muster_opt_wrong(self, "one RUN, not also \"%s\"", argv[at + 1]);
    if (given.own && given.all)
        return muster_opt_wrong(self, "--own and --all exclude each other");
    if (muster_settings_load(&settings, &err) != 0)
        fprintf(stderr, "muster top: %s; the defaults are taken\n", err.text);
    const char *operand = at < argc ? argv[at] : NULL;
    uint64_t pid = 0;
    bool is_pid = operand && muster_text_u64(operand, &pid) && pid <= INT32_MAX;
    struct muster_top_host_options options_of_host = {
        .segment_dir = settings.segment_dir,
        .all = given.all || (geteuid() == 0 && !given.own),
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
    status = job == SIZE_MAX ? nothing_runs(operand, options_of_host.all) : show(host, job, &given);
    muster_top_host_free(host);
    return status;
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
                "A screen into a file, from a script:\n"
                "  muster top --once\n",
    .options = options,
    .run = run,
};
