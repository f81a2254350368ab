#include "mapped_ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "segment/reap.h"

static struct muster_segment *map_one(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct muster_segment *map = mmap(NULL, sizeof *map, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

bool mapped_ranks(const char *folder, struct muster_segment **of_rank, unsigned ranks)
{
    struct muster_found *found;
    size_t n = muster_find_segments(folder, &found);
    bool whole = true;
    for (size_t i = 0; i < n && whole; i++) {
        struct muster_segment *map = map_one(found[i].path);
        whole = map && map->identity.rank >= 0 && (unsigned)map->identity.rank < ranks;
        if (whole)
            of_rank[map->identity.rank] = map;
    }
    muster_found_free(found, n);
    return whole;
}
