#include "segment/read_part.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "segment/check.h"
#include "segment/read.h"
#include "segment/seqlock.h"

enum { TRIES = 4, CHUNK = 3, NET_CHUNK = 16 }; /* entries read at once, on the stack */
enum { LARGEST = 1280 };                       /* entry, in bytes */

static int open_part(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
}

static bool read_at(int fd, void *to, size_t bytes, size_t offset)
{
    return pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* ---- the ring ---- */

static bool read_head(int fd, uint64_t *head)
{
    return read_at(fd, head, sizeof *head, offsetof(struct muster_segment, ring_head));
}

/* Ordinals [from, to), at most one round, in one piece or two. */
static bool read_ordinals(int fd, uint64_t from, uint64_t to, struct muster_op *op)
{
    size_t ring = offsetof(struct muster_segment, ring);
    size_t first = from % MUSTER_SEG_RING, n = to - from;
    size_t head = n < MUSTER_SEG_RING - first ? n : MUSTER_SEG_RING - first;
    return read_at(fd, op, head * sizeof *op, ring + first * sizeof *op) &&
           (n == head || read_at(fd, op + head, (n - head) * sizeof *op, ring));
}

static size_t take_new(int fd, uint64_t *next, struct muster_op *op)
{
    uint64_t to, now;
    if (!read_head(fd, &to) || to == *next)
        return 0;
    uint64_t from = to < *next ? 0 : *next; /* fewer than before: nobody's segment */
    if (to - from > MUSTER_SEG_RING)
        from = to - MUSTER_SEG_RING;
    atomic_thread_fence(memory_order_acquire); /* with the release of ring_head in record/drain.c */
    if (!read_ordinals(fd, from, to, op))
        return 0;
    atomic_thread_fence(memory_order_acquire);
    if (!read_head(fd, &now))
        return 0;
    *next = to;
    /* The drain thread may be writing the entry of ordinal `now` already. */
    uint64_t whole = now < MUSTER_SEG_RING ? 0 : now - MUSTER_SEG_RING + 1;
    if (whole >= to)
        return 0;
    size_t torn = whole > from ? whole - from : 0, n = to - from - torn;
    memmove(op, op + torn, n * sizeof *op);
    for (size_t i = 0; i < n; i++)
        muster_check_op(&op[i]);
    return n;
}

size_t muster_segment_read_ring(const char *path, uint64_t *next, struct muster_op *op)
{
    int fd = open_part(path);
    if (fd < 0)
        return 0;
    size_t n = take_new(fd, next, op);
    close(fd);
    return n;
}

/* ---- the tables ---- */

/* An entry that begins with its seq. */
static void read_entry(int fd, size_t offset, void *entry, size_t bytes)
{
    unsigned char copy[LARGEST];
    _Static_assert(sizeof(struct muster_seg_comm) <= LARGEST &&
                       sizeof(struct muster_fact_gpu) <= LARGEST &&
                       sizeof(struct muster_fact_head) <= LARGEST,
                   "any entry");
    for (int i = 0; i < TRIES; i++) {
        uint32_t before, after;
        if (!read_at(fd, &before, sizeof before, offset))
            return;
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_end */
        if (!read_at(fd, copy, bytes, offset))
            return;
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_begin */
        if (!read_at(fd, &after, sizeof after, offset))
            return;
        if (muster_seg_stable(before, after)) {
            memcpy(entry, copy, bytes);
            return;
        }
    }
}

/* One read of some entries tells which of them are in use. */
static bool read_comms(int fd, struct muster_segment *segment)
{
    struct muster_seg_comm now[CHUNK];
    _Static_assert((MUSTER_SEG_COMMS + 1) % CHUNK == 0, "whole chunks");
    size_t offset = offsetof(struct muster_segment, comm);
    for (unsigned i = 0; i <= MUSTER_SEG_COMMS; i++, offset += sizeof now[0]) {
        if (i % CHUNK == 0 && !read_at(fd, now, sizeof now, offset))
            return false;
        if (now[i % CHUNK].uid == 0 && segment->comm[i].uid == 0)
            continue;
        read_entry(fd, offset, &segment->comm[i], sizeof segment->comm[i]);
        muster_check_comm(&segment->comm[i]);
    }
    return true;
}

static bool read_nets(int fd, struct muster_segment *segment)
{
    struct muster_seg_net now[NET_CHUNK];
    _Static_assert(MUSTER_SEG_NETS % NET_CHUNK == 0, "whole chunks");
    size_t offset = offsetof(struct muster_segment, net);
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++, offset += sizeof now[0]) {
        if (i % NET_CHUNK == 0 && !read_at(fd, now, sizeof now, offset))
            return false;
        if (now[i % NET_CHUNK].comm == 0 && segment->net[i].comm == 0)
            continue;
        read_entry(fd, offset, &segment->net[i], sizeof segment->net[i]);
        segment->net[i].send = segment->net[i].send != 0;
    }
    return true;
}

/* Of the GPUs that the process named. */
static void read_facts(int fd, struct muster_segment *segment)
{
    struct muster_facts *facts = &segment->facts;
    size_t at = offsetof(struct muster_segment, facts);
    if (segment->version == MUSTER_SEG_VERSION_MIN)
        return;
    read_entry(fd, at, &facts->head, sizeof facts->head);
    for (unsigned i = 0; i < MUSTER_FACT_GPUS; i++) {
        read_entry(fd, at + offsetof(struct muster_facts, gpu) + i * sizeof facts->gpu[0],
                   &facts->gpu[i], sizeof facts->gpu[0]);
        if (!facts->gpu[i].named)
            break;
        read_entry(fd, at + offsetof(struct muster_facts, use) + i * sizeof facts->use[0],
                   &facts->use[i], sizeof facts->use[0]);
    }
    muster_facts_check(facts);
}

static int read_header(const char *path, int fd, struct muster_segment *segment,
                       struct muster_err *err)
{
    union {
        struct muster_segment *as_segment;
        unsigned char *bytes;
    } to = {.as_segment = segment};
    off_t size = lseek(fd, 0, SEEK_END);
    if (!read_at(fd, to.bytes, offsetof(struct muster_segment, comm), 0))
        return muster_fail(err, "%s: cut short, or %s", path, strerror(errno));
    if (muster_check_frame(path, segment, size > 0 ? (size_t)size : 0, err) != 0)
        return -1;
    return muster_identity_check(path, &segment->identity, err);
}

int muster_segment_read_tables(const char *path, struct muster_segment *segment,
                               struct muster_err *err)
{
    int fd = open_part(path);
    if (fd < 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    int rc = read_header(path, fd, segment, err);
    if (rc == 0 && (!read_comms(fd, segment) || !read_nets(fd, segment)))
        rc = muster_fail(err, "%s: cut short while it was read", path);
    if (rc == 0)
        read_facts(fd, segment);
    close(fd);
    return rc;
}
