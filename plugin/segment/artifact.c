#include "segment/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "segment/image.h"

struct muster_artifact *muster_artifact_new(const char *name, const char *text, size_t bytes)
{
    struct muster_artifact *kept = malloc(sizeof(*kept) + bytes);
    if (!kept)
        return NULL;
    muster_text_copy(kept->name, sizeof(kept->name), name);
    kept->bytes = bytes;
    memcpy(kept->text, text, bytes);
    return kept;
}

/* Whoever is at it writes the same bytes to the same places, and none cuts the file: so all may
 * share the name, on several hosts too, and the next one finishes what a killed one left. Returns 0
 * or an errno value; ENOENT: another one was first to rename it. */
static int put(const struct muster_artifact *kept, const char *part, const char *path)
{
    if (!muster_file_size_allowed(kept->bytes))
        return EFBIG;
    int fd = open(part, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int rc = muster_pwrite_all(fd, kept->text, kept->bytes, 0);
    if (close(fd) != 0 && rc == 0 && errno != EINTR)
        rc = errno;
    if (rc == 0 && rename(part, path) != 0)
        rc = errno;
    if (rc != 0 && rc != ENOENT)
        unlink(part);
    return rc;
}

int muster_artifact_write(const struct muster_artifact *kept, const char *dir,
                          struct muster_err *err)
{
    char path[MUSTER_SEG_PATH + 80], part[MUSTER_SEG_PATH + 96];
    int rc = ENOENT;
    snprintf(path, sizeof(path), "%s/%s", dir, kept->name);
    snprintf(part, sizeof(part), "%s/.%s.part", dir, kept->name);
    for (unsigned tries = 0; tries < 2 && rc == ENOENT; tries++) {
        if (access(path, F_OK) == 0) {
            unlink(part); /* a killed one's; one that lives finds the file there, as here */
            return 0;
        }
        rc = put(kept, part, path);
    }
    return rc ? muster_fail(err, "%s: %s", path, strerror(rc)) : 0;
}
