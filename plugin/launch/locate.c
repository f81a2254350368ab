#include "launch/locate.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#else
#define MULTIARCH "."
#endif

static const char beside[] = "../lib/" MULTIARCH "/muster";

/* From the folder of the command; the last is where the library was to be installed. */
static const char *const places[] = {
    "../plugin", /* the build tree */
    "../lib/muster", beside, "../lib64/muster", MUSTER_LIBDIR,
};

static int own_folder(char folder[PATH_MAX], struct muster_err *err)
{
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (n < 0)
        return muster_fail(err, "/proc/self/exe: %s", strerror(errno));
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return 0;
}

int muster_locate_library(const char *name, char *path, size_t size, struct muster_err *err)
{
    char folder[PATH_MAX], tried[2 * PATH_MAX], real[PATH_MAX];
    if (own_folder(folder, err))
        return -1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        bool absolute = places[i][0] == '/';
        snprintf(tried, sizeof tried, "%s%s%s/%s", absolute ? "" : folder, absolute ? "" : "/",
                 places[i], name);
        if (realpath(tried, real) && strlen(real) < size) {
            memcpy(path, real, strlen(real) + 1);
            return 0;
        }
    }
    return muster_fail(err,
                       "%s: not in lib/muster, lib/%s/muster or lib64/muster beside %s, nor in %s",
                       name, MULTIARCH, folder, MUSTER_LIBDIR);
}
