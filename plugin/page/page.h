/*
 * A run, or two runs beside each other, as one HTML file that stands alone: the verdict, who cost
 * whom what and when, findings, what was not seen; or what changed, by how much. The data lie in it
 * as JSON, as `muster report` or `muster compare --format json` prints them, and can be read back.
 * Nothing in it asks for another file, and no text of a run becomes markup.
 *
 * Size: at most about 10 MB; cells of time, and rows of the report, are as many as fit, and what is
 * left out is noted.
 */
#ifndef MUSTER_PAGE_PAGE_H
#define MUSTER_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "compare/compare_runs.h"
#include "diagnose/finding.h"
#include "report/report.h"
#include "view/view.h"

enum muster_page_kind { MUSTER_PAGE_REPORT, MUSTER_PAGE_COMPARE };

/* The command that makes it: "report", "compare". Static. */
const char *muster_page_word(enum muster_page_kind kind);

struct muster_page_request {
    const char *path;
    const char *command; /* that made it, for people; NULL: not known */
    uint64_t made_unix_s;
    void (*more)(const void *more_arg, struct muster_json *json); /* as muster_report_json */
    const void *more_arg;
};

struct muster_page_made {
    uint64_t bytes;
    uint64_t left_out; /* rows of the report */
};

/* Writes request->path, which is there whole or not at all. The view is of a run, with what each
 * GPU did in between; the report is of that view, and as it was when this returns. */
int muster_page_write(const struct muster_view *view, struct muster_report *report,
                      const struct muster_findings *findings,
                      const struct muster_page_request *request, struct muster_page_made *made,
                      struct muster_err *err);

/* The same of two runs; `more` and `more_arg` are not asked. limit: NAN: none. */
int muster_page_compare_write(const struct muster_compared *compared, double limit,
                              const struct muster_page_request *request, uint64_t *bytes,
                              struct muster_err *err);

/* Whether the file's name is that of a page. */
bool muster_page_is_named(const char *path);
/* The JSON that lies in a page of that kind, to `out`. Nothing is written unless it is whole. */
int muster_page_read(const char *path, enum muster_page_kind kind, FILE *out,
                     struct muster_err *err);
/* The same of bytes in memory; `name` is for errors. Sets *at and *length to the JSON in `bytes`.
 */
int muster_page_find(const char *name, enum muster_page_kind kind, const char *bytes, size_t n,
                     const char **at, size_t *length, struct muster_err *err);

#endif
