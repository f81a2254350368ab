#include "segment/foreign_format.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "segment/layout.h"

uint32_t muster_segment_foreign_format(const char *path)
{
    unsigned char head[offsetof(struct muster_segment, size)];
    uint64_t magic;
    uint32_t version;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, head, sizeof head, 0);
    close(fd);
    if (n != (ssize_t)sizeof head)
        return 0;
    memcpy(&magic, head + offsetof(struct muster_segment, magic), sizeof magic);
    memcpy(&version, head + offsetof(struct muster_segment, version), sizeof version);
    return magic == MUSTER_SEG_MAGIC && version != MUSTER_SEG_VERSION ? version : 0;
}
