#include "verdict/verdict_writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/terminal.h"
#include "base/text.h"

void muster_verdict_put(struct muster_verdict_writer *writer, const char *fmt, ...)
{
    char *line = writer->verdict->line[writer->verdict->lines];
    va_list args;
    if (writer->fits)
        return;
    va_start(args, fmt);
    vsnprintf(line, MUSTER_VERDICT_LINE, fmt, args);
    va_end(args);
    writer->fits = !writer->width || muster_terminal_cells(line) <= writer->width;
}

void muster_verdict_end_line(struct muster_verdict_writer *writer)
{
    char *line = writer->verdict->line[writer->verdict->lines];
    if (!writer->fits)
        muster_terminal_cut(line, MUSTER_VERDICT_LINE, writer->width);
    writer->fits = false;
    writer->verdict->lines += line[0] != '\0';
}

void muster_verdict_put_ranks(char *to, size_t size, const char *first_letter, const int32_t *rank,
                              size_t n)
{
    enum { SHOWN = MUSTER_VERDICT_RANKS_SHOWN };
    struct muster_text text = muster_text_begin(to, size);
    muster_text_add(&text, "%s%s", first_letter, n == 1 ? "ank" : "anks");
    for (size_t i = 0; i < n && i < SHOWN; i++)
        muster_text_add(&text, "%s%" PRId32, i ? ", " : " ", rank[i]);
    if (n > SHOWN)
        muster_text_add(&text, " and %zu more", n - SHOWN);
}
