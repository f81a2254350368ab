#include "base/terminal.h"

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
    if (terminal.width < MUSTER_TERMINAL_LEAST) {
        terminal.width = MUSTER_TERMINAL_LEAST;
    }
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
    for (; *text; text += letter(text)) {
        cells++;
    }
    return cells;
}

void muster_terminal_cut(char *text, size_t size, size_t cells)
{
    size_t at = 0, word = 0;
    if (muster_terminal_cells(text) <= cells || cells == 0) {
        return;
    }
    for (size_t n = 0; n + 1 < cells; n++) {
        at += letter(text + at);
        word = text[at] == ' ' ? at : word;
    }
    at = 4 * word > 3 * at ? word : at;
    while (at > 0 && strchr(" ,;:(", text[at - 1])) {
        at--;
    }
    if (at + sizeof ellipsis <= size) {
        memcpy(text + at, ellipsis, sizeof ellipsis);
    } else {
        text[at] = '\0';
    }
}

void muster_terminal_wrap(FILE *out, unsigned width, const char *first, const char *rest,
                          const char *text)
{
    size_t used = muster_terminal_cells(first);
    bool begun = false;
    fputs(first, out);
    while (*text) {
        size_t bytes = strcspn(text, " ");
        size_t cells = 0;
        for (size_t at = 0; at < bytes; at += letter(text + at)) {
            cells++;
        }
        if (begun && used + 1 + cells > width) {
            fprintf(out, "\n%s", rest);
            used = muster_terminal_cells(rest);
        } else if (begun) {
            fputc(' ', out);
            used++;
        }
        fprintf(out, "%.*s", (int)bytes, text);
        used += cells;
        begun = true;
        text += bytes + (text[bytes] == ' ');
    }
    fputc('\n', out);
}
