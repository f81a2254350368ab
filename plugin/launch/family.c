#include "launch/family.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "run/run.h"
#include "segment/reap.h"
#include "segment/segment_reader.h"

enum { STAT = 512, KILL_MS = 2000 };

void muster_family_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* -1: it is gone, or a zombie, whose parent has to take leave of it. */
static pid_t parent_of(const char *pid)
{
    char path[64], stat[STAT], state;
    int parent;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(stat, 1, sizeof stat - 1, file) : 0;
    if (file)
        fclose(file);
    stat[n] = '\0';
    /* A name may hold anything, the bracket at its end included. */
    const char *behind = strrchr(stat, ')');
    if (!behind || sscanf(behind + 1, " %c %d", &state, &parent) != 2 || state == 'Z')
        return -1;
    return parent;
}

static unsigned signal_children(int number)
{
    DIR *entries = opendir("/proc");
    const struct dirent *entry;
    unsigned n = 0;
    while (entries && (entry = readdir(entries))) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            parent_of(entry->d_name) != getpid())
            continue;
        n++;
        kill((pid_t)atoi(entry->d_name), number);
    }
    if (entries)
        closedir(entries);
    return n;
}

/* A pid of another container's means nothing here: the start time decides. */
static bool is_here(const struct muster_seg_identity *who)
{
    return who->pid > 1 && (pid_t)who->pid != getpid() &&
           muster_process_start_ticks((pid_t)who->pid) == who->start_ticks;
}

static unsigned signal_recorded(const char *run_dir, int number)
{
    struct muster_found *found;
    unsigned n = 0;
    size_t founds =
        muster_find_segments(muster_run_segment_dir(&(struct muster_run_query){0}), &found);
    for (size_t i = 0; i < founds; i++) {
        struct muster_seg_identity who;
        if (!found[i].alive || muster_segment_read_identity(found[i].path, &who, NULL) != 0 ||
            strcmp(who.run_dir, run_dir) != 0 || !is_here(&who))
            continue;
        n++;
        kill((pid_t)who.pid, number);
    }
    muster_found_free(found, founds);
    return n;
}

static unsigned signal_all(const char *run_dir, int number)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return signal_children(number) + (run_dir ? signal_recorded(run_dir, number) : 0);
}

/* Whether all are gone within `ms`. Each look finds those whose parent has just ended. */
static bool end_by(const char *run_dir, int number, unsigned ms)
{
    uint64_t end_ns = muster_now_ns() + ms * MUSTER_NS_PER_MS;
    bool first = true;
    while (signal_all(run_dir, first || number == SIGKILL ? number : 0) > 0) {
        if (muster_now_ns() >= end_ns)
            return false;
        first = false;
        nanosleep(&(struct timespec){.tv_nsec = 10 * MUSTER_NS_PER_MS}, NULL);
    }
    return true;
}

void muster_family_end(const char *run_dir, unsigned grace_ms)
{
    if (!end_by(run_dir, SIGTERM, grace_ms))
        end_by(run_dir, SIGKILL, KILL_MS);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    muster_reap(muster_run_segment_dir(&(struct muster_run_query){0}));
}
