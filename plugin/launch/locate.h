/* Where muster's own libraries are, relative to the running command: installed or in a build tree.
 */
#ifndef MUSTER_LAUNCH_LOCATE_H
#define MUSTER_LAUNCH_LOCATE_H

#include <stddef.h>

#include "base/err.h"

#define MUSTER_PROFILER_LIBRARY "libnccl-profiler-muster.so"

/* The absolute path of a library of muster. Looks in the build tree, in lib/muster, lib64/muster
 * and lib/<multiarch>/muster beside the command's folder, and where the build was to be installed.
 * The folder holds muster's libraries alone. err names the places. */
int muster_locate_library(const char *name, char *path, size_t size, struct muster_err *err);

#endif
