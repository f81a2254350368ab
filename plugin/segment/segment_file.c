#include "segment/segment_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/image.h"
#include "segment/snapshot.h"

enum { SHARE_OF_FREE = 8, NAME_BYTES = 128 };

/* The kernel's f_type is signed on some machines and unsigned on others. */
static bool is_memory(const struct statfs *fs)
{
    return (uint32_t)fs->f_type == TMPFS_MAGIC || (uint32_t)fs->f_type == RAMFS_MAGIC;
}

/* ramfs knows no size: nothing to check there. */
static bool has_room(const struct statfs *fs)
{
    if (fs->f_blocks == 0)
        return true;
    uint64_t free_bytes = (uint64_t)fs->f_bavail * (uint64_t)fs->f_bsize;
    return free_bytes / SHARE_OF_FREE >= sizeof(struct muster_segment);
}

static int check_dir(int fd, const char *dir, struct muster_err *err)
{
    struct stat link;
    if (lstat(dir, &link) == 0 && S_ISLNK(link.st_mode) && link.st_uid != geteuid() &&
        link.st_uid != 0)
        return muster_fail(err, "%s: a symbolic link of another user", dir);
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return muster_fail(err, "%s: %s", dir, strerror(errno));
    if (!is_memory(&fs))
        return muster_fail(err, "%s: not a tmpfs", dir);
    if (!has_room(&fs))
        return muster_fail(err, "%s: too full: less than %d times %zu bytes free", dir,
                           SHARE_OF_FREE, sizeof(struct muster_segment));
    return 0;
}

static int open_dir(const char *dir, struct muster_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return muster_fail(err, "%s: %s", dir, strerror(errno));
    if (check_dir(fd, dir, err) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The name is this very process's: pid namespaces may share a /dev/shm, pids come back. */
static void own_name(char name[static NAME_BYTES], const struct muster_seg_identity *identity)
{
    struct stat ns = {0};
    if (stat("/proc/self/ns/pid", &ns) != 0)
        ns.st_ino = 0;
    snprintf(name, NAME_BYTES, "muster-%u-%llu-%u-%llu", identity->uid,
             (unsigned long long)ns.st_ino, identity->pid,
             (unsigned long long)identity->start_ticks);
}

static int create_at(int dir, const char *name)
{
    return openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Our name can be taken by another copy of the library in this process, or by somebody else's
 * file. */
static enum muster_segment_created taken(int dir, const char *name, const char *path,
                                         struct muster_err *err)
{
    struct stat file;
    if (fstatat(dir, name, &file, AT_SYMLINK_NOFOLLOW) == 0 &&
        (!S_ISREG(file.st_mode) || file.st_uid != geteuid())) {
        muster_fail(err, "%s: a file of another user or no file stands there", path);
        return MUSTER_SEGMENT_FAILED;
    }
    muster_fail(err, "another copy of muster records this process (%s)", path);
    return MUSTER_SEGMENT_DUPLICATE;
}

static enum muster_segment_created take_lock(struct muster_segment_file *file, int dir,
                                             const char *name, struct muster_err *err)
{
    int fd = create_at(dir, name);
    if (fd < 0 && errno == EEXIST)
        return taken(dir, name, file->lock_path, err);
    if (fd < 0) {
        muster_fail(err, "%s: %s", file->lock_path, strerror(errno));
        return MUSTER_SEGMENT_FAILED;
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &lock) != 0) {
        muster_fail(err, "%s: %s", file->lock_path, strerror(errno));
        unlinkat(dir, name, 0);
        close(fd);
        return MUSTER_SEGMENT_FAILED;
    }
    file->lock_fd = fd;
    return MUSTER_SEGMENT_OK;
}

/* Allocation reserves the pages; the writes prove it where allocation is only a promise. */
static int fill(int fd)
{
    static const char zero[1 << 16];
    size_t size = sizeof(struct muster_segment);
    int rc;
    if (!muster_file_size_allowed(size))
        return EFBIG;
    do {
        rc = posix_fallocate(fd, 0, (off_t)size);
    } while (rc == EINTR);
    for (size_t at = 0; rc == 0 && at < size; at += sizeof(zero)) {
        size_t n = size - at < sizeof(zero) ? size - at : sizeof(zero);
        rc = muster_pwrite_all(fd, zero, n, at);
    }
    return rc;
}

static struct muster_segment *map_memory(int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *map = mmap(NULL, sizeof(struct muster_segment), PROT_READ | PROT_WRITE,
                     flags | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (madvise(map, sizeof(struct muster_segment), MADV_DONTFORK) != 0) {
        munmap(map, sizeof(struct muster_segment));
        return NULL;
    }
    return map;
}

static enum muster_segment_created create_file(struct muster_segment_file *file, int dir,
                                               const char *name, struct muster_err *err)
{
    int fd = create_at(dir, name);
    if (fd < 0 && errno == EEXIST)
        return taken(dir, name, file->path, err);
    int rc = fd < 0 ? errno : fill(fd);
    if (rc == 0) {
        file->map = map_memory(fd);
        rc = file->map ? 0 : errno;
    }
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        return MUSTER_SEGMENT_OK;
    if (fd >= 0)
        unlinkat(dir, name, 0);
    muster_fail(err, "%s: %s", file->path, strerror(rc));
    return MUSTER_SEGMENT_FAILED;
}

static enum muster_segment_created create_pair(struct muster_segment_file *file, int fd,
                                               const char *dir,
                                               const struct muster_seg_identity *identity,
                                               struct muster_err *err)
{
    char name[NAME_BYTES], seg[NAME_BYTES + 8], lock[NAME_BYTES + 8];
    own_name(name, identity);
    snprintf(seg, sizeof(seg), "%s.seg", name);
    snprintf(lock, sizeof(lock), "%s.lock", name);
    int n = snprintf(file->path, sizeof(file->path), "%s/%s", dir, seg);
    int m = snprintf(file->lock_path, sizeof(file->lock_path), "%s/%s", dir, lock);
    if ((size_t)n >= sizeof(file->path) || (size_t)m >= sizeof(file->lock_path)) {
        muster_fail(err, "%s: the path is too long", dir);
        return MUSTER_SEGMENT_FAILED;
    }
    enum muster_segment_created rc = take_lock(file, fd, lock, err);
    if (rc != MUSTER_SEGMENT_OK)
        return rc;
    rc = create_file(file, fd, seg, err);
    if (rc != MUSTER_SEGMENT_OK) {
        unlinkat(fd, lock, 0);
        close(file->lock_fd);
    }
    return rc;
}

static void forget_file(struct muster_segment_file *file)
{
    memset(file, 0, sizeof(*file));
    file->lock_fd = -1;
    file->pid = (int)getpid();
}

/* Not asked by the lock: closing a descriptor of it would drop the lock of the copy that holds it.
 */
static bool is_mapped_here(const char *path)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[MUSTER_SEG_PATH + 512];
    bool found = !maps;
    while (!found && fgets(line, sizeof(line), maps))
        found = strstr(line, path) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* Out of the way for a segment of this process's own. Whoever reaps next puts it into its run
 * directory; nobody holds its lock. Not here: a file system may not answer. */
static bool set_aside(const struct muster_segment_file *file, uint64_t now_ns)
{
    char aside[sizeof(file->path) + 32];
    int stem = (int)(strlen(file->path) - strlen(".seg"));
    snprintf(aside, sizeof(aside), "%.*s-%llu.seg", stem, file->path, (unsigned long long)now_ns);
    /* Gone already: somebody reaped it just now. */
    return (rename(file->path, aside) == 0 || errno == ENOENT) &&
           (unlink(file->lock_path) == 0 || errno == ENOENT);
}

/* *aside_ns: when something was set aside for it, else 0. */
static enum muster_segment_created create_shared(struct muster_segment_file *file, const char *dir,
                                                 const struct muster_seg_identity *identity,
                                                 uint64_t *aside_ns, struct muster_err *err)
{
    *aside_ns = 0;
    int fd = open_dir(dir, err);
    if (fd < 0)
        return MUSTER_SEGMENT_FAILED;
    enum muster_segment_created rc = create_pair(file, fd, dir, identity, err);
    /* What the program left that called exec in this process: another, from here on. */
    uint64_t now_ns = muster_now_ns();
    if (rc == MUSTER_SEGMENT_DUPLICATE && !is_mapped_here(file->path) && set_aside(file, now_ns)) {
        rc = create_pair(file, fd, dir, identity, err);
        *aside_ns = now_ns;
    }
    close(fd);
    return rc;
}

/* The former program may have ended before its log was made: nothing in the run directory shows
 * then that its names are taken. */
static void use_other_stem(struct muster_seg_identity *identity, uint64_t aside_ns)
{
    char suffix[24];
    size_t bytes = (size_t)snprintf(suffix, sizeof(suffix), "-%llu", (unsigned long long)aside_ns);
    size_t at = strlen(identity->file_stem);
    if (at + bytes + 1 > sizeof(identity->file_stem))
        at = sizeof(identity->file_stem) - bytes - 1;
    memcpy(identity->file_stem + at, suffix, bytes + 1);
}

enum muster_segment_created muster_segment_create(struct muster_segment_file *file, const char *dir,
                                                  const struct muster_seg_identity *identity,
                                                  struct muster_err *err)
{
    uint64_t aside_ns;
    forget_file(file);
    enum muster_segment_created rc = create_shared(file, dir, identity, &aside_ns, err);
    if (rc != MUSTER_SEGMENT_OK)
        forget_file(file);
    if (rc == MUSTER_SEGMENT_DUPLICATE)
        return rc;
    file->shared = rc == MUSTER_SEGMENT_OK;
    if (!file->map)
        file->map = map_memory(-1);
    if (!file->map) {
        muster_fail(err, "cannot make a segment: %s", strerror(errno));
        return MUSTER_SEGMENT_FAILED;
    }
    muster_segment_init(file->map, identity);
    if (aside_ns)
        use_other_stem(&file->map->identity, aside_ns);
    return MUSTER_SEGMENT_OK;
}

int muster_segment_archive(struct muster_segment_file *file, struct muster_err *err)
{
    /* Before the first look at the map: a child has none (MADV_DONTFORK). */
    if (file->pid != (int)getpid())
        return muster_fail(err, "not the process that owns the segment");
    const struct muster_seg_identity *identity = &file->map->identity;
    /* What is wrong with the directory shows when the file is made. */
    muster_make_dir(identity->run_dir);
    /* NCCL's threads may still be writing: what is stored must stand still. */
    struct muster_segment *image = malloc(sizeof *image);
    if (!image)
        return muster_fail_memory(err, "a copy of the segment");
    muster_snapshot(image, file->map, sizeof *image);
    int rc =
        muster_segment_store(identity->run_dir, identity->file_stem, image, sizeof *image, err);
    free(image);
    if (rc != 0)
        return -1;
    if (file->shared) {
        unlink(file->path);
        unlink(file->lock_path);
    }
    return 0;
}
