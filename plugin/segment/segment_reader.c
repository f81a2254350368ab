#include "segment/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/check.h"
#include "segment/seqlock.h"

enum { LIVE_TRIES = 16 };

static int open_regular(const char *path, size_t *bytes, struct muster_err *err)
{
    /* Nonblocking, so that a FIFO of that name does not hold us up. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat file;
    if (fd < 0 || fstat(fd, &file) != 0) {
        muster_fail(err, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (!S_ISREG(file.st_mode)) {
        close(fd);
        return muster_fail(err, "%s: not a file", path);
    }
    *bytes = (size_t)file.st_size;
    return fd;
}

/* Reads up to `bytes`; fewer if the file is shorter by now. -1: errno says why. */
static ssize_t read_all(int fd, void *to, size_t bytes)
{
    size_t got = 0;
    while (got < bytes) {
        ssize_t n = pread(fd, (char *)to + got, bytes - got, (off_t)got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

int muster_file_load(const char *path, size_t max, void **data, size_t *bytes,
                     struct muster_err *err)
{
    size_t size;
    int fd = open_regular(path, &size, err);
    if (fd < 0)
        return -1;
    if (size > max)
        size = max;
    void *copy = malloc(size ? size : 1);
    ssize_t n = copy ? read_all(fd, copy, size) : -1;
    int error = errno;
    close(fd);
    if (!copy)
        return muster_fail_memory(err, path);
    if (n < 0) {
        free(copy);
        return muster_fail(err, "%s: %s", path, strerror(error));
    }
    *data = copy;
    *bytes = (size_t)n;
    return 0;
}

/* Takes over `copy`, which has sizeof(struct muster_segment) bytes of memory, `bytes` of them
 * read. */
static int accept_copy(const char *name, struct muster_segment *copy, size_t bytes,
                       struct muster_segment **segment, struct muster_err *err)
{
    if (muster_check_frame(name, copy, bytes, err) != 0 ||
        muster_identity_check(name, &copy->identity, err) != 0) {
        free(copy);
        return -1;
    }
    muster_check_entries(copy);
    *segment = copy;
    return 0;
}

static struct muster_segment *new_copy(void)
{
    /* malloc aligns to 16, the layout to 64. */
    struct muster_segment *copy = aligned_alloc(64, sizeof(struct muster_segment));
    if (copy)
        memset(copy, 0, sizeof(*copy));
    return copy;
}

int muster_segment_parse(const char *name, const void *data, size_t bytes,
                         struct muster_segment **segment, struct muster_err *err)
{
    struct muster_segment *copy = new_copy();
    if (!copy)
        return muster_fail_memory(err, name);
    if (bytes > sizeof(*copy))
        bytes = sizeof(*copy);
    if (bytes)
        memcpy(copy, data, bytes);
    return accept_copy(name, copy, bytes, segment, err);
}

int muster_segment_read(const char *path, struct muster_segment **segment, struct muster_err *err)
{
    void *data;
    size_t bytes;
    if (muster_file_load(path, sizeof(struct muster_segment), &data, &bytes, err) != 0)
        return -1;
    int rc = muster_segment_parse(path, data, bytes, segment, err);
    free(data);
    return rc;
}

/* The three copies of muster_segment_read_live: see segment/seqlock.h. */
struct copies {
    int fd;
    struct muster_segment *a, *b, *c;
    unsigned unstable;
};

/* One entry alone takes a microsecond, so that even one that changes all the time stands still
 * for some try. */
static bool read_entry(int fd, size_t offset, uint32_t *entry, size_t bytes)
{
    for (int i = 0; i < LIVE_TRIES; i++) {
        uint32_t before, after;
        if (pread(fd, &before, sizeof(before), (off_t)offset) != sizeof(before))
            return false;
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_end */
        if (pread(fd, entry, bytes, (off_t)offset) != (ssize_t)bytes)
            return false;
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_begin */
        if (pread(fd, &after, sizeof(after), (off_t)offset) != sizeof(after))
            return false;
        if (muster_seg_stable(before, after))
            return true;
    }
    return false;
}

static uint32_t seq_at(const struct muster_segment *copy, size_t offset)
{
    uint32_t seq;
    memcpy(&seq, (const char *)copy + offset, sizeof(seq));
    return seq;
}

/* `n` entries of `bytes` that begin with their seq. */
static void settle(struct copies *copies, size_t offset, size_t bytes, size_t n)
{
    for (size_t i = 0; i < n; i++, offset += bytes) {
        if (muster_seg_stable(seq_at(copies->a, offset), seq_at(copies->c, offset)))
            continue;
        void *entry = (char *)copies->b + offset;
        if (read_entry(copies->fd, offset, entry, bytes))
            continue;
        memset(entry, 0, bytes);
        copies->unstable++;
    }
}

static uint64_t head_of(struct muster_segment *copy)
{
    return atomic_load_explicit(&copy->ring_head, memory_order_relaxed);
}

/* Ring entries that were there before B was read and not overwritten after; the others become
 * communicator 0. */
static void settle_ring(struct copies *copies)
{
    uint64_t from = head_of(copies->c), to = head_of(copies->a);
    from = from < MUSTER_SEG_RING ? 0 : from - MUSTER_SEG_RING + 1;
    if (to < MUSTER_SEG_RING && from == 0)
        return;
    for (unsigned i = 0; i < MUSTER_SEG_RING; i++) {
        /* The newest ordinal below `to` that belongs into entry i. */
        uint64_t ordinal = to - 1 - (to - 1 - i) % MUSTER_SEG_RING;
        if (to <= i || ordinal < from)
            copies->b->ring[i].comm = 0;
    }
}

static void settle_facts(struct copies *copies)
{
    size_t at = offsetof(struct muster_segment, facts);
    if (copies->b->version == MUSTER_SEG_VERSION_MIN)
        return;
    settle(copies, at, sizeof(struct muster_fact_head), 1);
    settle(copies, at + offsetof(struct muster_facts, gpu), sizeof(struct muster_fact_gpu),
           MUSTER_FACT_GPUS);
    settle(copies, at + offsetof(struct muster_facts, use), sizeof(struct muster_fact_use),
           MUSTER_FACT_GPUS);
}

/* Slots last: an operation that was retired meanwhile is in a row already. */
static int settle_slots(struct copies *copies)
{
    size_t offset = offsetof(struct muster_segment, slot_state);
    _Atomic uint32_t *now = copies->c->slot_state, *then = copies->b->slot_state;
    size_t bytes = sizeof(copies->c->slot_state);
    if (pread(copies->fd, now, bytes, (off_t)offset) != (ssize_t)bytes)
        return -1;
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++)
        if (atomic_load_explicit(&now[i], memory_order_relaxed) !=
            atomic_load_explicit(&then[i], memory_order_relaxed))
            atomic_store_explicit(&then[i], 0, memory_order_relaxed);
    return 0;
}

static bool quiet(struct copies *copies)
{
    return head_of(copies->a) == head_of(copies->c) &&
           memcmp(&copies->b->identity, &copies->c->identity, sizeof(copies->b->identity)) == 0;
}

/* Bytes of B read, or -1. */
static ssize_t read_thrice(struct copies *copies)
{
    size_t size = sizeof(struct muster_segment);
    ssize_t n = -1;
    for (int i = 0; i < LIVE_TRIES; i++) {
        if (read_all(copies->fd, copies->a, size) < 0)
            return -1;
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_end */
        n = read_all(copies->fd, copies->b, size);
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_begin */
        if (n < 0 || read_all(copies->fd, copies->c, size) < 0)
            return -1;
        if (quiet(copies))
            break;
    }
    return n;
}

static int read_live(const char *path, struct copies *copies, size_t *bytes, struct muster_err *err)
{
    ssize_t n = read_thrice(copies);
    if (n < 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    *bytes = (size_t)n;
    if (muster_check_frame(path, copies->b, *bytes, err) != 0)
        return -1;
    settle(copies, offsetof(struct muster_segment, comm), sizeof(struct muster_seg_comm),
           MUSTER_SEG_COMMS + 1);
    settle(copies, offsetof(struct muster_segment, row), sizeof(struct muster_seg_row),
           MUSTER_SEG_ROWS);
    settle(copies, offsetof(struct muster_segment, net), sizeof(struct muster_seg_net),
           MUSTER_SEG_NETS);
    settle_facts(copies);
    settle_ring(copies);
    if (settle_slots(copies) != 0)
        return muster_fail(err, "%s: cut short while it was read", path);
    /* Rows are whole by their seq here; undo is for what a dead writer left half done. */
    atomic_store_explicit(&copies->b->undo.armed, 0, memory_order_relaxed);
    return 0;
}

int muster_segment_read_live(const char *path, struct muster_segment **segment, unsigned *unstable,
                             struct muster_err *err)
{
    size_t size;
    int fd = open_regular(path, &size, err);
    if (fd < 0)
        return -1;
    struct copies copies = {.fd = fd, .a = new_copy(), .b = new_copy(), .c = new_copy()};
    int rc = -1;
    if (copies.a && copies.b && copies.c)
        rc = read_live(path, &copies, &size, err);
    else
        muster_fail_memory(err, path);
    close(fd);
    free(copies.a);
    free(copies.c);
    if (rc != 0) {
        free(copies.b);
        return -1;
    }
    rc = accept_copy(path, copies.b, size, segment, err);
    if (rc == 0)
        *unstable = copies.unstable;
    return rc;
}
