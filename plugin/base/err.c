#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int muster_fail(struct muster_err *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return -1;
}

static const char out_of_memory[] = "out of memory for ";

int muster_fail_memory(struct muster_err *err, const char *what)
{
    return muster_fail(err, "%s%s", out_of_memory, what);
}

bool muster_is_memory(const struct muster_err *err)
{
    return strncmp(err->text, out_of_memory, sizeof out_of_memory - 1) == 0;
}
