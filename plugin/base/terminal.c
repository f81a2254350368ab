#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"

static const char ellipsis[] = "\xe2\x80\xa6";

struct muster_terminal muster_terminal_of(int fd)
{
    struct muster_terminal terminal = {.width = MUSTER_TERMINAL_USUAL};
    const char *columns = muster_env("COLUMNS");
    const char *term = muster_env("TERM");
    bool is_terminal = fd >= 0 && isatty(fd);
    struct winsize size;
    uint64_t width;
    if (columns && muster_text_u64(columns, &width) && width > 0 && width < 10000) {
        terminal.width = (unsigned)width;
        terminal.fit = true;
    } else if (is_terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        terminal.width = size.ws_col;
        terminal.fit = true;
    }
    if (terminal.width < MUSTER_TERMINAL_LEAST)
        terminal.width = MUSTER_TERMINAL_LEAST;
    terminal.style = is_terminal && !muster_env("NO_COLOR") && term && strcmp(term, "dumb") != 0;
    return terminal;
}

static size_t letter(const char *text)
{
    size_t bytes = muster_text_utf8(text);
    return bytes ? bytes : 1;
}

size_t muster_terminal_cells(const char *text)
{
    size_t cells = 0;
    for (; *text; text += letter(text))
        cells++;
    return cells;
}

void muster_terminal_cut(char *text, size_t size, size_t cells)
{
    size_t at = 0, word = 0;
    if (muster_terminal_cells(text) <= cells || cells == 0)
        return;
    for (size_t n = 0; n + 1 < cells; n++) {
        at += letter(text + at);
        word = text[at] == ' ' ? at : word;
    }
    at = 4 * word > 3 * at ? word : at;
    while (at > 0 && strchr(" ,;:(", text[at - 1]))
        at--;
    if (at + sizeof ellipsis <= size)
        memcpy(text + at, ellipsis, sizeof ellipsis);
    else
        text[at] = '\0';
}

void muster_terminal_wrap(FILE *out, unsigned width, const char *first, const char *rest,
                          const char *text)
{
    size_t used = muster_terminal_cells(first);
    bool begun = false, fresh = false; /* a line that follows has nothing but `rest` so far */
    fputs(first, out);
    while (*text) {
        size_t bytes = strcspn(text, " ");
        size_t cells = 0;
        for (size_t at = 0; at < bytes; at += letter(text + at))
            cells++;
        if (begun && used + 1 + cells > width) {
            fprintf(out, "\n%s", rest);
            used = muster_terminal_cells(rest);
            fresh = true;
        } else if (begun && !fresh) {
            fputc(' ', out);
            used++;
        }
        fresh = fresh && !bytes;
        fprintf(out, "%.*s", (int)bytes, text);
        used += cells;
        begun = true;
        text += bytes + (text[bytes] == ' ');
    }
    fputc('\n', out);
}

/* A copy of the line at the text's begin; the caller frees. *more: the text behind it. */
static char *line_of(const char *text, const char **more)
{
    size_t bytes = strcspn(text, "\n");
    *more = text + bytes + (text[bytes] == '\n');
    return strndup(text, bytes);
}

enum { FAR = MUSTER_TERMINAL_LEAST / 2 }; /* indented by more, there is no room beside it */

void muster_terminal_lines(FILE *out, unsigned width, const char *text)
{
    char first[FAR + 1], rest[FAR + 3];
    while (*text) {
        const char *more;
        char *line = line_of(text, &more);
        size_t indent = line ? strspn(line, " ") : 0;
        if (!line || muster_terminal_cells(line) <= width) {
            fwrite(text, 1, (size_t)(more - text), out);
        } else {
            snprintf(first, sizeof first, "%*s", (int)(indent < FAR ? indent : FAR), "");
            snprintf(rest, sizeof rest, "%s  ", first);
            muster_terminal_wrap(out, width, first, rest, line + indent);
        }
        free(line);
        text = more;
    }
}

static bool is_prose(const char *line)
{
    return *line && *line != ' ' && *line != '\n';
}

/* The lines from here on that are one paragraph; *wide: one of them is too wide. */
static const char *paragraph_end(const char *text, unsigned width, bool *wide)
{
    *wide = false;
    while (is_prose(text)) {
        const char *more;
        char *line = line_of(text, &more);
        *wide |= line && muster_terminal_cells(line) > width;
        free(line);
        text = more;
    }
    return text;
}

void muster_terminal_prose(FILE *out, unsigned width, const char *text)
{
    while (*text) {
        bool wide;
        const char *end = paragraph_end(text, width, &wide);
        if (end == text) {
            end += strcspn(end, "\n");
            end += *end == '\n';
        }
        char *whole = wide ? strndup(text, (size_t)(end - text)) : NULL;
        for (char *at = whole; whole && (at = strchr(at, '\n')); at++)
            *at = at[1] ? ' ' : '\0';
        if (whole)
            muster_terminal_wrap(out, width, "", "", whole);
        else
            fwrite(text, 1, (size_t)(end - text), out);
        free(whole);
        text = end;
    }
}

void muster_terminal_page_begin(struct muster_terminal_page *page)
{
    *page = (struct muster_terminal_page){0};
    page->out = open_memstream(&page->text, &page->size);
    page->out = page->out ? page->out : stdout;
}

void muster_terminal_page_end(struct muster_terminal_page *page)
{
    const struct muster_terminal terminal = muster_terminal_of(STDOUT_FILENO);
    if (page->out == stdout)
        return;
    bool good = fclose(page->out) == 0 && page->text;
    if (good && terminal.fit)
        muster_terminal_lines(stdout, terminal.width, page->text);
    else if (good)
        fwrite(page->text, 1, page->size, stdout);
    free(page->text);
}
