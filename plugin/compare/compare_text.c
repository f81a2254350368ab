#include <inttypes.h>
#include <math.h>

#include "base/terminal.h"
#include "compare/compare_runs.h"
#include "compare/compare_words.h"

enum { A, B, ONLY_MOST = 8 }; /* kinds of operations, and ranks, that one run has: named so many */

struct to {
    FILE *out;
    struct muster_terminal terminal;
};

static void print_head(const struct muster_compared *compared, double limit, const struct to *to)
{
    struct muster_compare_verdict verdict;
    muster_compare_verdict_of(compared, &verdict);
    for (unsigned i = 0; i < verdict.lines; i++) {
        fputs(to->terminal.style && i == 0 ? "\033[1m" : "", to->out);
        muster_terminal_wrap(to->out, to->terminal.width, "", "  ", verdict.line[i]);
        fputs(to->terminal.style && i == 0 ? "\033[0m" : "", to->out);
    }
    if (!isnan(limit))
        fprintf(to->out, "Limit %.1f %%: %s.\n", 100 * limit,
                !muster_compare_knows(compared)         ? "not known"
                : muster_compare_worse(compared, limit) ? "exceeded"
                                                        : "kept");
}

static void print_side(const struct muster_compare_side *side, const char *name, FILE *out)
{
    const struct muster_run *run = side->view->run;
    fprintf(out, "%s: %s: %zu ranks, %" PRIu64 " operations compared\n", name,
            run && run->sources ? run->source[0] : "a run", side->samples.ranks, side->samples.ops);
}

/* "+12.4 % (+11.0 to +13.9)", or by a time. */
static void put_change(char *to, size_t size, const struct muster_change *change, bool relative)
{
    char value[32], low[32], high[32];
    if (change->low <= 0 && change->high >= 0) {
        snprintf(to, size, "not certain");
    } else if (relative) {
        snprintf(to, size, "%+.1f %% (%+.1f to %+.1f)", 100 * change->value, 100 * change->low,
                 100 * change->high);
    } else {
        muster_compare_put_time(value, sizeof value, change->value);
        muster_compare_put_time(low, sizeof low, change->low);
        muster_compare_put_time(high, sizeof high, change->high);
        snprintf(to, size, "%s%s (%s to %s)", change->value > 0 ? "+" : "", value, low, high);
    }
}

static void print_change(const char *what, const struct muster_blocks *a,
                         const struct muster_blocks *b, const struct muster_change *change,
                         bool relative, FILE *out)
{
    char before[32], after[32], changed[MUSTER_COMPARE_TEXT];
    if (!change->known)
        return;
    muster_compare_put_time(before, sizeof before, muster_blocks_mean(a));
    muster_compare_put_time(after, sizeof after, muster_blocks_mean(b));
    put_change(changed, sizeof changed, change, relative);
    fprintf(out, "    %-20s %10s to %10s  %s\n", what, before, after, changed);
}

static void print_classes(const struct muster_compared *compared, FILE *out)
{
    bool headed = false;
    for (size_t i = 0; i < compared->classes; i++) {
        const struct muster_compared_class *class = &compared->class[i];
        char name[MUSTER_COMPARE_TEXT];
        if (!class->shown)
            continue;
        fputs(headed ? "" : "\noperations that changed\n", out);
        headed = true;
        muster_compare_put_class(name, sizeof name, class->a);
        fprintf(out, "  %s: %.0f %% of A's time\n", name, 100 * class->weight);
        for (unsigned m = 0; m < MUSTER_COMPARE_MEASURES; m++)
            print_change(muster_compare_measure_word(m), &class->a->us[m], &class->b->us[m],
                         &class->change[m], m != MUSTER_COMPARE_WAITING, out);
    }
}

static void print_ranks(const struct muster_compared *compared, FILE *out)
{
    bool headed = false;
    for (size_t i = 0; i < compared->ranks; i++) {
        const struct muster_compared_rank *rank = &compared->rank[i];
        if (!rank->shown)
            continue;
        fputs(headed ? "" : "\nranks that changed, an operation\n", out);
        headed = true;
        fprintf(out, "  rank %" PRId32 " (%s)\n", rank->a->rank, rank->b->host);
        print_change("own time", &rank->a->own_us, &rank->b->own_us, &rank->own, false, out);
        print_change("others waited for it", &rank->a->cost_us, &rank->b->cost_us, &rank->cost,
                     false, out);
    }
    if (compared->side[A].samples.ranks != compared->side[B].samples.ranks)
        fprintf(out,
                "\nRanks are not compared: A has %zu, B has %zu; of operations those with the same "
                "number of ranks are.\n",
                compared->side[A].samples.ranks, compared->side[B].samples.ranks);
}

static void print_findings(const struct muster_findings *own, const struct muster_findings *other,
                           const char *head, const struct to *to)
{
    bool headed = false;
    for (size_t i = 0; i < own->n; i++) {
        char sentence[1024];
        if (muster_compare_has(other, &own->finding[i]))
            continue;
        fputs(headed ? "" : head, to->out);
        headed = true;
        muster_finding_sentence(&own->finding[i], sentence, sizeof sentence);
        muster_terminal_wrap(to->out, to->terminal.width, "  ", "    ", sentence);
    }
}

/* What one run has and the other has not. */
static void print_only(const struct muster_compared *compared, unsigned side, const struct to *to)
{
    static const char *const verb[] = {"went", "came"};
    const struct muster_run_samples *own = &compared->side[side].samples;
    size_t named = 0;
    for (size_t i = 0; i < own->classes && compared->only[side]; i++) {
        char name[MUSTER_COMPARE_TEXT];
        if (!muster_compare_class_is_only(compared, side, i) || named++ >= ONLY_MOST)
            continue;
        if (named == 1)
            fprintf(to->out, "\noperations that %s: %zu kinds, not compared\n", verb[side],
                    compared->only[side]);
        muster_compare_put_class(name, sizeof name, &own->class[i]);
        fprintf(to->out, "  %s\n", name);
    }
    if (named > ONLY_MOST)
        fprintf(to->out, "  and %zu more\n", named - ONLY_MOST);
    named = 0;
    for (size_t i = 0; i < own->ranks; i++) {
        if (!muster_compare_rank_is_only(compared, side, i) || named++ >= ONLY_MOST)
            continue;
        if (named == 1)
            fprintf(to->out, "\nranks that %s\n", verb[side]);
        fprintf(to->out, "  rank %" PRId32 " (%s)\n", own->rank[i].rank, own->rank[i].host);
    }
    if (named > ONLY_MOST)
        fprintf(to->out, "  and %zu more\n", named - ONLY_MOST);
}

void muster_compare_text(const struct muster_compared *compared, double limit,
                         const struct muster_terminal *terminal, FILE *out)
{
    const struct muster_findings *a = compared->side[A].findings, *b = compared->side[B].findings;
    const struct to to = {out, *terminal};
    print_head(compared, limit, &to);
    print_side(&compared->side[A], "A", out);
    print_side(&compared->side[B], "B", out);
    print_classes(compared, out);
    print_ranks(compared, out);
    print_findings(b, a, "\nfindings that came\n", &to);
    print_findings(a, b, "\nfindings that went\n", &to);
    print_only(compared, B, &to);
    print_only(compared, A, &to);
}
