#include "oplog/log_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "oplog/log_decode.h"
#include "oplog/log_scan.h"
#include "segment/image.h"
#include "segment/segment_check.h"

/* One look. */
struct look {
    struct muster_log_tail *tail;
    int fd;
    uint64_t size, changed_ns;
    muster_op_taker take;
    void *to;
    struct muster_log_class *class; /* scratch */
    uint8_t *slot;                  /* scratch, of a slot */
};

/* ---- where to go on ---- */

/* Whether the slot there begins with a frame that was not read; its sequence if so. */
static bool is_newer(const struct look *look, uint64_t at, uint32_t *sequence)
{
    struct muster_log_frame frame;
    if (pread(look->fd, &frame, sizeof(frame), (off_t)at) != sizeof(frame) ||
        frame.magic != MUSTER_LOG_FRAME_MAGIC)
        return false;
    *sequence = frame.sequence;
    return !look->tail->any || frame.sequence > look->tail->sequence;
}

/* Of all slots the oldest that was not read; 0: there is none. */
static uint64_t oldest_newer(const struct look *look)
{
    uint64_t found = 0;
    uint32_t sequence, least = 0;
    for (uint64_t at = MUSTER_LOG_HEADER_BYTES;
         (at = muster_log_next_slot(look->fd, at, look->size)) < look->size;
         at += MUSTER_LOG_SLOT_BYTES) {
        if (!is_newer(look, at, &sequence) || (found && sequence >= least))
            continue;
        found = at;
        least = sequence;
    }
    return found;
}

/* The slot behind one, the first behind the last; 0: it has not been begun again. */
static uint64_t next_slot(const struct look *look, uint64_t at)
{
    uint32_t sequence;
    at += MUSTER_LOG_SLOT_BYTES;
    if (at < look->size && is_newer(look, at, &sequence))
        return at;
    return is_newer(look, MUSTER_LOG_HEADER_BYTES, &sequence) ? MUSTER_LOG_HEADER_BYTES : 0;
}

/* ---- a slot ---- */

/* Of a frame that was not read. It may be nonsense in spite of its CRC: then it is left out. */
static void take_frame(struct look *look, struct muster_log_frame *frame, const uint8_t *payload)
{
    struct muster_log *log = &look->tail->log;
    size_t had = log->ops;
    bool back = frame->ops && frame->first_op < log->next_op;
    look->tail->sequence = frame->sequence;
    look->tail->any = true;
    if (back || frame->first_op > UINT64_MAX - frame->ops ||
        !muster_log_decode(log, frame, payload, look->class))
        return;
    if (frame->ops)
        log->next_op = frame->first_op + frame->ops;
    if (log->ops > had)
        look->take(look->to, log->op + had, log->ops - had);
}

/* What the image counts by now is needed no more. */
static void drop_imaged(struct muster_log *log)
{
    uint64_t head = atomic_load_explicit(&log->image->ring_head, memory_order_relaxed);
    uint64_t behind = log->next_op > head ? log->next_op - head : 0;
    size_t left = behind < log->ops ? (size_t)behind : log->ops;
    if (left > 0 && left < log->ops)
        memmove(log->op, log->op + (log->ops - left), left * sizeof(*log->op));
    log->ops = left;
}

/* Returns whether there was a frame that was not read. */
static bool read_slot(struct look *look, uint64_t at)
{
    struct muster_log_tail *tail = look->tail;
    ssize_t n = pread(look->fd, look->slot, MUSTER_LOG_SLOT_BYTES, (off_t)at);
    struct muster_log_scan scan = {.data = look->slot,
                                   .bytes = n > 0 ? (size_t)n : 0,
                                   .budget = 8 * MUSTER_LOG_SLOT_BYTES,
                                   .log = &tail->log};
    bool moved = false;
    muster_log_scan_slot(&scan, 0, scan.bytes);
    for (size_t i = 0; i < scan.places && !tail->log.no_memory; i++) {
        struct muster_log_frame *frame = &scan.place[i].frame;
        if (tail->any && frame->sequence <= tail->sequence)
            continue;
        take_frame(look, frame, look->slot + scan.place[i].at + sizeof(*frame));
        tail->at = at;
        moved = true;
    }
    free(scan.place);
    drop_imaged(&tail->log);
    return moved;
}

/* Where the log goes on behind a slot; 0: nowhere. */
static uint64_t goes_on(const struct look *look, uint64_t at, bool moved)
{
    uint64_t next = next_slot(look, at);
    /* The slot in between may be damaged where it begins. */
    if (!next && !moved && look->changed_ns != look->tail->changed_ns)
        next = oldest_newer(look);
    return next;
}

/* Forward, as far as slots begin with something new; back once, where the log begins again, and
 * once to what lies elsewhere: slots that only seem newer must not keep it here. */
static void read_slots(struct look *look)
{
    struct muster_log_tail *tail = look->tail;
    uint64_t at = tail->any ? tail->at : oldest_newer(look);
    unsigned back = 0;
    bool moved = false;
    while (at && back <= 2 && !tail->log.no_memory) {
        moved |= read_slot(look, at);
        uint64_t next = goes_on(look, at, moved);
        back += next <= at;
        at = next;
    }
    tail->changed_ns = look->changed_ns;
}

/* ---- the file ---- */

static int read_header(struct look *look, const char *path, struct muster_err *err)
{
    struct muster_log_tail *tail = look->tail;
    uint8_t bytes[MUSTER_LOG_HEADER_BYTES];
    struct muster_log_header header;
    ssize_t n = pread(look->fd, bytes, sizeof(bytes), 0);
    if (muster_log_parse_header(path, bytes, n > 0 ? (size_t)n : 0, &header, err) != 0)
        return -1;
    tail->log.identity = header.identity;
    tail->log.comm_at.key_bytes = sizeof(uint32_t);
    if (!tail->log.image)
        tail->log.image = muster_segment_new(&header.identity);
    return tail->log.image ? 0 : muster_fail_memory(err, path);
}

static int read_open(struct look *look, const char *path, struct muster_err *err)
{
    struct stat file;
    if (fstat(look->fd, &file) != 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    look->size = (uint64_t)file.st_size;
    look->changed_ns =
        (uint64_t)file.st_mtim.tv_sec * MUSTER_NS_PER_S + (uint64_t)file.st_mtim.tv_nsec;
    if (read_header(look, path, err) != 0)
        return -1;
    look->class = malloc(MUSTER_LOG_CLASSES * sizeof(*look->class));
    look->slot = malloc(MUSTER_LOG_SLOT_BYTES);
    look->tail->log.no_memory = !look->class || !look->slot;
    read_slots(look);
    free(look->class);
    free(look->slot);
    if (look->tail->log.no_memory)
        return muster_fail_memory(err, path);
    muster_check_entries(look->tail->log.image, NULL);
    return 0;
}

int muster_log_tail_read(struct muster_log_tail *tail, const char *path, muster_op_taker take,
                         void *to, struct muster_err *err)
{
    struct look look = {.tail = tail, .take = take, .to = to};
    look.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (look.fd < 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    int rc = read_open(&look, path, err);
    close(look.fd);
    return rc;
}

void muster_log_tail_free(struct muster_log_tail *tail)
{
    muster_log_free(&tail->log);
}
