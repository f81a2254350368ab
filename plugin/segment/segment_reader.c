#include "segment/segment_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pages.h"
#include "segment/segment_check.h"
#include "segment/segment_sparse.h"
#include "segment/seqlock.h"

enum { LIVE_TRIES = 16, CHUNK_BYTES = 16384, HEADER_BYTES = offsetof(struct muster_segment, comm) };

int muster_file_open(const char *path, size_t *bytes, struct muster_err *err)
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

ssize_t muster_file_read(int fd, void *to, size_t bytes, off_t at)
{
    size_t got = 0;
    while (got < bytes) {
        ssize_t n = pread(fd, (char *)to + got, bytes - got, at + (off_t)got);
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

/* Of `n` bytes, or -1 and errno, that were read into `copy`. Closes the file. -1: the memory is
 * free again, or there was none. */
static ssize_t finish_read(int fd, void *copy, ssize_t n, const char *path, struct muster_err *err)
{
    int error = errno;
    close(fd);
    if (!copy)
        return muster_fail_memory(err, path);
    if (n < 0) {
        free(copy);
        return muster_fail(err, "%s: %s", path, strerror(error));
    }
    return n;
}

int muster_file_load(const char *path, size_t max, void **data, size_t *bytes,
                     struct muster_err *err)
{
    size_t size;
    int fd = muster_file_open(path, &size, err);
    if (fd < 0)
        return -1;
    if (size > max)
        size = max;
    void *copy = malloc(size ? size : 1);
    ssize_t n = finish_read(fd, copy, copy ? muster_file_read(fd, copy, size, 0) : -1, path, err);
    if (n < 0)
        return -1;
    *data = copy;
    *bytes = (size_t)n;
    return 0;
}

/* Takes over `copy`, which has sizeof(struct muster_segment) bytes of memory, `bytes` of them
 * read, or those of `parts`. */
static int accept_copy(const char *name, struct muster_segment *copy, size_t bytes,
                       const struct muster_seg_parts *parts, struct muster_segment **segment,
                       struct muster_err *err)
{
    if (muster_check_frame(name, copy, bytes, err) != 0 ||
        muster_identity_check(name, &copy->identity, err) != 0) {
        free(copy);
        return -1;
    }
    muster_check_entries(copy, parts);
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
    return accept_copy(name, copy, bytes, NULL, segment, err);
}

int muster_segment_read(const char *path, struct muster_segment **segment, struct muster_err *err)
{
    size_t size;
    int fd = muster_file_open(path, &size, err);
    if (fd < 0)
        return -1;
    struct muster_segment *copy = aligned_alloc(64, sizeof(*copy));
    struct muster_seg_parts parts = {{false}};
    size = size < sizeof(*copy) ? size : sizeof(*copy);
    ssize_t n = finish_read(
        fd, copy, copy ? muster_read_sparse(fd, (char *)copy, size, &parts) : -1, path, err);
    if (n < 0)
        return -1;
    muster_pages_clear((char *)copy + n, sizeof(*copy) - (size_t)n);
    return accept_copy(path, copy, (size_t)n, &parts, segment, err);
}

/* The three copies of muster_segment_read_live: see segment/seqlock.h. */
struct copies {
    int fd;
    struct muster_segment *a, *b, *c;
    unsigned unstable;
};

static bool read_at(int fd, void *to, size_t bytes, size_t offset)
{
    return pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* One entry alone takes a microsecond, so that even one that changes all the time stands still
 * for some try. False: *entry is as before. */
static bool read_entry(int fd, size_t offset, void *entry, size_t bytes)
{
    unsigned char copy[MUSTER_SEG_ENTRY_BYTES];
    for (int i = 0; i < LIVE_TRIES; i++) {
        uint32_t before, after;
        if (!read_at(fd, &before, sizeof(before), offset))
            return false;
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_end */
        if (!read_at(fd, copy, bytes, offset))
            return false;
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_begin */
        if (!read_at(fd, &after, sizeof(after), offset))
            return false;
        if (muster_seg_stable(before, after)) {
            memcpy(entry, copy, bytes);
            return true;
        }
    }
    return false;
}

static uint32_t word_at(const void *base, size_t offset)
{
    uint32_t word;
    memcpy(&word, (const char *)base + offset, sizeof(word));
    return word;
}

static void settle(struct copies *copies, const struct muster_seg_table *table)
{
    for (size_t i = 0; i < table->entries; i++) {
        size_t offset = table->offset + i * table->bytes;
        if (muster_seg_stable(word_at(copies->a, offset), word_at(copies->c, offset)))
            continue;
        void *entry = (char *)copies->b + offset;
        if (read_entry(copies->fd, offset, entry, table->bytes))
            continue;
        memset(entry, 0, table->bytes);
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

/* Slots last: an operation that was retired meanwhile is in a row already. `now`: scratch. */
static int settle_slots(int fd, _Atomic uint32_t *then, _Atomic uint32_t *now)
{
    const size_t bytes = MUSTER_SEG_SLOTS * sizeof(*now);
    if (!read_at(fd, now, bytes, offsetof(struct muster_segment, slot_state)))
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
        if (muster_file_read(copies->fd, copies->a, size, 0) < 0)
            return -1;
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_end */
        n = muster_file_read(copies->fd, copies->b, size, 0);
        atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_begin */
        if (n < 0 || muster_file_read(copies->fd, copies->c, size, 0) < 0)
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
    for (unsigned i = 0; i < MUSTER_SEG_TABLES; i++)
        settle(copies, &muster_seg_table[i]);
    settle_ring(copies);
    if (settle_slots(copies->fd, copies->b->slot_state, copies->c->slot_state) != 0)
        return muster_fail(err, "%s: cut short while it was read", path);
    /* Rows are whole by their seq here; undo is for what a dead writer left half done. */
    atomic_store_explicit(&copies->b->undo.armed, 0, memory_order_relaxed);
    return 0;
}

int muster_segment_read_live(const char *path, struct muster_segment **segment, unsigned *unstable,
                             struct muster_err *err)
{
    size_t size;
    int fd = muster_file_open(path, &size, err);
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
    rc = accept_copy(path, copies.b, size, NULL, segment, err);
    if (rc == 0)
        *unstable = copies.unstable;
    return rc;
}

/* ---- what is new in the ring ---- */

static bool read_head(int fd, uint64_t *head)
{
    return read_at(fd, head, sizeof(*head), offsetof(struct muster_segment, ring_head));
}

/* Ordinals [from, to), at most one round, in one piece or two. */
static bool read_ordinals(int fd, uint64_t from, uint64_t to, struct muster_op *op)
{
    size_t ring = offsetof(struct muster_segment, ring);
    size_t first = from % MUSTER_SEG_RING, n = to - from;
    size_t head = n < MUSTER_SEG_RING - first ? n : MUSTER_SEG_RING - first;
    return read_at(fd, op, head * sizeof(*op), ring + first * sizeof(*op)) &&
           (n == head || read_at(fd, op + head, (n - head) * sizeof(*op), ring));
}

size_t muster_segment_ring_upto(int fd, uint64_t to, uint64_t *next, struct muster_op *op)
{
    uint64_t now;
    if (to == *next)
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
    memmove(op, op + torn, n * sizeof(*op));
    for (size_t i = 0; i < n; i++)
        muster_check_op(&op[i]);
    return n;
}

int muster_segment_open(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
}

size_t muster_segment_read_ring(const char *path, uint64_t *next, struct muster_op *op)
{
    uint64_t to;
    int fd = muster_segment_open(path);
    if (fd < 0)
        return 0;
    size_t n = read_head(fd, &to) ? muster_segment_ring_upto(fd, to, next, op) : 0;
    close(fd);
    return n;
}

/* ---- the tables ---- */

/* Some entries of a table, three times: see segment/seqlock.h. */
struct chunk {
    unsigned char before[CHUNK_BYTES], data[CHUNK_BYTES], after[CHUNK_BYTES];
};

/* In use, or in use when they were read last. */
static bool is_used(const struct chunk *chunk, size_t at, const void *known)
{
    return word_at(chunk->before, at + sizeof(uint32_t)) != 0 ||
           word_at(known, sizeof(uint32_t)) != 0;
}

/* `n` entries from `offset` on, which are `known` so far. The first read shows which are in use;
 * the others are of those alone, from the first of them to the last. */
static bool read_chunk(int fd, size_t offset, size_t n, size_t bytes, char *known,
                       struct chunk *chunk, struct muster_seg_parts *parts)
{
    size_t first = n, last = 0;
    if (!read_at(fd, chunk->before, n * bytes, offset))
        return false;
    atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_end */
    for (size_t i = 0; i < n; i++) {
        if (!is_used(chunk, i * bytes, known + i * bytes))
            continue;
        first = first < i ? first : i;
        last = i;
    }
    if (first == n)
        return true;
    size_t from = first * bytes, length = (last - first + 1) * bytes;
    if (!read_at(fd, chunk->data + from, length, offset + from))
        return false;
    atomic_thread_fence(memory_order_acquire); /* with muster_seg_write_begin */
    if (!read_at(fd, chunk->after + from, length, offset + from))
        return false;
    for (size_t i = first; i <= last; i++) {
        size_t at = i * bytes;
        if (!is_used(chunk, at, known + at))
            continue;
        if (muster_seg_stable(word_at(chunk->before, at), word_at(chunk->after, at)))
            memcpy(known + at, chunk->data + at, bytes);
        else
            read_entry(fd, offset + at, known + at, bytes);
        muster_seg_parts_note(parts, offset + at, offset + at + bytes);
    }
    return true;
}

/* Whether one of the entries [first, first + n), just read, was never used. */
static bool has_unused(const struct chunk *chunk, const struct muster_seg_table *table,
                       size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char *entry = chunk->before + i * table->bytes;
        if (first + i >= table->fixed_first && first + i < table->entries - table->fixed_last &&
            word_at(entry, 0) == 0 && word_at(entry, sizeof(uint32_t)) == 0)
            return true;
    }
    return false;
}

static bool any_known(const char *known, size_t n, size_t bytes)
{
    for (size_t i = 0; i < n; i++)
        if (word_at(known, i * bytes + sizeof(uint32_t)) != 0)
            return true;
    return false;
}

/* Most of a table was never used, and is not read: see struct muster_seg_table. `known`: its first
 * entry, as far as it is known. `parts`: what is read is noted there. */
static bool read_table(int fd, char *known, const struct muster_seg_table *table,
                       struct muster_seg_parts *parts)
{
    size_t at_once = CHUNK_BYTES / table->bytes;
    struct chunk chunk;
    bool over = false;
    for (size_t i = 0; i < table->entries; i += at_once, known += at_once * table->bytes) {
        size_t left = table->entries - i, n = left < at_once ? left : at_once;
        bool fixed = i + n > table->entries - table->fixed_last;
        if (over && !fixed && !any_known(known, n, table->bytes))
            continue;
        if (!read_chunk(fd, table->offset + i * table->bytes, n, table->bytes, known, &chunk,
                        parts))
            return false;
        over = over || has_unused(&chunk, table, i, n);
    }
    return true;
}

/* Into HEADER_BYTES at `header`. */
static int read_header(const char *path, int fd, void *header, struct muster_err *err)
{
    struct muster_segment *segment = header;
    off_t size = lseek(fd, 0, SEEK_END);
    if (!read_at(fd, header, HEADER_BYTES, 0))
        return muster_fail(err, "%s: cut short, or %s", path, strerror(errno));
    if (muster_check_frame(path, segment, size > 0 ? (size_t)size : 0, err) != 0)
        return -1;
    return muster_identity_check(path, &segment->identity, err);
}

static int read_tables(const char *path, struct muster_segment *segment, bool rows,
                       struct muster_err *err)
{
    struct muster_seg_parts parts = {{false}};
    int fd = muster_segment_open(path);
    if (fd < 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    int rc = read_header(path, fd, segment, err);
    for (unsigned i = 0; rc == 0 && i < MUSTER_SEG_TABLES; i++)
        if ((rows || i != MUSTER_SEG_TABLE_ROW) &&
            !read_table(fd, (char *)segment + muster_seg_table[i].offset, &muster_seg_table[i],
                        &parts))
            rc = muster_fail(err, "%s: cut short while it was read", path);
    close(fd);
    if (rc == 0)
        muster_check_tables(segment, &parts);
    return rc;
}

int muster_segment_read_tables(const char *path, struct muster_segment *segment,
                               struct muster_err *err)
{
    return read_tables(path, segment, true, err);
}

int muster_segment_read_all_but_rows(const char *path, struct muster_segment *segment,
                                     struct muster_err *err)
{
    return read_tables(path, segment, false, err);
}

bool muster_segment_read_nets(int fd, struct muster_seg_net *net)
{
    struct muster_seg_parts parts;
    memset(net, 0, MUSTER_SEG_NETS * sizeof *net);
    return read_table(fd, (char *)net, &muster_seg_table[MUSTER_SEG_TABLE_NET], &parts);
}

/* ---- what is in flight ---- */

static bool is_slot_used(struct muster_segment *segment, unsigned i)
{
    return (atomic_load_explicit(&segment->slot_state[i], memory_order_relaxed) & 0xff) !=
           MUSTER_SLOT_FREE;
}

static bool read_slots(int fd, struct muster_segment *segment, struct muster_seg_parts *parts)
{
    for (unsigned i = 0, end; i < MUSTER_SEG_SLOTS; i = end + 1) {
        for (end = i; end < MUSTER_SEG_SLOTS && is_slot_used(segment, end);)
            end++;
        size_t offset = offsetof(struct muster_segment, slot) + i * sizeof(*segment->slot);
        size_t bytes = (end - i) * sizeof(*segment->slot);
        if (bytes && !read_at(fd, &segment->slot[i], bytes, offset))
            return false;
        muster_seg_parts_note(parts, offset, offset + bytes);
    }
    return true;
}

static bool read_flight(int fd, struct muster_segment *segment, struct muster_seg_parts *parts)
{
    const size_t policy = offsetof(struct muster_segment, policy);
    _Atomic uint32_t now[MUSTER_SEG_SLOTS];
    muster_seg_parts_note(parts, policy, policy + sizeof(segment->policy));
    return read_at(fd, &segment->policy, sizeof(segment->policy), policy) &&
           read_at(fd, segment->slot_state, sizeof(segment->slot_state),
                   offsetof(struct muster_segment, slot_state)) &&
           read_slots(fd, segment, parts) && settle_slots(fd, segment->slot_state, now) == 0;
}

int muster_segment_read_flight(const char *path, struct muster_segment *segment,
                               struct muster_err *err)
{
    struct muster_seg_parts parts = {{false}};
    int fd = muster_segment_open(path);
    if (fd < 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    bool whole = read_flight(fd, segment, &parts);
    close(fd);
    if (!whole)
        return muster_fail(err, "%s: cut short while it was read", path);
    muster_check_flight(segment, &parts);
    return 0;
}

/* ---- who writes it ---- */

/* A living process may be writing it: until it reads the same twice. */
static int read_header_whole(const char *path, int fd, void *header,
                             struct muster_seg_identity *identity, struct muster_err *err)
{
    struct muster_seg_identity before;
    memset(&before, 0, sizeof(before));
    int rc = 0;
    for (int i = 0; i < LIVE_TRIES; i++) {
        rc = read_header(path, fd, header, err);
        memcpy(identity, (char *)header + offsetof(struct muster_segment, identity),
               sizeof(*identity));
        if (rc != 0 || memcmp(&before, identity, sizeof(before)) == 0)
            break;
        before = *identity;
        atomic_thread_fence(memory_order_acquire);
    }
    return rc;
}

int muster_segment_read_identity(const char *path, struct muster_seg_identity *identity,
                                 struct muster_err *err)
{
    size_t size;
    int fd = muster_file_open(path, &size, err);
    if (fd < 0)
        return -1;
    _Alignas(64) unsigned char header[HEADER_BYTES];
    struct muster_seg_identity read;
    int rc = read_header_whole(path, fd, header, &read, err);
    close(fd);
    if (rc == 0)
        *identity = read;
    return rc;
}
