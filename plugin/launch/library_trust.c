#include "launch/library_trust.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In a sticky folder others cannot replace what is root's. */
static bool is_roots(const char *path)
{
    struct stat found;
    bool shared;
    if (stat(path, &found) != 0 || found.st_uid != 0)
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
