#include "replay/replay_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "launch/child.h"
#include "launch/family.h"
#include "replay/replay_rank.h"

/* Recordings of hosts with clocks of their own start hours apart; within this they are aligned. */
#define SAME_CLOCK_NS (3600 * MUSTER_NS_PER_S)
/* Until every rank has its go. */
#define HEAD_START_NS (20 * MUSTER_NS_PER_MS)
/* Between being asked to end and being killed: the plugin's own 2 s at exit, and as much again. */
#define GRACE_MS 5000
#define GRACE_NS (GRACE_MS * MUSTER_NS_PER_MS)

struct muster_replay_process {
    char path[PATH_MAX];
    pid_t pid;
    int hello, go; /* our ends of the pipes */
    struct muster_replay_hello greeting;
};

/* ---- what to play ---- */

static int is_rank_file(const struct dirent *entry)
{
    return fnmatch("rank-*.jsonl", entry->d_name, 0) == 0 ||
           fnmatch("rank-*.jsonl.xz", entry->d_name, 0) == 0 ||
           fnmatch("pid-*.jsonl", entry->d_name, 0) == 0;
}

static int find_in_folder(struct muster_replay_job *job, const char *folder, struct muster_err *err)
{
    struct dirent **entry;
    int n = scandir(folder, &entry, is_rank_file, versionsort);
    if (n < 0)
        return muster_fail(err, "%s: %s", folder, strerror(errno));
    job->rank = muster_arena_array(&job->memory, (size_t)n + 1, sizeof *job->rank);
    for (int i = 0; i < n; i++) {
        if (job->rank)
            snprintf(job->rank[job->ranks++].path, PATH_MAX, "%s/%s", folder, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    if (n == 0)
        return muster_fail(err, "%s: no files rank-*.jsonl or rank-*.jsonl.xz", folder);
    return job->rank ? 0 : muster_fail_memory(err, "the ranks");
}

int muster_replay_job_find(struct muster_replay_job *job, const char *path, struct muster_err *err)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return find_in_folder(job, path, err);
    job->rank = muster_arena_array(&job->memory, 1, sizeof *job->rank);
    if (!job->rank)
        return muster_fail_memory(err, "the ranks");
    muster_text_copy_path(job->rank[0].path, PATH_MAX, path);
    job->ranks = 1;
    return 0;
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
static int start_rank(const struct muster_replay_job *job, struct muster_replay_process *rank,
                      struct rank_pipes pipes, struct muster_err *err)
{
    char hello_word[16], go_word[16];
    snprintf(hello_word, sizeof hello_word, "%d", pipes.hello);
    snprintf(go_word, sizeof go_word, "%d", pipes.go);
    const char *const argv[] = {"muster",   "replay",    MUSTER_REPLAY_RANK_WORD,
                                rank->path, job->plugin, job->speed,
                                job->hold,  job->out,    hello_word,
                                go_word,    NULL};
    const struct muster_child child = {.argv = argv,
                                       .program = "/proc/self/exe",
                                       .prepare = prepare_rank,
                                       .arg = &pipes,
                                       .mask = &job->inherited,
                                       .orphaned = SIGTERM};
    struct muster_err why;
    if (muster_child_start(&child, &rank->pid, &why) == 0)
        return 0;
    rank->pid = 0;
    return muster_fail(err, "%.300s: its process does not start: %.150s", rank->path, why.text);
}

static int spawn(const struct muster_replay_job *job, struct muster_replay_process *rank,
                 struct muster_err *err)
{
    int hello[2] = {-1, -1}, go[2] = {-1, -1};
    if (pipe2(hello, O_CLOEXEC) || pipe2(go, O_CLOEXEC)) {
        muster_fail(err, "%s", strerror(errno));
        close(hello[0]);
        close(hello[1]);
        return -1;
    }
    int rc = start_rank(job, rank, (struct rank_pipes){hello[1], go[0]}, err);
    close(hello[1]);
    close(go[0]);
    rank->hello = hello[0];
    rank->go = go[1];
    return rc;
}

static int spawn_all(struct muster_replay_job *job, struct muster_err *err)
{
    for (size_t i = 0; i < job->ranks; i++)
        if (spawn(job, &job->rank[i], err))
            return -1;
    return 0;
}

__attribute__((format(printf, 2, 3))) static void note(const struct muster_replay_job *job,
                                                       const char *format, ...)
{
    char text[PATH_MAX + 64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    job->note(text);
}

/* Reads every file's verdict; the first error stands for all, since one plugin missing is missing
 * for every rank. */
static int hear_all(struct muster_replay_job *job, struct muster_err *err)
{
    for (size_t i = 0; i < job->ranks; i++) {
        struct muster_replay_process *rank = &job->rank[i];
        struct muster_replay_hello *greeting = &rank->greeting;
        ssize_t n;
        do {
            n = read(rank->hello, greeting, sizeof *greeting);
        } while (n < 0 && errno == EINTR);
        if (n != sizeof *greeting)
            return muster_fail(err, "%s: its process died", rank->path);
        if (greeting->error[0])
            return muster_fail(err, "%s", greeting->error);
        if (greeting->truncated)
            note(job, "%s: ends in the middle; played up to there", rank->path);
    }
    return 0;
}

static void start_all(const struct muster_replay_job *job)
{
    uint64_t first = UINT64_MAX, last = 0, start = muster_now_ns() + HEAD_START_NS;
    for (size_t i = 0; i < job->ranks; i++) {
        uint64_t t = job->rank[i].greeting.first_ns;
        first = t < first ? t : first;
        last = t > last ? t : last;
    }
    for (size_t i = 0; i < job->ranks; i++) {
        const struct muster_replay_process *rank = &job->rank[i];
        struct muster_replay_go go = {
            .epoch_ns = last - first < SAME_CLOCK_NS ? first : rank->greeting.first_ns,
            .start_ns = start,
        };
        if (write(rank->go, &go, sizeof go) != sizeof go)
            kill(rank->pid, SIGKILL); /* its exit status shows the rest */
    }
}

double muster_replay_job_expected_s(const struct muster_replay_job *job)
{
    double longest = 0, speed = strtod(job->speed, NULL), hold = strtod(job->hold, NULL);
    for (size_t i = 0; i < job->ranks; i++) {
        const struct muster_replay_hello *greeting = &job->rank[i].greeting;
        double s = greeting->last_ns > greeting->first_ns
                       ? (double)(greeting->last_ns - greeting->first_ns) / (double)MUSTER_NS_PER_S
                       : 0;
        longest = s > longest ? s : longest;
    }
    return speed > 0 ? longest / speed + hold : 0;
}

static void signal_all(const struct muster_replay_job *job, int number)
{
    for (size_t i = 0; i < job->ranks; i++)
        if (job->rank[i].pid > 0)
            kill(job->rank[i].pid, number);
}

/* True if the rank left as its recording did. */
static bool left_well(const struct muster_replay_job *job, const struct muster_replay_process *rank,
                      int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (job->asked || (rank->greeting.killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        return true;
    if (WIFSIGNALED(status))
        note(job, "%s: its process died of signal %d", rank->path, WTERMSIG(status));
    return false;
}

/* Takes leave of ranks that have ended; returns how many have not. */
static size_t reap_ended(struct muster_replay_job *job, bool *well)
{
    size_t left = 0;
    for (size_t i = 0; i < job->ranks; i++) {
        struct muster_replay_process *rank = &job->rank[i];
        int status = 0;
        if (rank->pid > 0 && muster_child_ended(rank->pid, &status)) {
            *well = left_well(job, rank, status) && *well;
            rank->pid = 0;
        }
        left += rank->pid > 0;
    }
    return left;
}

static void close_pipes(struct muster_replay_job *job)
{
    for (size_t i = 0; i < job->ranks; i++) {
        if (job->rank[i].hello > 0) {
            close(job->rank[i].hello);
            close(job->rank[i].go);
        }
    }
}

int muster_replay_job_start(struct muster_replay_job *job, struct muster_err *err)
{
    /* A rank that dies early shows by its exit status. */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, sigpipe;
    job->signals = muster_child_signals_to_end();
    sigprocmask(SIG_BLOCK, &job->signals, &job->inherited);
    sigaction(SIGPIPE, &ignore, &sigpipe);
    muster_family_adopt();
    int rc = spawn_all(job, err) == 0 ? hear_all(job, err) : -1;
    if (rc == 0)
        start_all(job);
    else
        signal_all(job, SIGTERM);
    job->asked = rc != 0;
    close_pipes(job);
    sigaction(SIGPIPE, &sigpipe, NULL);
    return rc;
}

bool muster_replay_job_wait(struct muster_replay_job *job)
{
    bool well = true;
    uint64_t until_ns = job->asked ? muster_now_ns() + GRACE_NS : UINT64_MAX;
    while (reap_ended(job, &well) > 0) {
        int got = sigtimedwait(&job->signals, NULL, &(struct timespec){.tv_sec = 1});
        if (got > 0 && got != SIGCHLD) {
            job->stop_signal = got;
            signal_all(job, SIGTERM);
            until_ns = muster_now_ns() + GRACE_NS;
            job->asked = true;
        }
        if (muster_now_ns() >= until_ns)
            signal_all(job, SIGKILL); /* a plugin that hangs */
    }
    return well;
}

void muster_replay_job_end(struct muster_replay_job *job)
{
    muster_family_end(NULL, GRACE_MS);
    if (job->stop_signal) {
        struct sigaction fallback = {.sa_handler = SIG_DFL};
        sigaction(job->stop_signal, &fallback, NULL);
        raise(job->stop_signal);
    }
    sigprocmask(SIG_SETMASK, &job->inherited, NULL);
}

void muster_replay_job_free(struct muster_replay_job *job)
{
    muster_arena_free(&job->memory);
    job->rank = NULL;
    job->ranks = 0;
}
