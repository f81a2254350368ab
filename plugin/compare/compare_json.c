#include <math.h>

#include "base/json.h"
#include "compare/compare_runs.h"
#include "compare/compare_words.h"

enum { A, B, SCHEMA = 1, DECIMALS = 6 };

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

static void put_kind(struct muster_json *json, const struct muster_compare_class *class)
{
    muster_json_str(json, "func", muster_func_name(class->func));
    muster_json_u64(json, "size", class->size_log2 < 64 ? 1ull << class->size_log2 : 0);
    muster_json_u64(json, "nranks", class->nranks);
    muster_json_str(json, "comm_name", class->comm);
}

static void put_class(struct muster_json *json, const struct muster_compared_class *class)
{
    muster_json_object(json, NULL);
    put_kind(json, class->a);
    muster_json_real(json, "weight", class->weight, DECIMALS);
    muster_json_bool(json, "told", class->shown);
    for (unsigned m = 0; m < MUSTER_COMPARE_MEASURES; m++)
        put_pair(json, muster_compare_measure_word(m), &class->a->us[m], &class->b->us[m],
                 &class->change[m]);
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
        muster_json_bool(json, "told", rank->shown);
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

/* What only that side has. */
static void put_only(struct muster_json *json, const struct muster_compared *compared,
                     unsigned side)
{
    static const char *const classes[] = {"classes_went", "classes_came"};
    static const char *const ranks[] = {"ranks_went", "ranks_came"};
    const struct muster_run_samples *own = &compared->side[side].samples;
    muster_json_array(json, classes[side]);
    for (size_t i = 0; i < own->classes; i++) {
        if (!muster_compare_class_is_only(compared, side, i))
            continue;
        muster_json_object(json, NULL);
        put_kind(json, &own->class[i]);
        muster_json_end(json);
    }
    muster_json_end(json);
    muster_json_array(json, ranks[side]);
    for (size_t i = 0; i < own->ranks; i++) {
        if (!muster_compare_rank_is_only(compared, side, i))
            continue;
        muster_json_object(json, NULL);
        muster_json_i64(json, "rank", own->rank[i].rank);
        muster_json_str(json, "host", own->rank[i].host);
        muster_json_end(json);
    }
    muster_json_end(json);
}

static void put_verdict(struct muster_json *json, const struct muster_compared *compared)
{
    struct muster_compare_verdict verdict;
    muster_compare_verdict_of(compared, &verdict);
    muster_json_array(json, "verdict");
    for (unsigned i = 0; i < verdict.lines; i++)
        muster_json_str(json, NULL, verdict.line[i]);
    muster_json_end(json);
}

void muster_compare_json(const struct muster_compared *compared, double limit, FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", SCHEMA);
    muster_json_str(&json, "muster", MUSTER_VERSION);
    put_verdict(&json, compared);
    put_side(&json, "a", &compared->side[A]);
    put_side(&json, "b", &compared->side[B]);
    muster_json_str(&json, "measure", muster_compare_measure_word(compared->by));
    put_change(&json, "change", &compared->whole);
    muster_json_real(&json, "limit", limit, DECIMALS);
    if (isnan(limit) || !muster_compare_knows(compared))
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
    put_only(&json, compared, A);
    put_only(&json, compared, B);
    muster_json_end(&json);
}
