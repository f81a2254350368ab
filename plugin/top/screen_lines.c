#include "top/screen_lines.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "base/text.h"

enum { FOOTER = 1 };

unsigned muster_screen_room(const struct muster_screen *screen)
{
    return screen->height > screen->used + FOOTER ? screen->height - screen->used - FOOTER : 0;
}

void muster_screen_put(struct muster_screen *screen, enum muster_screen_style style,
                       const char *fmt, ...)
{
    va_list args;
    if (screen->used >= screen->height || screen->used >= MUSTER_SCREEN_LINES)
        return;
    struct muster_screen_line *line = &screen->line[screen->used++];
    va_start(args, fmt);
    vsnprintf(line->text, sizeof line->text, fmt, args);
    va_end(args);
    muster_terminal_cut(line->text, sizeof line->text, screen->width);
    line->style = style;
}

void muster_screen_text_begin(struct muster_screen_text *text, const struct muster_screen *screen)
{
    *text = (struct muster_screen_text){.width = screen->width};
    text->out = open_memstream(&text->text, &text->bytes);
}

void muster_screen_text_add(struct muster_screen_text *text, const char *first, const char *rest,
                            const char *paragraph)
{
    if (text->out)
        muster_terminal_wrap(text->out, text->width, first, rest, paragraph);
}

void muster_screen_text_end(struct muster_screen_text *text, struct muster_screen *screen,
                            size_t *from)
{
    size_t lines = 0, at = 0, room = muster_screen_room(screen);
    if (!text->out || !muster_text_close(text->out, &text->text))
        return;
    for (const char *c = text->text; *c; c++)
        lines += *c == '\n';
    size_t most = lines > room ? lines - room : 0;
    *from = *from < most ? *from : most;
    screen->page = room;
    for (char *line = text->text, *end; (end = strchr(line, '\n')); line = end + 1, at++) {
        *end = '\0';
        if (at >= *from && at < *from + room)
            muster_screen_put(screen, MUSTER_SCREEN_PLAIN, "%s", line);
    }
    free(text->text);
}

void muster_screen_print(const struct muster_screen *screen, FILE *out)
{
    for (unsigned i = 0; i < screen->used; i++)
        fprintf(out, "%s\n", screen->line[i].text);
}
