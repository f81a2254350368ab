#include "segment/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "segment/layout.h"

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

static int write_fully(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0) {
            text += n;
            bytes -= (size_t)n;
        }
    }
    return 0;
}

int muster_kept_write(const struct muster_kept *kept, const char *dir, struct muster_err *err)
{
    char path[MUSTER_SEG_PATH + 80], part[MUSTER_SEG_PATH + 128];
    snprintf(path, sizeof(path), "%s/%s", dir, kept->name);
    snprintf(part, sizeof(part), "%s/.%s.%d", dir, kept->name, (int)getpid());
    if (access(path, F_OK) == 0)
        return 0;
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return muster_fail(err, "%s: %s", part, strerror(errno));
    int rc = write_fully(fd, kept->text, kept->bytes);
    if (close(fd) != 0 && rc == 0)
        rc = errno;
    if (rc == 0 && rename(part, path) != 0)
        rc = errno;
    if (rc == 0)
        return 0;
    unlink(part);
    return muster_fail(err, "%s: %s", path, strerror(rc));
}
