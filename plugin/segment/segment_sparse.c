#include "segment/segment_sparse.h"

#include <errno.h>
#include <unistd.h>

#include "base/pages.h"
#include "segment/segment_reader.h"

/* A hole from `at` on: up to the next byte that was ever written, or to `size`. What a file system
 * does not know them is no hole. */
static size_t hole_end(int fd, size_t at, size_t size)
{
    off_t data = lseek(fd, (off_t)at, SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? size : at;
    return (size_t)data < size ? (size_t)data : size;
}

static size_t data_end(int fd, size_t at, size_t size)
{
    off_t hole = lseek(fd, (off_t)at, SEEK_HOLE);
    return hole > (off_t)at && (size_t)hole < size ? (size_t)hole : size;
}

ssize_t muster_read_sparse(int fd, char *to, size_t size, struct muster_seg_parts *parts)
{
    size_t at = 0;
    while (at < size) {
        size_t from = hole_end(fd, at, size);
        muster_pages_clear(to + at, from - at);
        size_t wanted = data_end(fd, from, size) - from;
        ssize_t n = wanted ? muster_file_read(fd, to + from, wanted, (off_t)from) : 0;
        if (n < 0)
            return -1;
        at = from + (size_t)n;
        muster_seg_parts_note(parts, from, at);
        if ((size_t)n < wanted)
            break; /* it was cut meanwhile */
    }
    return (ssize_t)at;
}
