/* What jobs of `muster tune` print, and text that may be compressed: the first byte chooses which
 * reader gets the rest as a file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "replay/xz.h"
#include "tune/tune_job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const char *path)
{
    struct muster_err err = {""};
    char *text;
    size_t n;
    bool cut;
    if (muster_xz_load(path, &text, &n, &cut, &err) == 0) {
        if (n > MUSTER_TRACE_TEXT_MAX + MUSTER_TRACE_LINE_MAX)
            abort();
        free(text);
    } else if (strncmp(err.text, path, strlen(path)) != 0 && !muster_is_memory(&err)) {
        abort();
    }
}

static void read_output(const char *path)
{
    char line[120];
    muster_tune_output_end(path, line, sizeof line);
    for (const char *at = line; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("output", MFD_CLOEXEC);
    if (fd < 0 || (size && write(fd, data + 1, size - 1) != (ssize_t)size - 1))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (size && data[0] % 2)
        load(path);
    else if (size)
        read_output(path);
    close(fd);
    return 0;
}
