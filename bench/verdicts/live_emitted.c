#include "live_emitted.h"

#include <stdlib.h>

#include "diagnose/finding_changes.h"

void live_run_note(struct live_run *run, const struct muster_finding *finding, double at_s)
{
    for (size_t i = 0; i < run->n && finding->retracted; i++)
        run->emitted[i].retracted |= muster_watch_same(&run->emitted[i].finding, finding);
    if (finding->retracted || finding->resolved)
        return;
    if (run->n == run->room) {
        run->room = run->room ? 2 * run->room : 16;
        run->emitted = realloc(run->emitted, run->room * sizeof *run->emitted);
        if (!run->emitted)
            exit(2);
    }
    run->emitted[run->n++] = (struct live_emitted){*finding, at_s, false};
}

void live_run_free(struct live_run *run)
{
    free(run->emitted);
    *run = (struct live_run){0};
}
