/*
 * Another profiler beside muster: MUSTER_CHAIN. NCCL has room for one, so muster takes the call,
 * does its own part, and calls the other with contexts, parents and handles of the other's own, in
 * the newest interface that both it and NCCL have. Either gets what it asked for and what that
 * brings along, as NCCL would; NCCL is asked for what both want.
 *
 * What NCCL holds of an event is muster's handle where the other has none, else the name of a pair
 * (chain_pairs.h). One chain a process; it is never freed, because NCCL's threads call to the end.
 */
#ifndef MUSTER_CHAIN_CHAIN_H
#define MUSTER_CHAIN_CHAIN_H

#include "base/err.h"
#include "nccl/profiler_hooks.h"

/* Loads the other profiler by the name or path that NCCL_PROFILER_PLUGIN would have. NULL with the
 * reason: it cannot be loaded, it is muster itself, or memory ran out. */
const struct nccl_profiler_beside *muster_chain_open(const char *name, struct muster_err *err);

#endif
