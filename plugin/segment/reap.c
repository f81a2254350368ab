#include "segment/reap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "segment/identity.h"
#include "segment/image.h"
#include "segment/layout.h"
#include "segment/segment_reader.h"

enum { KEEP_S = 7 * 24 * 3600, CREATING_S = 60 };

static void lock_path_of(char *lock, size_t size, const char *segment)
{
    snprintf(lock, size, "%.*s.lock", (int)(strlen(segment) - strlen(".seg")), segment);
}

/* A file of this user, whatever stands in its name. */
static bool is_of(const char *path, struct stat *file, uint32_t uid)
{
    return lstat(path, file) == 0 && S_ISREG(file->st_mode) && file->st_uid == uid;
}

static bool is_mine(const char *path, struct stat *file)
{
    return is_of(path, file, geteuid());
}

static unsigned long long own_namespace(void)
{
    struct stat ns;
    return stat("/proc/self/ns/pid", &ns) == 0 ? ns.st_ino : 0;
}

/* How the names of this process's own segment begin, and no other's. */
struct own_name {
    char text[128];
};

static struct own_name own_name(void)
{
    struct own_name own;
    snprintf(own.text, sizeof(own.text), "muster-%u-%llu-%u-%llu.", (unsigned)geteuid(),
             own_namespace(), (unsigned)getpid(),
             (unsigned long long)muster_process_start_ticks(0));
    return own;
}

static bool is_own(const char *name, const struct own_name *own)
{
    return strncmp(name, own->text, strlen(own->text)) == 0;
}

/* Containers may share /dev/shm, and have a directory of their own at the same path: a run
 * directory is the process's if its log lies there, or if it had pids as this process has. */
static bool saw_same_files(const char *path, const struct muster_seg_identity *identity)
{
    char log[MUSTER_SEG_PATH + 160], same[64];
    struct stat file;
    const char *slash = strrchr(path, '/');
    muster_identity_file(identity, ".log", log, sizeof(log));
    snprintf(same, sizeof(same), "muster-%u-%llu-", (unsigned)geteuid(), own_namespace());
    return is_mine(log, &file) || strncmp(slash ? slash + 1 : path, same, strlen(same)) == 0;
}

static bool is_locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool muster_segment_is_alive(const char *path)
{
    char lock[MUSTER_SEG_PATH + 300];
    lock_path_of(lock, sizeof(lock), path);
    /* Asking needs no more than reading, which is all that others' locks allow. */
    int fd = open(lock, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT;
    bool locked = is_locked(fd);
    close(fd);
    return locked;
}

static bool add(struct muster_found **found, size_t n, const char *path, bool own, uint32_t uid)
{
    if (!muster_grow(found, n, sizeof(**found)))
        return false;
    char *copy = strdup(path);
    if (!copy)
        return false;
    (*found)[n] = (struct muster_found){copy, own || muster_segment_is_alive(path), own, uid};
    return true;
}

/* The user in "muster-<uid>-..."; false: the name is not a segment's. */
static bool user_of(const char *name, uint32_t *uid)
{
    static const char prefix[] = "muster-";
    char digits[12];
    uint64_t value;
    if (strncmp(name, prefix, strlen(prefix)) != 0 || !muster_text_ends_with(name, ".seg"))
        return false;
    size_t n = strspn(name + strlen(prefix), "0123456789");
    if (n >= sizeof(digits) || name[strlen(prefix) + n] != '-')
        return false;
    snprintf(digits, sizeof(digits), "%.*s", (int)n, name + strlen(prefix));
    if (!muster_text_u64(digits, &value) || value > UINT32_MAX)
        return false;
    *uid = (uint32_t)value;
    return true;
}

static size_t find_segments(const char *dir, bool all, struct muster_found **found)
{
    *found = NULL;
    size_t n = 0;
    bool whole = true;
    const struct own_name own = own_name();
    const uint32_t me = geteuid();
    DIR *entries = opendir(dir);
    if (!entries) {
        errno = 0;
        return 0;
    }
    struct dirent *entry;
    while ((entry = readdir(entries))) {
        char path[MUSTER_SEG_PATH + 300];
        struct stat file;
        uint32_t uid;
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (!user_of(entry->d_name, &uid) || (!all && uid != me) || !is_of(path, &file, uid))
            continue;
        if (add(found, n, path, is_own(entry->d_name, &own), uid))
            n++;
        else
            whole = false;
    }
    closedir(entries);
    errno = whole ? 0 : ENOMEM;
    return n;
}

size_t muster_find_segments(const char *dir, struct muster_found **found)
{
    return find_segments(dir, false, found);
}

size_t muster_find_all_segments(const char *dir, struct muster_found **found)
{
    return find_segments(dir, true, found);
}

void muster_found_free(struct muster_found *found, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(found[i].path);
    free(found);
}

/* Where a segment may be written to without its process: a directory that is really ours. */
static int check_run_dir(const char *path, const struct muster_seg_identity *identity,
                         struct muster_err *err)
{
    if (!identity->run_dir[0] || !identity->file_stem[0])
        return muster_fail(err, "no run directory is known");
    if (access(identity->run_dir, F_OK) != 0)
        return muster_fail(err, "%s: %s", identity->run_dir, strerror(errno));
    if (!saw_same_files(path, identity))
        return muster_fail(err, "%s may be another container's: the process's log is not there",
                           identity->run_dir);
    return muster_check_owner(identity->run_dir, err);
}

/* Its process died while it made it: nothing was recorded. */
static bool is_unfinished(const void *data, size_t bytes)
{
    static const uint64_t none;
    return bytes < sizeof(none) || memcmp(data, &none, sizeof(none)) == 0;
}

static int move_out(const char *path, const char *lock, struct muster_err *err)
{
    void *data;
    size_t bytes;
    struct muster_segment *segment;
    if (muster_file_load(path, sizeof(*segment), &data, &bytes, err) != 0)
        return -1;
    bool unfinished = is_unfinished(data, bytes);
    int rc = unfinished ? 0 : muster_segment_parse(path, data, bytes, &segment, err);
    if (rc == 0 && !unfinished) {
        rc = check_run_dir(path, &segment->identity, err);
        if (rc == 0)
            rc = muster_segment_store(segment->identity.run_dir, segment->identity.file_stem, data,
                                      bytes, err);
        free(segment);
    }
    free(data);
    if (rc == 0) {
        unlink(path);
        unlink(lock);
    }
    return rc;
}

int muster_reap_one(const char *path, struct muster_err *err)
{
    char lock[MUSTER_SEG_PATH + 300];
    lock_path_of(lock, sizeof(lock), path);
    /* Made if it is missing: then this one keeps others out. */
    int fd = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return muster_fail(err, "%s: %s", lock, strerror(errno));
    /* The open file's, not the process's: another thread's look at this lock would end a
     * lock of the process when it closes the file. */
    struct flock want = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat file;
    int rc = 1;
    if (fcntl(fd, F_OFD_SETLK, &want) == 0 && is_mine(path, &file))
        rc = move_out(path, lock, err);
    else if (access(path, F_OK) != 0 && errno == ENOENT)
        unlink(lock);
    /* A child that was forked meanwhile holds the same open file. */
    want.l_type = F_UNLCK;
    fcntl(fd, F_OFD_SETLK, &want);
    close(fd);
    return rc;
}

static bool older_than(const char *path, time_t seconds)
{
    struct stat file;
    return is_mine(path, &file) && time(NULL) - file.st_mtime > seconds;
}

static void reap_segment(const struct muster_found *found)
{
    struct muster_err err;
    if (found->alive || muster_reap_one(found->path, &err) >= 0)
        return;
    muster_log(MUSTER_LOG_DEBUG, "%s stays for now: %s", found->path, err.text);
    char lock[MUSTER_SEG_PATH + 300];
    lock_path_of(lock, sizeof(lock), found->path);
    if (older_than(found->path, KEEP_S)) {
        unlink(found->path);
        unlink(lock);
    }
}

/* A lock is made just before its segment, so a young one is left alone. */
static void reap_lock(const char *dir, const char *name)
{
    char lock[MUSTER_SEG_PATH + 300], segment[MUSTER_SEG_PATH + 300];
    snprintf(lock, sizeof(lock), "%s/%s", dir, name);
    snprintf(segment, sizeof(segment), "%.*s.seg", (int)(strlen(lock) - strlen(".lock")), lock);
    if (access(segment, F_OK) == 0 || !older_than(lock, CREATING_S))
        return;
    int fd = open(lock, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (!is_locked(fd))
        unlink(lock);
    close(fd);
}

static void reap_locks(const char *dir)
{
    DIR *entries = opendir(dir);
    if (!entries)
        return;
    char prefix[32];
    const struct own_name own = own_name();
    snprintf(prefix, sizeof(prefix), "muster-%u-", (unsigned)geteuid());
    struct dirent *entry;
    while ((entry = readdir(entries)))
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            muster_text_ends_with(entry->d_name, ".lock") && !is_own(entry->d_name, &own))
            reap_lock(dir, entry->d_name);
    closedir(entries);
}

void muster_reap(const char *dir)
{
    struct muster_found *found;
    size_t n = muster_find_segments(dir, &found);
    for (size_t i = 0; i < n; i++)
        reap_segment(&found[i]);
    muster_found_free(found, n);
    reap_locks(dir);
}
