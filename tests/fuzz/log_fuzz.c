/*
 * Any bytes as a log. The first byte chooses: 0, the rest is the file as it is; 1, the rest are
 * the slots behind a good header, and what looks like a frame gets the right CRC; 2, the rest is
 * the payload of one good frame. What comes out is taken through everything that a reader does.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "oplog/log_reader.h"
#include "oplog/log_tail.h"
#include "run/run_process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void put_header(uint8_t *file)
{
    struct muster_log_header header;
    memset(&header, 0, sizeof(header));
    header.magic = MUSTER_LOG_MAGIC;
    header.version = MUSTER_LOG_VERSION;
    header.bytes = sizeof(header);
    header.slot_bytes = MUSTER_LOG_SLOT_BYTES;
    header.segment_version = MUSTER_SEG_VERSION;
    header.generation = 1;
    strcpy(header.identity.file_stem, "host-1");
    header.crc = muster_log_header_crc(&header);
    memcpy(file, &header, sizeof(header));
}

static void fix_frame(uint8_t *at, size_t left)
{
    struct muster_log_frame frame;
    if (left < sizeof(frame))
        return;
    memcpy(&frame, at, sizeof(frame));
    if (frame.magic != MUSTER_LOG_FRAME_MAGIC || frame.length > left - sizeof(frame))
        return;
    frame.crc = muster_log_frame_crc(at, frame.length);
    memcpy(at, &frame, sizeof(frame));
}

static bool take_any(void *to, const struct muster_op *op, size_t n)
{
    *(uint64_t *)to += n ? op[n - 1].number : 0;
    return true;
}

/* As a run is loaded, and as one whose operations stay in its logs. */
static void read_whole(const char *path, uint64_t *sum)
{
    struct muster_log log = {0};
    struct muster_seg_identity identity;
    struct muster_err err;
    if (muster_log_read(path, &log, &err) == 0)
        muster_log_free(&log);
    log = (struct muster_log){0};
    if (muster_log_count(path, &log, &err) == 0)
        muster_log_free(&log);
    muster_log_read_ops(path, UINT64_MAX, take_any, sum, &err);
    muster_log_read_identity(path, &identity, &err);
}

/* While it grows: half of it, and then the rest. */
static void read_on(const uint8_t *file, size_t bytes)
{
    struct muster_log_tail tail = {.at = 0};
    struct muster_err err;
    uint64_t sum = 0;
    char path[64];
    int fd = memfd_create("log", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (unsigned part = 1; fd >= 0 && part <= 2; part++) {
        if (pwrite(fd, file, bytes * part / 2, 0) < 0)
            abort();
        muster_log_tail_read(&tail, path, take_any, &sum, &err);
    }
    muster_log_tail_free(&tail);
    read_whole(path, &sum);
    close(fd);
}

static void parse(const uint8_t *file, size_t bytes)
{
    struct muster_pieces pieces = {0};
    struct muster_run run = {0};
    struct muster_err err;
    read_on(file, bytes);
    if (muster_log_parse("fuzz", file, bytes, &pieces.log, &err) != 0)
        return;
    muster_run_add(&run, &pieces);
    muster_run_free(&run);
}

static void as_slots(const uint8_t *data, size_t bytes)
{
    uint8_t *file = calloc(1, MUSTER_LOG_HEADER_BYTES + bytes);
    put_header(file);
    if (bytes)
        memcpy(file + MUSTER_LOG_HEADER_BYTES, data, bytes);
    for (size_t at = 0; at < bytes; at += 8)
        fix_frame(file + MUSTER_LOG_HEADER_BYTES + at, bytes - at);
    parse(file, MUSTER_LOG_HEADER_BYTES + bytes);
    free(file);
}

/* The number of operations is taken from the first byte, so that it can be right. */
static void as_payload(const uint8_t *data, size_t bytes)
{
    struct muster_log_frame frame = {.magic = MUSTER_LOG_FRAME_MAGIC, .base_ns = 5};
    size_t room = MUSTER_LOG_FRAME_BYTES - sizeof(frame);
    if (bytes == 0)
        return;
    frame.ops = data[0];
    frame.length = (uint32_t)(bytes - 1 < room ? bytes - 1 : room);
    uint8_t *slot = malloc(sizeof(frame) + frame.length);
    memcpy(slot, &frame, sizeof(frame));
    memcpy(slot + sizeof(frame), data + 1, frame.length);
    as_slots(slot, sizeof(frame) + frame.length);
    free(slot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] == 0)
        parse(data + 1, bytes - 1);
    else if (data[0] == 1)
        as_slots(data + 1, bytes - 1);
    else
        as_payload(data + 1, bytes - 1);
    return 0;
}
