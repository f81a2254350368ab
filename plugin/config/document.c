#include "config/document.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "config/yaml.h"

static ssize_t read_fully(int fd, char *to, size_t size)
{
    size_t n = 0;
    while (n < size) {
        ssize_t got = read(fd, to + n, size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static int64_t change_of(const struct stat *file)
{
    return (int64_t)file->st_mtim.tv_sec * 1000000000 + file->st_mtim.tv_nsec;
}

static int read_descriptor(struct muster_document *document, const char *path, int fd,
                           struct muster_err *err)
{
    const size_t size = MUSTER_YAML_BYTES + 1;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return muster_fail(err, "%s: not a regular file", path);
    char *text = malloc(size);
    if (!text)
        return muster_fail_memory(err, path);
    ssize_t bytes = read_fully(fd, text, size);
    if (bytes < 0) {
        muster_fail(err, "%s: %s", path, strerror(errno));
        free(text);
        return -1;
    }
    *document = (struct muster_document){.text = text,
                                         .bytes = (size_t)bytes,
                                         .is_file = true,
                                         .changed_ns = change_of(&st),
                                         .length = st.st_size};
    snprintf(document->name, sizeof(document->name), "%s", path);
    return 0;
}

int muster_document_read(struct muster_document *document, const char *path, struct muster_err *err)
{
    /* Not blocking, so that a FIFO without a writer is refused and does not hang the job. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    int failed = read_descriptor(document, path, fd, err);
    close(fd);
    return failed;
}

static int copy_inline(struct muster_document *document, const char *text, struct muster_err *err)
{
    size_t bytes = strlen(text);
    if (bytes > MUSTER_DOCUMENT_INLINE)
        return muster_fail(err, "MUSTER_POLICY_INLINE: larger than %d KiB",
                           MUSTER_DOCUMENT_INLINE >> 10);
    char *copy = malloc(bytes);
    if (!copy)
        return muster_fail_memory(err, "MUSTER_POLICY_INLINE");
    memcpy(copy, text, bytes);
    *document =
        (struct muster_document){.name = "MUSTER_POLICY_INLINE", .text = copy, .bytes = bytes};
    return 0;
}

int muster_document_of_policy(struct muster_document *document, struct muster_err *err)
{
    const char *text = muster_env("MUSTER_POLICY_INLINE");
    const char *path = muster_env("MUSTER_CONFIG");
    if (text)
        return copy_inline(document, text, err);
    if (path)
        return muster_document_read(document, path, err);
    *document = (struct muster_document){.text = NULL};
    return 0;
}

bool muster_document_is_stale(const struct muster_document *document)
{
    struct stat now;
    return document->is_file &&
           (stat(document->name, &now) != 0 || change_of(&now) != document->changed_ns ||
            now.st_size != document->length);
}

void muster_document_free(struct muster_document *document)
{
    free(document->text);
    document->text = NULL;
}
