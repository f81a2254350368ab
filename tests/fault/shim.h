/* Between the files of the preloaded shim. */
#ifndef MUSTER_TESTS_FAULT_SHIM_H
#define MUSTER_TESTS_FAULT_SHIM_H

#include "fault_plan.h"

/* Counts a call; true: it is to fail, with *error. */
bool fault_now(enum fault_family family, const char *call, int *error);
/* Calls on a path, or an open file, that lies where calls are held: does not return if this is the
 * one, or comes after it with `onwards`. */
void fault_hold_path(const char *call, const char *path);
void fault_hold_fd(const char *call, int fd);
/* Whether failing means doing half. */
bool fault_cuts(void);
/* The function of that name behind the shim. */
void *fault_next(const char *name);

#endif
