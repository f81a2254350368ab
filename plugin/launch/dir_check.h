/* Whether a directory can be recorded to, asked before the job begins. */
#ifndef MUSTER_LAUNCH_DIR_CHECK_H
#define MUSTER_LAUNCH_DIR_CHECK_H

#include "base/err.h"

/* As the plugin will: it makes what is missing of the path. Nothing is left behind. Takes a second
 * at most: a file system that does not answer by then is an error. err: why not, without the path.
 */
int muster_dir_check(const char *dir, struct muster_err *err);

#endif
