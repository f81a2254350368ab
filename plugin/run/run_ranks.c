#include "run/run_ranks.h"

#include <dirent.h>
#include <stdio.h>

#include "base/text.h"
#include "oplog/log_reader.h"
#include "segment/segment_reader.h"

static bool read_identity(const char *dir, const char *name, struct muster_seg_identity *identity)
{
    char path[MUSTER_SEG_PATH + 300];
    struct muster_err err;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (name[0] == '.')
        return false;
    if (muster_text_ends_with(name, ".log"))
        return muster_log_read_identity(path, identity, &err) == 0;
    return muster_text_ends_with(name, ".seg") &&
           muster_segment_read_identity(path, identity, &err) == 0;
}

bool muster_run_holds_rank(const char *dir, int32_t rank, uint64_t since_unix_ns)
{
    DIR *entries = opendir(dir);
    const struct dirent *entry;
    bool found = false;
    while (entries && !found && (entry = readdir(entries))) {
        struct muster_seg_identity identity;
        found = read_identity(dir, entry->d_name, &identity) && identity.rank == rank &&
                identity.begin_unix_ns >= since_unix_ns;
    }
    if (entries)
        closedir(entries);
    return found;
}
