#include "oplog/log_load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "oplog/log_format.h"
#include "segment/segment_reader.h"

struct loading {
    struct muster_log_bytes *log;
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
static void note_left_out(struct muster_log_bytes *log, uint64_t at, const uint8_t *slot,
                          size_t bytes)
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

uint64_t muster_log_next_slot(int fd, uint64_t at, uint64_t size)
{
    off_t data = lseek(fd, (off_t)at, SEEK_DATA);
    if (data < 0) /* a file system that does not know holes has none */
        return errno == ENXIO ? size : at;
    return at + ((uint64_t)data - at) / MUSTER_LOG_SLOT_BYTES * MUSTER_LOG_SLOT_BYTES;
}

static int load_slot(struct loading *loading, uint64_t at, bool *more, struct muster_err *err)
{
    struct muster_log_bytes *log = loading->log;
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
    struct muster_log_bytes *log = loading->log;
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

int muster_log_load(const char *path, struct muster_log_bytes *log, struct muster_err *err)
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
        muster_log_bytes_free(log);
    return rc;
}

void muster_log_bytes_free(struct muster_log_bytes *log)
{
    free(log->data);
    free(log->slot_at);
    memset(log, 0, sizeof(*log));
}
