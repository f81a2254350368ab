/*
 * Looking at the segment from inside the process that writes it: the log writer's thread reads
 * what others are changing. The same rules as for readers of the file (segment/seqlock.h).
 */
#ifndef MUSTER_SEGMENT_SNAPSHOT_H
#define MUSTER_SEGMENT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies `bytes`, a multiple of 8, aligned to 8; what changes meanwhile may come out mixed. */
void muster_snapshot(void *to, const void *from, size_t bytes);

/* Copies an entry that begins with its seq; false if it did not stand still. */
bool muster_snapshot_entry(void *to, const void *from, size_t bytes);

#endif
