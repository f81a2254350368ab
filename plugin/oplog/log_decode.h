/* Decoding the payload of one frame whose CRC was right. */
#ifndef MUSTER_OPLOG_LOG_DECODE_H
#define MUSTER_OPLOG_LOG_DECODE_H

#include "oplog/log_reader.h"

/* Appends what the frame holds to the log; false: its contents are no frame of this version (its
 * operations are taken back) or there is no memory. `class`: scratch of MUSTER_LOG_CLASSES. */
bool muster_log_decode(struct muster_log *log, const struct muster_log_frame *frame,
                       const uint8_t *payload, struct muster_log_class *class);

#endif
