#include "page/page_file.h"

#include <stdlib.h>
#include <string.h>

#include "page/page_embedded.h"
#include "timeline/whole_file.h"

/* ---- text that must not become markup ---- */

/* JSON inside a script element: what could end the element or a line of script stands in strings
 * only, and is escaped there. */
static void put_json(const char *json, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)json[i];
        if (c == '<' || c == '>' || c == '&') {
            fprintf(out, "\\u%04x", c);
        } else if (c == 0xe2 && i + 2 < n && (unsigned char)json[i + 1] == 0x80 &&
                   ((unsigned char)json[i + 2] & 0xfe) == 0xa8) {
            fprintf(out, "\\u20%02x", (unsigned char)json[i + 2] - 0x80);
            i += 2;
        } else {
            fputc(c, out);
        }
    }
}

/* Whether a character begins there that turns the direction of writing. */
static bool turns_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] != 0xe2)
        return false;
    return (at[1] == 0x80 &&
            (at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xaa && at[2] <= 0xae))) ||
           (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9);
}

static void put_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (turns_text(text)) {
            text += 2;
            continue;
        }
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
        }
    }
}

/* ---- the file ---- */

static const char *const words[] = {
    [MUSTER_PAGE_REPORT] = "report", [MUSTER_PAGE_COMPARE] = "compare"};

const char *muster_page_word(enum muster_page_kind kind)
{
    return words[kind];
}

static void put_embedded(struct muster_page_text text, FILE *out)
{
    fwrite(text.begin, 1, (size_t)(text.end - text.begin), out);
}

static void put_verdict(const struct muster_page_file *file, FILE *out)
{
    for (unsigned i = 0; i < file->lines; i++) {
        fputs(i ? "<br>" : "", out);
        put_text(file->line[i], out);
    }
}

static void put_script(const struct muster_page_file *file, FILE *out)
{
    put_embedded(muster_page_drawing(), out);
    put_embedded(muster_page_panels(), out);
    put_embedded(
        file->kind == MUSTER_PAGE_COMPARE ? muster_page_comparing() : muster_page_reporting(), out);
}

static bool is(const char *name, size_t n, const char *other)
{
    return n == strlen(other) && memcmp(name, other, n) == 0;
}

/* What stands for "@NAME@" in the shell. */
static void put_part(const char *name, size_t n, const struct muster_page_file *file, FILE *out)
{
    if (is(name, n, "STYLE"))
        put_embedded(muster_page_style(), out);
    else if (is(name, n, "SCRIPT"))
        put_script(file, out);
    else if (is(name, n, "KIND"))
        fputs(words[file->kind], out);
    else if (is(name, n, "VERDICT"))
        put_verdict(file, out);
    else if (is(name, n, "DATA"))
        put_json(file->data, file->data_bytes, out);
    else if (is(name, n, "PAGE"))
        put_json(file->page, file->page_bytes, out);
}

static void put_file(const struct muster_page_file *file, FILE *out)
{
    struct muster_page_text shell = muster_page_shell();
    for (const char *at = shell.begin; at < shell.end;) {
        const char *mark = memchr(at, '@', (size_t)(shell.end - at));
        const char *end = mark ? memchr(mark + 1, '@', (size_t)(shell.end - mark - 1)) : NULL;
        fwrite(at, 1, (size_t)((end ? mark : shell.end) - at), out);
        if (end)
            put_part(mark + 1, (size_t)(end - mark - 1), file, out);
        at = end ? end + 1 : shell.end;
    }
}

int muster_page_file_write(const struct muster_page_file *file, const char *path, uint64_t *bytes,
                           struct muster_err *err)
{
    struct muster_whole_file whole;
    if (muster_whole_begin(&whole, path, err))
        return -1;
    put_file(file, whole.out);
    *bytes = (uint64_t)ftell(whole.out);
    return muster_whole_end(&whole, true, err);
}

void muster_page_file_free(struct muster_page_file *file)
{
    free(file->data);
    free(file->page);
    file->data = file->page = NULL;
}
