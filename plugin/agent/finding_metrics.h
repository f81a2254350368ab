/* The findings that hold, as metrics: an agent's page and a worker's have the same families. */
#ifndef MUSTER_AGENT_FINDING_METRICS_H
#define MUSTER_AGENT_FINDING_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent_sample.h"
#include "agent/exposition.h"
#include "diagnose/finding.h"

/* At once. An agent's are multiplied by all hosts of a cluster; workers are few. */
enum { MUSTER_AGENT_FINDINGS = 64, MUSTER_WORKER_FINDINGS = 256 };

struct muster_finding_metrics {
    /* One culprit of a finding that holds. */
    struct muster_finding_series {
        char run[MUSTER_AGENT_NAME];
        uint32_t uid;
        enum muster_finding_kind kind;
        int32_t rank; /* -1: none is named */
        uint64_t comm;
        double cost_s;
    } series[MUSTER_WORKER_FINDINGS];
    size_t n;
    uint64_t omitted;                    /* that had no place */
    uint64_t ever[MUSTER_FINDING_KINDS]; /* since the process began */
};

/* Adds a series for each culprit that has none, as long as there are less than `most`. `run` and
 * `uid`: as the job's other metrics name it. */
void muster_finding_metrics_add(struct muster_finding_metrics *to, size_t most, const char *run,
                                uint32_t uid, const struct muster_finding *finding);

/* `ever`: muster_findings_total as its help describes who counts. `zeros`: also the costs and
 * counts that are 0. */
void muster_finding_metrics_print(const struct muster_finding_metrics *metrics,
                                  const struct muster_family *ever, bool zeros,
                                  struct muster_exposition *to);

#endif
