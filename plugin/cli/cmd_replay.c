#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/progress.h"
#include "config/settings.h"
#include "launch/child.h"
#include "launch/family.h"
#include "launch/locate.h"
#include "replay/replay_rank.h"

/* Recordings of hosts with clocks of their own start hours apart; within this they are aligned. */
#define SAME_CLOCK_NS (3600 * MUSTER_NS_PER_S)
/* Until every rank has its go. */
#define HEAD_START_NS (20 * MUSTER_NS_PER_MS)
/* Between being asked to end and being killed: the plugin's own 2 s at exit, and as much again. */
#define GRACE_MS 5000
#define GRACE_NS (GRACE_MS * MUSTER_NS_PER_MS)

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

struct rank {
    char path[PATH_MAX];
    pid_t pid;
    int hello, go; /* our ends of the pipes */
    struct muster_replay_hello greeting;
};

struct replay {
    const struct muster_cmd *cmd;
    char plugin[PATH_MAX], out[PATH_MAX];
    char speed[24], hold[24];
    struct muster_arena memory; /* of the ranks */
    struct rank *rank;
    size_t ranks;
    sigset_t signals; /* blocked here, waited for */
    sigset_t inherited;
};

static int complain(const struct replay *replay, const char *text)
{
    fprintf(stderr, "muster %s: %s\n", replay->cmd->name, text);
    return -1;
}

static int no_memory(const struct replay *replay)
{
    struct muster_err err;
    muster_fail_memory(&err, "the ranks");
    return complain(replay, err.text);
}

/* ---- what to play ---- */

static int is_rank_file(const struct dirent *entry)
{
    return fnmatch("rank-*.jsonl", entry->d_name, 0) == 0 ||
           fnmatch("rank-*.jsonl.xz", entry->d_name, 0) == 0 ||
           fnmatch("pid-*.jsonl", entry->d_name, 0) == 0;
}

static int list_folder(struct replay *replay, const char *folder)
{
    struct dirent **entry;
    struct muster_err err;
    int n = scandir(folder, &entry, is_rank_file, versionsort);
    if (n < 0) {
        muster_fail(&err, "%s: %s", folder, strerror(errno));
        return complain(replay, err.text);
    }
    replay->rank = muster_arena_array(&replay->memory, (size_t)n + 1, sizeof *replay->rank);
    for (int i = 0; i < n; i++) {
        if (replay->rank) {
            snprintf(replay->rank[replay->ranks++].path, PATH_MAX, "%s/%s", folder,
                     entry[i]->d_name);
        }
        free(entry[i]);
    }
    free(entry);
    if (n == 0) {
        muster_fail(&err, "%s: no files rank-*.jsonl or rank-*.jsonl.xz", folder);
        return complain(replay, err.text);
    }
    return replay->rank ? 0 : no_memory(replay);
}

static int list_files(struct replay *replay, const char *path)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return list_folder(replay, path);
    replay->rank = muster_arena_array(&replay->memory, 1, sizeof *replay->rank);
    if (!replay->rank)
        return no_memory(replay);
    muster_text_copy_path(replay->rank[0].path, PATH_MAX, path);
    replay->ranks = 1;
    return 0;
}

static int find_plugin(struct replay *replay, const char *given)
{
    struct muster_err err;
    int failed = 0;
    if (!given)
        failed = muster_locate_library(MUSTER_PROFILER_LIBRARY, replay->plugin, PATH_MAX, &err);
    else if (strchr(given, '/') && access(given, R_OK))
        failed = muster_fail(&err, "%s: %s", given, strerror(errno));
    else
        muster_text_copy_path(replay->plugin, PATH_MAX, given);
    return failed ? complain(replay, err.text) : 0;
}

static int set_speed(struct replay *replay, const char *text)
{
    uint64_t speed = 0;
    if (strcmp(text, "max") != 0 && (!muster_text_u64(text, &speed) || speed == 0)) {
        return muster_opt_wrong(replay->cmd,
                                "--speed: \"%s\" is neither a whole number from 1 on "
                                "nor max",
                                text);
    }
    snprintf(replay->speed, sizeof replay->speed, "%llu", (unsigned long long)speed);
    return 0;
}

/* Prints what is wrong, once for all ranks. Where nothing would be recorded there is nothing to
 * play for. */
static int read_settings(const struct replay *replay, struct muster_settings *settings)
{
    struct muster_err err;
    if (muster_settings_load(settings, &err) == 0)
        return 0;
    if (!muster_settings_was_reported(&err))
        complain(replay, err.text);
    muster_settings_mark_reported(&err);
    return settings->off ? -1 : 0;
}

static void set_out(struct replay *replay, const char *given, const char *from_settings)
{
    time_t now = time(NULL);
    struct tm utc;
    char stamp[32];
    if (given || from_settings[0]) {
        muster_text_copy_path(replay->out, PATH_MAX, given ? given : from_settings);
        return;
    }
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    snprintf(replay->out, PATH_MAX, "muster-%s-%d", stamp, (int)getpid());
}

/* ---- the processes ---- */

struct rank_pipes {
    int hello, go; /* the rank's ends */
};

static int prepare_rank(void *arg, struct muster_err *err)
{
    const struct rank_pipes *pipes = arg;
    signal(SIGPIPE, SIG_DFL);
    if (fcntl(pipes->hello, F_SETFD, 0) || fcntl(pipes->go, F_SETFD, 0))
        return muster_fail(err, "cannot pass on a pipe: %s", strerror(errno));
    return 0;
}

/* No rank plays on without the command. */
static int start_rank(const struct replay *replay, struct rank *rank, struct rank_pipes pipes)
{
    char hello_word[16], go_word[16];
    snprintf(hello_word, sizeof hello_word, "%d", pipes.hello);
    snprintf(go_word, sizeof go_word, "%d", pipes.go);
    const char *const argv[] = {"muster",
                                "replay",
                                MUSTER_REPLAY_RANK_WORD,
                                rank->path,
                                replay->plugin,
                                replay->speed,
                                replay->hold,
                                replay->out,
                                hello_word,
                                go_word,
                                NULL};
    const struct muster_child child = {.argv = argv,
                                       .program = "/proc/self/exe",
                                       .prepare = prepare_rank,
                                       .arg = &pipes,
                                       .mask = &replay->inherited,
                                       .orphaned = SIGTERM};
    struct muster_err err, why;
    if (muster_child_start(&child, &rank->pid, &why) == 0)
        return 0;
    rank->pid = 0;
    muster_fail(&err, "%.300s: its process does not start: %.150s", rank->path, why.text);
    return complain(replay, err.text);
}

static int spawn(struct replay *replay, struct rank *rank)
{
    int hello[2] = {-1, -1}, go[2] = {-1, -1};
    if (pipe2(hello, O_CLOEXEC) || pipe2(go, O_CLOEXEC)) {
        close(hello[0]);
        close(hello[1]);
        return complain(replay, strerror(errno));
    }
    int rc = start_rank(replay, rank, (struct rank_pipes){hello[1], go[0]});
    close(hello[1]);
    close(go[0]);
    rank->hello = hello[0];
    rank->go = go[1];
    return rc;
}

static int spawn_all(struct replay *replay)
{
    for (size_t i = 0; i < replay->ranks; i++)
        if (spawn(replay, &replay->rank[i]))
            return -1;
    return 0;
}

/* Reads every file's verdict; the first error stands for all, since one plugin missing is missing
 * for every rank. */
static int hear_all(struct replay *replay)
{
    for (size_t i = 0; i < replay->ranks; i++) {
        struct rank *rank = &replay->rank[i];
        struct muster_replay_hello *greeting = &rank->greeting;
        ssize_t n;
        do {
            n = read(rank->hello, greeting, sizeof *greeting);
        } while (n < 0 && errno == EINTR);
        if (n != sizeof *greeting) {
            struct muster_err err;
            muster_fail(&err, "%s: its process died", rank->path);
            return complain(replay, err.text);
        }
        if (greeting->error[0])
            return complain(replay, greeting->error);
        if (greeting->truncated) {
            fprintf(stderr, "muster replay: %s: ends in the middle; played up to there\n",
                    rank->path);
        }
    }
    return 0;
}

static void start_all(const struct replay *replay)
{
    uint64_t first = UINT64_MAX, last = 0, start = muster_now_ns() + HEAD_START_NS;
    for (size_t i = 0; i < replay->ranks; i++) {
        uint64_t t = replay->rank[i].greeting.first_ns;
        first = t < first ? t : first;
        last = t > last ? t : last;
    }
    for (size_t i = 0; i < replay->ranks; i++) {
        const struct rank *rank = &replay->rank[i];
        struct muster_replay_go go = {
            .epoch_ns = last - first < SAME_CLOCK_NS ? first : rank->greeting.first_ns,
            .start_ns = start,
        };
        if (write(rank->go, &go, sizeof go) != sizeof go)
            kill(rank->pid, SIGKILL); /* its exit status shows the rest */
    }
}

/* What playing will take, holding included; 0: as long as it takes. */
static double expected_s(const struct replay *replay)
{
    double longest = 0, speed = strtod(replay->speed, NULL), hold = strtod(replay->hold, NULL);
    for (size_t i = 0; i < replay->ranks; i++) {
        const struct muster_replay_hello *greeting = &replay->rank[i].greeting;
        double s = greeting->last_ns > greeting->first_ns
                       ? (double)(greeting->last_ns - greeting->first_ns) / (double)MUSTER_NS_PER_S
                       : 0;
        longest = s > longest ? s : longest;
    }
    return speed > 0 ? longest / speed + hold : 0;
}

static void signal_all(const struct replay *replay, int number)
{
    for (size_t i = 0; i < replay->ranks; i++)
        if (replay->rank[i].pid > 0)
            kill(replay->rank[i].pid, number);
}

/* True if the rank left as its recording did. */
static bool left_well(const struct rank *rank, int status, bool stopped)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (stopped || (rank->greeting.killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        return true;
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "muster replay: %s: its process died of signal %d\n", rank->path,
                WTERMSIG(status));
    }
    return false;
}

/* Takes leave of ranks that have ended; returns how many have not. */
static size_t reap_ended(struct replay *replay, bool stopped, bool *well)
{
    size_t left = 0;
    for (size_t i = 0; i < replay->ranks; i++) {
        struct rank *rank = &replay->rank[i];
        int status = 0;
        if (rank->pid > 0 && muster_child_ended(rank->pid, &status)) {
            *well = left_well(rank, status, stopped) && *well;
            rank->pid = 0;
        }
        left += rank->pid > 0;
    }
    return left;
}

/* Waits for all ranks; `stopped`: they were asked to end. Returns whether all were well;
 * *stop_signal is what asked the command to end, or 0. */
static bool reap_all(struct replay *replay, bool stopped, int *stop_signal)
{
    bool well = true;
    bool asked = stopped;
    uint64_t until_ns = stopped ? muster_now_ns() + GRACE_NS : UINT64_MAX;
    while (reap_ended(replay, asked, &well) > 0) {
        int got = sigtimedwait(&replay->signals, NULL, &(struct timespec){.tv_sec = 1});
        if (got > 0 && got != SIGCHLD) {
            *stop_signal = got;
            signal_all(replay, SIGTERM);
            until_ns = muster_now_ns() + GRACE_NS;
            asked = true;
        }
        if (muster_now_ns() >= until_ns)
            signal_all(replay, SIGKILL); /* a plugin that hangs */
    }
    return well;
}

static void close_pipes(struct replay *replay)
{
    for (size_t i = 0; i < replay->ranks; i++) {
        if (replay->rank[i].hello > 0) {
            close(replay->rank[i].hello);
            close(replay->rank[i].go);
        }
    }
}

/* Dies of the signal that stopped it, so that a shell sees so. */
static void die_of(const struct replay *replay, int signal)
{
    struct sigaction fallback = {.sa_handler = SIG_DFL};
    sigaction(signal, &fallback, NULL);
    raise(signal);
    sigprocmask(SIG_SETMASK, &replay->inherited, NULL);
}

static int play(struct replay *replay)
{
    int stop_signal = 0;
    /* a rank that dies early shows by its exit status */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, sigpipe;
    replay->signals = muster_child_signals_to_end();
    sigprocmask(SIG_BLOCK, &replay->signals, &replay->inherited);
    sigaction(SIGPIPE, &ignore, &sigpipe);
    struct muster_progress *progress = NULL;
    muster_family_adopt();
    bool ready = spawn_all(replay) == 0 && hear_all(replay) == 0;
    if (ready) {
        start_all(replay);
        progress = muster_progress_begin(replay->cmd->name, "playing", expected_s(replay));
    } else {
        signal_all(replay, SIGTERM);
    }
    close_pipes(replay);
    sigaction(SIGPIPE, &sigpipe, NULL);
    bool well = reap_all(replay, !ready, &stop_signal);
    muster_progress_end(progress);
    /* What a plugin started; and the segments of ranks that were killed, as in their recording or
     * by a signal. */
    muster_family_end(NULL, GRACE_MS);
    if (stop_signal)
        die_of(replay, stop_signal);
    sigprocmask(SIG_SETMASK, &replay->inherited, NULL);
    return !ready ? MUSTER_STATUS_USAGE : well ? MUSTER_STATUS_OK : MUSTER_STATUS_FINDING;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct options given = {.speed = "1"};
    struct replay replay = {.cmd = self};
    struct muster_settings settings;
    int status;
    if (argc > 1 && strcmp(argv[1], MUSTER_REPLAY_RANK_WORD) == 0)
        return muster_replay_rank(argc, argv);
    int at = muster_opt_parse_one(self, argc, argv, &given, "recording", &status);
    if (at < 0)
        return status;
    snprintf(replay.hold, sizeof replay.hold, "%llu", (unsigned long long)given.hold_s);
    if (set_speed(&replay, given.speed) || list_files(&replay, argv[at]) ||
        find_plugin(&replay, given.plugin) || read_settings(&replay, &settings)) {
        muster_arena_free(&replay.memory);
        return MUSTER_STATUS_USAGE;
    }
    set_out(&replay, given.out, settings.dir);
    status = play(&replay);
    if (status == MUSTER_STATUS_OK && settings.off)
        fputs("muster replay: nothing was recorded: MUSTER_OFF is set\n", stderr);
    else if (status == MUSTER_STATUS_OK && !given.out)
        fprintf(stderr, "muster replay: recorded in %s\n", replay.out);
    muster_arena_free(&replay.memory);
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
