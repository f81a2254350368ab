#include "fleet/fleet_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

void muster_fleet_name(char to[static MUSTER_FLEET_NAME], uint32_t uid, const char *run_dir)
{
    const char *last = strrchr(run_dir, '/');
    int at = snprintf(to, MUSTER_FLEET_NAME, "%u.%.64s", uid, last ? last + 1 : run_dir);
    size_t from = strcspn(to, ".") + 1;
    for (char *c = to + from; *c; c++)
        *c = isascii((unsigned char)*c) && (isalnum((unsigned char)*c) || *c == '-') ? *c : '_';
    uint64_t hash = muster_hash(MUSTER_HASH_SEED, run_dir, strlen(run_dir));
    snprintf(to + at, MUSTER_FLEET_NAME - (size_t)at, "-%08x", (unsigned)(hash ^ hash >> 32));
}
