#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "page/page.h"
#include "timeline/whole_file.h"

/* As muster_page_write writes them. */
static const char first_words[] = "<!DOCTYPE html>";
static const char *const opening[] = {
    [MUSTER_PAGE_REPORT] = "<script type=\"application/json\" id=\"muster-report\">",
    [MUSTER_PAGE_COMPARE] = "<script type=\"application/json\" id=\"muster-compare\">",
};
/* What its JSON has, beside a version. */
static const char *const member[] = {
    [MUSTER_PAGE_REPORT] = "ranks", [MUSTER_PAGE_COMPARE] = "classes"};
static const char closing[] = "</script>";

enum { PAGE_BYTES_MOST = 64 << 20 };

bool muster_page_is_named(const char *path)
{
    return muster_text_ends_with(path, ".html") || muster_text_ends_with(path, ".htm");
}

/* Line and column of a place, from 1. */
static void place_of(const char *bytes, const char *at, size_t *line, size_t *column)
{
    *line = 1;
    *column = 1;
    for (; bytes < at; bytes++) {
        *column = *bytes == '\n' ? 1 : *column + 1;
        *line += *bytes == '\n';
    }
}

static int check_data(const char *name, enum muster_page_kind kind, const char *bytes,
                      const char *at, size_t length, struct muster_err *err)
{
    json_error_t wrong;
    size_t line, column;
    /* As reals: a count of muster's may be beyond 2^63, where jansson knows no integer. */
    json_t *data = json_loadb(at, length, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &wrong);
    place_of(bytes, at, &line, &column);
    if (!data)
        return muster_fail(err, "%s:%zu:%d: %s in the page's JSON; the file was changed or cut",
                           name, line + (size_t)(wrong.line > 0 ? wrong.line - 1 : 0), wrong.column,
                           wrong.text);
    bool good = json_is_number(json_object_get(data, "version")) &&
                json_is_array(json_object_get(data, member[kind]));
    json_decref(data);
    return good ? 0
                : muster_fail(err, "%s:%zu:%zu: not of muster %s: expected \"version\" and \"%s\"",
                              name, line, column, muster_page_word(kind), member[kind]);
}

/* A page of another kind is distinguished from a file that is none. */
static int fail_kind(const char *name, enum muster_page_kind kind, const char *bytes, size_t n,
                     struct muster_err *err)
{
    enum muster_page_kind other =
        kind == MUSTER_PAGE_REPORT ? MUSTER_PAGE_COMPARE : MUSTER_PAGE_REPORT;
    const char *word = muster_page_word(other);
    if (memmem(bytes, n, opening[other], strlen(opening[other])))
        return muster_fail(err, "%s: a page of `muster %s`: muster %s %s --format json", name, word,
                           word, name);
    return muster_fail(err, "%s: no %s in it: not a page of `muster %s --html`", name,
                       opening[kind], muster_page_word(kind));
}

int muster_page_find(const char *name, enum muster_page_kind kind, const char *bytes, size_t n,
                     const char **at, size_t *length, struct muster_err *err)
{
    if (n < sizeof first_words || strncmp(bytes, first_words, sizeof first_words - 1) != 0)
        return muster_fail(err, "%s:1:1: expected \"%s\", as `muster %s --html` begins a page",
                           name, first_words, muster_page_word(kind));
    const char *open = memmem(bytes, n, opening[kind], strlen(opening[kind]));
    if (!open)
        return fail_kind(name, kind, bytes, n, err);
    const char *text = open + strlen(opening[kind]);
    const char *close = memmem(text, n - (size_t)(text - bytes), closing, sizeof closing - 1);
    if (!close)
        return muster_fail(err, "%s: the page's JSON has no end: the file was cut", name);
    if (check_data(name, kind, bytes, text, (size_t)(close - text), err))
        return -1;
    *at = text;
    *length = (size_t)(close - text);
    return 0;
}

int muster_page_read(const char *path, enum muster_page_kind kind, FILE *out,
                     struct muster_err *err)
{
    const char *at;
    size_t n = 0, length;
    char *bytes = muster_whole_read(path, PAGE_BYTES_MOST, &n, err);
    if (!bytes)
        return -1;
    int result = muster_page_find(path, kind, bytes, n, &at, &length, err);
    if (result == 0)
        fwrite(at, 1, length, out);
    free(bytes);
    return result;
}
