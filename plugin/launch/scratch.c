#include "launch/scratch.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int muster_scratch_make(char *path, size_t size, const char *below, struct muster_err *err)
{
    int n = snprintf(path, size, "%s/muster-XXXXXX", below);
    if (n < 0 || (size_t)n >= size || !mkdtemp(path))
        return muster_fail(err, "cannot make a directory below %s: %s", below, strerror(errno));
    return 0;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    (void)stat, (void)kind, (void)place;
    return remove(path);
}

void muster_scratch_remove(const char *path)
{
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
