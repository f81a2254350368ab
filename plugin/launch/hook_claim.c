#include "launch/hook_claim.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

static bool find_kind(const json_t *object, enum muster_finding_kind *kind)
{
    const char *name = json_string_value(json_object_get(object, "kind"));
    *kind = name ? muster_finding_kind_of(name, strlen(name)) : MUSTER_FINDING_KINDS;
    return *kind < MUSTER_FINDING_KINDS;
}

/* Texts and numbers, one level deep. */
static uint64_t hash_value(uint64_t hash, const json_t *value)
{
    json_int_t number = json_integer_value(value);
    const char *text = json_string_value(value);
    size_t i;
    const json_t *element;
    hash = muster_hash(hash, text ? text : "", text ? strlen(text) + 1 : 1);
    hash = muster_hash(hash, &number, sizeof number);
    json_array_foreach(value, i, element)
    {
        number = json_integer_value(element);
        hash = muster_hash(hash, &number, sizeof number);
    }
    return hash;
}

bool muster_hook_line_read(struct muster_hook_line *line, const char *text, size_t bytes)
{
    static const char *const names[] = {"kind", "comm", "ranks", "host", "gpu"};
    json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *resolved = json_object_get(object, "resolved");
    bool good = find_kind(object, &line->kind) && json_is_boolean(resolved);
    line->resolved = json_is_true(resolved);
    line->finding = MUSTER_HASH_SEED;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        line->finding = hash_value(line->finding, json_object_get(object, names[i]));
    json_decref(object);
    return good;
}

bool muster_hook_claim(const char *dir, uint64_t finding, unsigned times)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/.hook-%016llx-%u", dir, (unsigned long long)finding, times);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno != EEXIST;
    close(fd);
    return true;
}
