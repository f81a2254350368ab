#include "segment/layout.h"

const char *muster_drop_word(unsigned drop)
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
    };
    return drop < MUSTER_DROPS ? words[drop] : "unknown";
}

const char *muster_exit_word(unsigned exit_state)
{
    switch (exit_state) {
    case MUSTER_EXIT_OPEN:
        return "open";
    case MUSTER_EXIT_EXITED:
        return "exited";
    case MUSTER_EXIT_FINALIZED:
        return "finalized";
    default:
        return "unknown";
    }
}

const char *muster_policy_state_word(unsigned state)
{
    static const char *const words[MUSTER_POLICY_STATES] = {
        [MUSTER_POLICY_NONE] = "none",
        [MUSTER_POLICY_ACTIVE] = "active",
        [MUSTER_POLICY_INVALID] = "invalid",
        [MUSTER_POLICY_REFUSED] = "refused",
    };
    return state < MUSTER_POLICY_STATES ? words[state] : "unknown";
}
