/*
 * What operations take, as `muster tune` and `muster policy simulate` evaluate it. The beat: from
 * the start of an operation to that of its communicator's next one, each rank by its own clock, the
 * mean over ranks. It is what the operation costs the job, however its ranks end. The clock: what
 * the quickest rank shows, which waited for nobody; of a broadcast or reduce, whose ranks do not
 * end together, what the slowest one shows. Where ranks end one after the other, as in a tree, the
 * clock is that of a part of the operation.
 */
#ifndef MUSTER_VIEW_MEASURE_H
#define MUSTER_VIEW_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/aligned.h"

enum muster_measure {
    MUSTER_MEASURE_NONE, /* nothing to compare */
    MUSTER_MEASURE_BEAT,
    MUSTER_MEASURE_CLOCK,
    MUSTER_MEASURES
};

/* Operations that a median rests on, at least: two disturbed ones among five move it. */
enum { MUSTER_MEASURE_OPS = 10 };

/* What a comparison of two algorithms (enum muster_algo) rests on: the beat where both sides have
 * one. Else the clock stands in, from ring to ring only, whose ranks end together. */
enum muster_measure muster_measure_of(bool beats, uint8_t before, uint8_t after);

struct muster_measure_reader {
    void *to;
    /* An operation that several ranks timed, and its clock. Sets *place to what it belongs to, an
     * index of its own choice, or leaves it alone: its beat is not wanted. -1: no memory. */
    int (*timed)(void *to, const struct muster_joint *joint, double us, size_t *place);
    /* The beat of an operation of that place. -1: no memory. */
    int (*followed)(void *to, size_t place, double us);
};

/* All communicators, one after the other, in the order of their operations. -1: no memory. */
int muster_measure_read(const struct muster_view *view, const struct muster_measure_reader *reader);

#endif
