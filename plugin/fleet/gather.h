/*
 * One job on this host, as the messages of the wire format: reads its segments, keeps what was not
 * sent yet within bounds, and sends as much each half second as a rank has bytes for. A message is
 * made once and never blocks on anybody. One thread.
 */
#ifndef MUSTER_FLEET_GATHER_H
#define MUSTER_FLEET_GATHER_H

#include "fleet/wire.h"
#include "segment/reap.h"

/* What a rank may use in a second: of timed operations as a rule, of all else; of both.
 * The head of a message, some 35 bytes, is its host's. */
enum { MUSTER_GATHER_BYTES = 130, MUSTER_GATHER_BYTES_ALL = 2 * MUSTER_GATHER_BYTES };

struct muster_gather;

/* Where messages are put together, half a megabyte: one for all jobs of a thread. To be freed by
 * free(). NULL: no memory. */
struct muster_publisher_parts *muster_gather_parts_new(void);

/* `who`: one of its processes; `instance`: of the agent; `parts` outlive it. NULL: no memory. */
struct muster_gather *muster_gather_new(const struct muster_seg_identity *who, uint32_t uid,
                                        uint64_t instance, struct muster_publisher_parts *parts);
void muster_gather_free(struct muster_gather *gather);
bool muster_gather_is(const struct muster_gather *gather, const struct muster_seg_identity *who,
                      uint32_t uid);
/* Whether the segment at `path` was found to be one of the job's, as it was read last. */
bool muster_gather_has(const struct muster_gather *gather, const char *path, uint32_t uid);
const char *muster_gather_run_dir(const struct muster_gather *gather);
uint32_t muster_gather_uid(const struct muster_gather *gather);
/* fleet_name.h */
const char *muster_gather_name(const struct muster_gather *gather);

/* Looks who there is among the job's segments that were found, each second. Returns how many are
 * still to be reported, those that have just ended included. */
size_t muster_gather_look(struct muster_gather *gather, const struct muster_found *found, size_t n,
                          uint64_t now_ns);
/* Takes what is new in the rings that may go round before the next message: half way between two.
 */
void muster_gather_take(struct muster_gather *gather, uint64_t now_ns);

/* Takes what is new in all rings and appends the next message, about as much as half a second
 * allows. `finding`: what holds of this job's late ranks now, for this host's agent; sent when it
 * is other findings than before, and again. Fails without memory. */
void muster_gather_publish(struct muster_gather *gather, uint64_t now_ns, uint64_t unix_ns,
                           struct muster_finding *finding, size_t findings,
                           struct muster_wire_out *out);

#endif
