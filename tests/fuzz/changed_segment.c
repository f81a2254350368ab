#include "changed_segment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/image.h"

/* One of a good segment's stretches; `from`: what stands there instead. */
typedef void take_change(void *to, size_t at, const uint8_t *from, size_t n);

static void each_change(const uint8_t *data, size_t bytes, take_change *take, void *to)
{
    while (bytes > 4) {
        size_t at = (size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2], n = data[3];
        data += 4;
        bytes -= 4;
        n = n < bytes ? n : bytes;
        if (n > 0 && at + n <= sizeof(struct muster_segment))
            take(to, at, data, n);
        data += n;
        bytes -= n;
    }
}

static const uint8_t *good_segment(void)
{
    static struct muster_segment *good;
    const struct muster_seg_identity identity = {
        .rank = 1, .run_dir = "/run", .file_stem = "host-1"};
    if (!good && !(good = muster_segment_new(&identity)))
        abort();
    return (const uint8_t *)good;
}

static void change(void *to, size_t at, const uint8_t *from, size_t n)
{
    struct muster_fuzz_segment *segment = to;
    memcpy(segment->now + at, from, n);
}

static void restore(void *to, size_t at, const uint8_t *from, size_t n)
{
    (void)from;
    change(to, at, good_segment() + at, n);
}

static void write_out(void *to, size_t at, const uint8_t *from, size_t n)
{
    const struct muster_fuzz_segment *segment = to;
    (void)from;
    if (pwrite(segment->fd, segment->now + at, n, (off_t)at) != (ssize_t)n)
        abort();
}

static void make(struct muster_fuzz_segment *segment)
{
    segment->now = malloc(sizeof(struct muster_segment));
    if (!segment->now)
        abort();
    memcpy(segment->now, good_segment(), sizeof(struct muster_segment));
    if (segment->fd >= 0)
        write_out(segment, 0, NULL, sizeof(struct muster_segment));
}

void muster_fuzz_change_segment(struct muster_fuzz_segment *segment, const uint8_t *changes,
                                size_t bytes)
{
    if (!segment->now)
        make(segment);
    each_change(segment->last, segment->last_bytes, restore, segment);
    each_change(changes, bytes, change, segment);
    if (segment->fd >= 0) {
        each_change(segment->last, segment->last_bytes, write_out, segment);
        each_change(changes, bytes, write_out, segment);
    }
    free(segment->last);
    segment->last = malloc(bytes + 1);
    if (!segment->last)
        abort();
    if (bytes)
        memcpy(segment->last, changes, bytes);
    segment->last_bytes = bytes;
}
