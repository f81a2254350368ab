#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cmd.h"
#include "cli/progress.h"
#include "config/settings.h"
#include "launch/locate.h"
#include "replay/replay_job.h"
#include "replay/replay_rank.h"

struct options {
    const char *plugin, *speed, *out;
    uint64_t hold_s;
};

static const struct muster_opt options[] = {
    {.name = "plugin",
     .type = MUSTER_OPT_TEXT,
     .offset = offsetof(struct options, plugin),
     .value = "SO",
     .help = "profiler plugin to play into (default: muster's own)"},
    {.name = "speed",
     .type = MUSTER_OPT_TEXT,
     .offset = offsetof(struct options, speed),
     .value = "N|max",
     .help = "divide the gaps between calls by N; max: no gaps (default: 1)"},
    {.name = "hold",
     .type = MUSTER_OPT_U64,
     .offset = offsetof(struct options, hold_s),
     .value = "S",
     .max = 1000000,
     .help = "ranks live S seconds after their last call (default: 0)"},
    {.name = "dir",
     .letter = 'd',
     .also = "out",
     .type = MUSTER_OPT_TEXT,
     .offset = offsetof(struct options, out),
     .value = "DIR",
     .help = "run directory (default: MUSTER_DIR, else ./muster-<UTC time>-<pid>)"},
    {.name = NULL},
};

static int complain(const char *text)
{
    fprintf(stderr, "muster replay: %s\n", text);
    return -1;
}

static void note(const char *text)
{
    complain(text);
}

static int find_job(struct muster_replay_job *job, const char *path)
{
    struct muster_err err;
    return muster_replay_job_find(job, path, &err) ? complain(err.text) : 0;
}

static int find_plugin(struct muster_replay_job *job, const char *given)
{
    struct muster_err err;
    int failed = 0;
    if (!given)
        failed = muster_locate_library(MUSTER_PROFILER_LIBRARY, job->plugin, PATH_MAX, &err);
    else if (strchr(given, '/') && access(given, R_OK))
        failed = muster_fail(&err, "%s: %s", given, strerror(errno));
    else
        muster_text_copy_path(job->plugin, PATH_MAX, given);
    return failed ? complain(err.text) : 0;
}

static int set_speed(const struct muster_cmd *self, struct muster_replay_job *job, const char *text)
{
    uint64_t speed = 0;
    if (strcmp(text, "max") != 0 && (!muster_text_u64(text, &speed) || speed == 0)) {
        return muster_opt_wrong(self,
                                "--speed: \"%s\" is neither a whole number from 1 on "
                                "nor max",
                                text);
    }
    snprintf(job->speed, sizeof job->speed, "%llu", (unsigned long long)speed);
    return 0;
}

/* Prints what is wrong, once for all ranks. Where nothing would be recorded there is nothing to
 * play for. */
static int read_settings(struct muster_settings *settings)
{
    struct muster_err err;
    if (muster_settings_load(settings, &err) == 0)
        return 0;
    if (!muster_settings_was_reported(&err))
        complain(err.text);
    muster_settings_mark_reported(&err);
    return settings->off ? -1 : 0;
}

static void set_out(struct muster_replay_job *job, const char *given, const char *from_settings)
{
    time_t now = time(NULL);
    struct tm utc;
    char stamp[32];
    if (given || from_settings[0]) {
        muster_text_copy_path(job->out, PATH_MAX, given ? given : from_settings);
        return;
    }
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    snprintf(job->out, PATH_MAX, "muster-%s-%d", stamp, (int)getpid());
}

static int play(struct muster_replay_job *job)
{
    struct muster_err err;
    struct muster_progress *progress = NULL;
    bool ready = muster_replay_job_start(job, &err) == 0;
    if (ready)
        progress = muster_progress_begin("replay", "playing", muster_replay_job_expected_s(job));
    else
        complain(err.text);
    bool well = muster_replay_job_wait(job);
    muster_progress_end(progress);
    muster_replay_job_end(job);
    return !ready ? MUSTER_STATUS_USAGE : well ? MUSTER_STATUS_OK : MUSTER_STATUS_FINDING;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct options given = {.speed = "1"};
    struct muster_replay_job job = {.note = note};
    struct muster_settings settings;
    int status;
    if (argc > 1 && strcmp(argv[1], MUSTER_REPLAY_RANK_WORD) == 0)
        return muster_replay_rank(argc, argv);
    int at = muster_opt_parse_one(self, argc, argv, &given, "recording", &status);
    if (at < 0)
        return status;
    snprintf(job.hold, sizeof job.hold, "%llu", (unsigned long long)given.hold_s);
    if (set_speed(self, &job, given.speed) || find_job(&job, argv[at]) ||
        find_plugin(&job, given.plugin) || read_settings(&settings)) {
        muster_replay_job_free(&job);
        return MUSTER_STATUS_USAGE;
    }
    set_out(&job, given.out, settings.dir);
    status = play(&job);
    if (status == MUSTER_STATUS_OK && settings.off)
        complain("nothing was recorded: MUSTER_OFF is set");
    else if (status == MUSTER_STATUS_OK && !given.out)
        fprintf(stderr, "muster replay: recorded in %s\n", job.out);
    muster_replay_job_free(&job);
    return status;
}

const struct muster_cmd muster_cmd_replay = {
    .name = "replay",
    .summary = "play a recorded call trace into a profiler plugin, one process per rank",
    .usage = "DIR [options]",
    .about =
        "DIR holds rank-*.jsonl or rank-*.jsonl.xz; a single such file will do. GPU time stamps\n"
        "are kept. An event is delivered only if the plugin's mask asks for it. Exit status: 0;\n"
        "1 if a rank failed; 2 for a wrong call or a recording or plugin that cannot be read.\n",
    .examples = "  muster replay tests/traces/recordings/late-tpdp --dir replayed\n"
                "A hang is named while the ranks live:\n"
                "  muster replay tests/traces/recordings/hang-absent --hold 20 --dir replayed\n",
    .options = options,
    .run = run,
};
