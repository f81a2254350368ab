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

static char any_path[] = "/dev/shm/muster-fuzz-XXXXXX";
static char changed_path[] = "/dev/shm/muster-fuzz-XXXXXX";

static void leave(void)
{
    unlink(any_path);
    unlink(changed_path);
}

static int make_file(char *path)
{
    int fd = mkstemp(path);
    if (fd < 0)
        abort();
    return fd;
}

static void read_any(const void *file, size_t bytes)
{
    static int fd = -1;
    if (fd < 0)
        fd = make_file(any_path);
    if (pwrite(fd, file, bytes, 0) != (ssize_t)bytes || ftruncate(fd, (off_t)bytes))
        abort();
    parse(file, bytes);
    read_whole(any_path);
    read_parts(any_path);
}

static void read_changed(uint8_t how, const uint8_t *changes, size_t bytes)
{
    static struct muster_fuzz_segment memory = {.fd = -1}, file = {.fd = -1};
    if (how % 2) {
        muster_fuzz_change_segment(&memory, changes, bytes);
        parse(memory.now, sizeof(struct muster_segment));
        return;
    }
    if (file.fd < 0)
        file.fd = make_file(changed_path);
    muster_fuzz_change_segment(&file, changes, bytes);
    if (how % 4 == 0)
        read_parts(changed_path);
    else
        read_whole(changed_path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static bool begun;
    if (!begun)
        begun = atexit(leave) == 0;
    if (bytes == 0)
        return 0;
    if (data[0] == 0)
        read_any(data + 1, bytes - 1);
    else
        read_changed(data[0], data + 1, bytes - 1);
    return 0;
}
