#include "view/view.h"

#include <stdlib.h>
#include <string.h>

struct named {
    const char *host;
    uint32_t gpu;
};

static int by_name(const void *left, const void *right)
{
    const struct named *a = left, *b = right;
    int order = strcmp(a->host, b->host);
    return order ? order : (a->gpu > b->gpu) - (a->gpu < b->gpu);
}

/* Of each GPU the first one of its host. */
static void find_first(struct named *named, size_t gpus, uint32_t *first)
{
    if (gpus)
        qsort(named, gpus, sizeof *named, by_name);
    for (size_t i = 0; i < gpus; i++) {
        bool same = i > 0 && strcmp(named[i - 1].host, named[i].host) == 0;
        first[named[i].gpu] = same ? first[named[i - 1].gpu] : named[i].gpu;
    }
}

uint32_t *muster_view_hosts(const struct muster_view *view, struct muster_arena *memory)
{
    struct named *named = muster_arena_array(memory, view->gpus + 1, sizeof *named);
    uint32_t *host = muster_arena_array(memory, view->gpus + 1, sizeof *host);
    uint32_t hosts = 0;
    if (memory->failed)
        return NULL;
    for (uint32_t g = 0; g < view->gpus; g++)
        named[g] = (struct named){view->gpu[g].host, g};
    find_first(named, view->gpus, host);
    for (uint32_t g = 0; g < view->gpus; g++)
        host[g] = host[g] == g ? hosts++ : host[host[g]];
    return host;
}
