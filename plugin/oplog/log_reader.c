#include "oplog/log_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "oplog/log_decode.h"
#include "segment/image.h"
#include "segment/segment_check.h"
#include "segment/segment_reader.h"

struct place {
    struct muster_log_frame frame;
    size_t at;
};

struct scan {
    const uint8_t *data;
    size_t bytes;
    struct place *place;
    size_t places;
    size_t budget; /* bytes that searching may still check: hostile files have a magic everywhere */
    struct muster_log *log;
    muster_op_taker take; /* NULL: they stay in the log */
    void *to;
    uint64_t end;
    bool counts; /* without `take`: they are counted instead */
    size_t counted;
};

static void damage(struct muster_log *log, size_t at)
{
    if (log->damaged == 0 || at < log->damaged_at)
        log->damaged_at = at;
    log->damaged++;
}

static bool looks_like_frame(const struct scan *scan, size_t at, size_t end,
                             struct muster_log_frame *frame)
{
    if (end - at < sizeof(*frame))
        return false;
    memcpy(frame, scan->data + at, sizeof(*frame));
    return frame->magic == MUSTER_LOG_FRAME_MAGIC &&
           frame->length <= MUSTER_LOG_FRAME_BYTES - sizeof(*frame);
}

/* A whole frame with the right CRC. */
static bool frame_at(const struct scan *scan, size_t at, size_t end, struct muster_log_frame *frame)
{
    return looks_like_frame(scan, at, end, frame) && frame->length <= end - at - sizeof(*frame) &&
           frame->crc == muster_log_frame_crc(scan->data + at, frame->length);
}

/* Where a slot's frames end: zeros, or no room for another. */
static bool is_end(const struct scan *scan, size_t at, size_t end)
{
    uint32_t magic;
    if (end - at < sizeof(struct muster_log_frame))
        return true;
    memcpy(&magic, scan->data + at, sizeof(magic));
    return magic == 0;
}

/* The first good frame of the same use of the slot behind a damaged stretch, or `end`. */
static size_t resync(struct scan *scan, size_t at, size_t end, const struct muster_log_frame *last)
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
static bool is_torn_tail(const struct scan *scan, size_t at, size_t end)
{
    struct muster_log_frame frame;
    return end == scan->bytes && looks_like_frame(scan, at, end, &frame) &&
           frame.length > end - at - sizeof(frame);
}

static bool keep(struct scan *scan, const struct muster_log_frame *frame, size_t at)
{
    if (!muster_grow(&scan->place, scan->places, sizeof(*scan->place))) {
        scan->log->no_memory = true;
        return false;
    }
    scan->place[scan->places++] = (struct place){*frame, at};
    return true;
}

/* What is no frame: the end of the slot, or damage. Returns where to go on. */
static size_t skip(struct scan *scan, size_t at, size_t end, const struct muster_log_frame *last)
{
    size_t next = resync(scan, at, end, last);
    bool quiet = next == end && (is_end(scan, at, end) || is_torn_tail(scan, at, end));
    if (!quiet)
        damage(scan->log, at);
    return next;
}

static bool scan_slot(struct scan *scan, size_t at, size_t end)
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

static int by_sequence(const void *a, const void *b)
{
    const struct place *one = a, *two = b;
    return (one->frame.sequence > two->frame.sequence) -
           (one->frame.sequence < two->frame.sequence);
}

/* Those of one frame, as far as they are asked for. */
static bool take_frame(struct scan *scan, const struct muster_log_frame *frame)
{
    struct muster_log *log = scan->log;
    uint64_t left = scan->end > frame->first_op ? scan->end - frame->first_op : 0;
    size_t n = log->ops < left ? log->ops : (size_t)left;
    log->ops = 0;
    return n == 0 || scan->take(scan->to, log->op, n);
}

/* Where the operations of a frame go that was decoded. False: no more are wanted. */
static bool hand_out(struct scan *scan, const struct muster_log_frame *frame)
{
    if (scan->take)
        return take_frame(scan, frame);
    if (scan->counts) {
        scan->counted += scan->log->ops;
        scan->log->ops = 0;
    }
    return true;
}

/* Ordinals only rise from frame to frame; a frame that goes back is a forgery or a lost write that
 * came late, and would be counted twice. Frames that are not taken hold no operations afterwards.
 */
static void decode_all(struct scan *scan, struct muster_log_class *class)
{
    struct muster_log *log = scan->log;
    for (size_t i = 0; i < scan->places; i++) {
        struct muster_log_frame *frame = &scan->place[i].frame;
        bool back = frame->ops && frame->first_op < log->next_op;
        const uint8_t *payload = scan->data + scan->place[i].at + sizeof(*frame);
        if ((i > 0 && frame->sequence == scan->place[i - 1].frame.sequence) || back ||
            frame->first_op > UINT64_MAX - frame->ops ||
            !muster_log_decode(log, frame, payload, class)) {
            damage(log, scan->place[i].at);
            frame->ops = 0;
            continue;
        }
        if (frame->ops)
            log->next_op = frame->first_op + frame->ops;
        if (!hand_out(scan, frame))
            return;
    }
    if (scan->counts) {
        free(log->op);
        log->op = NULL;
        log->room = 0;
        log->ops = scan->counted;
    }
    log->ops_missing = log->next_op - log->ops;
}

static void count_imaged(const struct scan *scan)
{
    struct muster_log *log = scan->log;
    uint64_t head = atomic_load_explicit(&log->image->ring_head, memory_order_relaxed);
    for (size_t i = 0; i < scan->places; i++) {
        const struct muster_log_frame *frame = &scan->place[i].frame;
        uint64_t before = head > frame->first_op ? head - frame->first_op : 0;
        log->ops_imaged += before < frame->ops ? before : frame->ops;
    }
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

/* Says why there is no header, in the words of the most likely reason. */
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

static int parse_header(const char *name, const uint8_t *data, size_t bytes,
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

static size_t slot_end(size_t at, size_t bytes)
{
    return bytes - at < MUSTER_LOG_SLOT_BYTES ? bytes : at + MUSTER_LOG_SLOT_BYTES;
}

static void read_frames(struct scan *scan, struct muster_log_class *class)
{
    for (size_t at = MUSTER_LOG_HEADER_BYTES; at < scan->bytes; at = slot_end(at, scan->bytes))
        if (!scan_slot(scan, at, slot_end(at, scan->bytes)))
            break;
    if (scan->places > 0)
        qsort(scan->place, scan->places, sizeof(*scan->place), by_sequence);
    decode_all(scan, class);
    if (scan->log->image) {
        muster_check_entries(scan->log->image);
        count_imaged(scan);
    }
}

/* `scan`: how it is to be read. */
static int parse(const char *name, const void *data, size_t bytes, struct scan scan,
                 struct muster_log *log, struct muster_err *err)
{
    struct muster_log got = {.comm_at = {.key_bytes = sizeof(uint32_t)}};
    struct muster_log_header header = {0};
    if (parse_header(name, data, bytes, &header, err) != 0)
        return -1;
    got.identity = header.identity;
    got.image = scan.take ? NULL : muster_segment_new(&header.identity);
    struct muster_log_class *class = malloc(MUSTER_LOG_CLASSES * sizeof(*class));
    scan.data = data;
    scan.bytes = bytes;
    scan.budget = 8 * bytes;
    scan.log = &got;
    got.no_memory = (!got.image && !scan.take) || !class;
    if (!got.no_memory)
        read_frames(&scan, class);
    free(scan.place);
    free(class);
    if (got.no_memory) {
        muster_log_free(&got);
        return muster_fail_memory(err, name);
    }
    *log = got;
    return 0;
}

int muster_log_parse(const char *name, const void *data, size_t bytes, struct muster_log *log,
                     struct muster_err *err)
{
    return parse(name, data, bytes, (struct scan){.take = NULL}, log, err);
}

static int read_file(const char *path, struct scan scan, struct muster_log *log,
                     struct muster_err *err)
{
    void *data;
    size_t bytes;
    if (muster_file_load(path, SIZE_MAX, &data, &bytes, err) != 0)
        return -1;
    int rc = parse(path, data, bytes, scan, log, err);
    free(data);
    return rc;
}

int muster_log_read(const char *path, struct muster_log *log, struct muster_err *err)
{
    return read_file(path, (struct scan){.take = NULL}, log, err);
}

int muster_log_count(const char *path, struct muster_log *log, struct muster_err *err)
{
    return read_file(path, (struct scan){.counts = true}, log, err);
}

int muster_log_read_ops(const char *path, uint64_t end, muster_op_taker take, void *to,
                        struct muster_err *err)
{
    struct muster_log log;
    int rc = read_file(path, (struct scan){.take = take, .to = to, .end = end}, &log, err);
    if (rc == 0)
        muster_log_free(&log);
    return rc;
}

int muster_log_read_identity(const char *path, struct muster_seg_identity *identity,
                             struct muster_err *err)
{
    void *data;
    size_t bytes;
    if (muster_file_load(path, MUSTER_LOG_HEADER_BYTES, &data, &bytes, err) != 0)
        return -1;
    struct muster_log_header header;
    int rc = parse_header(path, data, bytes, &header, err);
    if (rc == 0)
        *identity = header.identity;
    free(data);
    return rc;
}

void muster_log_free(struct muster_log *log)
{
    free(log->image);
    free(log->op);
    free(log->comm);
    muster_hashmap_free(&log->comm_at);
    memset(log, 0, sizeof(*log));
}
