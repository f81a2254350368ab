/*
 * Any bytes as a segment. The first byte chooses: 0, the rest is the file as it is; else the rest
 * are changes to a good segment, each an offset of 3 bytes, a length of 1 and so many bytes. An
 * even first byte reads it as a file, as readers of living processes do. What comes out is brought
 * to a consistent state as for a report.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "segment/image.h"
#include "segment/read.h"
#include "segment/run_process.h"

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

static void read_files(const void *file, size_t bytes)
{
    static int fd = -1;
    struct muster_segment *segment;
    struct muster_err err;
    unsigned unstable;
    char path[64];
    if (fd < 0)
        fd = memfd_create("segment", 0);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, file, bytes, 0) != (ssize_t)bytes)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (muster_segment_read(path, &segment, &err) == 0)
        finish(segment);
    if (muster_segment_read_live(path, &segment, &unstable, &err) == 0)
        finish(segment);
}

static void change(uint8_t *file, const uint8_t *data, size_t bytes)
{
    while (bytes > 4) {
        size_t at = (size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2], n = data[3];
        data += 4;
        bytes -= 4;
        n = n < bytes ? n : bytes;
        if (at + n <= sizeof(struct muster_segment))
            memcpy(file + at, data, n);
        data += n;
        bytes -= n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] == 0) {
        parse(data + 1, bytes - 1);
        read_files(data + 1, bytes - 1);
        return 0;
    }
    struct muster_seg_identity identity = {.rank = 1, .run_dir = "/run", .file_stem = "host-1"};
    struct muster_segment *file = aligned_alloc(64, sizeof(*file));
    memset(file, 0, sizeof(*file));
    muster_segment_init(file, &identity);
    change((uint8_t *)file, data + 1, bytes - 1);
    if (data[0] % 2)
        parse(file, sizeof(*file));
    else
        read_files(file, sizeof(*file));
    free(file);
    return 0;
}
