/* Segments of processes that only live, written to from outside: a job that runs as a test or a
 * bench wants it to. */
#ifndef MUSTER_TESTS_UNIT_SEGMENT_MAPPED_RANKS_H
#define MUSTER_TESTS_UNIT_SEGMENT_MAPPED_RANKS_H

#include <stdbool.h>

#include "segment/layout.h"

/* Maps all segments of the folder, each to the place of its rank, until the process ends. False:
 * one cannot be mapped, or its rank is none of 0 to ranks - 1. */
bool mapped_ranks(const char *folder, struct muster_segment **of_rank, unsigned ranks);

#endif
