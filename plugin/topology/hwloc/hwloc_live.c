#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "topology/hwloc/hwloc.h"

enum { TYPE_FILTER_KEEP_IMPORTANT = 3 }; /* hwloc_type_filter_e of hwloc 2 */

struct hwloc {
    void *library;
    int (*init)(void **topology);
    int (*filter)(void *topology, int filter);
    int (*load)(void *topology);
    int (*export_xml)(void *topology, char **text, int *size, unsigned long flags);
    void (*free_xml)(void *topology, char *text);
    void (*destroy)(void *topology);
};

static int open_library(struct hwloc *hwloc, struct muster_err *err)
{
    static const char name[] = MUSTER_HWLOC_LIBRARY;
    const struct {
        const char *name;
        void *into;
    } symbols[] = {
        {"hwloc_topology_init", &hwloc->init},
        {"hwloc_topology_set_io_types_filter", &hwloc->filter},
        {"hwloc_topology_load", &hwloc->load},
        {"hwloc_topology_export_xmlbuffer", &hwloc->export_xml},
        {"hwloc_free_xmlbuffer", &hwloc->free_xml},
        {"hwloc_topology_destroy", &hwloc->destroy},
    };
    hwloc->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!hwloc->library)
        return muster_fail(err, "no hwloc: %s", dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(hwloc->library, symbols[i].name);
        if (!found) {
            dlclose(hwloc->library);
            return muster_fail(err, "%s has no %s", name, symbols[i].name);
        }
        memcpy(symbols[i].into, &found, sizeof found);
    }
    return 0;
}

static int export_copy(const struct hwloc *hwloc, void *topology, char **xml, size_t *size,
                       struct muster_err *err)
{
    char *text = NULL;
    int length = 0;
    if (hwloc->filter(topology, TYPE_FILTER_KEEP_IMPORTANT) || hwloc->load(topology) ||
        hwloc->export_xml(topology, &text, &length, 0) || length <= 0)
        return muster_fail(err, "hwloc cannot read this machine");
    size_t n = strnlen(text, (size_t)length);
    *xml = malloc(n + 1);
    if (*xml) {
        memcpy(*xml, text, n);
        (*xml)[n] = '\0';
        *size = n;
    }
    hwloc->free_xml(topology, text);
    return *xml ? 0 : muster_fail_memory(err, "hwloc's XML");
}

int muster_hwloc_live(char **xml, size_t *size, struct muster_err *err)
{
    struct hwloc hwloc;
    void *topology = NULL;
    if (open_library(&hwloc, err))
        return -1;
    setenv("HWLOC_COMPONENTS", "-cuda,-nvml,-rsmi,-levelzero,-opencl,-gl", 0);
    int rc = hwloc.init(&topology) ? muster_fail(err, "hwloc cannot start")
                                   : export_copy(&hwloc, topology, xml, size, err);
    if (topology)
        hwloc.destroy(topology);
    dlclose(hwloc.library);
    return rc;
}
