/* What the log says once a second about a living segment. The log writer's thread only. */
#ifndef MUSTER_SEGMENT_LOG_STATE_H
#define MUSTER_SEGMENT_LOG_STATE_H

#include "segment/log_format.h"
#include "segment/table.h"

struct muster_log_states {
    struct muster_segment *segment;
    uint64_t told[MUSTER_SEG_COMMS]; /* hash of what was last told of an entry; 0: nothing */
    struct {
        uint32_t uid;
        uint32_t word; /* slot_state when it was seen */
    } busy[MUSTER_SEG_SLOTS];
    struct muster_log_comm *comm; /* every communicator met so far */
    size_t comms;
    struct muster_uid_index index;
    struct muster_log_pending pending[MUSTER_LOG_OUTSTANDING];
};

void muster_log_states_free(struct muster_log_states *states);

/* The communicator; NULL for `other` and for one that has left the segment before it was met. */
const struct muster_log_comm *muster_log_states_comm(struct muster_log_states *states,
                                                     uint32_t uid);

void muster_log_states_process(const struct muster_log_states *states,
                               struct muster_log_process_state *state);

/* Looks at all slots; before a round of muster_log_states_next. */
void muster_log_states_scan(struct muster_log_states *states);

/* The first entry from *entry on that changed since it was told. state->pending points into
 * states. False: there is none. */
bool muster_log_states_next(struct muster_log_states *states, unsigned *entry,
                            struct muster_log_comm_state *state, uint64_t *hash);
/* That state stands in the log. */
void muster_log_states_told(struct muster_log_states *states, unsigned entry, uint64_t hash);
/* Everything is to be told again, because the log gives up where it stands. */
void muster_log_states_forget(struct muster_log_states *states);

#endif
