#include "segment/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "segment/image.h"

struct muster_kept *muster_kept_new(const char *name, const char *text, size_t bytes)
{
    struct muster_kept *kept = malloc(sizeof(*kept) + bytes);
    if (!kept)
        return NULL;
    muster_text_copy(kept->name, sizeof(kept->name), name);
    kept->bytes = bytes;
    memcpy(kept->text, text, bytes);
    return kept;
}

/* A name of its own: in containers, processes of several hosts come here with the same pid. */
static int make_part(char *part, size_t size, const char *dir, const char *name,
                     struct muster_err *err)
{
    snprintf(part, size, "%s/.%s.XXXXXX", dir, name);
    int fd = mkostemp(part, O_CLOEXEC); /* 0600 */
    return fd < 0 ? muster_fail(err, "%s: %s", part, strerror(errno)) : fd;
}

int muster_kept_write(const struct muster_kept *kept, const char *dir, struct muster_err *err)
{
    char path[MUSTER_SEG_PATH + 80], part[MUSTER_SEG_PATH + 128];
    snprintf(path, sizeof(path), "%s/%s", dir, kept->name);
    if (access(path, F_OK) == 0)
        return 0;
    int fd = make_part(part, sizeof(part), dir, kept->name, err);
    if (fd < 0)
        return -1;
    int rc = muster_pwrite_all(fd, kept->text, kept->bytes, 0);
    if (close(fd) != 0 && rc == 0)
        rc = errno;
    if (rc == 0 && rename(part, path) != 0)
        rc = errno;
    if (rc == 0)
        return 0;
    unlink(part);
    return muster_fail(err, "%s: %s", path, strerror(rc));
}
