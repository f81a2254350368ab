#include "replay/xz.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

enum { CHUNK = 1 << 16 };
#define DECODER_MEMORY ((uint64_t)256 << 20)

struct loaded {
    const char *path;
    char *text;
    size_t bytes, room;
    size_t line; /* where the last line begins */
    struct muster_err *err;
};

static int make_room(struct loaded *to)
{
    if (to->bytes > MUSTER_TRACE_TEXT_MAX)
        return muster_fail(to->err, "%s: more than 1 GiB of text", to->path);
    return muster_reserve(&to->text, &to->room, to->bytes + CHUNK, 1)
               ? 0
               : muster_fail_memory(to->err, to->path);
}

/* False: the last line is too long to go on. */
static bool add(struct loaded *to, size_t bytes)
{
    const char *newline = memrchr(to->text + to->bytes, '\n', bytes);
    to->bytes += bytes;
    if (newline)
        to->line = (size_t)(newline + 1 - to->text);
    return to->bytes - to->line <= MUSTER_TRACE_LINE_MAX;
}

static ssize_t read_some(int fd, void *to, size_t size)
{
    ssize_t n;
    do {
        n = read(fd, to, size);
    } while (n < 0 && errno == EINTR);
    return n;
}

static int load_plain(int fd, struct loaded *to)
{
    for (;;) {
        if (make_room(to))
            return -1;
        ssize_t n = read_some(fd, to->text + to->bytes, CHUNK);
        if (n < 0)
            return muster_fail(to->err, "%s: %s", to->path, strerror(errno));
        if (n == 0 || !add(to, (size_t)n))
            return 0;
    }
}

static int decode_failed(const struct loaded *to, lzma_ret ret)
{
    const char *why = ret == LZMA_MEM_ERROR        ? "out of memory"
                      : ret == LZMA_MEMLIMIT_ERROR ? "needs more than 256 MiB to decompress"
                      : ret == LZMA_OPTIONS_ERROR  ? "xz with options that liblzma does not know"
                                                   : "damaged xz data";
    return muster_fail(to->err, "%s: %s", to->path, why);
}

static int decode(int fd, lzma_stream *stream, uint8_t in[CHUNK], struct loaded *to, bool *cut)
{
    lzma_action action = LZMA_RUN;
    for (;;) {
        if (stream->avail_in == 0 && action == LZMA_RUN) {
            ssize_t n = read_some(fd, in, CHUNK);
            if (n < 0)
                return muster_fail(to->err, "%s: %s", to->path, strerror(errno));
            stream->next_in = in;
            stream->avail_in = (size_t)n;
            action = n ? LZMA_RUN : LZMA_FINISH;
        }
        if (make_room(to))
            return -1;
        stream->next_out = (uint8_t *)to->text + to->bytes;
        stream->avail_out = CHUNK;
        lzma_ret ret = lzma_code(stream, action);
        if (!add(to, CHUNK - stream->avail_out) || ret == LZMA_STREAM_END)
            return 0;
        if (ret == LZMA_BUF_ERROR && action == LZMA_FINISH) {
            *cut = true;
            return 0;
        }
        if (ret != LZMA_OK)
            return decode_failed(to, ret);
    }
}

static int load_xz(int fd, struct loaded *to, bool *cut)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    uint8_t in[CHUNK];
    lzma_ret ret = lzma_stream_decoder(&stream, DECODER_MEMORY, LZMA_CONCATENATED);
    int failed = ret == LZMA_OK ? decode(fd, &stream, in, to, cut) : decode_failed(to, ret);
    lzma_end(&stream);
    return failed;
}

static int load(int fd, struct loaded *to, bool *cut)
{
    static const uint8_t magic[6] = {0xfd, '7', 'z', 'X', 'Z', 0};
    uint8_t first[sizeof magic];
    struct stat st;
    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        return muster_fail(to->err, "%s: not a file", to->path);
    ssize_t n = pread(fd, first, sizeof first, 0);
    if (n < 0)
        return muster_fail(to->err, "%s: %s", to->path, strerror(errno));
    bool xz = n == sizeof first && memcmp(first, magic, sizeof first) == 0;
    return xz ? load_xz(fd, to, cut) : load_plain(fd, to);
}

int muster_xz_load(const char *path, char **text, size_t *bytes, bool *cut, struct muster_err *err)
{
    struct loaded to = {.path = path, .err = err};
    bool ends_early = false;
    /* O_NONBLOCK: a FIFO of that name must not make the command wait for a writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    int failed = load(fd, &to, &ends_early);
    close(fd);
    if (failed) {
        free(to.text);
        return -1;
    }
    *text = to.text;
    *bytes = to.bytes;
    *cut = ends_early;
    return 0;
}
