/*
 * What is told of a job where nobody is late: what holds it back all the same, and is nobody's
 * fault; and what it rests on that nobody is named.
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_NOBODY_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_NOBODY_H

#include "diagnose/finding.h"
#include "diagnose/straggler/straggler_suspects.h"
#include "view/coverage.h"

/*
 * Only where no rank is late by itself, as that would delay others, too. Every rank waits alike:
 * before the same position all ranks need longer by themselves than they usually do, by as much,
 * and their hosts call late. It is the input, the storage or the network that all share. Adds at
 * most one finding, of the position where it costs most.
 */
void muster_straggler_alike(const struct muster_graph *graph, const struct muster_view_span *span,
                            struct muster_findings *findings);

/*
 * Likewise. Stages of a pipeline that do not do as much as each other: the GPUs of one work longer
 * by themselves than those of the others, all the time and in every pipeline of the job. That is
 * how the model was cut. Where activations go one way only, the first stage works as fast as it is
 * fed: not of these. Once the job is over: while it runs its shares are still to become what they
 * are.
 *
 * Adds at most one finding, of the stage that does most. What it costs is how much less of its time
 * each GPU would work there if all stages did as much: with m micro-batches and p stages a step
 * takes (m + p - 1) times what the longest stage needs for one.
 */
void muster_straggler_uneven(const struct muster_graph *graph, const struct muster_view_span *span,
                             struct muster_findings *findings);

/* Adds to what is not observable. */
void muster_straggler_describe_clean(const struct muster_graph *graph,
                                     const struct muster_suspects *suspects,
                                     const struct muster_view_span *span,
                                     struct muster_findings *findings);

#endif
