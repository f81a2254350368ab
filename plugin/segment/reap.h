/* Segments whose process died before it could put them into its run directory. */
#ifndef MUSTER_SEGMENT_REAP_H
#define MUSTER_SEGMENT_REAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* One segment in a segment directory. */
struct muster_found {
    char *path;   /* of the .seg */
    bool alive;   /* somebody holds its lock */
    bool own;     /* it is the calling process's: its lock must not be touched */
    uint32_t uid; /* whose file it is, by the kernel */
};

/* The segments of this user in `dir`. A directory that cannot be read has none. The caller frees
 * with muster_found_free. errno is ENOMEM afterwards if there was no memory for all, else 0. Never
 * opens the lock of the calling process: closing it would give the lock up. */
size_t muster_find_segments(const char *dir, struct muster_found **found);
/* The same of all users whose segments this process may read, as root or another who may read
 * everything can: for looking only. What another user's name stands in, but who does not own it, is
 * left out. */
size_t muster_find_all_segments(const char *dir, struct muster_found **found);
void muster_found_free(struct muster_found *found, size_t n);

/* Whether somebody holds the lock of the segment at `path`, which is not the calling process's. */
bool muster_segment_is_alive(const char *path);

/* Moves a dead process's segment into its run directory. 0: done; 1: another process is at it, or
 * it has come alive; -1: it stays, and err has why. */
int muster_reap_one(const char *path, struct muster_err *err);

/* Reaps every dead segment of this user in `dir`: into its run directory if that is absolute,
 * exists and is this user's; what has no such place is kept seven days. Locks without a segment
 * are removed. Called by the log writer's thread; blocks on file systems. */
void muster_reap(const char *dir);

#endif
