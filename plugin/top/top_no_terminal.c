/* A build without ncurses. */
#include "top/top_terminal.h"

int muster_top_terminal(const struct muster_top_source *source, size_t job, uint64_t interval_ns,
                        struct muster_err *err)
{
    (void)source;
    (void)job;
    (void)interval_ns;
    return muster_fail(err, "this build has no screen, as ncurses was not there; "
                            "`muster top --once` prints one");
}
