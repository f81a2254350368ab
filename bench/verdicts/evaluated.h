/* What the detector says about a generated job: the only file that calls it. */
#ifndef MUSTER_BENCH_VERDICTS_EVALUATED_H
#define MUSTER_BENCH_VERDICTS_EVALUATED_H

#include "diagnose/finding.h"
#include "recording.h"

struct evaluated {
    struct muster_findings findings; /* late ranks, late hosts, slow transfers */
    double busy_s;                   /* what finding them took of a processor */
};

/* Records the job and has it evaluated as `muster diagnose` would. Exits without memory. */
void evaluate_run(const struct job *job, struct recorded *recorded, struct evaluated *evaluated);
void evaluated_free(struct evaluated *evaluated);

#endif
