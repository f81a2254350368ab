/* Where a job of this environment may find NCCL, by the names of files: nothing is opened. */
#ifndef MUSTER_LAUNCH_NCCL_FILES_H
#define MUSTER_LAUNCH_NCCL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The folder above that of the first python3 on PATH. Its link is not resolved: that of a virtual
 * environment points out of it. */
bool muster_python_prefix(char *prefix, size_t size);

/* Calls `take` for each libnccl.so* on LD_LIBRARY_PATH, in the system's folders and in Python
 * environments, the same file perhaps twice by several links. */
void muster_nccl_files(void (*take)(void *to, const char *path), void *to);

/* 22703 of a libnccl.so.2.27.3, and of one in a wheel that was installed as version 2.27.3; 0: the
 * names do not show it. */
uint32_t muster_nccl_version_by_name(const char *path);

#endif
