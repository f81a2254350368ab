/*
 * The log in the run directory: every operation in at most 32 bytes, and each second what changed
 * in the image. A thread of its own writes it, because a shared file system may stall; the
 * thread is never joined. Format: docs/formats.md.
 */
#ifndef MUSTER_OPLOG_LOG_WRITER_H
#define MUSTER_OPLOG_LOG_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "segment/artifact.h"
#include "segment/segment_file.h"

struct muster_log_writer;

struct muster_log_options {
    uint64_t max_bytes; /* the size of the file; beyond it the newest operations replace the oldest;
                           0: no log, and the thread only archives */
    bool named; /* the user named the run directory: it may be somebody else's. One that muster
                   chose is refused then: others may guess its name */
};

/* Starts the thread: signals blocked, named "muster-log". Nothing here waits for a file system; the
 * thread first makes the directory (0700) if it is missing and opens <run_dir>/<file_stem>.log
 * (O_EXCL, 0600); not writable: ${TMPDIR:-/tmp}/<name of the run directory>, and identity.run_dir
 * in the segment is changed to it (one warning names where; another that neither can be written,
 * and then there is no log). It reaps segments of dead processes of this user, then writes once a
 * second. `file` is copied; its map stays for good. err: no thread, no memory. */
int muster_log_writer_start(struct muster_log_writer **writer,
                            const struct muster_segment_file *file,
                            const struct muster_log_options *options, struct muster_err *err);

/* Hands over one retired operation. One caller (the drain thread); never blocks; false where there
 * is no log, or the queue is full: that counts in segment.lost_log. */
bool muster_log_put(struct muster_log_writer *writer, const struct muster_op *op);

/* Takes over a text and keeps it in the run directory: segment/artifact.h. Any thread, once a
 * writer; false: it has one already, and the text stays the caller's. */
bool muster_log_writer_keep(struct muster_log_writer *writer, struct muster_artifact *kept);

/* At exit: writes what is queued and archives the segment, waiting at most `deadline_ms`. The
 * thread is left behind if the file system stalls; a line reports it where the segment is gone with
 * the process. NULL is accepted. False: not everything was written. */
bool muster_log_writer_finish(struct muster_log_writer *writer, unsigned deadline_ms);

#endif
