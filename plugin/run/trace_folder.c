#include "run/trace_folder.h"

#include <dirent.h>
#include <string.h>

#include "base/text.h"

static bool ends_with(const char *name, const char *end)
{
    size_t bytes = strlen(name), last = strlen(end);
    return bytes > last && strcmp(name + bytes - last, end) == 0;
}

/* As muster run --trace names them, and recordings that were packed. */
static bool is_trace(const char *name)
{
    return (strncmp(name, "rank-", 5) == 0 || strncmp(name, "pid-", 4) == 0) &&
           !strstr(name, ".findings.") &&
           (ends_with(name, ".jsonl") || ends_with(name, ".jsonl.xz"));
}

static bool holds_trace(const char *folder)
{
    bool found = false;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
        found = is_trace(entry->d_name);
    if (dir)
        closedir(dir);
    return found;
}

bool muster_trace_folder(const char *path, char *folder, size_t size)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (holds_trace(path)) {
        muster_text_copy(folder, size, path);
        return true;
    }
    muster_text_copy(folder, size, slash ? path : ".");
    if (slash && (size_t)(slash - path) < size)
        folder[slash == path ? 1 : slash - path] = '\0';
    return is_trace(name) && holds_trace(folder);
}
