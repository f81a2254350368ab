/*
 * What the kernel shows below /sys: the PCI tree, what its links can and do, NICs. `root` stands
 * for /sys, so that a recorded tree can be read as well. Files are read with a limit; what is not
 * there stays unknown.
 */
#ifndef MUSTER_TOPOLOGY_SYSFS_H
#define MUSTER_TOPOLOGY_SYSFS_H

#include "topology/machine.h"

/* The first line of root/path (printf-like), cut at size - 1 bytes; false if it cannot be read. */
__attribute__((format(printf, 4, 5))) bool muster_sysfs_line(const char *root, char *text,
                                                             size_t size, const char *fmt, ...);
/* A number, decimal or 0x; `otherwise` if there is none. */
__attribute__((format(printf, 3, 4))) long long
muster_sysfs_number(const char *root, long long otherwise, const char *fmt, ...);

/* The PCI tree into an empty machine. */
int muster_sysfs_read(struct muster_machine *machine, const char *root, struct muster_err *err);
/* What links can and do, NUMA nodes, NICs' names, rates and states, and whether the machine is
 * virtual, into a machine from any source. */
void muster_sysfs_annotate(struct muster_machine *machine, const char *root);

#endif
