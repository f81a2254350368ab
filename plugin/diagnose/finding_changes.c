#include "diagnose/finding_changes.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"

enum { LATE_SCANS = 2, SLOW_SCANS = 10, SCANS_TO_DROP = 3 }; /* in a row */

/* Of what was looked at: below is noise to whoever reads it (docs/diagnosis.md). */
#define WORTH_SHARE 0.01
#define WORTH_S     0.01

/* Of two ranks one host is slower than the other for some seconds, and then the other one. */
#define AGAINST_ONE_NS (10 * MUSTER_NS_PER_S)

static bool is_slow(const struct muster_finding *finding)
{
    return muster_finding_rows[finding->kind].scope == MUSTER_SCOPE_SLOW;
}

static bool is_over(const struct muster_finding *finding)
{
    return finding->resolved || finding->retracted;
}

static bool names(const struct muster_finding *finding, int32_t rank)
{
    for (unsigned i = 0; i < finding->ranks; i++)
        if (finding->rank[i] == rank)
            return true;
    return false;
}

/* A process goes once, whatever others wait for it in afterwards, and who goes with it. */
static bool same_death(const struct muster_finding *a, const struct muster_finding *b)
{
    for (unsigned i = 0; i < a->ranks; i++)
        if (names(b, a->rank[i]))
            return true;
    return false;
}

/* Of some that went together others may wait for one alone: it stays what was emitted. */
static bool same_ranks(const struct muster_finding *a, const struct muster_finding *b)
{
    return a->ranks == b->ranks && (a->ranks == 0 || a->rank[0] == b->rank[0]);
}

bool muster_watch_same(const struct muster_finding *a, const struct muster_finding *b)
{
    if (a->kind == MUSTER_FINDING_HANG_DEAD && b->kind == a->kind)
        return same_death(a, b);
    if (a->kind != b->kind || a->comm != b->comm || !same_ranks(a, b))
        return false;
    return !muster_finding_is_hang(a) || a->op.index == b->op.index;
}

static struct muster_finding *find(const struct muster_findings *in,
                                   const struct muster_finding *finding)
{
    for (size_t i = 0; i < in->n; i++)
        if (!is_over(&in->finding[i]) && muster_watch_same(&in->finding[i], finding))
            return &in->finding[i];
    return NULL;
}

/* A place for one more; NULL: full of those that hold, or no memory. */
static struct muster_finding *place(struct muster_watch *watch)
{
    struct muster_findings *known = &watch->known;
    struct muster_finding *free = NULL;
    if (known->n < MUSTER_WATCH_MAX)
        free = muster_findings_add(known);
    for (size_t i = 0; i < known->n && !free; i++)
        free = is_over(&known->finding[i]) ? &known->finding[i] : NULL;
    if (free)
        watch->missed[free - known->finding] = watch->unfound[free - known->finding] = 0;
    return free;
}

void muster_watch_alive(struct muster_watch *watch, size_t alive)
{
    enum { LOOKS = 3 };
    if (alive < watch->alive)
        watch->hold = LOOKS;
    else if (watch->hold > 0)
        watch->hold--;
    watch->alive = alive;
}

/* Whether what hangs there hangs for another reason by now. */
static bool is_explained_otherwise(const struct muster_findings *now,
                                   const struct muster_finding *old)
{
    for (size_t i = 0; i < now->n; i++) {
        const struct muster_finding *finding = &now->finding[i];
        if (muster_finding_is_hang(finding) && finding->comm == old->comm &&
            finding->has_op == old->has_op && finding->op.index == old->op.index)
            return true;
    }
    return false;
}

static void end_hangs(struct muster_watch *watch, const struct muster_findings *now,
                      muster_watch_emit *emit, void *arg)
{
    for (size_t i = 0; i < watch->known.n; i++) {
        struct muster_finding *old = &watch->known.finding[i];
        if (is_over(old) || watch->hold > 0 || !muster_finding_is_hang(old) || find(now, old))
            continue;
        old->retracted = is_explained_otherwise(now, old);
        old->resolved = !old->retracted;
        emit(arg, old);
    }
}

/* Takes a later look at what is known. Of a death all ranks stay that were emitted, the first one
 * first (a board knows it by that). True: it has to be emitted again, as more went with those. */
static bool renew(struct muster_finding *known, const struct muster_finding *finding)
{
    struct muster_finding all = *finding;
    if (finding->kind != MUSTER_FINDING_HANG_DEAD || known->ranks == 0) {
        if (same_ranks(known, finding))
            *known = *finding;
        return false;
    }
    all.ranks = known->ranks;
    memcpy(all.rank, known->rank, sizeof all.rank);
    for (unsigned i = 0; i < finding->ranks && all.ranks < MUSTER_FINDING_RANKS; i++)
        if (!names(&all, finding->rank[i]))
            all.rank[all.ranks++] = finding->rank[i];
    if (known->rank[0] != finding->rank[0]) {
        muster_text_copy(all.host, sizeof all.host, known->host);
        all.gpu = known->gpu;
    }
    bool more = all.ranks > known->ranks;
    if (more || finding->ranks == known->ranks)
        *known = all;
    return more;
}

void muster_watch_update(struct muster_watch *watch, const struct muster_findings *now,
                         muster_watch_emit *emit, void *arg)
{
    end_hangs(watch, now, emit, arg);
    for (size_t i = 0; i < now->n; i++) {
        const struct muster_finding *finding = &now->finding[i];
        if (is_slow(finding))
            continue;
        struct muster_finding *known = find(&watch->known, finding);
        bool is_new = !known;
        if (is_new)
            known = place(watch);
        if (!known)
            continue;
        if (is_new)
            *known = *finding;
        if (is_new || renew(known, finding))
            emit(arg, known);
    }
}

/* ---- late ranks and slow transfers ---- */

/* Whether `known` has at least what `finding` has. A transfer goes from one rank to another, or it
 * is not known between whom. */
static bool covers(const struct muster_finding *known, const struct muster_finding *finding)
{
    bool both_late = muster_finding_is_late(known) && muster_finding_is_late(finding);
    bool all = known->kind == finding->kind || both_late;
    if (finding->kind == MUSTER_FINDING_SLOW_TRANSFER)
        return all && known->ranks == finding->ranks && known->rank[0] == finding->rank[0] &&
               known->rank[1] == finding->rank[1] &&
               (finding->ranks > 0 || known->comm == finding->comm);
    for (unsigned i = 0; all && i < finding->ranks; i++)
        all = names(known, finding->rank[i]);
    return all;
}

static struct muster_finding *covering(const struct muster_findings *in,
                                       const struct muster_finding *finding)
{
    for (size_t i = 0; i < in->n; i++)
        if (!is_over(&in->finding[i]) && covers(&in->finding[i], finding))
            return &in->finding[i];
    return NULL;
}

bool muster_watch_knows(const struct muster_watch *watch, const struct muster_finding *finding)
{
    return covering(&watch->known, finding) != NULL;
}

/* How many looks in a row found it, this one included. */
static unsigned scans_of(const struct muster_watch *watch, const struct muster_finding *finding)
{
    const struct muster_finding *before = covering(&watch->maybe, finding);
    return before ? watch->looks[before - watch->maybe.finding] + 1 : 1;
}

/* Since when looks in a row found it. */
static uint64_t since_of(const struct muster_watch *watch, const struct muster_finding *finding)
{
    const struct muster_finding *before = covering(&watch->maybe, finding);
    return before && before->since_unix_ns < finding->since_unix_ns ? before->since_unix_ns
                                                                    : finding->since_unix_ns;
}

/* Whether it was found for as long as what was compared with one other alone needs. */
static bool is_held(const struct muster_finding *finding, uint64_t since_unix_ns)
{
    bool held = !finding->against_one;
    for (unsigned i = 0; i < finding->stretches && !held; i++)
        held = finding->stretch[i].until_unix_ns >= since_unix_ns + AGAINST_ONE_NS;
    return held;
}

/* Whether it cost enough to be emitted while the job runs; what costs nothing that is known is
 * emitted. */
static bool is_worth_emitting(const struct muster_finding *finding)
{
    return finding->cost_s <= 0 ||
           (finding->cost_s >= WORTH_S && finding->cost_share >= WORTH_SHARE);
}

static void remember(struct muster_watch *watch, const struct muster_findings *now)
{
    struct muster_findings maybe = {0};
    unsigned looks[MUSTER_WATCH_MAX];
    for (size_t i = 0; i < now->n && maybe.n < MUSTER_WATCH_MAX; i++) {
        const struct muster_finding *finding = &now->finding[i];
        bool waits =
            is_slow(finding) && is_worth_emitting(finding) && !covering(&watch->known, finding);
        struct muster_finding *copy = waits ? muster_findings_copy(&maybe, finding) : NULL;
        if (!copy)
            continue;
        copy->since_unix_ns = since_of(watch, finding);
        looks[maybe.n - 1] = scans_of(watch, copy);
    }
    muster_findings_free(&watch->maybe);
    watch->maybe = maybe;
    memcpy(watch->looks, looks, maybe.n * sizeof *looks);
}

static void emit_slow(struct muster_watch *watch, const struct muster_finding *finding,
                      muster_watch_emit *emit, void *arg)
{
    struct muster_finding *known = covering(&watch->known, finding) ? NULL : place(watch);
    if (!known)
        return;
    *known = *finding;
    emit(arg, known);
}

static unsigned scans_to_emit(const struct muster_finding *finding)
{
    return muster_finding_is_late(finding) ? LATE_SCANS : SLOW_SCANS;
}

/* Whether any of it is still found: of late ranks it is enough that one of them is. */
static bool holds(const struct muster_findings *now, const struct muster_finding *known)
{
    for (size_t i = 0; i < now->n; i++) {
        const struct muster_finding *finding = &now->finding[i];
        bool late = muster_finding_is_late(known) && muster_finding_is_late(finding);
        for (unsigned r = 0; late && r < finding->ranks; r++)
            if (names(known, finding->rank[r]))
                return true;
        if (!late && covers(known, finding))
            return true;
    }
    return false;
}

static bool is_found_again(const struct muster_findings *now, const struct muster_finding *known)
{
    for (size_t i = 0; i < now->n; i++) {
        const struct muster_finding *finding = &now->finding[i];
        if (finding->kind == known->kind && finding->ranks > 0 && known->ranks > 0 &&
            finding->rank[0] == known->rank[0])
            return true;
    }
    return false;
}

/* With one look more than it takes to emit: a verdict that comes and goes is not taken back and
 * emitted again each time. */
static void retract(struct muster_watch *watch, const struct muster_findings *now,
                    muster_watch_emit *emit, void *arg)
{
    for (size_t i = 0; i < watch->known.n; i++) {
        struct muster_finding *known = &watch->known.finding[i];
        if (!is_slow(known) || is_over(known))
            continue;
        bool gone = !holds(now, known) && watch->window_unix_ns <= known->since_unix_ns;
        watch->missed[i] = gone ? watch->missed[i] + 1 : 0;
        known->retracted = watch->missed[i] > scans_to_emit(known);
        if (known->retracted)
            emit(arg, known);
    }
}

void muster_watch_drop_over(struct muster_watch *watch, const struct muster_findings *now,
                            muster_watch_emit *emit, void *arg)
{
    for (size_t i = 0; i < watch->known.n; i++) {
        struct muster_finding *known = &watch->known.finding[i];
        if (!is_slow(known) || is_over(known))
            continue;
        watch->unfound[i] = is_found_again(now, known) ? 0 : watch->unfound[i] + 1;
        known->resolved = watch->unfound[i] >= SCANS_TO_DROP;
        if (known->resolved && emit)
            emit(arg, known);
    }
}

void muster_watch_window(struct muster_watch *watch, uint64_t since_unix_ns)
{
    watch->window_unix_ns = since_unix_ns;
}

void muster_watch_slow(struct muster_watch *watch, const struct muster_findings *now, bool last,
                       muster_watch_emit *emit, void *arg)
{
    retract(watch, now, emit, arg);
    for (size_t i = 0; i < now->n; i++) {
        const struct muster_finding *finding = &now->finding[i];
        unsigned enough = scans_to_emit(finding);
        if (is_slow(finding) && is_worth_emitting(finding) &&
            is_held(finding, since_of(watch, finding)) &&
            (last || scans_of(watch, finding) >= enough))
            emit_slow(watch, finding, emit, arg);
    }
    remember(watch, now);
}

void muster_watch_end(struct muster_watch *watch, muster_watch_emit *emit, void *arg)
{
    for (size_t i = 0; i < watch->maybe.n; i++)
        if (is_held(&watch->maybe.finding[i], watch->maybe.finding[i].since_unix_ns))
            emit_slow(watch, &watch->maybe.finding[i], emit, arg);
}

bool muster_watch_suspects(const struct muster_watch *watch)
{
    for (size_t i = 0; i < watch->maybe.n; i++)
        if (!watch->maybe.finding[i].against_one)
            return true;
    return false;
}

size_t muster_watch_hanging(const struct muster_watch *watch)
{
    size_t n = 0;
    for (size_t i = 0; i < watch->known.n; i++)
        n += !is_over(&watch->known.finding[i]) &&
             muster_finding_is_hang(&watch->known.finding[i]) &&
             !muster_finding_hangs_not_yet(&watch->known.finding[i]);
    return n;
}

size_t muster_watch_gone(const struct muster_watch *watch)
{
    size_t n = 0;
    for (size_t i = 0; i < watch->known.n; i++)
        n += !is_over(&watch->known.finding[i]) &&
             watch->known.finding[i].kind == MUSTER_FINDING_HANG_DEAD;
    return n;
}

size_t muster_watch_unresolved(const struct muster_watch *watch)
{
    size_t n = 0;
    for (size_t i = 0; i < watch->known.n; i++)
        n += !is_over(&watch->known.finding[i]);
    return n;
}

void muster_watch_free(struct muster_watch *watch)
{
    muster_findings_free(&watch->known);
    muster_findings_free(&watch->maybe);
}
