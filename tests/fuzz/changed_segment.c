#include "changed_segment.h"

#include <stdlib.h>
#include <string.h>

#include "segment/image.h"

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

struct muster_segment *muster_fuzz_changed_segment(const uint8_t *changes, size_t bytes)
{
    struct muster_seg_identity identity = {.rank = 1, .run_dir = "/run", .file_stem = "host-1"};
    struct muster_segment *segment = aligned_alloc(64, sizeof(*segment));
    if (!segment)
        abort();
    memset((void *)segment, 0, sizeof(*segment));
    muster_segment_init(segment, &identity);
    change((uint8_t *)segment, changes, bytes);
    return segment;
}
