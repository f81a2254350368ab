/* What the detector says about a generated job: the only file that calls it. */
#ifndef MUSTER_BENCH_VERDICTS_JUDGED_H
#define MUSTER_BENCH_VERDICTS_JUDGED_H

#include "diagnose/finding.h"
#include "recording.h"

struct judged {
    struct muster_findings findings; /* late ranks, late hosts, slow transfers */
    double busy_s;                   /* what finding them took of a processor */
};

/* Records the job and has it judged as `muster diagnose` would. Exits without memory. */
void judge_run(const struct job *job, struct recorded *recorded, struct judged *judged);
void judged_free(struct judged *judged);

#endif
