#include "compare/compare_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/text.h"

enum { A, B };

/* From there on a percentage is less clear than how many times as long it takes. */
static const double times_from = 3;

static const char *const measures[MUSTER_COMPARE_MEASURES] = {"beat", "transfer", "waiting"};

const char *muster_compare_measure_word(enum muster_compare_measure measure)
{
    return measures[measure];
}

void muster_compare_put_time(char *to, size_t size, double us)
{
    double magnitude = fabs(us);
    const char *unit = magnitude >= 1e6 ? "s" : magnitude >= 1e3 ? "ms" : "us";
    double scale = magnitude >= 1e6 ? 1e-6 : magnitude >= 1e3 ? 1e-3 : 1;
    snprintf(to, size, "%.*f %s", magnitude * scale >= 100 ? 0 : 1, us * scale, unit);
}

void muster_compare_put_class(char *to, size_t size, const struct muster_compare_class *class)
{
    char bytes[24];
    muster_text_bytes(bytes, sizeof bytes, class->size_log2 < 64 ? 1ull << class->size_log2 : 0);
    snprintf(to, size, "%s from %s, %" PRIu32 " ranks%s%s", muster_func_name(class->func), bytes,
             class->nranks, class->comm[0] ? ", " : "", class->comm);
}

void muster_compare_put_unknown(char *to, size_t size, const struct muster_compared *compared)
{
    char only[96] = "";
    if (compared->only[A] + compared->only[B])
        snprintf(only, sizeof only, "; %zu more that only one of them has are not compared",
                 compared->only[A] + compared->only[B]);
    snprintf(
        to, size,
        "of the %zu kind%s of operations that both runs have none was timed in %d or more of %d "
        "parts of each run%s. Compare longer runs",
        compared->classes, compared->classes == 1 ? "" : "s", (int)MUSTER_BLOCKS_LEAST,
        (int)MUSTER_BLOCKS, only);
}

/* ---- the verdict ---- */

static char *next_line(struct muster_compare_verdict *verdict)
{
    return verdict->line[verdict->lines++];
}

static void put_hang(const struct muster_compared *compared, struct muster_compare_verdict *verdict)
{
    const struct muster_finding *hang = muster_compare_hang(compared);
    char sentence[MUSTER_COMPARE_LINE - 64];
    if (!hang)
        return;
    muster_finding_sentence(hang, sentence, sizeof sentence);
    snprintf(next_line(verdict), MUSTER_COMPARE_LINE, "B hangs, and A does not: %s", sentence);
}

static void put_whole(const struct muster_compared *compared, bool counts,
                      struct muster_compare_verdict *verdict)
{
    const struct muster_change *whole = &compared->whole;
    const char *by = compared->by == MUSTER_COMPARE_BEAT ? "the time from one operation to the next"
                                                         : "the time of transfers";
    char *line = next_line(verdict), why[MUSTER_COMPARE_LINE / 2];
    if (!whole->known) {
        muster_compare_put_unknown(why, sizeof why, compared);
        snprintf(line, MUSTER_COMPARE_LINE, "Whether B is slower as a whole is not known: %s.",
                 why);
    } else if (!counts) {
        bool narrow = whole->high < MUSTER_COMPARE_LEAST && whole->low > -MUSTER_COMPARE_LEAST;
        snprintf(line, MUSTER_COMPARE_LINE, "%s: %.1f %% (%.1f to %.1f), by %s%s.",
                 narrow ? "No difference that counts" : "No difference that is certain",
                 100 * whole->value, 100 * whole->low, 100 * whole->high, by,
                 narrow ? "" : "; longer runs would tell less apart");
    } else if (whole->value >= times_from)
        snprintf(line, MUSTER_COMPARE_LINE,
                 "B takes %.1f times as long as A (%.1f to %.1f), by %s.", 1 + whole->value,
                 1 + whole->low, 1 + whole->high, by);
    else if (whole->value > 0)
        snprintf(line, MUSTER_COMPARE_LINE, "B is slower than A by %.1f %% (%.1f to %.1f), by %s.",
                 100 * whole->value, 100 * whole->low, 100 * whole->high, by);
    else
        snprintf(line, MUSTER_COMPARE_LINE, "B is faster than A by %.1f %% (%.1f to %.1f), by %s.",
                 -100 * whole->value, -100 * whole->high, -100 * whole->low, by);
}

/* Classes stand by what they lose: the first when B is slower, the last when it is faster. */
static void put_where(const struct muster_compared *compared,
                      struct muster_compare_verdict *verdict)
{
    const struct muster_compared_class *class =
        &compared->class[compared->whole.value > 0 ? 0 : compared->classes - 1];
    char name[MUSTER_COMPARE_TEXT], before[32], after[32];
    if (!class->shown || !class->change[compared->by].known)
        return;
    muster_compare_put_class(name, sizeof name, class->a);
    muster_compare_put_time(before, sizeof before, muster_blocks_mean(&class->a->us[compared->by]));
    muster_compare_put_time(after, sizeof after, muster_blocks_mean(&class->b->us[compared->by]));
    snprintf(next_line(verdict), MUSTER_COMPARE_LINE,
             "Most of it: %s: each took %s in A, %s in B (%.0f %% of A's time).", name, before,
             after, 100 * class->weight);
}

/* The rank to which the others' waiting grew, or shrank, most. */
static void put_rank(const struct muster_compared *compared, struct muster_compare_verdict *verdict)
{
    const struct muster_compared_rank *most = NULL;
    char before[32], after[32];
    double sign = compared->whole.known && compared->whole.value <= 0 ? -1 : 1;
    for (size_t i = 0; i < compared->ranks; i++) {
        const struct muster_compared_rank *rank = &compared->rank[i];
        if (muster_change_is(&rank->cost, muster_compare_least_us(compared)) &&
            sign * rank->cost.value > 0 &&
            (!most || sign * rank->cost.value > sign * most->cost.value))
            most = rank;
    }
    if (!most)
        return;
    muster_compare_put_time(before, sizeof before, muster_blocks_mean(&most->a->cost_us));
    muster_compare_put_time(after, sizeof after, muster_blocks_mean(&most->b->cost_us));
    snprintf(next_line(verdict), MUSTER_COMPARE_LINE,
             "For rank %" PRId32 " (%s) the others waited %s an operation in A, %s in B.",
             most->a->rank, most->b->host, before, after);
}

void muster_compare_verdict_of(const struct muster_compared *compared,
                               struct muster_compare_verdict *verdict)
{
    bool counts = muster_change_is(&compared->whole, MUSTER_COMPARE_LEAST);
    *verdict = (struct muster_compare_verdict){.slower = counts && compared->whole.value > 0};
    put_hang(compared, verdict);
    put_whole(compared, counts, verdict);
    if (counts && compared->classes)
        put_where(compared, verdict);
    if (counts || !compared->whole.known)
        put_rank(compared, verdict);
}
