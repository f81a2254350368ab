/* Where a server listens, as people write it. */
#ifndef MUSTER_AGENT_LISTEN_ADDRESS_H
#define MUSTER_AGENT_LISTEN_ADDRESS_H

#include <stddef.h>

#include "base/err.h"

/* A listening socket of ADDR:PORT, [ADDR]:PORT or :PORT; -1, with err. `name` becomes where it
 * really listens, as a client may write it. */
int muster_listen_open(const char *where, char *name, size_t size, struct muster_err *err);

#endif
