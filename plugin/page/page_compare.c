#include <string.h>

#include "base/nccl_types.h"
#include "base/text.h"
#include "compare/compare_words.h"
#include "page/page_file.h"
#include "page/page_json.h"

enum { A, B, SCHEMA = 1 };

static void put_version(struct muster_json *json, uint32_t nccl)
{
    char text[24];
    muster_nccl_version_text(text, sizeof text, nccl);
    muster_json_str(json, NULL, nccl ? text : "not known");
}

/* Of processes in the order of ranks: a value that follows itself is written once. */
static void put_run(struct muster_json *json, const char *key,
                    const struct muster_compare_side *side)
{
    const struct muster_view *view = side->view;
    const struct muster_run *run = view->run;
    muster_json_object(json, key);
    muster_json_array(json, "hosts");
    for (size_t g = 0; g < view->gpus; g++)
        if (g == 0 || strcmp(view->gpu[g].host, view->gpu[g - 1].host) != 0)
            muster_json_str(json, NULL, muster_compare_host(view, g));
    muster_json_end(json);
    muster_json_array(json, "nccl");
    for (size_t i = 0; run && i < run->processes; i++)
        if (i == 0 || run->process[i].identity.nccl != run->process[i - 1].identity.nccl)
            put_version(json, run->process[i].identity.nccl);
    muster_json_end(json);
    muster_json_array(json, "notes");
    for (size_t i = 0; run && i < run->notes; i++)
        muster_json_str(json, NULL, run->note[i]);
    for (unsigned i = 0; i < side->findings->not_observable.n; i++)
        muster_json_str(json, NULL, side->findings->not_observable.line[i]);
    muster_json_end(json);
    muster_json_end(json);
}

/* From which on a change counts, as muster_change_is evaluates: a share for kinds of operations, a
 * time an operation for ranks. */
static void put_least(struct muster_json *json, const struct muster_compared *compared)
{
    muster_json_object(json, "least");
    muster_json_real(json, "share", MUSTER_COMPARE_LEAST, 6);
    muster_json_real(json, "us", muster_compare_least_us(compared), 3);
    muster_json_end(json);
}

/* In the order of the comparison's JSON. */
static void put_findings(struct muster_json *json, const char *key,
                         const struct muster_findings *own, const struct muster_findings *other)
{
    muster_json_array(json, key);
    for (size_t i = 0; i < own->n; i++)
        if (!muster_compare_has(other, &own->finding[i]))
            muster_page_json_finding(&own->finding[i], json);
    muster_json_end(json);
}

static void put_page(const struct muster_compared *compared,
                     const struct muster_compare_verdict *verdict,
                     const struct muster_page_request *request, FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, false);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", SCHEMA);
    muster_json_str(&json, "command", request->command);
    muster_json_u64(&json, "made_unix_s", request->made_unix_s);
    muster_json_bool(&json, "slower", verdict->slower);
    put_least(&json, compared);
    put_run(&json, "a", &compared->side[A]);
    put_run(&json, "b", &compared->side[B]);
    put_findings(&json, "came", compared->side[B].findings, compared->side[A].findings);
    put_findings(&json, "went", compared->side[A].findings, compared->side[B].findings);
    muster_json_end(&json);
}

int muster_page_compare_write(const struct muster_compared *compared, double limit,
                              const struct muster_page_request *request, uint64_t *bytes,
                              struct muster_err *err)
{
    struct muster_page_file file = {.kind = MUSTER_PAGE_COMPARE};
    struct muster_compare_verdict verdict;
    muster_compare_verdict_of(compared, &verdict);
    for (; file.lines < verdict.lines; file.lines++)
        file.line[file.lines] = verdict.line[file.lines];
    FILE *data = open_memstream(&file.data, &file.data_bytes);
    FILE *page = data ? open_memstream(&file.page, &file.page_bytes) : NULL;
    if (page) {
        muster_compare_json(compared, limit, data);
        put_page(compared, &verdict, request, page);
    }
    bool whole = muster_text_close(data, &file.data);
    whole = muster_text_close(page, &file.page) && whole;
    int result = whole ? muster_page_file_write(&file, request->path, bytes, err)
                       : muster_fail_memory(err, "a page");
    muster_page_file_free(&file);
    return result;
}
