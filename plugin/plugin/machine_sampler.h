/*
 * A thread that looks at the machine below the process: once at its GPUs' paths and its network
 * interface, then at a low rate at how the GPUs fare. What it finds goes into the segment's facts.
 * The driver may answer late or never: then this thread hangs, and nobody waits for it.
 */
#ifndef MUSTER_PLUGIN_MACHINE_SAMPLER_H
#define MUSTER_PLUGIN_MACHINE_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "segment/layout.h"

struct muster_sampler;

/* Reads the environment, so on NCCL's thread; starts the thread, "muster-topo". `closed`: it is to
 * end. Both outlive it. */
int muster_sampler_start(struct muster_sampler **sampler, struct muster_segment *segment,
                         const _Atomic bool *closed, struct muster_err *err);

/* A GPU that the process uses, by address ("0000:1b:00.0"); one that is known already, NULL or ""
 * change nothing. Not concurrently with itself. Never waits. */
void muster_sampler_add(struct muster_sampler *sampler, const char *pci);

/* At exit, `closed` being set: waits up to `ms` for a look that is under way, so that the driver's
 * library does not go while it is inside. NULL is accepted. */
void muster_sampler_leave(struct muster_sampler *sampler, unsigned ms);

#endif
