/* A page of hostile bytes, read back: from memory, and as a file. What is given out is inside, is
 * JSON, and errors name the file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "page/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as_file(const uint8_t *data, size_t size, enum muster_page_kind kind,
                         bool expected)
{
    char path[64];
    struct muster_err err = {""};
    int fd = memfd_create("page", MFD_CLOEXEC);
    FILE *out = fopen("/dev/null", "w");
    if (fd >= 0 && out && write(fd, data, size) == (ssize_t)size) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if ((muster_page_read(path, kind, out, &err) == 0) != expected)
            abort();
    }
    if (out)
        fclose(out);
    if (fd >= 0)
        close(fd);
}

static void find(const uint8_t *data, size_t size, enum muster_page_kind kind)
{
    const char *at = NULL, *bytes = (const char *)data;
    size_t length = 0;
    struct muster_err err = {""};
    bool good = muster_page_find("fuzz", kind, bytes, size, &at, &length, &err) == 0;
    if (good && (at < bytes || length > size || at + length > bytes + size || *at == '<'))
        abort();
    if (!good && strncmp(err.text, "fuzz:", 5) != 0 && !muster_is_memory(&err))
        abort();
    read_as_file(data, size, kind, good);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    find(data, size, MUSTER_PAGE_REPORT);
    find(data, size, MUSTER_PAGE_COMPARE);
    return 0;
}
