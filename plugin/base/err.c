#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

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
