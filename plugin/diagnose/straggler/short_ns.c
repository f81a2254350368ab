#include "diagnose/straggler/short_ns.h"

#include "base/array.h"

int32_t muster_shorten_ns(struct muster_long_ns *rest, int64_t ns)
{
    if (ns == MUSTER_NO_NS) {
        return MUSTER_NO_SHORT;
    }
    if (ns > -MUSTER_SHORT_MOST && ns < MUSTER_SHORT_MOST) {
        return (int32_t)ns;
    }
    if (rest->n >= MUSTER_SHORT_MOST || !muster_grow(&rest->ns, rest->n, sizeof *rest->ns)) {
        rest->failed = true;
        return 0;
    }
    rest->ns[rest->n] = ns;
    return MUSTER_SHORT_MOST + (int32_t)rest->n++;
}
