#include "launch/library_trust.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool muster_library_root_is_another(const char *uid_map)
{
    for (const char *line = uid_map; *line;) {
        unsigned long long here, outside, n;
        if (sscanf(line, "%llu %llu %llu", &here, &outside, &n) == 3 && here == 0 && n > 0)
            return outside != 0;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return false;
}

/* Reads a small file of /proc; "": it cannot. */
static void read_proc(const char *path, char *to, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(to, 1, size - 1, file) : 0;
    to[n] = '\0';
    if (file)
        fclose(file);
}

/* Root, or the host's root as seen from a user namespace that does not have it. */
static bool is_root(uid_t owner)
{
    char map[4096], nobody[32], *end;
    if (owner == 0)
        return true;
    read_proc("/proc/sys/kernel/overflowuid", nobody, sizeof nobody);
    if (strtoul(nobody, &end, 10) != owner || end == nobody)
        return false;
    read_proc("/proc/self/uid_map", map, sizeof map);
    return muster_library_root_is_another(map);
}

/* In a sticky folder others cannot replace what is root's. */
static bool is_roots(const char *path)
{
    struct stat found;
    bool shared;
    if (stat(path, &found) != 0 || !is_root(found.st_uid))
        return false;
    shared = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    return !shared || (S_ISDIR(found.st_mode) && (found.st_mode & S_ISVTX));
}

/* `real` and all folders above it; its text goes. */
static bool is_roots_up(char *real)
{
    if (!is_roots(real))
        return false;
    for (char *slash = strrchr(real, '/'); slash && slash != real; slash = strrchr(real, '/')) {
        *slash = '\0';
        if (!is_roots(real))
            return false;
    }
    return is_roots("/");
}

/* Whether root and nobody else can change the file, or what leads to it. A link is somebody's, too:
 * whoever owns the folder that it lies in. */
static bool is_roots_alone(const char *file)
{
    char real[PATH_MAX], folder[PATH_MAX];
    if (!realpath(file, real))
        return true; /* nothing to load */
    const char *slash = strrchr(file, '/');
    int n = slash == file ? 1 : slash ? (int)(slash - file) : 0;
    snprintf(folder, sizeof folder, "%.*s", n ? n : 1, n ? file : ".");
    if (!is_roots_up(real))
        return false;
    return realpath(folder, real) && is_roots_up(real);
}

/* The first file of that name in the folders of LD_LIBRARY_PATH; an empty one is the working
 * directory. */
static bool find(const char *name, char *file, size_t size)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":;");
        int written = snprintf(file, size, "%.*s/%s", n ? (int)n : 1, n ? path : ".", name);
        if (written > 0 && (size_t)written < size && access(file, F_OK) == 0)
            return true;
        path += n + (path[n] != '\0');
    }
    return false;
}

bool muster_library_may_load(const char *name, char *file, size_t size)
{
    const char *any = getenv("MUSTER_LOAD_ANY");
    if (geteuid() != 0 || (any && strcmp(any, "1") == 0))
        return true;
    if (strchr(name, '/'))
        snprintf(file, size, "%s", name);
    else if (!find(name, file, size))
        return true;
    return is_roots_alone(file);
}

int muster_library_ask(const char *name, struct muster_err *err)
{
    char file[PATH_MAX];
    if (muster_library_may_load(name, file, sizeof file))
        return 0;
    return muster_fail(err, "%.300s: not loaded by root, as others can change it", file);
}
