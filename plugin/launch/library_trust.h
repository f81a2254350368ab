/*
 * Root asks about a user's libraries: to load one is to run what that user wrote, as root.
 */
#ifndef MUSTER_LAUNCH_LIBRARY_TRUST_H
#define MUSTER_LAUNCH_LIBRARY_TRUST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Whether this process may load what dlopen(name) would: anybody but root may; root, if it is
 * root's, or where MUSTER_LOAD_ANY=1 asks for it. False: `file` is what would have been loaded.
 * Only LD_LIBRARY_PATH is looked at: what the loader finds without it is the system's. */
bool muster_library_may_load(const char *name, char *file, size_t size);
/* The same; -1: err names the file that is not loaded, and why. */
int muster_library_ask(const char *name, struct muster_err *err);
/* Whether root here is another user outside of this user namespace, by the text of its uid_map, as
 * in rootless containers. What is the host's root's then looks like nobody's (the overflow uid), as
 * all that is of users without a number here, and may be loaded, too. */
bool muster_library_root_is_another(const char *uid_map);

#endif
