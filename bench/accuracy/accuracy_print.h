/* What the programs that score findings print of a case that went wrong. */
#ifndef MUSTER_BENCH_ACCURACY_ACCURACY_PRINT_H
#define MUSTER_BENCH_ACCURACY_ACCURACY_PRINT_H

#include <stdbool.h>

#include "diagnose/finding.h"

/* A line for each finding, and, if wanted, for each piece of its evidence. To standard output. */
void report_findings(const struct muster_findings *findings, bool evidence);

#endif
