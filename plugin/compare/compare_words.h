/* A comparison in words; between those that print it. Buffers get cut, never overrun. */
#ifndef MUSTER_COMPARE_COMPARE_WORDS_H
#define MUSTER_COMPARE_COMPARE_WORDS_H

#include <stddef.h>

#include "compare/compare_runs.h"

enum { MUSTER_COMPARE_TEXT = 160, MUSTER_COMPARE_LINES = 4, MUSTER_COMPARE_LINE = 512 };

/* "beat", "transfer", "waiting": static. */
const char *muster_compare_measure_word(enum muster_compare_measure measure);

/* "49.5 us", "1.4 ms", "2.0 s". */
void muster_compare_put_time(char *to, size_t size, double us);
/* "AllReduce from 4 MiB, 4 ranks, tp" */
void muster_compare_put_class(char *to, size_t size, const struct muster_compare_class *class);

/* Why `whole` is not known and what to do, to stand after a colon: "of the 3 kinds of operations
 * that both runs have none was timed in 8 or more of 32 parts of each run. Compare longer runs" */
void muster_compare_put_unknown(char *to, size_t size, const struct muster_compared *compared);

/* The first thing that is printed: whether B hangs, whether it is slower, where most of that is,
 * and who the others wait for more than before. */
struct muster_compare_verdict {
    char line[MUSTER_COMPARE_LINES][MUSTER_COMPARE_LINE];
    unsigned lines;
    bool slower; /* it counts, and is certain */
};

void muster_compare_verdict_of(const struct muster_compared *compared,
                               struct muster_compare_verdict *verdict);

#endif
