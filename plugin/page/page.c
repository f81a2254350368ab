#include "page/page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "page/page_embedded.h"
#include "page/page_json.h"
#include "report/report_output.h"
#include "timeline/whole_file.h"

/* Rows of the report's JSON: some 400 bytes each. */
enum { OPS_MOST = 4000, NETS_MOST = 4000 };

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

/* ---- parts ---- */

struct parts {
    char *report, *page;
    size_t report_bytes, page_bytes;
    struct muster_verdict verdict;
};

static int print_report(struct muster_report *report, const struct muster_page_request *request,
                        struct parts *parts, struct muster_page_made *made, struct muster_err *err)
{
    size_t ops = report->ops, nets = report->nets, gaps = report->gaps;
    report->ops = ops < OPS_MOST ? ops : OPS_MOST;
    report->nets = nets < NETS_MOST ? nets : NETS_MOST;
    made->left_out = ops - report->ops + nets - report->nets;
    int result = 0;
    if (made->left_out) {
        char text[128];
        snprintf(text, sizeof text,
                 "%" PRIu64 " rows of this page's tables are left out, so that it stays small",
                 made->left_out);
        result = muster_report_add_gap(report, text);
    }
    FILE *out = result ? NULL : open_memstream(&parts->report, &parts->report_bytes);
    if (out)
        muster_report_json(report, request->more, request->said, out);
    if (!muster_text_close(out, &parts->report))
        result = -1;
    for (; report->gaps > gaps; report->gaps--)
        free(report->gap[report->gaps - 1]);
    report->ops = ops;
    report->nets = nets;
    return result ? muster_fail_memory(err, "a page") : 0;
}

static int print_page(const struct muster_page_content *content, struct parts *parts,
                      struct muster_err *err)
{
    FILE *out = open_memstream(&parts->page, &parts->page_bytes);
    if (out)
        muster_page_json(content, out);
    return muster_text_close(out, &parts->page) ? 0 : muster_fail_memory(err, "a page");
}

static int make_parts(const struct muster_page_content *content, struct muster_report *report,
                      struct parts *parts, struct muster_page_made *made, struct muster_err *err)
{
    struct muster_costs costs;
    struct muster_page_content with_costs = *content;
    muster_verdict_of(content->view, content->findings, 0, &parts->verdict);
    if (muster_costs_find(content->view, &costs, err))
        return -1;
    with_costs.costs = &costs;
    with_costs.verdict = &parts->verdict;
    int result = print_page(&with_costs, parts, err);
    if (result == 0)
        result = print_report(report, content->request, parts, made, err);
    muster_costs_free(&costs);
    return result;
}

/* ---- the file ---- */

static void put_embedded(struct muster_page_text text, FILE *out)
{
    fwrite(text.begin, 1, (size_t)(text.end - text.begin), out);
}

static void put_verdict(const struct muster_verdict *verdict, FILE *out)
{
    for (unsigned i = 0; i < verdict->lines; i++) {
        fputs(i ? "<br>" : "", out);
        put_text(verdict->line[i], out);
    }
}

/* What stands for "@NAME@" in the shell. */
static void put_part(const char *name, size_t n, const struct parts *parts, FILE *out)
{
    if (n == 5 && memcmp(name, "STYLE", n) == 0)
        put_embedded(muster_page_style(), out);
    else if (n == 7 && memcmp(name, "DRAWING", n) == 0)
        put_embedded(muster_page_drawing(), out);
    else if (n == 6 && memcmp(name, "SCRIPT", n) == 0)
        put_embedded(muster_page_script(), out);
    else if (n == 7 && memcmp(name, "VERDICT", n) == 0)
        put_verdict(&parts->verdict, out);
    else if (n == 6 && memcmp(name, "REPORT", n) == 0)
        put_json(parts->report, parts->report_bytes, out);
    else if (n == 4 && memcmp(name, "PAGE", n) == 0)
        put_json(parts->page, parts->page_bytes, out);
}

static void put_file(const struct parts *parts, FILE *out)
{
    struct muster_page_text shell = muster_page_shell();
    for (const char *at = shell.begin; at < shell.end;) {
        const char *mark = memchr(at, '@', (size_t)(shell.end - at));
        const char *end = mark ? memchr(mark + 1, '@', (size_t)(shell.end - mark - 1)) : NULL;
        fwrite(at, 1, (size_t)((end ? mark : shell.end) - at), out);
        if (end)
            put_part(mark + 1, (size_t)(end - mark - 1), parts, out);
        at = end ? end + 1 : shell.end;
    }
}

int muster_page_write(const struct muster_view *view, struct muster_report *report,
                      const struct muster_findings *findings,
                      const struct muster_page_request *request, struct muster_page_made *made,
                      struct muster_err *err)
{
    struct parts parts = {0};
    struct muster_whole_file file;
    const struct muster_page_content content = {
        .view = view, .report = report, .findings = findings, .request = request};
    *made = (struct muster_page_made){0};
    int result = make_parts(&content, report, &parts, made, err);
    if (result == 0)
        result = muster_whole_begin(&file, request->path, err);
    if (result == 0) {
        put_file(&parts, file.out);
        made->bytes = (uint64_t)ftell(file.out);
        result = muster_whole_end(&file, true, err);
    }
    free(parts.report);
    free(parts.page);
    return result;
}
