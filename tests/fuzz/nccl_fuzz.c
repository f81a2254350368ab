/* Any bytes as a libnccl.so: its version, the names of its variables and the GPUs that it was built
 * for are looked up in the file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "doctor/rules/gpu_code.h"

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

static void check_gpu_code(const char *path)
{
    struct muster_gpu_code code;
    char text[160];
    bool known = muster_nccl_gpu_code(path, &code);
    muster_gpu_code_text(&code, text, sizeof text);
    if (code.n < 0 || code.n > MUSTER_GPU_CODES || known != (code.n > 0 || code.ptx > 0))
        abort();
    for (int i = 0; i < code.n; i++)
        if ((i && code.at[i - 1] >= code.at[i]) ||
            !muster_gpu_code_runs(&code, code.at[i] / 10, code.at[i] % 10))
            abort();
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
    check_gpu_code(path);
    close(fd);
    return 0;
}
