#include "segment/layout.h"

#define ENTRIES(of)                                                                                \
    (sizeof(((struct muster_segment *)0)->of) / sizeof(((struct muster_segment *)0)->of[0]))
#define TABLE(of, first, last)                                                                     \
    {                                                                                              \
        offsetof(struct muster_segment, of), sizeof(((struct muster_segment *)0)->of[0]),          \
            ENTRIES(of), first, last                                                               \
    }

const struct muster_seg_table muster_seg_table[MUSTER_SEG_TABLES] = {
    TABLE(comm, 0, 1),
    TABLE(row, MUSTER_FUNCS, 0),
    TABLE(net, 2, 0),
    {offsetof(struct muster_segment, facts.head), sizeof(struct muster_fact_head), 1, 1, 0},
    TABLE(facts.gpu, ENTRIES(facts.gpu), 0),
    TABLE(facts.use, ENTRIES(facts.use), 0),
};

const char *muster_drop_name(unsigned drop)
{
    static const char *const words[MUSTER_DROPS] = {
        [MUSTER_DROP_NO_SLOT] = "no_slot",
        [MUSTER_DROP_NO_COMM] = "no_comm",
        [MUSTER_DROP_STALE] = "stale_handle",
        [MUSTER_DROP_FOREIGN] = "foreign_handle",
        [MUSTER_DROP_TIME_ORDER] = "time_order",
        [MUSTER_DROP_TIME_LONG] = "time_too_long",
        [MUSTER_DROP_TIME_BACK] = "time_backwards",
        [MUSTER_DROP_CHANNEL] = "channel",
        [MUSTER_DROP_NO_PROXY_SLOT] = "no_proxy_slot",
        [MUSTER_DROP_INCOMPLETE] = "incomplete",
        [MUSTER_DROP_NO_EVENT] = "no_event",
        [MUSTER_DROP_TIME_RING] = "time_ring",
    };
    return drop < MUSTER_DROPS ? words[drop] : "unknown";
}

const char *muster_policy_state_name(unsigned state)
{
    static const char *const words[MUSTER_POLICY_STATES] = {
        [MUSTER_POLICY_NONE] = "none",
        [MUSTER_POLICY_ACTIVE] = "active",
        [MUSTER_POLICY_INVALID] = "invalid",
        [MUSTER_POLICY_REFUSED] = "refused",
    };
    return state < MUSTER_POLICY_STATES ? words[state] : "unknown";
}
