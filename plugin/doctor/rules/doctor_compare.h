/* Differences between the doctor's reports of several hosts. */
#ifndef MUSTER_DOCTOR_RULES_DOCTOR_COMPARE_H
#define MUSTER_DOCTOR_RULES_DOCTOR_COMPARE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

struct muster_comparison; /* opaque */

/* Loads one report from text; `name` is for errors. Hosts are compared in the order of loading. */
/* NULL: no memory. */
struct muster_comparison *muster_comparison_new(struct muster_err *err);
int muster_comparison_add(struct muster_comparison *comparison, const char *name, const char *text,
                          size_t size, struct muster_err *err);
/* Problems that all hosts have are reported as well. */
void muster_comparison_show_shared(struct muster_comparison *comparison);
/* Problems of that check are not reported: something else has shown that they are none. `id` must
 * outlive the comparison. */
void muster_comparison_dismiss(struct muster_comparison *comparison, const char *id);
/* Differences that may bring about one of these symptoms of a job (words, separated by commas, that
 * muster_symptoms_check took) come first, and are marked so. `symptoms` must outlive the
 * comparison. */
void muster_comparison_explain(struct muster_comparison *comparison, const char *symptoms);
/* Once, worst first. Returns 1 if anything differs that has to be equal, else 0; -1 with err. */
int muster_comparison_print(struct muster_comparison *comparison, bool json, FILE *out,
                            struct muster_err *err);
void muster_comparison_free(struct muster_comparison *comparison);

#endif
