#include "fake_plugin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 65536 }; /* a multiple of every page size */

struct fake_plugin fake;
char fake_context, fake_handle;

void muster_plugin_init(void **context, int *mask, const struct muster_event_init *init,
                        const void *caller)
{
    fake.inits++;
    fake.init = *init;
    fake.mask = mask;
    fake.caller = caller;
    *context = &fake_context;
    *mask = 0x5a;
}

const struct nccl_profiler_beside *muster_plugin_beside(void)
{
    return NULL;
}

void muster_plugin_start(void *context, void **handle, const struct muster_event *event)
{
    fake.starts++;
    fake.context = context;
    fake.handle_at = handle;
    fake.event = *event;
    *handle = &fake_handle;
}

void muster_plugin_state(void *handle, unsigned state, const struct muster_event_args *args)
{
    fake.states++;
    fake.handle = handle;
    fake.state = state;
    fake.args = *args;
}

void muster_plugin_stop(void *handle)
{
    fake.stops++;
    fake.handle = handle;
}

void muster_plugin_fini(void *context)
{
    fake.finis++;
    fake.context = context;
}

const fake_entry *fake_table(unsigned api)
{
    const fake_entry *const tables[] = {ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3,
                                        ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6,
                                        ncclProfiler_v7};
    return tables[api - 1];
}

unsigned char *fake_guarded(size_t bytes)
{
    unsigned char *pages =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) != 0)
        abort();
    memset(pages, 0xa5, PAGE);
    return pages + PAGE - bytes;
}

void fake_unguard(unsigned char *at, size_t bytes)
{
    munmap(at + bytes - PAGE, 2 * PAGE);
}
