#include "segment/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pages.h"

enum { BLOCK = 4096 }; /* what file systems allocate */

void muster_segment_init(struct muster_segment *segment, const struct muster_seg_identity *identity)
{
    segment->version = MUSTER_SEG_VERSION;
    segment->size = sizeof(struct muster_segment);
    segment->header_bytes = offsetof(struct muster_segment, comm);
    segment->comm_bytes = sizeof(struct muster_seg_comm);
    segment->row_bytes = sizeof(struct muster_seg_row);
    segment->net_bytes = sizeof(struct muster_seg_net);
    segment->slot_bytes = sizeof(struct muster_seg_slot);
    segment->op_bytes = sizeof(struct muster_op);
    segment->identity = *identity;
    segment->comm[MUSTER_SEG_COMMS].uid = MUSTER_SEG_OTHER_UID;
    segment->comm[MUSTER_SEG_COMMS].rank = -1;
    segment->comm[MUSTER_SEG_COMMS].gpu_index = -1;
    __atomic_store_n(&segment->magic, MUSTER_SEG_MAGIC, __ATOMIC_RELEASE);
}

struct muster_segment *muster_segment_new(const struct muster_seg_identity *identity)
{
    /* malloc aligns to 16, the layout to 64. */
    struct muster_segment *segment = aligned_alloc(64, sizeof(*segment));
    if (segment) {
        memset((void *)segment, 0, sizeof(*segment));
        muster_segment_init(segment, identity);
    }
    return segment;
}

bool muster_file_size_allowed(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           limit.rlim_cur >= bytes;
}

int muster_pwrite_all(int fd, const void *data, size_t bytes, uint64_t offset)
{
    const char *from = data;
    while (bytes > 0) {
        ssize_t n = pwrite(fd, from, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return ENOSPC;
        from += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

static size_t block_at(size_t at, size_t bytes)
{
    return bytes - at < BLOCK ? bytes - at : BLOCK;
}

/* Only what holds something takes room on the disk: most of a segment is empty. */
static int write_sparse(int fd, const char *image, size_t bytes)
{
    int rc = ftruncate(fd, (off_t)bytes) == 0 ? 0 : errno;
    for (size_t at = 0; rc == 0 && at < bytes;) {
        size_t end = at;
        while (end < bytes && !muster_is_zero(image + end, block_at(end, bytes)))
            end += block_at(end, bytes);
        if (end > at)
            rc = muster_pwrite_all(fd, image + at, end - at, at);
        at = end + (end < bytes ? block_at(end, bytes) : 0);
    }
    return rc;
}

/* Whoever died half way left a file of this name. Its segment's lock keeps others out. */
static int open_temporary(int dir, const char *name)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir, name, flags, 0600);
    if (fd < 0 && errno == EEXIST && unlinkat(dir, name, 0) == 0)
        fd = openat(dir, name, flags, 0600);
    return fd;
}

static int store_in(int dir, const char *temporary, const char *name, const void *image,
                    size_t bytes)
{
    if (!muster_file_size_allowed(bytes))
        return EFBIG;
    int fd = open_temporary(dir, temporary);
    if (fd < 0)
        return errno;
    int rc = write_sparse(fd, image, bytes);
    /* Some shared file systems report a failed write only here. */
    if (close(fd) != 0 && rc == 0 && errno != EINTR)
        rc = errno;
    if (rc == 0 && renameat(dir, temporary, dir, name) != 0)
        rc = errno;
    if (rc)
        unlinkat(dir, temporary, 0);
    return rc;
}

int muster_segment_store(const char *dir, const char *stem, const void *image, size_t bytes,
                         struct muster_err *err)
{
    char name[256], temporary[300];
    int n = snprintf(name, sizeof(name), "%s.seg", stem);
    if (n < 5 || (size_t)n >= sizeof(name) || strchr(stem, '/'))
        return muster_fail(err, "no file name for a segment: \"%s\"", stem);
    snprintf(temporary, sizeof(temporary), ".%s.part", name);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return muster_fail(err, "%s: %s", dir, strerror(errno));
    int rc = store_in(fd, temporary, name, image, bytes);
    close(fd);
    if (rc)
        return muster_fail(err, "%s/%s: %s", dir, name, strerror(rc));
    return 0;
}

int muster_make_dir(const char *dir)
{
    char path[MUSTER_SEG_PATH];
    size_t n = strlen(dir);
    if (n == 0 || n >= sizeof(path))
        return n ? ENAMETOOLONG : ENOENT;
    memcpy(path, dir, n + 1);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        /* What is wrong with a parent shows when the next part is made. */
        mkdir(path, 0700);
        *at = '/';
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return errno;
    return 0;
}

int muster_check_owner(const char *dir, struct muster_err *err)
{
    struct stat found;
    if (stat(dir, &found) != 0)
        return errno == ENOENT ? 0 : muster_fail(err, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid())
        return muster_fail(err, "%s: not a directory of this user", dir);
    return 0;
}
