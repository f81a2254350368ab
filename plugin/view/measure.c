#include "view/measure.h"

#define NOWHERE SIZE_MAX

/* The operation of a communicator before the one at hand. */
struct previous {
    uint64_t *begin_ns; /* of each member; 0: not timed */
    uint64_t number;
    size_t place;
};

enum muster_measure muster_measure_of(bool beats, uint8_t before, uint8_t after)
{
    if (beats)
        return MUSTER_MEASURE_BEAT;
    bool rings = before == MUSTER_ALGO_RING && after == MUSTER_ALGO_RING;
    return rings ? MUSTER_MEASURE_CLOCK : MUSTER_MEASURE_NONE;
}

static double clock_us(const struct muster_joint *joint)
{
    unsigned func = joint->any->func;
    bool rooted = func == MUSTER_FUNC_BROADCAST || func == MUSTER_FUNC_REDUCE;
    struct muster_joint_span span = muster_joint_span(joint);
    return (double)(rooted ? span.longest_ns : span.shortest_ns) / 1000;
}

/* What passed since the previous operation began, if this is the next. */
static int report_beat(const struct muster_measure_reader *reader, const struct muster_joint *joint,
                       const struct previous *previous)
{
    double sum_us = 0;
    unsigned n = 0;
    if (previous->place == NOWHERE || joint->any->number != previous->number + 1)
        return 0;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        uint64_t before = previous->begin_ns[i];
        if (joint->op[i] && before && joint->op[i]->begin_ns > before) {
            sum_us += (double)(joint->op[i]->begin_ns - before) / 1000;
            n++;
        }
    }
    return n ? reader->followed(reader->to, previous->place, sum_us / n) : 0;
}

static int read_op(const struct muster_measure_reader *reader, const struct muster_joint *joint,
                   struct previous *previous)
{
    /* Replays have numbers of their own. */
    bool graph = joint->any->flags & MUSTER_OP_GRAPH;
    if (!graph && report_beat(reader, joint, previous))
        return -1;
    previous->number = joint->any->number;
    previous->place = NOWHERE;
    for (uint32_t i = 0; i < joint->comm->members; i++)
        previous->begin_ns[i] = joint->op[i] ? joint->op[i]->begin_ns : 0;
    int rc = reader->timed(reader->to, joint, clock_us(joint), &previous->place);
    previous->place = graph ? NOWHERE : previous->place;
    return rc;
}

static int read_comm(const struct muster_measure_reader *reader, const struct muster_view *view,
                     uint32_t comm, struct muster_arena *memory)
{
    struct muster_joint joint;
    struct previous previous = {.place = NOWHERE};
    size_t members = view->comm[comm].members;
    int rc = 0;
    previous.begin_ns = muster_arena_array(memory, members, sizeof *previous.begin_ns);
    muster_joint_begin(&joint, view, comm, NULL, memory);
    while (rc == 0 && muster_joint_next(&joint))
        rc = read_op(reader, &joint, &previous);
    return memory->failed ? -1 : rc;
}

int muster_measure_read(const struct muster_view *view, const struct muster_measure_reader *reader)
{
    struct muster_arena memory = {0};
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < view->comms; i++)
        if (muster_joint_possible(&view->comm[i]))
            rc = read_comm(reader, view, i, &memory);
    muster_arena_free(&memory);
    return rc;
}
