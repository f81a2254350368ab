#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void muster_err_write(struct muster_err *err, const char *format, ...)
{
    if (!err)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
}

static const char out_of_memory[] = "out of memory for ";

void muster_err_write_memory(struct muster_err *err, const char *what)
{
    muster_err_write(err, "%s%s", out_of_memory, what);
}

bool muster_is_memory(const struct muster_err *err)
{
    return strncmp(err->text, out_of_memory, sizeof out_of_memory - 1) == 0;
}
