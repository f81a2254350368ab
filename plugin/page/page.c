#include "page/page.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "page/page_file.h"
#include "page/page_json.h"
#include "report/report_output.h"

/* Rows of the report's JSON: some 400 bytes each. */
enum { OPS_MOST = 4000, NETS_MOST = 4000 };

static int print_report(struct muster_report *report, const struct muster_page_request *request,
                        struct muster_page_file *file, struct muster_page_made *made,
                        struct muster_err *err)
{
    size_t ops = report->ops, nets = report->nets, gaps = report->gaps;
    report->ops = ops < OPS_MOST ? ops : OPS_MOST;
    report->nets = nets < NETS_MOST ? nets : NETS_MOST;
    made->left_out = ops - report->ops + nets - report->nets;
    if (made->left_out)
        muster_report_add_gap(
            report, "%" PRIu64 " rows of this page's tables are left out, so that it stays small",
            made->left_out);
    int result = muster_arena_check(&report->memory, err, "a page");
    FILE *out = result ? NULL : open_memstream(&file->data, &file->data_bytes);
    if (out)
        muster_report_json(report, request->more, request->more_arg, out);
    report->gaps = gaps;
    report->ops = ops;
    report->nets = nets;
    return muster_text_close(out, &file->data) ? 0 : muster_fail_memory(err, "a page");
}

static int print_page(const struct muster_page_content *content, struct muster_page_file *file,
                      struct muster_err *err)
{
    FILE *out = open_memstream(&file->page, &file->page_bytes);
    if (out)
        muster_page_json(content, out);
    return muster_text_close(out, &file->page) ? 0 : muster_fail_memory(err, "a page");
}

static int fill_file(const struct muster_page_content *content, struct muster_report *report,
                     struct muster_page_file *file, struct muster_page_made *made,
                     struct muster_err *err)
{
    struct muster_costs costs;
    struct muster_page_content with_costs = *content;
    if (muster_costs_find(content->view, &costs, err))
        return -1;
    with_costs.costs = &costs;
    int result = print_page(&with_costs, file, err);
    if (result == 0)
        result = print_report(report, content->request, file, made, err);
    muster_costs_free(&costs);
    return result;
}

int muster_page_write(const struct muster_view *view, struct muster_report *report,
                      const struct muster_findings *findings,
                      const struct muster_page_request *request, struct muster_page_made *made,
                      struct muster_err *err)
{
    struct muster_page_file file = {.kind = MUSTER_PAGE_REPORT};
    struct muster_verdict verdict;
    const struct muster_page_content content = {.view = view,
                                                .report = report,
                                                .findings = findings,
                                                .request = request,
                                                .verdict = &verdict};
    *made = (struct muster_page_made){0};
    muster_verdict_of(view, findings, 0, &verdict);
    for (; file.lines < verdict.lines; file.lines++)
        file.line[file.lines] = verdict.line[file.lines];
    int result = verdict.no_memory ? muster_fail_memory(err, "a page")
                                   : fill_file(&content, report, &file, made, err);
    if (result == 0)
        result = muster_page_file_write(&file, request->path, &made->bytes, err);
    muster_page_file_free(&file);
    return result;
}
