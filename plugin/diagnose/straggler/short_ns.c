#include "diagnose/straggler/short_ns.h"

int32_t muster_shorten_long_ns(struct muster_long_ns *rest, int64_t ns)
{
    if (ns == MUSTER_NO_NS)
        return MUSTER_NO_SHORT;
    rest->memory->failed |= rest->n >= MUSTER_SHORT_MOST;
    if (rest->memory->failed)
        return 0;
    int64_t *own = muster_arena_add(rest->memory, &rest->ns, &rest->n, sizeof *own);
    *own = ns;
    return rest->memory->failed ? 0 : MUSTER_SHORT_MOST + (int32_t)(rest->n - 1);
}
