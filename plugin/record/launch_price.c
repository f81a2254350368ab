#include "record/launch_price.h"

#include <stddef.h>

/* Time that an all-reduce of a loop of nothing else takes longer with a pair of timed events: two
 * H200, NCCL 2.28.3, 2.28.9 and 2.30.7, the median of eight tables, which agree within 0.5 us.
 * Between two sizes the larger's price holds. A price that is twice too high times half of the
 * windows where all could be timed. */
static const struct {
    uint64_t bytes;
    uint64_t ns;
} table[] = {{64 << 10, 2900}, {1 << 20, 4000}, {UINT64_MAX, 6900}};

/* CPU time that the completion thread spends on a pair: two calls of cuEventElapsedTime. */
enum { READING_NS = 6000 };

uint64_t muster_price_ns(uint64_t bytes, unsigned cpus)
{
    size_t i = 0;
    while (bytes > table[i].bytes)
        i++;
    return table[i].ns + READING_NS / (cpus ? cpus : 1);
}
