#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"

/* Relaxed: only a filter; nothing else is published through it. */
static _Atomic int max_level = MUSTER_LOG_WARN;

static const char *const prefix[] = {
    [MUSTER_LOG_ERROR] = "muster: error: ",
    [MUSTER_LOG_WARN] = "muster: warning: ",
    [MUSTER_LOG_INFO] = "muster: ",
    [MUSTER_LOG_DEBUG] = "muster: debug: ",
};

void muster_log_set_level(enum muster_log_level level)
{
    atomic_store_explicit(&max_level, (int)level, memory_order_relaxed);
}

/* stderr may be a pipe whose reader has gone. The job decides when to die of that, not muster. */
static void write_without_sigpipe(const char *text, size_t bytes)
{
    struct muster_sigpipe hold;
    muster_sigpipe_hold(&hold);
    if (!hold.held)
        return;
    ssize_t n;
    do
        n = write(STDERR_FILENO, text, bytes);
    while (n < 0 && errno == EINTR);
    muster_sigpipe_release(&hold, n < 0 && errno == EPIPE);
}

void muster_log(enum muster_log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load_explicit(&max_level, memory_order_relaxed))
        return;
    int saved_errno = errno;

    char raw[1400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof(raw), fmt, args);
    va_end(args);

    char line[1500];
    size_t n = strlen(prefix[level]);
    memcpy(line, prefix[level], n);
    muster_text_copy(line + n, sizeof(line) - n - 1, raw);
    n = strlen(line);
    line[n++] = '\n';
    write_without_sigpipe(line, n);
    errno = saved_errno;
}
