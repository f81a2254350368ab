#include "launch/nccl_files.h"

#include <dirent.h>
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

/* What is taken of a folder's entries. glob() would do in less, but frees twice where there is no
 * memory (glibc 2.36). */
struct taker {
    void (*take)(void *to, const char *path);
    void *to;
    const char *prefix; /* of the names */
    const char *below;  /* appended to the path; "" at the end */
};

static void take_entries(const struct taker *taker, const char *folder)
{
    char path[PATH_MAX];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strncmp(entry->d_name, taker->prefix, strlen(taker->prefix)) == 0 &&
            snprintf(path, sizeof path, "%s/%s%s", folder, entry->d_name, taker->below) <
                (int)sizeof path)
            taker->take(taker->to, path);
    if (dir)
        closedir(dir);
}

struct found {
    void (*take)(void *to, const char *path);
    void *to;
};

static void take_libraries(void *to, const char *folder)
{
    const struct found *found = to;
    take_entries(&(struct taker){found->take, found->to, "libnccl.so", ""}, folder);
}

/* Of an environment: its own libraries, and those of its Pythons' wheels. */
static void take_prefix(struct found *found, const char *prefix)
{
    char lib[PATH_MAX];
    if (snprintf(lib, sizeof lib, "%s/lib", prefix) >= (int)sizeof lib)
        return;
    take_entries(
        &(struct taker){take_libraries, found, "python3", "/site-packages/nvidia/nccl/lib"}, lib);
    take_entries(
        &(struct taker){take_libraries, found, "python3", "/dist-packages/nvidia/nccl/lib"}, lib);
    take_libraries(found, lib);
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
    struct found found = {take, to};
    char python[PATH_MAX], folder[PATH_MAX], own[PATH_MAX];
    const char *home = getenv("HOME"), *base = getenv("PYTHONUSERBASE");
    bool has_own = home && snprintf(own, sizeof own, "%s/.local", home) < (int)sizeof own;
    const char *prefixes[] = {getenv("VIRTUAL_ENV"),
                              getenv("CONDA_PREFIX"),
                              base && *base ? base
                              : has_own     ? own
                                            : NULL, /* of pip install --user */
                              muster_python_prefix(python, sizeof python) ? python : NULL,
                              "/usr/local",
                              "/usr",
                              "/opt/conda"};
    const char *path = getenv("LD_LIBRARY_PATH");
    for (size_t length; path && *path; path += length + (path[length] == ':')) {
        length = strcspn(path, ":");
        if (length && snprintf(folder, sizeof folder, "%.*s", (int)length, path) < PATH_MAX)
            take_libraries(&found, folder);
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        take_libraries(&found, folders[i]);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (prefixes[i])
            take_prefix(&found, prefixes[i]);
}

static uint32_t version_in(const char *text)
{
    uint32_t major, minor, patch;
    if (sscanf(text, "%2" SCNu32 ".%2" SCNu32 ".%2" SCNu32, &major, &minor, &patch) != 3)
        return 0;
    return major * 10000u + minor * 100u + patch;
}

struct wheels {
    size_t n;
    uint32_t version; /* of the last */
};

/* ".../nvidia_nccl_cu12-2.27.3.dist-info" */
static void note_wheel(void *to, const char *path)
{
    static const char suffix[] = ".dist-info";
    struct wheels *wheels = to;
    size_t length = strlen(path);
    const char *hyphen = strrchr(strrchr(path, '/'), '-');
    if (length < sizeof suffix || strcmp(path + length - (sizeof suffix - 1), suffix) != 0)
        return;
    /* The hyphen of "dist-info" is the last one. */
    for (hyphen--; *hyphen != '-' && *hyphen != '/'; hyphen--) {
    }
    wheels->n++;
    wheels->version = *hyphen == '-' ? version_in(hyphen + 1) : 0;
}

/* .../nvidia/nccl/lib/libnccl.so.2 belongs to .../nvidia_nccl_cu12-2.27.3.dist-info. Two versions
 * show nothing. */
static uint32_t version_of_wheel(const char *path)
{
    static const char inside[] = "/nvidia/nccl/lib/";
    struct wheels wheels = {0};
    char folder[PATH_MAX];
    const char *end = strstr(path, inside);
    if (!end || snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path) >= PATH_MAX)
        return 0;
    take_entries(&(struct taker){note_wheel, &wheels, "nvidia_nccl_cu", ""}, folder);
    return wheels.n == 1 ? wheels.version : 0;
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
