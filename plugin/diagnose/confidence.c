#include "diagnose/confidence.h"

double muster_confidence_late(uint32_t hits, uint32_t others, uint32_t ranks)
{
    (void)others;
    (void)ranks;
    return hits >= 20 ? 0.99 : 0.95;
}

double muster_confidence_transfer(size_t links)
{
    return links > 2 ? 0.99 : 0.95;
}

double muster_confidence_stage(void)
{
    return 0.8;
}
