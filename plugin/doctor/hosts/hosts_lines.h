/* Messages as lines of a stream in which others may write lines, too: "@muster MEMBER + PART" and,
 * the last part of a message, "@muster MEMBER . PART". Launchers cut or mix long lines. */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_LINES_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* What came of one stream: the bytes of a line that is not complete. */
struct muster_hosts_stream {
    char *bytes;
    size_t n, room;
    char other[160]; /* the last line that was no message */
};

/* A message in the making. */
struct muster_hosts_text {
    char *bytes; /* terminated */
    size_t n, room;
};

/* The lines of a message, as one text to be written; NULL: no memory. Free it. */
char *muster_hosts_lines(unsigned member, const char *text, size_t *size);

/* Adds bytes that came. False: no memory, or a line that is too long. */
bool muster_hosts_stream_add(struct muster_hosts_stream *stream, const char *bytes, size_t n);
/* Takes the lines that are there, until one completes a message: its member's number; -1: none is
 * complete. `text` has `members` places; the message is in that place until its next part comes. */
int muster_hosts_stream_take(struct muster_hosts_stream *stream, struct muster_hosts_text *text,
                             unsigned members);
void muster_hosts_stream_free(struct muster_hosts_stream *stream);

#endif
