/* What `muster doctor` prints: what could not run, causes with their symptoms under them, the rest.
 */
#ifndef MUSTER_DOCTOR_RULES_CHECKS_PRINT_H
#define MUSTER_DOCTOR_RULES_CHECKS_PRINT_H

#include <stdio.h>

#include "doctor/rules/causes.h"

/* The verdict in a line, what could not run, problems and warnings; with `all` the rest, too. */
void muster_checks_text(const struct muster_checks *checks, const struct muster_causes *causes,
                        bool all, FILE *out);
/* Where a report is from. */
struct muster_checks_place {
    const char *host, *host_id;
    int rank, local_rank; /* of the process that looked; -1: not from its launcher */
};
void muster_checks_json(const struct muster_checks *checks, const struct muster_causes *causes,
                        const struct muster_checks_place *place, FILE *out);

#endif
