#include "doctor/versions/python_packages.h"

#include <glob.h>

#include "base/env.h"

struct taker {
    bool (*take)(void *to, const char *folder);
    void *to;
};

bool muster_python_has(const char *folder, const char *pattern)
{
    char path[PATH_MAX];
    glob_t found = {0};
    if (snprintf(path, sizeof path, "%s/%s", folder, pattern) >= (int)sizeof path)
        return false;
    bool has = glob(path, GLOB_NOSORT, NULL, &found) == 0;
    globfree(&found);
    return has;
}

static bool take_pattern(const struct taker *taker, const char *pattern)
{
    glob_t found = {0};
    bool done = false;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !done; i++)
            done = taker->take(taker->to, found.gl_pathv[i]);
    globfree(&found);
    return done;
}

static bool take_prefix(const struct taker *taker, const char *root, const char *prefix)
{
    static const char *const names[] = {"site-packages", "dist-packages"};
    char pattern[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(pattern, sizeof pattern, "%s%s/lib/python3*/%s", root, prefix, names[i]) <
                (int)sizeof pattern &&
            take_pattern(taker, pattern))
            return true;
    return false;
}

void muster_python_packages(const struct muster_doctor *doctor,
                            bool (*take)(void *to, const char *folder), void *to)
{
    static const char *const variables[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    static const char *const prefixes[] = {"/usr/local", "/opt/conda", "/usr"};
    const struct taker taker = {take, to};
    char folder[PATH_MAX];
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (muster_env(variables[i]) && take_prefix(&taker, "", muster_env(variables[i])))
            return;
    for (int i = 0; i < doctor->libraries; i++) {
        const char *path = doctor->library[i].path, *at = strstr(path, "/nvidia/nccl/lib/");
        snprintf(folder, sizeof folder, "%.*s", at ? (int)(at - path) : 0, path);
        if (at && take(to, folder))
            return;
    }
    const char *home = muster_env("HOME");
    if (home && snprintf(folder, sizeof folder, "%s/.local", home) < (int)sizeof folder &&
        take_prefix(&taker, "", folder))
        return;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (take_prefix(&taker, doctor->root, prefixes[i]))
            return;
}
