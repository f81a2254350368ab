#include "oplog/log_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "oplog/log_decode.h"
#include "oplog/log_scan.h"
#include "segment/image.h"
#include "segment/segment_check.h"
#include "segment/segment_reader.h"

/* ---- what of the file is read ---- */

/* A log's bytes as far as they can mean something: its header, and those slots in which a frame may
 * begin. So a file that is larger than what was ever written to it (sparse, grown by somebody else,
 * zeros) costs no memory, and where it has holes no time. */
struct log_bytes {
    uint8_t *data; /* the header's area, then slot after slot */
    size_t bytes;
    uint64_t *slot_at;   /* where each of these slots lies in the file; NULL: as in the file */
    bool tail;           /* the last of them is the last of the file */
    unsigned damaged;    /* slots left out that hold something else than frames or zeros */
    uint64_t damaged_at; /* the first of them */
};

struct loading {
    struct log_bytes *log;
    const char *path;
    int fd;
    uint64_t size; /* of the file, when it was opened */
    size_t room, slots;
};

/* Whether a frame may begin in it: only where its magic stands. */
static bool may_hold_frame(const uint8_t *slot, size_t bytes)
{
    for (size_t at = 0; bytes - at >= sizeof(struct muster_log_frame); at += 8) {
        uint32_t magic;
        memcpy(&magic, slot + at, sizeof(magic));
        if (magic == MUSTER_LOG_FRAME_MAGIC)
            return true;
    }
    return false;
}

/* What begins with zeros is a slot that was never used. */
static void note_left_out(struct log_bytes *log, uint64_t at, const uint8_t *slot, size_t bytes)
{
    uint32_t magic = 0;
    if (bytes >= sizeof(struct muster_log_frame))
        memcpy(&magic, slot, sizeof(magic));
    if (!magic)
        return;
    if (!log->damaged)
        log->damaged_at = at;
    log->damaged++;
}

static int load_slot(struct loading *loading, uint64_t at, bool *more, struct muster_err *err)
{
    struct log_bytes *log = loading->log;
    uint64_t left = loading->size - at;
    size_t wanted = left < MUSTER_LOG_SLOT_BYTES ? (size_t)left : MUSTER_LOG_SLOT_BYTES;
    if (!muster_reserve(&log->data, &loading->room, log->bytes + MUSTER_LOG_SLOT_BYTES, 1) ||
        !muster_grow(&log->slot_at, loading->slots, sizeof(*log->slot_at)))
        return muster_fail_memory(err, loading->path);
    uint8_t *slot = log->data + log->bytes;
    ssize_t got = muster_file_read(loading->fd, slot, wanted, (off_t)at);
    if (got < 0)
        return muster_fail(err, "%s: %s", loading->path, strerror(errno));
    *more = (size_t)got == wanted && left > wanted;
    log->tail = false;
    if (may_hold_frame(slot, (size_t)got)) {
        log->slot_at[loading->slots++] = at;
        log->bytes += (size_t)got;
        log->tail = !*more;
    } else {
        note_left_out(log, at, slot, (size_t)got);
    }
    return 0;
}

static int load(struct loading *loading, struct muster_err *err)
{
    struct log_bytes *log = loading->log;
    bool more = loading->size > MUSTER_LOG_HEADER_BYTES;
    if (!muster_reserve(&log->data, &loading->room, MUSTER_LOG_HEADER_BYTES, 1))
        return muster_fail_memory(err, loading->path);
    ssize_t got = muster_file_read(loading->fd, log->data, MUSTER_LOG_HEADER_BYTES, 0);
    if (got < 0)
        return muster_fail(err, "%s: %s", loading->path, strerror(errno));
    log->bytes = (size_t)got;
    uint64_t at = MUSTER_LOG_HEADER_BYTES;
    while (more && log->bytes >= MUSTER_LOG_HEADER_BYTES &&
           (at = muster_log_next_slot(loading->fd, at, loading->size)) < loading->size) {
        if (load_slot(loading, at, &more, err) != 0)
            return -1;
        at += MUSTER_LOG_SLOT_BYTES;
    }
    return 0;
}

static void free_bytes(struct log_bytes *log)
{
    free(log->data);
    free(log->slot_at);
    memset(log, 0, sizeof(*log));
}

/* As far as the file went when it was opened: what it grows by meanwhile is not read. On failure
 * nothing is to be freed. */
static int load_file(const char *path, struct log_bytes *log, struct muster_err *err)
{
    size_t size;
    struct loading loading = {.log = log, .path = path, .fd = muster_file_open(path, &size, err)};
    memset(log, 0, sizeof(*log));
    if (loading.fd < 0)
        return -1;
    loading.size = size;
    int rc = load(&loading, err);
    close(loading.fd);
    if (rc != 0)
        free_bytes(log);
    return rc;
}

/* ---- what stands in it ---- */

/* How a log is read. */
struct reading {
    struct muster_log_scan scan;
    unsigned left_out; /* damaged slots that are not in the data */
    uint64_t left_out_at;
    muster_op_taker take; /* NULL: they stay in the log */
    void *to;
    uint64_t end;
    bool counts; /* without `take`: they are counted instead */
    size_t counted;
};

/* Those of one frame, as far as they are asked for. */
static bool take_frame(struct reading *reading, const struct muster_log_frame *frame)
{
    struct muster_log *log = reading->scan.log;
    uint64_t left = reading->end > frame->first_op ? reading->end - frame->first_op : 0;
    size_t n = log->ops < left ? log->ops : (size_t)left;
    log->ops = 0;
    return n == 0 || reading->take(reading->to, log->op, n);
}

/* Where the operations of a frame go that was decoded. False: no more are wanted. */
static bool hand_out(struct reading *reading, const struct muster_log_frame *frame)
{
    if (reading->take)
        return take_frame(reading, frame);
    if (reading->counts) {
        reading->counted += reading->scan.log->ops;
        reading->scan.log->ops = 0;
    }
    return true;
}

/* Ordinals only rise from frame to frame; a frame that goes back is a forgery or a lost write that
 * came late, and would be counted twice. Frames that are not taken hold no operations afterwards.
 */
static void decode_all(struct reading *reading, struct muster_log_class *class)
{
    struct muster_log *log = reading->scan.log;
    for (size_t i = 0; i < reading->scan.places; i++) {
        struct muster_log_frame *frame = &reading->scan.place[i].frame;
        bool back = frame->ops && frame->first_op < log->next_op;
        const uint8_t *payload = reading->scan.data + reading->scan.place[i].at + sizeof(*frame);
        if ((i > 0 && frame->sequence == reading->scan.place[i - 1].frame.sequence) || back ||
            frame->first_op > UINT64_MAX - frame->ops ||
            !muster_log_decode(log, frame, payload, class)) {
            muster_log_damage(&reading->scan, reading->scan.place[i].at);
            frame->ops = 0;
            continue;
        }
        if (frame->ops)
            log->next_op = frame->first_op + frame->ops;
        if (!hand_out(reading, frame))
            return;
    }
    if (reading->counts) {
        free(log->op);
        log->op = NULL;
        log->room = 0;
        log->ops = reading->counted;
    }
    log->ops_missing = log->next_op - log->ops;
}

static void count_imaged(const struct reading *reading)
{
    struct muster_log *log = reading->scan.log;
    uint64_t head = atomic_load_explicit(&log->image->ring_head, memory_order_relaxed);
    for (size_t i = 0; i < reading->scan.places; i++) {
        const struct muster_log_frame *frame = &reading->scan.place[i].frame;
        uint64_t before = head > frame->first_op ? head - frame->first_op : 0;
        log->ops_imaged += before < frame->ops ? before : frame->ops;
    }
}

static size_t slot_end(size_t at, size_t bytes)
{
    return bytes - at < MUSTER_LOG_SLOT_BYTES ? bytes : at + MUSTER_LOG_SLOT_BYTES;
}

static void read_frames(struct reading *reading, struct muster_log_class *class)
{
    for (size_t at = MUSTER_LOG_HEADER_BYTES; at < reading->scan.bytes;
         at = slot_end(at, reading->scan.bytes))
        if (!muster_log_scan_slot(&reading->scan, at, slot_end(at, reading->scan.bytes)))
            break;
    if (reading->scan.places > 0)
        qsort(reading->scan.place, reading->scan.places, sizeof(*reading->scan.place),
              muster_log_by_sequence);
    decode_all(reading, class);
    if (reading->scan.log->image) {
        muster_check_entries(reading->scan.log->image, NULL);
        count_imaged(reading);
    }
}

/* `reading`: what, and how. */
static int parse(const char *name, struct reading reading, struct muster_log *log,
                 struct muster_err *err)
{
    struct muster_log got = {.comm_at = {.key_bytes = sizeof(uint32_t)},
                             .damaged = reading.left_out,
                             .damaged_at = reading.left_out_at};
    struct muster_log_header header = {0};
    if (muster_log_parse_header(name, reading.scan.data, reading.scan.bytes, &header, err) != 0)
        return -1;
    got.identity = header.identity;
    bool imaged = !reading.take && !reading.counts;
    got.image = imaged ? muster_segment_new(&header.identity) : NULL;
    struct muster_log_class *class = malloc(MUSTER_LOG_CLASSES * sizeof(*class));
    reading.scan.budget = 8 * reading.scan.bytes;
    reading.scan.log = &got;
    got.no_memory = (!got.image && imaged) || !class;
    if (!got.no_memory)
        read_frames(&reading, class);
    free(reading.scan.place);
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
    return parse(name, (struct reading){.scan = {.data = data, .bytes = bytes}}, log, err);
}

static int read_file(const char *path, struct reading reading, struct muster_log *log,
                     struct muster_err *err)
{
    struct log_bytes in;
    if (load_file(path, &in, err) != 0)
        return -1;
    reading.scan.data = in.data;
    reading.scan.bytes = in.bytes;
    reading.scan.slot_at = in.slot_at;
    reading.scan.inside = !in.tail;
    reading.left_out = in.damaged;
    reading.left_out_at = in.damaged_at;
    int rc = parse(path, reading, log, err);
    free_bytes(&in);
    return rc;
}

int muster_log_read(const char *path, struct muster_log *log, struct muster_err *err)
{
    return read_file(path, (struct reading){.take = NULL}, log, err);
}

int muster_log_count(const char *path, struct muster_log *log, struct muster_err *err)
{
    return read_file(path, (struct reading){.counts = true}, log, err);
}

int muster_log_read_ops(const char *path, uint64_t end, muster_op_taker take, void *to,
                        struct muster_err *err)
{
    struct muster_log log;
    int rc = read_file(path, (struct reading){.take = take, .to = to, .end = end}, &log, err);
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
    int rc = muster_log_parse_header(path, data, bytes, &header, err);
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
