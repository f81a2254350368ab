/* Confidence: the share of generated cases with this evidence in which the finding was right
 * (bench/accuracy, seeds 1 to 100; docs/diagnosis.md). Not a feeling. */
#ifndef MUSTER_DIAGNOSE_CONFIDENCE_H
#define MUSTER_DIAGNOSE_CONFIDENCE_H

#include <stddef.h>
#include <stdint.h>

/* `hits`: operations that the rank was late in; `others`: those of another rank, typically, at the
 * same size of delay; `ranks`: compared. */
double muster_confidence_late(uint32_t hits, uint32_t others, uint32_t ranks);

/* `links`: between hosts, that the slow one was compared with, itself included. */
double muster_confidence_transfer(size_t links);

/* The slowest stage of a chain of sends and receives: no generated cases, so a guess on the low
 * side. */
double muster_confidence_stage(void);

#endif
