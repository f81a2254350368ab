#include "diagnose/live/live_run.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "diagnose/hang/hang.h"
#include "run/refresh.h"
#include "segment/identity.h"
#include "view/view.h"

enum {
    OPS_ALL = 32768,  /* in all windows together */
    TAKE_SHARE = 500, /* one part in so many of a processor's time is for taking */
};
#define PAUSE_LEAST_NS (100 * MUSTER_NS_PER_MS)
#define PAUSE_MOST_NS  MUSTER_NS_PER_S

struct muster_live_run {
    struct muster_process *known; /* of peer i; refreshed, or not begun */
    size_t n, host;
    struct muster_process *shown; /* some of them, as `run` has them */
    struct muster_run run;
    uint64_t timed; /* by those that are gone */
    uint64_t taken_ns;
    struct muster_op ring[MUSTER_SEG_RING]; /* scratch */
};

struct muster_live_run *muster_live_run_new(void)
{
    return calloc(1, sizeof(struct muster_live_run));
}

static void forget(struct muster_live_run *live, struct muster_process *known)
{
    live->timed += known->refreshed ? known->refreshed->window.timed : 0;
    muster_process_free(known);
    *known = (struct muster_process){.segment = NULL};
}

void muster_live_run_free(struct muster_live_run *live)
{
    if (!live)
        return;
    for (size_t i = 0; i < live->n; i++)
        forget(live, &live->known[i]);
    free(live->known);
    free(live->shown);
    free(live);
}

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static bool make_room(struct muster_live_run *live, size_t n)
{
    while (live->n < n) {
        if (!muster_grow(&live->known, live->n, sizeof *live->known) ||
            !muster_grow(&live->shown, live->n, sizeof *live->shown))
            return false;
        live->known[live->n++] = (struct muster_process){.segment = NULL};
    }
    return true;
}

void muster_live_run_share(struct muster_live_run *live, size_t host)
{
    live->host = host;
}

/* ---- taking ---- */

/* How many operations it went on by. */
static uint64_t take_one(struct muster_live_run *live, size_t i, const char *path)
{
    struct muster_process *known = &live->known[i];
    size_t most = muster_window_share(OPS_ALL, live->host > live->n ? live->host : live->n);
    if (!known->refreshed && !muster_process_begin_refresh(known, most, 0))
        return 0;
    return muster_process_take_ring(known, path, most, live->ring);
}

uint64_t muster_live_run_take(struct muster_live_run *live, const struct muster_live_peers *peers)
{
    uint64_t now = muster_now_ns(), cost = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID), went = 0;
    uint64_t passed = live->taken_ns ? now - live->taken_ns : PAUSE_MOST_NS;
    if (!make_room(live, peers->n))
        return PAUSE_MOST_NS;
    for (size_t i = 0; i < peers->n; i++) {
        if (!peers->peer[i].alive) {
            forget(live, &live->known[i]);
            continue;
        }
        uint64_t one = take_one(live, i, peers->peer[i].path);
        went = one > went ? one : went;
    }
    live->taken_ns = now;
    cost = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cost;
    /* Two thirds of a ring, at the pace of the quickest. */
    uint64_t pause = went ? passed * (MUSTER_SEG_RING * 2 / 3) / went : PAUSE_MOST_NS;
    uint64_t least = within(TAKE_SHARE * cost, PAUSE_LEAST_NS, PAUSE_MOST_NS);
    return within(pause, least, PAUSE_MOST_NS);
}

uint64_t muster_live_run_timed(const struct muster_live_run *live, size_t *processes)
{
    uint64_t sum = live->timed;
    *processes = 0;
    for (size_t i = 0; i < live->n; i++) {
        const struct muster_refreshed *refreshed = live->known[i].refreshed;
        sum += refreshed ? refreshed->window.timed : 0;
        *processes += refreshed && refreshed->window.timed > 0;
    }
    return sum;
}

/* ---- the run ---- */

static const struct muster_run *run_of(struct muster_live_run *live, size_t processes)
{
    live->run = (struct muster_run){.process = live->shown, .processes = processes};
    return &live->run;
}

const struct muster_run *muster_live_run_latest(struct muster_live_run *live,
                                                const struct muster_live_peers *peers)
{
    size_t n = 0;
    if (!make_room(live, peers->n))
        return NULL;
    for (size_t i = 0; i < peers->n; i++) {
        struct muster_process *known = &live->known[i];
        if (known->ops > 0 && muster_process_read_tables(known, peers->peer[i].path, false))
            live->shown[n++] = *known;
    }
    return run_of(live, n);
}

/* False: it cannot be read. */
static bool show_standing(struct muster_live_run *live, size_t i,
                          const struct muster_live_peer *peer, struct muster_process *to)
{
    char archived[MUSTER_SEG_PATH + 300];
    const char *path = peer->path;
    if (!peer->alive && !peer->seen) {
        muster_identity_file(&peer->identity, ".seg", archived, sizeof archived);
        path = archived;
    }
    return muster_process_show_standing(&live->known[i], path, peer->alive, live->ring, to);
}

const struct muster_run *muster_live_run_standing(struct muster_live_run *live,
                                                  const struct muster_live_peers *peers,
                                                  bool living)
{
    size_t n = 0;
    if (!make_room(live, peers->n))
        return NULL;
    for (size_t i = 0; i < peers->n; i++)
        if (peers->peer[i].alive || !living)
            n += show_standing(live, i, &peers->peer[i], &live->shown[n]);
    return run_of(live, n);
}

void muster_live_run_end_standing(struct muster_live_run *live)
{
    for (size_t i = 0; i < live->run.processes; i++)
        muster_process_end_standing(&live->shown[i]);
    run_of(live, 0);
}

bool muster_live_run_hangs(struct muster_live_run *live, const struct muster_live_peers *peers,
                           uint64_t hang_ns, bool first, struct muster_findings *findings)
{
    struct muster_view view;
    const struct muster_run *run = muster_live_run_standing(live, peers, false);
    bool whole = run && muster_view_of_run_aligned(run, &view, NULL) == 0;
    if (whole) {
        whole = muster_hang_find(&view, hang_ns, first, findings);
        muster_view_free(&view);
    }
    if (run)
        muster_live_run_end_standing(live);
    return whole;
}
