/*
 * A machine from hwloc. The live machine comes by way of hwloc's own XML, so there is one reader,
 * and it needs no hwloc: muster asks the library (dlopen, absent on many machines) for nothing but
 * that text, which keeps its structures out of muster.
 */
#ifndef MUSTER_TOPOLOGY_HWLOC_HWLOC_H
#define MUSTER_TOPOLOGY_HWLOC_HWLOC_H

#include <stddef.h>

#include "topology/machine.h"

#define MUSTER_HWLOC_LIBRARY "libhwloc.so.15"

enum { MUSTER_HWLOC_XML_MAX = 32 << 20 };

/* Into an empty machine. Reads hwloc's XML, versions 1 and 2. `name` is for errors. */
int muster_hwloc_read(struct muster_machine *machine, const char *name, const char *xml,
                      size_t size, struct muster_err *err);
int muster_hwloc_read_file(struct muster_machine *machine, const char *path,
                           struct muster_err *err);

/* The live machine as XML from libhwloc.so.15; free() it. May block in drivers: call it where it
 * can be given up. Components that start GPU drivers are left out: what they know comes from NVML.
 */
int muster_hwloc_live(char **xml, size_t *size, struct muster_err *err);

#endif
