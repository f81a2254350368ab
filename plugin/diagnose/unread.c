#include "diagnose/unread.h"

#include <inttypes.h>

#include "base/vocab.h"

/* The ranks that send leave as soon as they have sent, and only the root has all of it. */
static bool has_no_common_end(unsigned func)
{
    return func == MUSTER_FUNC_REDUCE || func == MUSTER_FUNC_GATHER || func == MUSTER_FUNC_SCATTER;
}

void muster_say_unread(const struct muster_view *view, struct muster_finding_lines *to)
{
    uint64_t unread[MUSTER_FUNCS] = {0};
    for (size_t i = 0; i < view->ops; i++) {
        unsigned func = view->op[i].func;
        if (func < MUSTER_FUNCS && has_no_common_end(func) && muster_view_scored(&view->op[i]))
            unread[func]++;
    }
    for (unsigned func = 0; func < MUSTER_FUNCS; func++) {
        if (unread[func])
            muster_finding_say(to,
                               "%" PRIu64 " timed %s operations are not read: their ranks have no "
                               "common end to be late to",
                               unread[func], muster_func_word(func));
    }
}
