/*
 * Where findings stand for everybody: a key each in a bucket of JetStream, `finding.<job>.<what>`,
 * whose value is the finding as JSON, and a key `state.<job>` with what is heard of the job. A
 * finding is claimed by making its key: whoever made it emits it, so that it is emitted once
 * however many workers come to find it. The room's findings go to the subject of fleet_name.h, too.
 */
#ifndef MUSTER_FLEET_NATS_BOARD_H
#define MUSTER_FLEET_NATS_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "diagnose/finding.h"
#include "fleet/join.h"
#include "fleet/nats/link.h"
#include "fleet/rank_costs.h"

struct muster_board {
    struct muster_link *link;
    kvStore *leases;   /* MUSTER_FLEET_BUCKET: forgotten after a minute */
    kvStore *findings; /* a week */
};

/* Makes stream and buckets where they are not there yet, if the credentials allow it. `make` false:
 * only looks. Fails without a server, and where one of another version is at work. */
int muster_board_open(struct muster_link *link, bool make, struct muster_board *board,
                      struct muster_err *err);
void muster_board_close(struct muster_board *board);

enum { MUSTER_BOARD_KEY = 2 * MUSTER_FLEET_NAME };
/* What a finding is known by: kind and first rank; of hangs of living ranks communicator and
 * operation. */
void muster_board_key(char to[static MUSTER_BOARD_KEY], const char *job,
                      const struct muster_finding *finding);

/* Whether a finding names more ranks than the JSON of the one that stands there. */
bool muster_board_names_more(const char *json, const struct muster_finding *finding);
/* Claims a new finding, one that names more ranks by now, or marks that one is over. True: it is
 * this worker's to emit; *json, which the caller frees, is its line, *times how often it was over
 * before. */
bool muster_board_claim(struct muster_board *board, const char *job, const char *run_dir,
                        const struct muster_finding *finding, char **json, unsigned *times);
/* Marks a key that stands there as over. */
void muster_board_resolve(struct muster_board *board, const char *job, const char *key);

/* Calls `take` with each finding of a job that stands there: key and JSON, by key. -1: no answer.
 */
typedef void muster_board_take(void *arg, const char *key, const char *json);
int muster_board_read(struct muster_board *board, const char *job, muster_board_take *take,
                      void *arg, struct muster_err *err);

/* What is heard of a job, and its picture (fleet/picture.h). */
void muster_board_state(struct muster_board *board, const struct muster_join *join,
                        const struct muster_rank_costs *costs, uint64_t now_ns, const char *worker);

#endif
