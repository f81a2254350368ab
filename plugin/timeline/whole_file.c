#include "timeline/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int muster_whole_begin(struct muster_whole_file *file, const char *path, struct muster_err *err)
{
    *file = (struct muster_whole_file){.path = path};
    snprintf(file->part, sizeof file->part, "%s.part", path);
    file->out = fopen(file->part, "we");
    return file->out ? 0 : muster_fail(err, "cannot write %s: %s", path, strerror(errno));
}

int muster_whole_end(struct muster_whole_file *file, bool good, struct muster_err *err)
{
    int result = 0;
    if ((ferror(file->out) | fclose(file->out)) || (good && rename(file->part, file->path)))
        result = muster_fail(err, "%s: %s", file->path, strerror(errno));
    if (result || !good)
        unlink(file->part);
    return result;
}

char *muster_whole_read(const char *path, size_t most, size_t *bytes, struct muster_err *err)
{
    struct stat st;
    char *read = NULL;
    /* A pipe without a writer is refused like any other that is no file, not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !in)
        close(fd);
    if (!in || fstat(fd, &st))
        muster_fail(err, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most)
        muster_fail(err, "%s: expected a file of at most %zu MiB", path, most >> 20);
    else if (!(read = calloc((size_t)st.st_size + 1, 1)))
        muster_fail_memory(err, path);
    else
        *bytes = fread(read, 1, (size_t)st.st_size, in);
    if (in)
        fclose(in);
    return read;
}
