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

static inline int muster_failed(void)
{
    return -1;
}

/* Words the error and is -1, so that a failing function can `return muster_fail(...)`. Macros, so
 * that compilers and analyzers see which value it is. */
#define muster_fail(...) (muster_err_write(__VA_ARGS__), muster_failed())
__attribute__((format(printf, 2, 3))) void muster_err_write(struct muster_err *err,
                                                            const char *format, ...);

/* The same for want of memory; `what` it was for. */
#define muster_fail_memory(err, what) (muster_err_write_memory(err, what), muster_failed())
void muster_err_write_memory(struct muster_err *err, const char *what);
/* Whether that is what went wrong: it is no property of what was read. */
bool muster_is_memory(const struct muster_err *err);

#endif
