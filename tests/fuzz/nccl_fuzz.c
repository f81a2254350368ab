/* Any bytes as a libnccl.so: its version and the names of its variables are looked up in the file.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "doctor/doctor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_names(const char *path)
{
    struct muster_arena arena = {0};
    const char *const *name;
    size_t n = muster_nccl_strings(&arena, path, &name);
    for (size_t i = 0; i < n; i++)
        if (strncmp(name[i], "NCCL_", 5) != 0 || (i && strcmp(name[i - 1], name[i]) > 0))
            abort();
    muster_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int cuda, fd = memfd_create("libnccl", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    int version = muster_nccl_version_in(path, &cuda);
    if (version < 0 || version > 999 * 10000 + 999 * 100 + 999 || cuda < 0)
        abort();
    check_names(path);
    close(fd);
    return 0;
}
