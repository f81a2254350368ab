#include "launch/nccl_files.h"

#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool muster_python_prefix(char *prefix, size_t size)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t length = strcspn(path, ":");
        int n = snprintf(prefix, size, "%.*s/python3", (int)length, path);
        if (n > 0 && (size_t)n < size && access(prefix, X_OK) == 0) {
            snprintf(prefix, size, "%.*s/..", (int)length, path);
            return true;
        }
        path += length + (path[length] == ':');
    }
    return false;
}

struct taker {
    void (*take)(void *to, const char *path);
    void *to;
};

static void take_matches(const struct taker *taker, const char *folder, size_t length,
                         const char *below)
{
    char pattern[PATH_MAX];
    glob_t found;
    if (!length || snprintf(pattern, sizeof pattern, "%.*s/%slibnccl.so*", (int)length, folder,
                            below) >= (int)sizeof pattern ||
        glob(pattern, 0, NULL, &found))
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        taker->take(taker->to, found.gl_pathv[i]);
    globfree(&found);
}

void muster_nccl_files(void (*take)(void *to, const char *path), void *to)
{
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu",
                                          "/usr/lib/aarch64-linux-gnu",
                                          "/usr/lib64",
                                          "/usr/local/lib",
                                          "/usr/lib",
                                          "/usr/local/cuda/lib64",
                                          "/usr/local/nccl/lib"};
    static const char *const below[] = {"lib/python3*/site-packages/nvidia/nccl/lib/",
                                        "lib/python3*/dist-packages/nvidia/nccl/lib/", "lib/"};
    const struct taker taker = {take, to};
    char python[PATH_MAX];
    const char *prefixes[] = {getenv("VIRTUAL_ENV"),
                              getenv("CONDA_PREFIX"),
                              muster_python_prefix(python, sizeof python) ? python : NULL,
                              "/usr/local",
                              "/usr",
                              "/opt/conda"};
    const char *path = getenv("LD_LIBRARY_PATH");
    for (size_t length; path && *path; path += length + (path[length] == ':')) {
        length = strcspn(path, ":");
        take_matches(&taker, path, length, "");
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        take_matches(&taker, folders[i], strlen(folders[i]), "");
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        for (size_t j = 0; prefixes[i] && j < sizeof below / sizeof *below; j++)
            take_matches(&taker, prefixes[i], strlen(prefixes[i]), below[j]);
}

static uint32_t version_in(const char *text)
{
    uint32_t major, minor, patch;
    if (sscanf(text, "%2" SCNu32 ".%2" SCNu32 ".%2" SCNu32, &major, &minor, &patch) != 3)
        return 0;
    return major * 10000u + minor * 100u + patch;
}

/* .../nvidia/nccl/lib/libnccl.so.2 belongs to .../nvidia_nccl_cu12-2.27.3.dist-info. */
static uint32_t version_of_wheel(const char *path)
{
    static const char inside[] = "/nvidia/nccl/lib/";
    char pattern[PATH_MAX];
    const char *end = strstr(path, inside);
    glob_t found;
    if (!end || snprintf(pattern, sizeof pattern, "%.*s/nvidia_nccl_cu*-*.dist-info",
                         (int)(end - path), path) >= (int)sizeof pattern ||
        glob(pattern, 0, NULL, &found))
        return 0;
    /* "...-2.27.3.dist-info": behind the hyphen before the last. Two versions tell nothing. */
    static const char suffix[] = ".dist-info";
    uint32_t version = 0;
    if (found.gl_pathc == 1) {
        char *name = strrchr(found.gl_pathv[0], '/') + 1;
        name[strlen(name) - (sizeof suffix - 1)] = '\0';
        version = version_in(strrchr(name, '-') + 1);
    }
    globfree(&found);
    return version;
}

uint32_t muster_nccl_version_by_name(const char *path)
{
    static const char soname[] = "libnccl.so.";
    char real[PATH_MAX];
    if (!realpath(path, real))
        return 0;
    const char *name = strrchr(real, '/') + 1;
    uint32_t version =
        strncmp(name, soname, sizeof soname - 1) == 0 ? version_in(name + sizeof soname - 1) : 0;
    return version ? version : version_of_wheel(real);
}
