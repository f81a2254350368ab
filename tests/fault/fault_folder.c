#include "fault_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OLD_S = 8 * 24 * 3600 };

static bool is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

void folder_empty(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char below[512];
    while (dir && (entry = readdir(dir))) {
        if (!is_entry(entry))
            continue;
        snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
        if (unlink(below) != 0) {
            folder_empty(below);
            rmdir(below);
        }
    }
    if (dir)
        closedir(dir);
}

unsigned folder_count(const char *path, bool hidden, char *names, size_t size)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    unsigned n = 0;
    while (dir && (entry = readdir(dir))) {
        if (!is_entry(entry) || (hidden && entry->d_name[0] != '.'))
            continue;
        size_t used = names ? strlen(names) : 0;
        if (names)
            snprintf(names + used, size - used, " %s", entry->d_name);
        n++;
    }
    if (dir)
        closedir(dir);
    return n;
}

void folder_make_old(const char *path)
{
    DIR *dir = opendir(path);
    struct timespec then[2];
    struct dirent *entry;
    clock_gettime(CLOCK_REALTIME, &then[0]);
    then[0].tv_sec -= OLD_S;
    then[1] = then[0];
    while (dir && (entry = readdir(dir)))
        utimensat(dirfd(dir), entry->d_name, then, AT_SYMLINK_NOFOLLOW);
    if (dir)
        closedir(dir);
}
