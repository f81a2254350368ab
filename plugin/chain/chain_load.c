#include "chain/chain_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/library.h"
#include "nccl/profiler_hooks.h"

enum { NAME_BYTES = 1100 }; /* a setting's path and what goes around it */

static void *open_library(const char *name, struct muster_err *err)
{
    char full[NAME_BYTES];
    void *handle = dlopen(strcmp(name, "STATIC_PLUGIN") == 0 ? NULL : name, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        return handle;
    const char *why = dlerror();
    muster_fail(err, "%s", why ? why : name);
    snprintf(full, sizeof full, "libnccl-profiler-%s.so", name);
    if (!strchr(name, '/'))
        handle = dlopen(full, RTLD_NOW | RTLD_LOCAL);
    muster_library_forget();
    return handle;
}

/* Whoever lacks one of these would crash in NCCL as well. */
static bool is_whole(const struct nccl_profiler_v1 *table)
{
    return table->init && table->start && table->stop && table->record && table->finalize;
}

static const void *table_of(void *handle, unsigned api)
{
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%u", api);
    const void *table = dlsym(handle, symbol);
    muster_library_forget();
    return table;
}

int muster_chain_load(struct muster_chain_library *library, const char *name,
                      struct muster_err *err)
{
    *library = (struct muster_chain_library){.handle = open_library(name, err)};
    if (!library->handle)
        return -1;
    unsigned found = 0;
    for (unsigned api = 1; api <= NCCL_NEWEST_API; api++) {
        struct muster_chain_table table = {.api = api};
        table.any = table_of(library->handle, api);
        if (table.any && nccl_profiler_is_own(table.any))
            return muster_fail(err, "%s is muster itself", name);
        if (table.any && is_whole(table.v1)) {
            library->newest[api] = table;
            found++;
        } else {
            library->newest[api] = library->newest[api - 1];
        }
    }
    if (!found)
        return muster_fail(err, "%s has no ncclProfiler_v1 to v%d", name, NCCL_NEWEST_API);
    return 0;
}
