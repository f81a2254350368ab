/* Where muster's own libraries are, relative to the running command: installed or in a build tree.
 */
#ifndef MUSTER_CLI_LOCATE_H
#define MUSTER_CLI_LOCATE_H

#include <stddef.h>

#include "base/err.h"

#define MUSTER_PROFILER_LIBRARY "libnccl-profiler-muster.so"

/* The absolute path of a library of muster. Looks beside the command, in lib, lib64 and
 * lib/<multiarch> beside its folder, in the build tree, and where the build was to be installed.
 * err names the places. */
int muster_locate_library(const char *name, char *path, size_t size, struct muster_err *err);

#endif
