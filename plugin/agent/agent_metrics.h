/* What the agent knows, as Prometheus' text: every name stands here, docs/reference/metrics.md
 * explains them. */
#ifndef MUSTER_AGENT_AGENT_METRICS_H
#define MUSTER_AGENT_AGENT_METRICS_H

#include "agent/agent.h"
#include "agent/agent_sample.h"
#include "agent/agent_watch.h"
#include "agent/exposition.h"

/* `news` may be of a moment before the sample: what it has of runs that have ended is left out.
 * `took_ns`: what reading the sample took. Of the options only
 * `more` is asked; NULL: there are none. Returns how many series were written. */
size_t muster_agent_metrics(const struct muster_agent_options *options,
                            const struct muster_agent_sample *sample,
                            const struct muster_agent_news *news, uint64_t took_ns,
                            bool open_metrics, FILE *out);

#endif
