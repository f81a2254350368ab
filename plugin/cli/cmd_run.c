/* `muster run`: a job as it is, recorded. */
#include <errno.h>
#include <glob.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/capture_options.h"
#include "cli/cmd.h"
#include "cli/cmd_report.h"
#include "config/settings.h"
#include "launch/child.h"
#include "launch/dir_check.h"
#include "launch/hooks.h"
#include "launch/job_agent.h"
#include "launch/job_policy.h"
#include "run/run_ranks.h"
#include "segment/identity.h"
#include "segment/run_dir.h"

struct run_options {
    struct muster_capture capture;
    bool no_report, agent;
    struct muster_job_agent_options of_agent;
};

static const struct muster_opt run_table[] = {
    MUSTER_CAPTURE_OPTIONS,
    {"no-report", 'n', MUSTER_OPT_FLAG, offsetof(struct run_options, no_report),
     .help = "print no report at the end"},
    {"agent", 0, MUSTER_OPT_FLAG, offsetof(struct run_options, agent),
     .help = "serve this host's metrics while the job runs (muster agent)"},
    {"listen", 0, MUSTER_OPT_TEXT, offsetof(struct run_options, of_agent.listen), "ADDR:PORT",
     .help = "of --agent: where (127.0.0.1:9417)"},
    {"nats", 0, MUSTER_OPT_TEXT, offsetof(struct run_options, of_agent.nats), "URL",
     .help = "of --agent: tell muster fleet of the job by NATS: nats://HOST:4222, or tls://..."},
    {"nats-credentials", 0, MUSTER_OPT_TEXT,
     offsetof(struct run_options, of_agent.nats_credentials), "FILE",
     .help = "of --agent: a NATS credentials file, or a line USER:PASSWORD or TOKEN"},
    {"nats-ca", 0, MUSTER_OPT_TEXT, offsetof(struct run_options, of_agent.nats_ca), "FILE",
     .help = "of --agent: certificates to check the server's with (the system's)"},
    {.name = NULL},
};

/* A launcher starts a host's ranks one after the other: another rank's process may have begun
 * before this `muster run`. NCCL's first communicator, where a process's record begins, waits for
 * all of its ranks, so that a second is plenty. */
static const uint64_t RANKS_APART_NS = MUSTER_NS_PER_S;

/* Where the job will record. */
struct place {
    char dir[MUSTER_SEG_PATH]; /* "": the plugin chooses by its first communicator */
    struct muster_run_since since;
    int32_t rank; /* by the launcher; -1: not one of several */
    bool reports; /* this process prints for its host */
    bool off;     /* nothing will be recorded */
};

static bool has(char **argv, const char *option)
{
    for (; *argv; argv++)
        if (strncmp(*argv, option, strlen(option)) == 0)
            return true;
    return false;
}

static void warn_of_launcher(char **argv)
{
    static const struct {
        const char *name, *unless, *advice;
    } launchers[] = {
        {"ssh", NULL, "run `muster run` on the far side"},
        {"docker", NULL, "run `muster run` inside"},
        {"podman", NULL, "run `muster run` inside"},
        {"kubectl", NULL, "run `muster run` inside"},
        {"sudo", "-E", "put sudo before `muster run`"},
        {"mpirun", "-x",
         "name the variables of `muster env` with -x, or start ranks by `muster run`"},
        {"mpiexec", "-x", "start the ranks by `muster run`"},
    };
    char name[256];
    snprintf(name, sizeof name, "%s", argv[0]);
    const char *base = basename(name);
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        if (strcmp(base, launchers[i].name) == 0 &&
            !(launchers[i].unless && has(argv + 1, launchers[i].unless)) &&
            !has(argv + 1, "-genv")) {
            fprintf(stderr,
                    "muster run: %s may not pass variables on, then nothing is recorded: %s\n",
                    base, launchers[i].advice);
        }
    }
}

/* muster-<UTC start>-<pid> in the working directory */
static int own_dir(struct muster_environment *environment, struct place *place,
                   struct muster_err *err)
{
    char name[64];
    char stamp[32];
    struct tm utc;
    time_t begin = (time_t)(place->since.unix_ns / MUSTER_NS_PER_S);
    gmtime_r(&begin, &utc);
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
    snprintf(name, sizeof name, "muster-%s-%d", stamp, (int)getpid());
    if (muster_run_dir_choose(place->dir, sizeof place->dir, name, 0, err))
        return -1;
    return muster_environment_add(environment, "MUSTER_DIR", place->dir, err);
}

/* The variables are set already. */
static int choose_dir(struct muster_environment *environment, struct place *place,
                      struct muster_err *err)
{
    struct muster_settings settings;
    struct muster_seg_identity self;
    struct muster_err wrong;
    muster_identity_read(&self);
    int32_t rank = muster_identity_launcher_rank();
    bool one_of_many = rank >= 0;
    place->rank = rank;
    if (one_of_many)
        place->since.slack_ns = RANKS_APART_NS;
    place->reports = !one_of_many || self.local_rank == 0 || (self.local_rank < 0 && rank == 0);
    place->dir[0] = '\0';
    if (muster_settings_load(&settings, &wrong)) {
        if (place->reports)
            fprintf(stderr, "muster run: %s\n", wrong.text);
        muster_settings_mark_reported(&wrong);
    }
    if (settings.off) {
        place->off = true;
        return 0;
    }
    if (muster_run_dir_known(settings.dir))
        return muster_run_dir_choose(place->dir, sizeof place->dir, settings.dir, 0, err);
    return one_of_many ? 0 : own_dir(environment, place, err);
}

/* To the second: file systems' clocks are coarser than ours. Which processes in it are this job's
 * is evaluated by each one's begin. */
static bool is_written_since(const char *dir, const struct muster_run_since *since,
                             struct stat *file)
{
    return stat(dir, file) == 0 && S_ISDIR(file->st_mode) &&
           file->st_mtime >= (time_t)(since->unix_ns / MUSTER_NS_PER_S);
}

/* Directories under the working directory that this job wrote to: those of several groups of
 * ranks, whose names only the plugin knows. */
static int newer_dirs(glob_t *found, const struct place *place)
{
    size_t kept = 0;
    if (glob("./muster-*", GLOB_ONLYDIR, NULL, found))
        return -1;
    for (size_t i = 0; i < found->gl_pathc; i++) {
        struct stat file;
        if (is_written_since(found->gl_pathv[i], &place->since, &file)) {
            char *keep = found->gl_pathv[i];
            found->gl_pathv[i] = found->gl_pathv[kept];
            found->gl_pathv[kept++] = keep;
        }
    }
    return (int)kept;
}

/* Where the job has recorded. */
struct recorded {
    glob_t found;
    char fallback[PATH_MAX];
    const char *dir[2];
    struct muster_run_query query; /* no runs: nothing was recorded */
    int wrong;                     /* errno: what keeps the job out of its directory */
};

/* Where the plugin writes instead, of all processes or, on a disk that is nearly full, of some. */
static bool wrote_elsewhere(struct recorded *recorded, const struct place *place)
{
    struct stat own, moved;
    bool same = false;
    if (muster_run_dir_fallback(recorded->fallback, sizeof recorded->fallback, place->dir, NULL) ||
        !is_written_since(recorded->fallback, &place->since, &moved)) {
        return false;
    }
    if (stat(place->dir, &own) == 0)
        same = own.st_dev == moved.st_dev && own.st_ino == moved.st_ino;
    return !same && moved.st_uid == geteuid();
}

static void find_recorded(struct recorded *recorded, const struct place *place)
{
    struct stat own;
    *recorded = (struct recorded){.query = {.run = recorded->dir, .since = place->since}};
    if (!place->dir[0]) {
        int dirs = newer_dirs(&recorded->found, place);
        recorded->query.run = (const char *const *)recorded->found.gl_pathv;
        recorded->query.runs = dirs > 0 ? (size_t)dirs : 0;
        return;
    }
    if (stat(place->dir, &own) == 0 && !S_ISDIR(own.st_mode))
        recorded->wrong = ENOTDIR;
    else if (access(place->dir, W_OK | X_OK) == 0)
        recorded->dir[recorded->query.runs++] = place->dir;
    else if (errno != ENOENT)
        recorded->wrong = errno;
    if (wrote_elsewhere(recorded, place))
        recorded->dir[recorded->query.runs++] = recorded->fallback;
}

/* Before the job begins: a directory that is wrong is no news at its end. */
static void print_place(const struct place *place)
{
    struct muster_err err;
    char fallback[PATH_MAX];
    if (place->off) {
        fputs("muster run: the job runs unrecorded\n", stderr);
    } else if (!place->dir[0]) {
        fputs("muster run: recording to a directory ./muster-* of the job\n", stderr);
    } else if (muster_dir_check(place->dir, &err) == 0) {
        fprintf(stderr, "muster run: recording to %s\n", place->dir);
    } else if (muster_run_dir_fallback(fallback, sizeof fallback, place->dir, NULL) == 0 &&
               muster_dir_check(fallback, NULL) == 0) {
        fprintf(stderr, "muster run: %s: %s: recording to %s instead\n", place->dir, err.text,
                fallback);
    } else {
        fprintf(stderr,
                "muster run: %s: %s, nor is there room under TMPDIR: what is recorded will be "
                "lost; name a directory with --dir\n",
                place->dir, err.text);
    }
}

/* A policy that NCCL never asked about steers nothing, and nothing else shows that. */
static void report_missed(const struct muster_run_query *query)
{
    struct muster_run run;
    if (!query->runs || muster_run_load(query, &run, NULL))
        return;
    unsigned missed = muster_steer_missed(&run);
    if (missed) {
        fprintf(stderr,
                "muster run: in %u of %zu processes NCCL loaded no tuner: the policy steered "
                "nothing there (NCCL_DEBUG=INFO tells why)\n",
                missed, run.processes);
    }
    muster_run_free(&run);
}

static void print_report(const struct recorded *recorded, const struct place *place)
{
    const struct muster_run_query *query = &recorded->query;
    struct muster_err err;
    if (!query->runs && recorded->wrong) {
        fprintf(stderr,
                "muster run: nothing was recorded: %s: %s, and under TMPDIR nothing was written\n",
                place->dir, strerror(recorded->wrong));
    } else if (!query->runs) {
        fputs(
            "muster run: nothing was recorded: the command made no NCCL communicator, or its NCCL "
            "loads no profiler plugin (NCCL_DEBUG=INFO tells)\n",
            stderr);
    } else if (muster_report_print(query, &(struct muster_report_request){0}, stderr, &err)) {
        fprintf(stderr,
                "muster run: nothing to report: %s. Did the command make an NCCL communicator, and "
                "its NCCL load the plugin (NCCL_DEBUG=INFO tells)?\n",
                err.text);
    }
}

/* Commands on findings: of this host's first rank only, like the report. */
static struct muster_hooks *start_hooks(const struct place *place)
{
    struct muster_settings settings;
    if (!place->reports || muster_settings_load(&settings, NULL))
        return NULL;
    return muster_hooks_start(&settings, place->dir);
}

static int prepare(const struct muster_cmd *self, const struct run_options *options,
                   struct place *place, struct muster_err *err)
{
    struct muster_environment environment;
    struct muster_environment own = {.n = 0};
    if (muster_environment_plan(&options->capture, &environment, err))
        return -1;
    if (!options->capture.quiet)
        muster_environment_report_others(self->name, &environment);
    int rc = muster_environment_apply(&environment, err);
    muster_environment_free(&environment);
    return rc || choose_dir(&own, place, err) ? -1 : muster_environment_apply(&own, err);
}

/* Of a job whose hosts share a run directory the host of rank 0 prints the report. Clocks of hosts
 * differ, and its ranks may have begun before this host's. */
static bool another_reports(const struct place *place)
{
    const uint64_t slack_s = 600;
    return place->rank > 0 && place->dir[0] &&
           muster_run_holds_rank(place->dir, 0, place->since.unix_ns - slack_s * MUSTER_NS_PER_S);
}

static void report_the_end(const struct run_options *options, const struct place *place)
{
    struct recorded recorded;
    find_recorded(&recorded, place);
    if (!options->no_report && another_reports(place)) {
        fprintf(stderr,
                "muster run: rank 0 is in this run directory, and its `muster run` reports: muster "
                "report %s\n",
                place->dir);
    } else if (!options->no_report) {
        print_report(&recorded, place);
    }
    const char *tuner = getenv("NCCL_TUNER_PLUGIN");
    if (tuner && strcmp(tuner, MUSTER_TUNER_LIBRARY) == 0)
        report_missed(&recorded.query);
    globfree(&recorded.found);
}

/* As local rank 0, like hooks and report: one agent a host. 0: there is none. */
static pid_t start_agent(const struct run_options *options, const struct place *place)
{
    struct muster_err err;
    pid_t agent;
    if (!options->agent || !place->reports || place->off)
        return 0;
    if (muster_job_agent_start(&options->of_agent, &agent, &err) == 0)
        return agent;
    fprintf(stderr, "muster run: the job runs without an agent: %s\n", err.text);
    return 0;
}

/* The job, with all that is beside it. */
static int run_job(const struct run_options *options, const struct place *place, char **command,
                   struct muster_err *err)
{
    pid_t agent = start_agent(options, place);
    struct muster_hooks *hooks = start_hooks(place);
    int status = muster_child_run(command, err);
    muster_hooks_finish(hooks);
    if (agent)
        muster_job_agent_end(agent);
    return status;
}

/* What of the agent is given without an agent; NULL: nothing. */
static const char *without_agent(const struct run_options *options)
{
    const struct muster_job_agent_options *agent = &options->of_agent;
    if (options->agent)
        return NULL;
    return agent->listen             ? "--listen"
           : agent->nats             ? "--nats"
           : agent->nats_credentials ? "--nats-credentials"
           : agent->nats_ca          ? "--nats-ca"
                                     : NULL;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct run_options options = {0};
    struct place place = {.since = {.mono_ns = muster_now_ns(), .unix_ns = muster_unix_ns()}};
    struct muster_err err;
    int status;
    int at = muster_opt_parse(self, argc, argv, &options, &status);
    if (at < 0)
        return status;
    if (at == argc)
        return muster_opt_wrong(self, "which command?");
    if (without_agent(&options))
        return muster_opt_wrong(self, "%s is of the agent: with --agent", without_agent(&options));
    options.of_agent.quiet = options.capture.quiet;
    if (prepare(self, &options, &place, &err)) {
        fprintf(stderr, "muster run: %s\n", err.text);
        return MUSTER_STATUS_USAGE;
    }
    if (!options.capture.quiet)
        warn_of_launcher(argv + at);
    if (place.reports && !options.capture.quiet)
        print_place(&place);
    status = run_job(&options, &place, argv + at, &err);
    if (err.text[0])
        fprintf(stderr, "muster run: %s\n", err.text);
    else if (place.reports && !place.off)
        report_the_end(&options, &place);
    return status;
}

const struct muster_cmd muster_cmd_run = {
    .name = "run",
    .summary = "run a job with recording and report what it cost",
    .usage = "[options] [--] COMMAND [ARGUMENT...]",
    .about =
        "The command keeps its standard output; the report goes to standard error. The exit\n"
        "status is the command's: 128 + n after signal n, 127 if there is no such command, 126\n"
        "if it cannot be run. As one of several ranks only local rank 0 reports; where hosts "
        "share\n"
        "the run directory, only rank 0.\n",
    .examples = "  muster run -- torchrun --nproc-per-node 8 train.py\n"
                "  muster run --dir /shared/run-7 -- srun train.sh\n"
                "Its metrics for Prometheus, and told to muster fleet, while it runs:\n"
                "  srun muster run --agent --nats nats://head:4222 -- python train.py\n"
                "Every operation timed, whatever that costs:\n"
                "  muster run --timing full -- ./all_reduce_perf -b 8 -e 1G -g 8\n",
    .options = run_table,
    .stop_at_operand = true,
    .run = run,
};
