/* Lines of a verdict: of each the longest wording that fits. Between verdict*.c only. */
#ifndef MUSTER_VERDICT_VERDICT_WRITER_H
#define MUSTER_VERDICT_VERDICT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "verdict/verdict.h"

struct muster_verdict_writer {
    struct muster_arena memory; /* of what the verdict rests on, which is taken back if it failed */
    struct muster_verdict *verdict;
    unsigned width; /* 0: any */
    bool fits;      /* the line under way fits as it is */
};

/* A wording of the line under way, the longest first: taken if none before it fitted. */
__attribute__((format(printf, 2, 3))) void muster_verdict_put(struct muster_verdict_writer *writer,
                                                              const char *fmt, ...);
/* The line is over; what fits in no wording is cut. */
void muster_verdict_end_line(struct muster_verdict_writer *writer);

enum { MUSTER_VERDICT_RANKS_SHOWN = 4 };
/* "rank 1", "ranks 0, 2, 3, 4 and 7 more", the first letter as given; of `rank` no more are read
 * than are shown. */
void muster_verdict_put_ranks(char *to, size_t size, const char *first_letter, const int32_t *rank,
                              size_t n);

#endif
