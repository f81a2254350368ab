#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "page/page.h"
#include "timeline/whole_file.h"

/* As muster_page_write writes them. */
static const char first_words[] = "<!DOCTYPE html>";
static const char opening[] = "<script type=\"application/json\" id=\"muster-report\">";
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

static int check_report(const char *name, const char *bytes, const char *at, size_t length,
                        struct muster_err *err)
{
    json_error_t wrong;
    size_t line, column;
    json_t *report = json_loadb(at, length, JSON_REJECT_DUPLICATES, &wrong);
    place_of(bytes, at, &line, &column);
    if (!report)
        return muster_fail(err, "%s:%zu:%d: %s in the report's JSON; the file was changed or cut",
                           name, line + (size_t)(wrong.line > 0 ? wrong.line - 1 : 0), wrong.column,
                           wrong.text);
    bool good = json_is_integer(json_object_get(report, "version")) &&
                json_is_array(json_object_get(report, "ranks"));
    json_decref(report);
    return good ? 0
                : muster_fail(err, "%s:%zu:%zu: not a report: expected \"version\" and \"ranks\"",
                              name, line, column);
}

int muster_page_find(const char *name, const char *bytes, size_t n, const char **at, size_t *length,
                     struct muster_err *err)
{
    if (n < sizeof first_words || strncmp(bytes, first_words, sizeof first_words - 1) != 0)
        return muster_fail(err, "%s:1:1: expected \"%s\", as `muster report --html` begins a page",
                           name, first_words);
    const char *open = memmem(bytes, n, opening, sizeof opening - 1);
    if (!open)
        return muster_fail(err, "%s: no %s in it: not a page of `muster report --html`", name,
                           opening);
    const char *text = open + sizeof opening - 1;
    const char *close = memmem(text, n - (size_t)(text - bytes), closing, sizeof closing - 1);
    if (!close)
        return muster_fail(err, "%s: the report's JSON has no end: the file was cut", name);
    if (check_report(name, bytes, text, (size_t)(close - text), err))
        return -1;
    *at = text;
    *length = (size_t)(close - text);
    return 0;
}

int muster_page_read(const char *path, FILE *out, struct muster_err *err)
{
    const char *at;
    size_t n = 0, length;
    char *bytes = muster_whole_read(path, PAGE_BYTES_MOST, &n, err);
    if (!bytes)
        return -1;
    int result = muster_page_find(path, bytes, n, &at, &length, err);
    if (result == 0)
        fwrite(at, 1, length, out);
    free(bytes);
    return result;
}
