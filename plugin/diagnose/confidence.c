#include "diagnose/confidence.h"

#include <stddef.h>

double muster_confidence_late(uint32_t hits, uint32_t others, uint32_t ranks)
{
    (void)others;
    (void)ranks;
    return hits >= 20 ? 0.99 : 0.95;
}
