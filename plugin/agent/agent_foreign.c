#include "agent/agent_foreign.h"

#include <stdbool.h>

#include "segment/foreign_format.h"
#include "segment/layout.h"

static bool is_logged(const struct muster_agent_foreign *foreign, uint32_t format)
{
    for (unsigned i = 0; i < foreign->formats; i++)
        if (foreign->logged[i] == format)
            return true;
    return false;
}

static void put_line(const struct muster_found *found, uint32_t format, FILE *log)
{
    fprintf(
        log,
        "muster agent: %s: segment format %u, this muster reads %u: that job runs the plugin of %s "
        "muster. Nothing is shown of such jobs until they start with this one's%s\n",
        found->path, format, MUSTER_SEG_VERSION,
        format < MUSTER_SEG_VERSION ? "an older" : "a newer",
        format < MUSTER_SEG_VERSION ? "; an agent of theirs may run beside this one"
                                    : ", or this one is updated");
    fflush(log);
}

void muster_agent_foreign_look(struct muster_agent_foreign *foreign,
                               const struct muster_found *found, size_t n, FILE *log)
{
    for (size_t i = 0; i < n && foreign->formats < MUSTER_AGENT_FORMATS; i++) {
        uint32_t format = found[i].alive ? muster_segment_foreign_format(found[i].path) : 0;
        if (!format || is_logged(foreign, format))
            continue;
        foreign->logged[foreign->formats++] = format;
        put_line(&found[i], format, log);
    }
}
