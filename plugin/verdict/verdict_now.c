#include "verdict/verdict_now.h"

#include <stdio.h>
#include <string.h>

#include "diagnose/whereabouts.h"

/* Longer than steps of training take between collectives as a rule, short beside the 10 s after
 * which a hang is called one. Of a healthy job whose steps are longer it reads the same at 1 s, and
 * at 5 s somebody who looks at a hang has half as long to see it. */
enum { LONG_S = 2 };

/* Those that wait in the same operation for the same ranks. */
struct waiting {
    struct muster_whereabout one; /* the one that has waited longest */
    int32_t rank[MUSTER_VERDICT_RANKS_SHOWN];
    size_t ranks;   /* may be more than are shown */
    double since_s; /* all of them have waited that long */
};

static bool waits_long(const struct muster_whereabout *one)
{
    return (one->where == MUSTER_WHERE_WAITS || one->where == MUSTER_WHERE_CALLS) &&
           one->since_s >= LONG_S;
}

static bool waits_alike(const struct muster_whereabout *one, const struct muster_whereabout *other)
{
    return one->comm == other->comm && one->unseen == other->unseen &&
           strcmp(one->waits, other->waits) == 0 &&
           strcmp(muster_whereabout_in(one), muster_whereabout_in(other)) == 0;
}

static void add(struct waiting *waiting, const struct muster_whereabout *one)
{
    if (waiting->ranks < MUSTER_VERDICT_RANKS_SHOWN)
        waiting->rank[waiting->ranks] = one->rank;
    if (!waiting->ranks++ || one->since_s < waiting->since_s)
        waiting->since_s = one->since_s;
}

/* Who has waited longest for somebody, with those that wait like it. */
static struct waiting find_waiting(const struct muster_whereabouts *all)
{
    struct waiting found = {0};
    const struct muster_whereabout *longest = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct muster_whereabout *one = &all->rank[i];
        bool for_somebody = one->waits[0] || one->unseen;
        if (waits_long(one) && for_somebody && (!longest || one->since_s > longest->since_s))
            longest = one;
    }
    for (size_t i = 0; longest && i < all->n; i++)
        if (waits_long(&all->rank[i]) && waits_alike(&all->rank[i], longest))
            add(&found, &all->rank[i]);
    if (longest)
        found.one = *longest;
    return found;
}

/* All that live are in one operation, and nobody is missing there. */
static struct waiting find_stuck(const struct muster_whereabouts *all)
{
    struct waiting found = {0};
    for (size_t i = 0; i < all->n && all->rank[i].where != MUSTER_WHERE_GONE; i++) {
        const struct muster_whereabout *one = &all->rank[i];
        bool alike = i == 0 || waits_alike(one, &all->rank[0]);
        if (!alike || !waits_long(one) || one->where != MUSTER_WHERE_WAITS || one->waits[0])
            return (struct waiting){0};
        add(&found, one);
        found.one = *one;
    }
    return found;
}

static void put_waiting(struct muster_verdict_writer *writer, const struct waiting *waiting)
{
    char who[96], whom[160], op[64];
    const char *have = waiting->ranks == 1 ? "has" : "have";
    muster_verdict_put_ranks(who, sizeof who, "R", waiting->rank, waiting->ranks);
    muster_whereabout_for(&waiting->one, whom, sizeof whom);
    snprintf(op, sizeof op, "%s", muster_whereabout_in(&waiting->one));
    op[strcspn(op, "(")] = '\0'; /* without its size; a space stays */
    if (whom[0]) {
        muster_verdict_put(writer, "%s %s waited %.0f s in %sfor %s; not yet called a hang.", who,
                           have, waiting->since_s, op, whom);
        muster_verdict_put(writer, "%s %s waited %.0f s for %s; no hang yet.", who, have,
                           waiting->since_s, whom);
        muster_verdict_put(writer, "Waiting %.0f s for %s; no hang yet.", waiting->since_s, whom);
    } else {
        muster_verdict_put(writer, "%s %s been in %sfor %.0f s; not yet called a hang.", who, have,
                           op, waiting->since_s);
        muster_verdict_put(writer, "All are in %sfor %.0f s; no hang yet.", op, waiting->since_s);
    }
    muster_verdict_end_line(writer);
    muster_verdict_put(
        writer,
        "Next: look again in some seconds; a hang is named after MUSTER_HANG_SECONDS (10).");
    muster_verdict_put(writer, "Next: look again in some seconds.");
    muster_verdict_end_line(writer);
}

bool muster_verdict_write_now(struct muster_verdict_writer *writer, const struct muster_view *view)
{
    struct muster_whereabouts all = {0};
    struct muster_err err;
    struct waiting waiting = {0};
    if (!view->run)
        return false;
    if (muster_whereabouts_of(view, &all, &err)) {
        writer->memory.failed = true;
    } else {
        waiting = find_waiting(&all);
        if (!waiting.ranks)
            waiting = find_stuck(&all);
    }
    if (waiting.ranks)
        put_waiting(writer, &waiting);
    muster_whereabouts_free(&all);
    return waiting.ranks > 0;
}
