#include "oplog/log_scan.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "segment/segment_reader.h"

void muster_log_damage(const struct muster_log_scan *scan, size_t at)
{
    struct muster_log *log = scan->log;
    uint64_t in_file = at;
    if (scan->slot_at && at >= MUSTER_LOG_HEADER_BYTES) {
        size_t beyond = at - MUSTER_LOG_HEADER_BYTES;
        in_file = scan->slot_at[beyond / MUSTER_LOG_SLOT_BYTES] + beyond % MUSTER_LOG_SLOT_BYTES;
    }
    if (log->damaged == 0 || in_file < log->damaged_at)
        log->damaged_at = in_file;
    log->damaged++;
}

static bool looks_like_frame(const struct muster_log_scan *scan, size_t at, size_t end,
                             struct muster_log_frame *frame)
{
    if (end - at < sizeof(*frame))
        return false;
    memcpy(frame, scan->data + at, sizeof(*frame));
    return frame->magic == MUSTER_LOG_FRAME_MAGIC &&
           frame->length <= MUSTER_LOG_FRAME_BYTES - sizeof(*frame);
}

/* A whole frame with the right CRC. */
static bool frame_at(const struct muster_log_scan *scan, size_t at, size_t end,
                     struct muster_log_frame *frame)
{
    return looks_like_frame(scan, at, end, frame) && frame->length <= end - at - sizeof(*frame) &&
           frame->crc == muster_log_frame_crc(scan->data + at, frame->length);
}

/* Where a slot's frames end: zeros, or no room for another. */
static bool is_end(const struct muster_log_scan *scan, size_t at, size_t end)
{
    uint32_t magic;
    if (end - at < sizeof(struct muster_log_frame))
        return true;
    memcpy(&magic, scan->data + at, sizeof(magic));
    return magic == 0;
}

/* The first good frame of the same use of the slot behind a damaged stretch, or `end`. */
static size_t resync(struct muster_log_scan *scan, size_t at, size_t end,
                     const struct muster_log_frame *last)
{
    struct muster_log_frame frame;
    while (end - at > 8) {
        at += 8;
        if (!looks_like_frame(scan, at, end, &frame))
            continue;
        if (scan->budget < frame.length)
            return end;
        scan->budget -= frame.length;
        if (frame_at(scan, at, end, &frame) &&
            (!last || (frame.slot == last->slot && frame.sequence > last->sequence)))
            return at;
    }
    return end;
}

/* A frame cut off by the end of the file is where the writer was, or was killed. */
static bool is_torn_tail(const struct muster_log_scan *scan, size_t at, size_t end)
{
    struct muster_log_frame frame;
    return end == scan->bytes && !scan->inside && looks_like_frame(scan, at, end, &frame) &&
           frame.length > end - at - sizeof(frame);
}

static bool keep(struct muster_log_scan *scan, const struct muster_log_frame *frame, size_t at)
{
    if (!muster_grow(&scan->place, scan->places, sizeof(*scan->place))) {
        scan->log->no_memory = true;
        return false;
    }
    scan->place[scan->places++] = (struct muster_log_place){*frame, at};
    return true;
}

/* What is no frame: the end of the slot, or damage. Returns where to go on. */
static size_t skip(struct muster_log_scan *scan, size_t at, size_t end,
                   const struct muster_log_frame *last)
{
    size_t next = resync(scan, at, end, last);
    bool quiet = next == end && (is_end(scan, at, end) || is_torn_tail(scan, at, end));
    if (!quiet)
        muster_log_damage(scan, at);
    return next;
}

bool muster_log_scan_slot(struct muster_log_scan *scan, size_t at, size_t end)
{
    struct muster_log_frame frame, last;
    bool any = false;
    while (at < end) {
        if (!frame_at(scan, at, end, &frame)) {
            at = skip(scan, at, end, any ? &last : NULL);
            continue;
        }
        if (any && (frame.slot != last.slot || frame.sequence <= last.sequence))
            return true;
        if (!keep(scan, &frame, at))
            return false;
        last = frame;
        any = true;
        at += (sizeof(frame) + frame.length + 7) & ~(size_t)7;
    }
    return true;
}

int muster_log_by_sequence(const void *a, const void *b)
{
    const struct muster_log_place *one = a, *two = b;
    return (one->frame.sequence > two->frame.sequence) -
           (one->frame.sequence < two->frame.sequence);
}

static bool header_copy(const uint8_t *data, size_t bytes, size_t at,
                        struct muster_log_header *header)
{
    if (bytes < at + sizeof(*header))
        return false;
    memcpy(header, data + at, sizeof(*header));
    return header->magic == MUSTER_LOG_MAGIC && header->version == MUSTER_LOG_VERSION &&
           header->segment_version == MUSTER_SEG_VERSION && header->bytes == sizeof(*header) &&
           header->slot_bytes == MUSTER_LOG_SLOT_BYTES &&
           header->crc == muster_log_header_crc(header);
}

/* Words why there is no header, in the words of the most likely reason. */
static int no_header(const char *name, const uint8_t *data, size_t bytes, struct muster_err *err)
{
    struct muster_log_header header;
    if (bytes < sizeof(header))
        return muster_fail(err, "%s: %zu bytes are too few for a muster log", name, bytes);
    memcpy(&header, data, sizeof(header));
    if (header.magic != MUSTER_LOG_MAGIC)
        return muster_fail(err, "%s: not a muster log", name);
    if (header.version != MUSTER_LOG_VERSION)
        return muster_fail(err, "%s: log format %u, this muster reads %u", name, header.version,
                           MUSTER_LOG_VERSION);
    if (header.segment_version != MUSTER_SEG_VERSION)
        return muster_fail(err, "%s: a log of segment format %u, this muster reads %u", name,
                           header.segment_version, MUSTER_SEG_VERSION);
    return muster_fail(err, "%s: the log's header is damaged", name);
}

int muster_log_parse_header(const char *name, const uint8_t *data, size_t bytes,
                            struct muster_log_header *to, struct muster_err *err)
{
    struct muster_log_header header, second;
    bool first_good = header_copy(data, bytes, 0, &header);
    bool second_good = header_copy(data, bytes, MUSTER_LOG_COPY_BYTES, &second);
    if (!first_good && !second_good)
        return no_header(name, data, bytes, err);
    if (!first_good || (second_good && second.generation > header.generation))
        header = second;
    if (muster_identity_check(name, &header.identity, err) != 0)
        return -1;
    *to = header;
    return 0;
}

uint64_t muster_log_next_slot(int fd, uint64_t at, uint64_t size)
{
    off_t data = lseek(fd, (off_t)at, SEEK_DATA);
    if (data < 0) /* a file system that does not know holes has none */
        return errno == ENXIO ? size : at;
    return at + ((uint64_t)data - at) / MUSTER_LOG_SLOT_BYTES * MUSTER_LOG_SLOT_BYTES;
}
