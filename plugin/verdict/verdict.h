/*
 * The first thing that a report prints: who holds the job back, what it does to the others, why,
 * and what to do next; or that nobody does, and what would have been found; or that this cannot be
 * known, and what is missing.
 */
#ifndef MUSTER_VERDICT_VERDICT_H
#define MUSTER_VERDICT_VERDICT_H

#include "base/json.h"
#include "diagnose/finding.h"
#include "report/report.h"
#include "view/view.h"

enum muster_verdict_state {
    MUSTER_VERDICT_HELD, /* somebody, or something, holds the job back, or it hangs */
    MUSTER_VERDICT_NOBODY,
    MUSTER_VERDICT_UNKNOWN, /* too little is known for either */
};

enum { MUSTER_VERDICT_LINES = 3, MUSTER_VERDICT_LINE = 512 };

struct muster_verdict {
    enum muster_verdict_state state;
    const struct muster_finding *finding; /* the one that it is about; NULL: none */
    char line[MUSTER_VERDICT_LINES][MUSTER_VERDICT_LINE];
    unsigned lines;
    bool no_memory; /* which the line reports in place of all else */
};

/* In lines of at most `width` columns; 0: as long as they are. Findings that are over do not count.
 * The verdict keeps a pointer into the findings. */
void muster_verdict_of(const struct muster_view *view, const struct muster_findings *findings,
                       unsigned width, struct muster_verdict *verdict);

/* "held_back", "nobody", "unknown": static. */
const char *muster_verdict_name(enum muster_verdict_state state);
/* Its state and lines, as the member "verdict" of an open object. */
void muster_verdict_json(const struct muster_verdict *verdict, struct muster_json *json);

/* Which ranks of the report a finding names, and whom the others wait for. */
void muster_verdict_mark(const struct muster_view *view, const struct muster_findings *findings,
                         struct muster_report *report);

#endif
