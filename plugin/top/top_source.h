/* Where a screen has its jobs from: the segments of this host (top_host.h) or the workers of a
 * fleet (top_fleet.h). One thread. */
#ifndef MUSTER_TOP_TOP_SOURCE_H
#define MUSTER_TOP_TOP_SOURCE_H

#include "top/top.h"

struct muster_top_source {
    void *arg;
    /* Looks at all there is. */
    void (*look)(void *arg);
    /* Takes what does not wait for the next look; returns when it has to be called again:
     * monotonic, UINT64_MAX: need not be. */
    uint64_t (*take)(void *arg);
    /* Job `job` as of the last look, in memory of the source's: until the next fill. */
    void (*fill)(void *arg, size_t job, struct muster_top *top);
};

#endif
