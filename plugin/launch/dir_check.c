#include "launch/dir_check.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/bounded.h"

enum { DEADLINE_MS = 1000 };

/* The path up to what exists of it. */
static int find_existing(char *path, struct muster_err *err)
{
    struct stat file;
    while (stat(path, &file) != 0) {
        char *slash = strrchr(path, '/');
        if (errno != ENOENT || !slash)
            return muster_fail(err, "%s", strerror(errno));
        slash[slash == path ? 1 : 0] = '\0';
    }
    return S_ISDIR(file.st_mode) ? 0 : muster_fail(err, "%s", strerror(ENOTDIR));
}

/* Rights alone do not decide: root has them also where the file system takes no file. */
static int try_writing(void *dir, int fd, struct muster_err *err)
{
    char path[PATH_MAX], probe[PATH_MAX + 32];
    if (snprintf(path, sizeof path, "%s", (const char *)dir) >= (int)sizeof path)
        return muster_fail(err, "%s", strerror(ENAMETOOLONG));
    if (find_existing(path, err))
        return -1;
    snprintf(probe, sizeof probe, "%s/.muster-XXXXXX", path);
    if (!mkdtemp(probe))
        return muster_fail(err, "%s", strerror(errno));
    rmdir(probe);
    return muster_bounded_write(fd, "", 1, err);
}

int muster_dir_check(const char *dir, struct muster_err *err)
{
    size_t n;
    return muster_bounded("the file system", try_writing, (void *)(uintptr_t)dir, DEADLINE_MS, NULL,
                          &n, err);
}
