/*
 * One worded error. Whoever knows what went wrong words it here, once; callers pass it on.
 * Functions that take a `struct muster_err *` return 0, or -1 with the text filled in; outputs
 * are written only on success. NULL is accepted where the caller does not want the text.
 */
#ifndef MUSTER_BASE_ERR_H
#define MUSTER_BASE_ERR_H

#include <stdbool.h>

struct muster_err {
    char text[512];
};

/* Words the error and returns -1, so that a failing function can `return muster_fail(...)`. */
__attribute__((format(printf, 2, 3))) int muster_fail(struct muster_err *err, const char *fmt, ...);

/* The same for want of memory; `what` it was for. */
int muster_fail_memory(struct muster_err *err, const char *what);
/* Whether that is what went wrong: it says nothing about what was read. */
bool muster_is_memory(const struct muster_err *err);

#endif
