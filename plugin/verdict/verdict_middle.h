/* A job that ended before its work was done. */
#ifndef MUSTER_VERDICT_VERDICT_MIDDLE_H
#define MUSTER_VERDICT_VERDICT_MIDDLE_H

#include "verdict/verdict_writer.h"

/* Where the ranks of a communicator are all seen and have all ended, and one called less often than
 * the others: prints so, with who was killed or crashed while others were not. `clean`: nobody held
 * the job back until then. Returns whether there was anything to print. */
bool muster_verdict_write_middle(struct muster_verdict_writer *writer,
                                 const struct muster_view *view, bool clean);

#endif
