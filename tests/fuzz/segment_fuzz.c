/*
 * Any bytes as a segment. The first byte chooses: 0, the rest is the file as it is; else the rest
 * are changes to a good segment (changed_segment.h). Odd: it is read from memory; else as a file: 4
 * and its multiples in parts, as those do that follow a living process, the others whole, and as
 * one that is being written. What comes out is brought to a consistent state as for a report.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "changed_segment.h"
#include "run/run_process.h"
#include "segment/segment_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void finish(struct muster_segment *segment)
{
    struct muster_pieces pieces = {.segment = segment};
    struct muster_run run = {0};
    muster_run_add(&run, &pieces);
    muster_run_free(&run);
}

static void parse(const void *file, size_t bytes)
{
    struct muster_segment *segment;
    struct muster_err err;
    if (muster_segment_parse("fuzz", file, bytes, &segment, &err) == 0)
        finish(segment);
}

/* As those do that follow a living process. */
static void read_parts(const char *path)
{
    static struct muster_op op[MUSTER_SEG_RING];
    struct muster_segment *segment = aligned_alloc(64, sizeof(*segment));
    struct muster_seg_identity identity;
    struct muster_err err;
    uint64_t next = 0;
    memset((void *)segment, 0, sizeof(*segment));
    muster_segment_read_ring(path, &next, op);
    muster_segment_read_ring(path, &next, op);
    muster_segment_read_tables(path, segment, &err);
    muster_segment_read_flight(path, segment, &err);
    muster_segment_read_identity(path, &identity, &err);
    free(segment);
    void *bytes;
    size_t n;
    if (muster_file_load(path, MUSTER_SEG_RING, &bytes, &n, &err) == 0)
        free(bytes);
}

static void read_whole(const char *path)
{
    struct muster_segment *segment;
    struct muster_err err;
    unsigned unstable;
    if (muster_segment_read(path, &segment, &err) == 0)
        finish(segment);
    if (muster_segment_read_live(path, &segment, &unstable, &err) == 0)
        finish(segment);
}

static char path[] = "/dev/shm/muster-fuzz-XXXXXX";

static void leave(void)
{
    unlink(path);
}

static void read_file(const void *file, size_t bytes, bool in_parts)
{
    static int fd = -1;
    if (fd < 0 && (fd = mkstemp(path)) >= 0)
        atexit(leave);
    if (fd < 0 || pwrite(fd, file, bytes, 0) != (ssize_t)bytes || ftruncate(fd, (off_t)bytes))
        abort();
    if (in_parts)
        read_parts(path);
    else
        read_whole(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] == 0) {
        parse(data + 1, bytes - 1);
        read_file(data + 1, bytes - 1, false);
        read_file(data + 1, bytes - 1, true);
        return 0;
    }
    struct muster_segment *file = muster_fuzz_changed_segment(data + 1, bytes - 1);
    if (data[0] % 2)
        parse(file, sizeof(*file));
    else
        read_file(file, sizeof(*file), data[0] % 4 == 0);
    free(file);
    return 0;
}
