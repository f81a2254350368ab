#include "doctor/rules/proc_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double muster_proc_pressure(const char *text)
{
    const char *full = strstr(text, "full ");
    const char *average = full ? strstr(full, "avg60=") : NULL;
    double value = average ? strtod(average + strlen("avg60="), NULL) : -1;
    return value >= 0 && value <= 100 ? value : -1;
}

int muster_proc_swaps(const char *text, struct muster_swap *swap, int room)
{
    int n = 0;
    const char *line = strchr(text, '\n');
    for (; line && n < room; line = strchr(line + 1, '\n')) {
        unsigned long long kib, used;
        char file[128], type[32];
        if (sscanf(line + 1, "%127s %31s %llu %llu", file, type, &kib, &used) != 4)
            continue;
        swap[n] = (struct muster_swap){.kib = kib, .used_kib = used};
        memcpy(swap[n].file, file, sizeof file);
        n++;
    }
    return n;
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    return strncmp(path, folder, n) == 0 && (n == 1 || path[n] == '/' || path[n] == '\0');
}

bool muster_proc_mount_type(const char *mounts, const char *path, char *type, size_t size)
{
    size_t best = 0;
    while (*mounts) {
        char folder[256], kind[64];
        if (sscanf(mounts, "%*s %255s %63s", folder, kind) == 2 && is_below(path, folder) &&
            strlen(folder) >= best) {
            best = strlen(folder);
            snprintf(type, size, "%s", kind);
        }
        mounts += strcspn(mounts, "\n");
        mounts += *mounts == '\n';
    }
    return best > 0;
}

bool muster_proc_is_network(const char *type)
{
    static const char *const types[] = {"nfs",        "nfs4",   "cifs", "smb3", "lustre",    "ceph",
                                        "fuse.sshfs", "beegfs", "gpfs", "9p",   "glusterfs", "afs"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

long long muster_proc_field(const char *text, const char *key, int base)
{
    size_t n = strlen(key);
    while (*text) {
        if (strncmp(text, key, n) == 0 && text[n] == ':') {
            char *end;
            const char *value = text + n + 1;
            unsigned long long number = strtoull(value, &end, base);
            return end == value ? -1 : (long long)(number & INT64_MAX);
        }
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return -1;
}

long long muster_proc_name(const char *text, const char *key)
{
    size_t n = strlen(key);
    while (*text) {
        if (strncmp(text, key, n) == 0 && text[n] == ' ')
            return (long long)(strtoull(text + n, NULL, 10) & INT64_MAX);
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return -1;
}

bool muster_proc_limit(const char *text, const char *name, uint64_t *soft)
{
    size_t n = strlen(name);
    while (*text) {
        if (strncmp(text, name, n) == 0 && text[n] == ' ') {
            const char *value = text + n + strspn(text + n, " ");
            char *end;
            *soft = strtoull(value, &end, 10);
            if (strncmp(value, "unlimited", 9) == 0)
                *soft = UINT64_MAX;
            else if (end == value)
                return false;
            return true;
        }
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return false;
}

const char *muster_proc_range(const char *list, unsigned long *first, unsigned long *last)
{
    char *end;
    *first = *last = strtoul(list, &end, 10);
    if (end == list)
        return NULL;
    if (*end == '-')
        *last = strtoul(end + 1, &end, 10);
    return *end == ',' ? end + 1 : "";
}

int muster_proc_cpus(const char *list, uint64_t *set, size_t words)
{
    int n = 0;
    unsigned long first, last;
    memset(set, 0, words * sizeof *set);
    while (*list && (list = muster_proc_range(list, &first, &last))) {
        for (unsigned long cpu = first; cpu <= last && cpu < words * 64; cpu++) {
            n += !(set[cpu / 64] >> cpu % 64 & 1);
            set[cpu / 64] |= 1ull << cpu % 64;
        }
    }
    return n;
}

bool muster_proc_listens(const char *sockets, unsigned port)
{
    enum { LISTEN = 0x0a };
    for (const char *line = strchr(sockets, '\n'); line; line = strchr(line + 1, '\n')) {
        unsigned local, state;
        if (sscanf(line, " %*u: %*32[0-9A-Fa-f]:%4X %*32[0-9A-Fa-f]:%*4X %2X", &local, &state) ==
                2 &&
            local == port && state == LISTEN)
            return true;
    }
    return false;
}

bool muster_proc_mapped(const char *line, const char *name, char *path, size_t size)
{
    const char *begin = strchr(line, '/'), *end = line + strcspn(line, "\n"), *deleted;
    if (!begin || begin >= end)
        return false;
    deleted = strstr(begin, " (deleted)");
    end = deleted && deleted < end ? deleted : end;
    const char *last = end;
    while (last > begin && last[-1] != '/')
        last--;
    if (strncmp(last, name, strlen(name)) != 0 || (size_t)(end - begin) >= size)
        return false;
    memcpy(path, begin, (size_t)(end - begin));
    path[end - begin] = '\0';
    return true;
}
