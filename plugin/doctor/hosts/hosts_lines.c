#include "doctor/hosts/hosts_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

enum { PART = 700, HEAD = 32, LINE_MAX_BYTES = 1 << 20, MESSAGE_MAX = 64 << 20 };

static const char mark[] = "@muster ";

char *muster_hosts_lines(unsigned member, const char *text, size_t *size)
{
    size_t n = strlen(text), parts = n / PART + 1, at = 0;
    char *lines = malloc(parts * (PART + HEAD));
    *size = 0;
    while (lines) {
        size_t part = n - at > PART ? PART : n - at;
        bool last = at + part == n;
        int wrote = snprintf(lines + *size, parts * (PART + HEAD) - *size, "%s%u %c %.*s\n", mark,
                             member, last ? '.' : '+', (int)part, text + at);
        *size += (size_t)wrote;
        at += part;
        if (last)
            break;
    }
    return lines;
}

bool muster_hosts_stream_add(struct muster_hosts_stream *stream, const char *bytes, size_t n)
{
    if (n == 0)
        return true;
    if (stream->n + n > LINE_MAX_BYTES ||
        !muster_reserve(&stream->bytes, &stream->room, stream->n + n, 1))
        return false;
    memcpy(stream->bytes + stream->n, bytes, n);
    stream->n += n;
    return true;
}

static bool append(struct muster_hosts_text *text, const char *part, size_t n)
{
    if (text->n + n > MESSAGE_MAX || !muster_reserve(&text->bytes, &text->room, text->n + n + 1, 1))
        return false;
    memcpy(text->bytes + text->n, part, n);
    text->n += n;
    text->bytes[text->n] = '\0';
    return true;
}

/* A line with a zero byte for its end. -1: no message, or not its last part. */
static int take_line(char *line, struct muster_hosts_text *text, unsigned members, bool *is_ours)
{
    /* srun --label and mpirun --tag-output put words of theirs before it */
    char *at = strstr(line, mark), *end;
    *is_ours = at != NULL;
    if (!at)
        return -1;
    unsigned long member = strtoul(at + sizeof mark - 1, &end, 10);
    if (member >= members || end[0] != ' ' || (end[1] != '+' && end[1] != '.') || end[2] != ' ')
        return -1;
    if (text[member].bytes && text[member].n && text[member].bytes[text[member].n - 1] == '\n')
        text[member].n = 0; /* the message before was complete */
    if (!append(&text[member], end + 3, strcspn(end + 3, "\r")))
        return -1;
    if (end[1] == '+')
        return -1;
    return append(&text[member], "\n", 1) ? (int)member : -1;
}

int muster_hosts_stream_take(struct muster_hosts_stream *stream, struct muster_hosts_text *text,
                             unsigned members)
{
    int member = -1;
    size_t begin = 0;
    while (member < 0 && begin < stream->n) {
        char *end = memchr(stream->bytes + begin, '\n', stream->n - begin);
        bool is_ours;
        if (!end)
            break;
        *end = '\0';
        member = take_line(stream->bytes + begin, text, members, &is_ours);
        if (!is_ours && stream->bytes[begin])
            muster_text_copy(stream->other, sizeof stream->other, stream->bytes + begin);
        begin = (size_t)(end - stream->bytes) + 1;
    }
    if (begin) {
        memmove(stream->bytes, stream->bytes + begin, stream->n - begin);
        stream->n -= begin;
    }
    return member;
}

void muster_hosts_stream_free(struct muster_hosts_stream *stream)
{
    free(stream->bytes);
    *stream = (struct muster_hosts_stream){.n = 0};
}
