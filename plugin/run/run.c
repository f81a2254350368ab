#include "run/run.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/text.h"
#include "oplog/log_reader.h"
#include "run/refresh.h"
#include "run/run_process.h"
#include "run/trace_folder.h"
#include "segment/identity.h"
#include "segment/reap.h"
#include "segment/run_dir.h"
#include "segment/segment_reader.h"

enum {
    TRIM_EVERY = 64, /* files: some 20 MB */
    OPS_ALL =
        65536, /* kept of all processes of a refreshed run: 0.1 s a look (bench/follow_cost) */
};

/* A file of the run directory, or a live segment, that has not found its process yet. */
struct file {
    const char *path;
    bool segment;
    bool alive;
    size_t found; /* how many were before it: the first that can be read counts */
    struct muster_seg_identity identity;
};

struct load {
    struct muster_run *run;
    struct muster_run *before; /* what was read earlier; NULL: nothing was */
    size_t most;               /* operations to be kept of a process that is refreshed */
    bool streamed;
    const struct muster_live_job *job; /* whose segments count; NULL: all do */
    struct muster_found *found;        /* in the segment directory */
    size_t founds;
    struct file *file;
    size_t files;
    struct muster_op ring[MUSTER_SEG_RING]; /* scratch */
};

/* Want of memory fails the whole: what is left would look like less than there is. */
static void note_failure(struct muster_run *run, const struct muster_err *err)
{
    if (muster_is_memory(err))
        run->memory.failed = true;
    else
        muster_run_note(run, "%s", err->text);
}

static void add_file(struct load *load, const char *path, bool segment, bool alive)
{
    struct file file = {.segment = segment, .alive = alive, .found = load->files};
    struct muster_err err;
    int rc = segment ? muster_segment_read_identity(path, &file.identity, &err)
                     : muster_log_read_identity(path, &file.identity, &err);
    if (rc != 0) {
        /* A live one that is gone: its process has just put it into the run directory. */
        if (!alive || access(path, F_OK) == 0)
            note_failure(load->run, &err);
        return;
    }
    file.path = muster_arena_text(&load->run->memory, path);
    if (muster_grow(&load->file, load->files, sizeof(file)))
        load->file[load->files++] = file;
    else
        load->run->memory.failed = true;
}

static void add_files_of(struct load *load, const char *dir)
{
    DIR *entries = opendir(dir);
    if (!entries) {
        muster_run_note(load->run, "%s: %s", dir, strerror(errno));
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(entries))) {
        char path[MUSTER_SEG_PATH + 300];
        bool segment = muster_text_ends_with(entry->d_name, ".seg");
        if (entry->d_name[0] == '.' || !(segment || muster_text_ends_with(entry->d_name, ".log")))
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        add_file(load, path, segment, false);
    }
    closedir(entries);
}

static bool same_dir(const char *a, const char *b)
{
    struct stat one, two;
    return stat(a, &one) == 0 && stat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

/* A dead process's segment goes where it belongs; if that fails it is read where it lies. */
static void settle_found(struct load *load, const struct muster_found *found)
{
    struct muster_err err;
    int rc = found->alive || found->uid != geteuid() ? 1 : muster_reap_one(found->path, &err);
    if (rc < 0)
        muster_run_note(load->run, "%s stays: %s", found->path, err.text);
    /* Gone: another process has just put it there. */
    if (rc != 0 && access(found->path, F_OK) == 0)
        add_file(load, found->path, true, found->alive);
}

static bool identity_of(struct load *load, const struct muster_found *found,
                        struct muster_seg_identity *identity)
{
    struct muster_err err;
    if (muster_segment_read_identity(found->path, identity, &err) == 0)
        return true;
    load->run->memory.failed |= muster_is_memory(&err);
    return false;
}

static void load_dir(struct load *load, const char *dir)
{
    for (size_t i = 0; i < load->founds; i++) {
        struct muster_seg_identity identity;
        if (identity_of(load, &load->found[i], &identity) && same_dir(identity.run_dir, dir))
            settle_found(load, &load->found[i]);
    }
    add_files_of(load, dir);
}

/* The log that belongs to a segment found by itself. */
static void add_log_of(struct load *load, const struct muster_seg_identity *identity)
{
    char path[MUSTER_SEG_PATH + 300];
    struct stat file;
    muster_identity_file(identity, ".log", path, sizeof(path));
    if (identity->file_stem[0] && stat(path, &file) == 0)
        add_file(load, path, false, false);
}

static void load_pid(struct load *load, uint64_t pid)
{
    size_t before = load->files;
    bool lives = pid <= INT_MAX && pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
    for (size_t i = 0; i < load->founds; i++) {
        struct muster_seg_identity identity;
        if (!identity_of(load, &load->found[i], &identity) || identity.pid != pid)
            continue;
        add_file(load, load->found[i].path, true, load->found[i].alive);
        add_log_of(load, &identity);
    }
    if (load->files == before)
        muster_run_note(load->run,
                        lives ? "%llu: this process records nothing. muster cannot attach to a "
                                "job that was started without it: muster run -- COMMAND"
                              : "%llu: no process of this number is here, and nothing that it "
                                "recorded; name its run directory",
                        (unsigned long long)pid);
}

static void load_live(struct load *load)
{
    for (size_t i = 0; i < load->founds; i++) {
        struct muster_seg_identity identity;
        if (!identity_of(load, &load->found[i], &identity) ||
            (load->job &&
             !muster_same_job(&identity, load->found[i].uid, &load->job->who, load->job->uid)))
            continue;
        add_file(load, load->found[i].path, true, load->found[i].alive);
        add_log_of(load, &identity);
    }
}

static void add_source(struct load *load, const char *name)
{
    const char *copy = muster_arena_text(&load->run->memory, name);
    *(const char **)muster_arena_add(&load->run->memory, &load->run->source, &load->run->sources,
                                     sizeof copy) = copy;
}

/* The directory of a run whose processes could not make it, or not yet: what they leave lies where
 * it was recorded. False: nobody on this host names it. */
static bool load_unmade(struct load *load, const char *name)
{
    char dir[MUSTER_SEG_PATH];
    size_t before = load->files;
    if (muster_run_dir_choose(dir, sizeof(dir), name, 0, NULL) != 0)
        return false;
    for (size_t i = 0; i < load->founds; i++) {
        struct muster_seg_identity identity;
        if (identity_of(load, &load->found[i], &identity) && strcmp(identity.run_dir, dir) == 0)
            add_file(load, load->found[i].path, true, load->found[i].alive);
    }
    if (load->files > before)
        muster_run_note(load->run, "%s is not there; read from the segments of this host", name);
    return load->files > before;
}

static void load_named(struct load *load, const char *name)
{
    struct stat file;
    uint64_t pid;
    char folder[MUSTER_SEG_PATH];
    size_t before = load->files;
    bool known = true;
    add_source(load, name);
    if (stat(name, &file) == 0 && S_ISDIR(file.st_mode))
        load_dir(load, name);
    else if (muster_text_u64(name, &pid))
        load_pid(load, pid);
    else
        known = load_unmade(load, name);
    if (load->files == before && muster_trace_folder(name, folder, sizeof(folder)))
        muster_run_note(load->run,
                        "%s: recorded calls, not a run; `muster replay %s` makes a run of them",
                        name, folder);
    else if (!known)
        muster_run_note(load->run, "%s: neither a run directory nor a pid", name);
}

/* Nothing was recorded in this directory; of one that runs here, where. */
static void note_none_here(struct load *load)
{
    for (size_t i = 0; i < load->founds; i++) {
        struct muster_seg_identity identity;
        if (load->found[i].alive && identity_of(load, &load->found[i], &identity) &&
            identity.run_dir[0]) {
            muster_run_note(load->run,
                            "no ./muster-* here; name a run directory or a pid: a job that runs on "
                            "this host records to %.300s",
                            identity.run_dir);
            return;
        }
    }
    muster_run_note(load->run, "no ./muster-* here; name a run directory or a pid");
}

static void load_newest(struct load *load)
{
    glob_t found;
    const char *newest = NULL;
    struct timespec when = {0};
    if (glob("./muster-*", 0, NULL, &found) != 0) {
        note_none_here(load);
        return;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat file;
        if (stat(found.gl_pathv[i], &file) != 0 || !S_ISDIR(file.st_mode))
            continue;
        if (newest && (file.st_mtim.tv_sec < when.tv_sec || (file.st_mtim.tv_sec == when.tv_sec &&
                                                             file.st_mtim.tv_nsec <= when.tv_nsec)))
            continue;
        newest = found.gl_pathv[i];
        when = file.st_mtim;
    }
    if (newest)
        load_named(load, newest);
    else
        note_none_here(load);
    globfree(&found);
}

static int order_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_process(const struct muster_seg_identity *a, const struct muster_seg_identity *b)
{
    int order = order_u64(a->pid, b->pid);
    order = order ? order : order_u64(a->begin_unix_ns, b->begin_unix_ns);
    order = order ? order : order_u64(a->start_ticks, b->start_ticks);
    order = order ? order : order_u64(a->boot_hash, b->boot_hash);
    return order ? order : strcmp(a->file_stem, b->file_stem);
}

/* Files of one process beside each other. */
static int file_order(const void *a, const void *b)
{
    const struct file *one = a, *two = b;
    int order = by_process(&one->identity, &two->identity);
    return order ? order : order_u64(one->found, two->found);
}

static int process_order(const void *a, const void *b)
{
    return by_process(&((const struct muster_process *)a)->identity,
                      &((const struct muster_process *)b)->identity);
}

/* A process that ends meanwhile first puts its segment into the run directory, then removes it. */
static int read_alive(struct file *file, struct muster_segment **segment, unsigned *unstable,
                      struct muster_err *err)
{
    char path[MUSTER_SEG_PATH + 300];
    int rc = muster_segment_read_live(file->path, segment, unstable, err);
    if (rc == 0 || access(file->path, F_OK) == 0)
        return rc;
    file->alive = false;
    muster_identity_file(&file->identity, ".seg", path, sizeof(path));
    return muster_segment_read(path, segment, err);
}

static bool read_pieces(struct load *load, struct file *file, struct muster_pieces *pieces)
{
    struct muster_err err;
    unsigned unstable = 0;
    int rc;
    if (!file->segment) {
        /* What the segment has the log need not. */
        rc = load->streamed && pieces->segment ? muster_log_count(file->path, &pieces->log, &err)
                                               : muster_log_read(file->path, &pieces->log, &err);
        pieces->log_path = rc == 0 && load->streamed ? strdup(file->path) : NULL;
        load->run->memory.failed |= rc == 0 && load->streamed && !pieces->log_path;
    } else if (file->alive)
        rc = read_alive(file, &pieces->segment, &unstable, &err);
    else
        rc = muster_segment_read(file->path, &pieces->segment, &err);
    if (rc != 0)
        note_failure(load->run, &err);
    if (unstable)
        muster_run_note(load->run, "%s: %u entries left out, they never stood still", file->path,
                        unstable);
    pieces->alive |= rc == 0 && file->alive;
    return rc == 0;
}

/* The files of one process. */
struct group {
    struct file *file;
    size_t files;
};

/* What was read before stands in the order of processes, too. */
static struct muster_process *known_before(const struct load *load, const struct group *group)
{
    const struct muster_process key = {.identity = group->file->identity};
    return load->before && load->before->processes
               ? bsearch(&key, load->before->process, load->before->processes,
                         sizeof(*load->before->process), process_order)
               : NULL;
}

static struct file *segment_of(const struct group *group)
{
    for (size_t i = 0; i < group->files; i++)
        if (group->file[i].segment)
            return &group->file[i];
    return NULL;
}

/* False: it has to be read as if it were new. */
static bool refresh_process(struct load *load, const struct group *group)
{
    struct muster_process *known = known_before(load, group);
    struct file *file = segment_of(group);
    if (!known)
        return false;
    if (known->state != MUSTER_PROCESS_RUNNING) {
        if (!known->refreshed &&
            !muster_process_begin_refresh(known, load->most, MUSTER_RUN_LATEST))
            return false;
    } else if (!file) {
        if (!muster_process_refresh_log(known, group->file->path, load->most,
                                        &load->run->memory.failed))
            return false;
    } else if (!muster_process_refresh(known, file->path, file->alive, load->most, load->ring,
                                       &load->run->memory.failed))
        return false;
    muster_run_add_known(load->run, known);
    return true;
}

/* The first segment, or log, of the process that can be read. Found twice, by two names of one
 * directory: once is enough. */
static bool load_piece(struct load *load, const struct group *group, bool segment,
                       struct muster_pieces *pieces)
{
    bool any = false;
    for (size_t i = 0; i < group->files && !any; i++)
        if (group->file[i].segment == segment)
            any = read_pieces(load, &group->file[i], pieces);
    return any;
}

static void load_process(struct load *load, const struct group *group)
{
    struct muster_pieces pieces = {0};
    if (refresh_process(load, group))
        return;
    bool segment = load_piece(load, group, true, &pieces);
    if (load_piece(load, group, false, &pieces) || segment)
        muster_run_add(load->run, &pieces);
}

static int by_rank(const void *a, const void *b)
{
    const struct muster_seg_identity *one = &((const struct muster_process *)a)->identity;
    const struct muster_seg_identity *two = &((const struct muster_process *)b)->identity;
    if (one->rank != two->rank)
        return one->rank < two->rank ? -1 : 1;
    int host = strcmp(one->host, two->host);
    if (host != 0)
        return host;
    return (one->pid > two->pid) - (one->pid < two->pid);
}

const char *muster_run_segment_dir(const struct muster_run_query *query)
{
    const char *dir = query->segment_dir ? query->segment_dir : getenv("MUSTER_SEGMENT_DIR");
    return dir && *dir ? dir : "/dev/shm";
}

/* What lives on this host is known up to now. */
static void note_seen(struct muster_run *run)
{
    struct muster_host host;
    uint64_t now = muster_now_ns();
    muster_host_read(&host, NULL);
    for (size_t i = 0; i < run->processes; i++) {
        struct muster_process *process = &run->process[i];
        process->elsewhere = process->identity.boot_hash != host.boot_hash;
        if (!process->elsewhere && process->state == MUSTER_PROCESS_RUNNING)
            process->seen_ns = now;
    }
}

static bool is_earlier(const struct muster_run_since *since,
                       const struct muster_seg_identity *identity, const struct muster_host *host)
{
    if (since->unix_ns == 0)
        return false;
    return identity->boot_hash == host->boot_hash
               ? identity->begin_mono_ns + since->slack_ns < since->mono_ns
               : identity->begin_unix_ns + 60 * MUSTER_NS_PER_S < since->unix_ns;
}

/* Segments and images of a megabyte come and go; what is left of their holes would be half a
 * megabyte a process. */
static void load_files(struct load *load, const struct muster_run_query *query)
{
    struct muster_host host;
    muster_host_read(&host, NULL);
    if (load->files > 0)
        qsort(load->file, load->files, sizeof(*load->file), file_order);
    if (load->before && load->before->processes > 0)
        qsort(load->before->process, load->before->processes, sizeof(*load->before->process),
              process_order);
    for (size_t first = 0, end; first < load->files; first = end) {
        const struct muster_seg_identity *identity = &load->file[first].identity;
        for (end = first + 1; end < load->files; end++)
            if (by_process(identity, &load->file[end].identity) != 0)
                break;
        if (!is_earlier(&query->since, identity, &host))
            load_process(load, &(struct group){&load->file[first], end - first});
        if (first / TRIM_EVERY != end / TRIM_EVERY)
            malloc_trim(0);
    }
}

static void load_all(struct load *load, const struct muster_run_query *query)
{
    /* Root looks at everybody's. */
    load->founds = (geteuid() == 0 ? muster_find_all_segments : muster_find_segments)(
        muster_run_segment_dir(query), &load->found);
    load->run->memory.failed |= errno == ENOMEM;
    for (size_t i = 0; i < query->runs; i++)
        load_named(load, query->run[i]);
    if (query->live)
        load_live(load);
    else if (query->runs == 0)
        load_newest(load);
    load_files(load, query);
    if (load->run->processes > 0)
        qsort(load->run->process, load->run->processes, sizeof(*load->run->process), by_rank);
    note_seen(load->run);
}

/* `before`: what was read earlier, or NULL. */
static int load_run(const struct muster_run_query *query, struct muster_run *before,
                    struct muster_run *run, struct muster_err *err)
{
    struct muster_run got = {0};
    struct load load = {
        .run = &got,
        .before = before,
        .most = muster_window_share(OPS_ALL, before ? before->processes : 0),
        .streamed = query->streamed,
        .job = query->job,
    };
    load_all(&load, query);
    free(load.file);
    muster_found_free(load.found, load.founds);
    if (got.processes > 0 && !got.memory.failed) {
        *run = got;
        return 0;
    }
    if (got.memory.failed)
        muster_fail_memory(err, "the whole run");
    else if (got.notes > 0)
        muster_fail(err, "%s", got.note[0]);
    else if (got.sources > 0 && load.files && query->since.unix_ns)
        muster_fail(err,
                    "%s: nothing was recorded there since this job began; what is there is of "
                    "an earlier one",
                    got.source[0]);
    else if (got.sources > 0)
        muster_fail(err, "%s: nothing that muster recorded is there", got.source[0]);
    else
        muster_fail(err,
                    "No job recorded by muster is running here%s. muster cannot attach to a "
                    "job that was started without it.",
                    geteuid() == 0 ? "" : " as this user");
    muster_run_free(&got);
    return -1;
}

int muster_run_load(const struct muster_run_query *query, struct muster_run *run,
                    struct muster_err *err)
{
    return load_run(query, NULL, run, err);
}

int muster_run_refresh(const struct muster_run_query *query, struct muster_run *run,
                       struct muster_err *err)
{
    struct muster_run before = *run;
    memset(run, 0, sizeof(*run));
    int rc = load_run(query, &before, run, err);
    muster_run_free(&before);
    return rc;
}

void muster_run_free(struct muster_run *run)
{
    for (size_t i = 0; i < run->processes; i++)
        muster_process_free(&run->process[i]);
    free(run->process);
    muster_arena_free(&run->memory);
    memset(run, 0, sizeof(*run));
}
