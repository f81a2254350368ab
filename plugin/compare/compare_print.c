#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "compare/compare_runs.h"

enum { A, B, TEXT = 160, SCHEMA = 1 };

static const char *const measures[MUSTER_COMPARE_MEASURES] = {"beat", "transfer", "waiting"};

static void put_time(char *to, size_t size, double us)
{
    double magnitude = fabs(us);
    const char *unit = magnitude >= 1e6 ? "s" : magnitude >= 1e3 ? "ms" : "us";
    double scale = magnitude >= 1e6 ? 1e-6 : magnitude >= 1e3 ? 1e-3 : 1;
    snprintf(to, size, "%.*f %s", magnitude * scale >= 100 ? 0 : 1, us * scale, unit);
}

/* "+12.4 % (11.0 to 13.9)" */
static void put_share(char *to, size_t size, const struct muster_change *change)
{
    snprintf(to, size, "%+.1f %% (%+.1f to %+.1f)", 100 * change->value, 100 * change->low,
             100 * change->high);
}

static void name_class(const struct muster_compare_class *class, char *to, size_t size)
{
    char bytes[24];
    muster_text_bytes(bytes, sizeof bytes, class->size_log2 < 64 ? 1ull << class->size_log2 : 0);
    snprintf(to, size, "%s from %s, %" PRIu32 " ranks%s%s", muster_func_word(class->func), bytes,
             class->nranks, class->comm[0] ? ", " : "", class->comm);
}

/* ---- text ---- */

static void print_side(const struct muster_compare_side *side, const char *name, FILE *out)
{
    const struct muster_run *run = side->view->run;
    fprintf(out, "%s: %s: %zu ranks, %" PRIu64 " operations compared\n", name,
            run && run->sources ? run->source[0] : "a run", side->samples.ranks, side->samples.ops);
}

static void print_whole(const struct muster_compared *compared, double limit, FILE *out)
{
    const struct muster_change *whole = &compared->whole;
    bool slower = whole->value > 0, counts = muster_change_is(whole, MUSTER_COMPARE_LEAST);
    double low = slower || !counts ? whole->low : -whole->high;
    double high = slower || !counts ? whole->high : -whole->low;
    if (!whole->known)
        fputs("Whether B is slower is not known: too few operations of each kind were timed.\n",
              out);
    else
        fprintf(out, "%s %.1f %% (%.1f to %.1f) by %s, operations of the same kind compared.\n",
                !counts  ? "No difference that counts:"
                : slower ? "B is slower than A by"
                         : "B is faster than A by",
                100 * (counts ? fabs(whole->value) : whole->value), 100 * low, 100 * high,
                compared->by == MUSTER_COMPARE_BEAT ? "the time from one operation to the next"
                                                    : "the time of transfers");
    if (!isnan(limit))
        fprintf(out, "Limit %.1f %%: %s.\n", 100 * limit,
                muster_compare_worse(compared, limit) ? "exceeded" : "kept");
}

static void print_class(const struct muster_compared_class *class, FILE *out)
{
    char name[TEXT];
    name_class(class->a, name, sizeof name);
    fprintf(out, "  %s: %.0f %% of A's time\n", name, 100 * class->weight);
    for (unsigned m = 0; m < MUSTER_COMPARE_MEASURES; m++) {
        char before[TEXT], after[TEXT], share[TEXT];
        if (!class->change[m].known)
            continue;
        put_time(before, sizeof before, muster_blocks_mean(&class->a->us[m]));
        put_time(after, sizeof after, muster_blocks_mean(&class->b->us[m]));
        put_share(share, sizeof share, &class->change[m]);
        if (m == MUSTER_COMPARE_WAITING)
            fprintf(out, "    %-8s %10s to %10s\n", measures[m], before, after);
        else
            fprintf(out, "    %-8s %10s to %10s  %s\n", measures[m], before, after, share);
    }
}

static void print_classes(const struct muster_compared *compared, FILE *out)
{
    bool headed = false;
    for (size_t i = 0; i < compared->classes; i++) {
        if (!compared->class[i].told)
            continue;
        fputs(headed ? "" : "\noperations that changed\n", out);
        headed = true;
        print_class(&compared->class[i], out);
    }
}

static void print_rank_change(const char *what, const struct muster_blocks *a,
                              const struct muster_blocks *b, const struct muster_change *change,
                              FILE *out)
{
    char before[TEXT], after[TEXT], low[TEXT], high[TEXT];
    if (!change->known)
        return;
    put_time(before, sizeof before, muster_blocks_mean(a));
    put_time(after, sizeof after, muster_blocks_mean(b));
    put_time(low, sizeof low, change->low);
    put_time(high, sizeof high, change->high);
    fprintf(out, "    %-20s %10s to %10s  by %s to %s\n", what, before, after, low, high);
}

static void print_ranks(const struct muster_compared *compared, FILE *out)
{
    bool headed = false;
    for (size_t i = 0; i < compared->ranks; i++) {
        const struct muster_compared_rank *rank = &compared->rank[i];
        if (!rank->told)
            continue;
        fputs(headed ? "" : "\nranks that changed, an operation\n", out);
        headed = true;
        fprintf(out, "  rank %" PRId32 " (%s)\n", rank->a->rank, rank->b->host);
        print_rank_change("own time", &rank->a->own_us, &rank->b->own_us, &rank->own, out);
        print_rank_change("others waited for it", &rank->a->cost_us, &rank->b->cost_us, &rank->cost,
                          out);
    }
    if (compared->side[A].samples.ranks != compared->side[B].samples.ranks)
        fprintf(out,
                "\nRanks are not compared: A has %zu, B has %zu; of operations those with the same "
                "number of ranks are.\n",
                compared->side[A].samples.ranks, compared->side[B].samples.ranks);
}

static void print_findings(const struct muster_findings *own, const struct muster_findings *other,
                           const char *head, FILE *out)
{
    bool headed = false;
    for (size_t i = 0; i < own->n; i++) {
        char sentence[1024];
        if (muster_compare_has(other, &own->finding[i]))
            continue;
        fputs(headed ? "" : head, out);
        headed = true;
        muster_finding_sentence(&own->finding[i], sentence, sizeof sentence);
        fprintf(out, "  %s\n", sentence);
    }
}

void muster_compare_text(const struct muster_compared *compared, double limit, FILE *out)
{
    const struct muster_findings *a = compared->side[A].findings, *b = compared->side[B].findings;
    print_whole(compared, limit, out);
    print_side(&compared->side[A], "A", out);
    print_side(&compared->side[B], "B", out);
    print_classes(compared, out);
    print_ranks(compared, out);
    print_findings(b, a, "\nfindings that came\n", out);
    print_findings(a, b, "\nfindings that went\n", out);
    if (compared->only[A] || compared->only[B])
        fprintf(out, "\nKinds of operations that only one run has: A %zu, B %zu.\n",
                compared->only[A], compared->only[B]);
}

/* ---- JSON ---- */

enum { DECIMALS = 6 };

static void put_change(struct muster_json *json, const char *key,
                       const struct muster_change *change)
{
    if (!change->known) {
        muster_json_null(json, key);
        return;
    }
    muster_json_object(json, key);
    muster_json_real(json, "value", change->value, DECIMALS);
    muster_json_real(json, "low", change->low, DECIMALS);
    muster_json_real(json, "high", change->high, DECIMALS);
    muster_json_end(json);
}

static void put_pair(struct muster_json *json, const char *key, const struct muster_blocks *a,
                     const struct muster_blocks *b, const struct muster_change *change)
{
    muster_json_object(json, key);
    muster_json_real(json, "a_us", muster_blocks_mean(a), 3);
    muster_json_real(json, "b_us", muster_blocks_mean(b), 3);
    put_change(json, "change", change);
    muster_json_end(json);
}

static void put_side(struct muster_json *json, const char *key,
                     const struct muster_compare_side *side)
{
    const struct muster_run *run = side->view->run;
    muster_json_object(json, key);
    muster_json_array(json, "run");
    for (size_t i = 0; run && i < run->sources; i++)
        muster_json_str(json, NULL, run->source[i]);
    muster_json_end(json);
    muster_json_u64(json, "ranks", side->samples.ranks);
    muster_json_u64(json, "ops", side->samples.ops);
    muster_json_end(json);
}

static void put_class(struct muster_json *json, const struct muster_compared_class *class)
{
    muster_json_object(json, NULL);
    muster_json_str(json, "func", muster_func_word(class->a->func));
    muster_json_u64(json, "size", class->a->size_log2 < 64 ? 1ull << class->a->size_log2 : 0);
    muster_json_u64(json, "nranks", class->a->nranks);
    muster_json_str(json, "comm_name", class->a->comm);
    muster_json_real(json, "weight", class->weight, DECIMALS);
    muster_json_bool(json, "told", class->told);
    for (unsigned m = 0; m < MUSTER_COMPARE_MEASURES; m++)
        put_pair(json, measures[m], &class->a->us[m], &class->b->us[m], &class->change[m]);
    muster_json_end(json);
}

static void put_ranks(struct muster_json *json, const struct muster_compared *compared)
{
    muster_json_array(json, "ranks");
    for (size_t i = 0; i < compared->ranks; i++) {
        const struct muster_compared_rank *rank = &compared->rank[i];
        muster_json_object(json, NULL);
        muster_json_i64(json, "rank", rank->a->rank);
        muster_json_str(json, "host_a", rank->a->host);
        muster_json_str(json, "host_b", rank->b->host);
        muster_json_bool(json, "told", rank->told);
        put_pair(json, "own", &rank->a->own_us, &rank->b->own_us, &rank->own);
        put_pair(json, "cost", &rank->a->cost_us, &rank->b->cost_us, &rank->cost);
        muster_json_end(json);
    }
    muster_json_end(json);
}

static void put_findings(struct muster_json *json, const char *key,
                         const struct muster_findings *own, const struct muster_findings *other)
{
    muster_json_array(json, key);
    for (size_t i = 0; i < own->n; i++) {
        if (muster_compare_has(other, &own->finding[i]))
            continue;
        muster_json_object(json, NULL);
        muster_finding_json(&own->finding[i], json);
        muster_json_end(json);
    }
    muster_json_end(json);
}

void muster_compare_json(const struct muster_compared *compared, double limit, FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", SCHEMA);
    muster_json_str(&json, "muster", MUSTER_VERSION);
    put_side(&json, "a", &compared->side[A]);
    put_side(&json, "b", &compared->side[B]);
    muster_json_str(&json, "measure", measures[compared->by]);
    put_change(&json, "change", &compared->whole);
    muster_json_real(&json, "limit", limit, DECIMALS);
    if (isnan(limit))
        muster_json_null(&json, "worse");
    else
        muster_json_bool(&json, "worse", muster_compare_worse(compared, limit));
    muster_json_array(&json, "classes");
    for (size_t i = 0; i < compared->classes; i++)
        put_class(&json, &compared->class[i]);
    muster_json_end(&json);
    put_ranks(&json, compared);
    put_findings(&json, "findings_came", compared->side[B].findings, compared->side[A].findings);
    put_findings(&json, "findings_went", compared->side[A].findings, compared->side[B].findings);
    muster_json_u64(&json, "classes_only_a", compared->only[A]);
    muster_json_u64(&json, "classes_only_b", compared->only[B]);
    muster_json_end(&json);
}
