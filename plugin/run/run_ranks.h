/* Who is in a run directory, without reading what they did. */
#ifndef MUSTER_RUN_RUN_RANKS_H
#define MUSTER_RUN_RUN_RANKS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a process that began at or after `since_unix_ns` recorded itself there as this rank; as
 * far as its file can be read. */
bool muster_run_holds_rank(const char *dir, int32_t rank, uint64_t since_unix_ns);

#endif
