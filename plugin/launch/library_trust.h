/*
 * Root asks about a user's libraries: to load one is to run what that user wrote, as root.
 */
#ifndef MUSTER_LAUNCH_LIBRARY_TRUST_H
#define MUSTER_LAUNCH_LIBRARY_TRUST_H

#include <stdbool.h>
#include <stddef.h>

/* Whether root and nobody else can change the file, or what leads to it. */
bool muster_library_is_roots(const char *file);

/* Whether this process may load what dlopen(name) would: anybody but root may; root, if it is
 * root's. False: `file` is what would have been loaded. Only LD_LIBRARY_PATH is looked at: what the
 * loader finds without it is the system's. */
bool muster_library_may_load(const char *name, char *file, size_t size);

#endif
