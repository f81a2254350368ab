/*
 * One process of a job as an agent follows it: how far each of its communicators has come, what of
 * that was sent and when, and operations that wait to be sent. One thread.
 */
#ifndef MUSTER_FLEET_PUBLISHER_H
#define MUSTER_FLEET_PUBLISHER_H

#include "base/clock.h"
#include "diagnose/live/live_peers.h"
#include "fleet/class_table.h"
#include "fleet/gather.h"
#include "fleet/thinning.h"
#include "run/op_window.h"

/* Who reads a kept minute from anywhere on has met everything twice. */
#define MUSTER_PUBLISH_AGAIN_NS (20 * MUSTER_NS_PER_S)

/* What was sent of one communicator; beside the entry of its segment. */
struct muster_published {
    uint32_t uid;
    uint64_t mark, moved_ns; /* changes with every call and end; since when it is that */
    uint64_t placed;         /* the mark that was sent */
    uint64_t described_ns, still_ns;
};

struct muster_publisher {
    char *path;
    int fd; /* of its segment, kept from look to look; -1: none */
    struct muster_seg_identity identity;
    bool seen, alive;
    bool fresh;       /* something was taken since it was published last */
    uint64_t gone_ns; /* when it was first seen to be over */
    uint64_t next, missing;
    uint64_t quick_until_ns; /* its ring is read between messages, too; 0: nothing is known yet */
    struct muster_window window; /* operations to be sent */
    struct muster_thinning thinning;
    struct muster_class_table class;
    struct muster_published published[MUSTER_SEG_COMMS];
    unsigned entries;                    /* of them that were ever in use */
    uint64_t nets_ns;                    /* when links were sent last */
    uint64_t net_count[MUSTER_SEG_NETS]; /* that was sent of each */
    unsigned net_turn;
    unsigned turn;       /* communicator that comes first this time */
    int64_t ops_left;    /* bytes, of operations as a rule */
    int64_t places_left; /* of all else, as it was sent */
    int64_t left;        /* of both, as they were sent */
    uint64_t filled_ns, described_ns;
};

/* Where a message's parts are put together: as large as the largest. */
struct muster_publisher_parts {
    int fd; /* of the segment that is read just now */
    struct muster_live_table table;
    struct muster_wire_comm comm[MUSTER_SEG_COMMS];
    struct muster_wire_slot slot[MUSTER_WIRE_SLOTS];
    struct muster_seg_net net[MUSTER_SEG_NETS], published_net[MUSTER_SEG_NETS];
    struct muster_wire_class class[MUSTER_WIRE_CLASSES];
    struct muster_wire_op op[MUSTER_WIRE_OPS];
    struct muster_op ring[MUSTER_SEG_RING];
};

/* Between two messages: takes what is new in its ring, if that may go round before the next. */
void muster_publisher_take(struct muster_publisher *publisher, struct muster_publisher_parts *parts,
                           uint64_t now_ns);
/* Takes what is new in its ring; what is to be sent now; its arrays are `parts`'s. False: it cannot
 * be read yet. It is chosen by what it takes as a rule; what it does take is to be charged once it
 * stands on the wire. */
bool muster_publisher_publish(struct muster_publisher *publisher,
                              struct muster_publisher_parts *parts, uint64_t now_ns,
                              struct muster_wire_process *process);
/* So many bytes were sent of operations, of all else: what operations take beyond their share is
 * taken from the other, so that both together hold. */
void muster_publisher_charge(struct muster_publisher *publisher, size_t ops, size_t rest);
/* It is opened anew where it is read next: it may have been archived, or replaced. */
void muster_publisher_let_go(struct muster_publisher *publisher);
void muster_publisher_free(struct muster_publisher *publisher);

#endif
