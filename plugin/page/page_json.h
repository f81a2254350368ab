/* What the page shows beside the report, as JSON; between the files of this folder. Times in us
 * with three decimals; GPUs, communicators, kinds of operations by their index. */
#ifndef MUSTER_PAGE_PAGE_JSON_H
#define MUSTER_PAGE_PAGE_JSON_H

#include <stdio.h>

#include "diagnose/finding.h"
#include "page/costs.h"
#include "page/page.h"
#include "verdict/verdict.h"

struct muster_page_content {
    const struct muster_view *view;
    const struct muster_report *report;
    const struct muster_costs *costs;
    const struct muster_findings *findings;
    const struct muster_page_request *request;
    const struct muster_verdict *verdict;
};

/* What cannot be written shows in `out`. */
void muster_page_json(const struct muster_page_content *content, FILE *out);

/* A finding with its sentence and what that leaves out: {"text", "cost", "causes", "when": [...],
 * "finding"}. */
void muster_page_json_finding(const struct muster_finding *finding, struct muster_json *json);

#endif
