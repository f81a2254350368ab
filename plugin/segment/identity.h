/* Who records: from the environment, /proc and the launcher's variables. */
#ifndef MUSTER_SEGMENT_IDENTITY_H
#define MUSTER_SEGMENT_IDENTITY_H

#include "base/err.h"
#include "segment/layout.h"

/* Fills everything but run_dir, nccl, api, timing, mark, armed and gpu_name. Reads the
 * environment: call it where no other thread can be changing that, once. */
void muster_identity_read(struct muster_seg_identity *identity);

/* Chooses the run directory (docs/interface.md) as an absolute path, without making it.
 * `configured`: MUSTER_DIR or capture.dir, "" for none. `comm_hash`: the process's first
 * communicator. */
int muster_run_dir_choose(char *dir, size_t size, const char *configured, uint64_t comm_hash,
                          struct muster_err *err);

#endif
