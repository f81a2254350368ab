#include "fleet/sieve.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "diagnose/straggler/e_process.h"

enum {
    KINDS = 16,      /* of operations of a rank, each with what runs before it; of others nothing */
    SAMPLED = 1024,  /* ranks of which the usual ones are learned */
    OTHERS = 8,      /* so many must have a kind */
    LEAST_WEIGHT = 1 /* operations that a mean rests on */
};
/* Of the weight of what was there, at each look: a mean goes back some seven of them */
#define KEPT 0.85

struct muster_sieve_rank {
    uint64_t taken;
    double score;
    struct kind {
        uint32_t key; /* 0: free */
        float weight, sum_ns;
    } kind[KINDS];
};

struct usual {
    uint32_t key, n;
    double ns;
};

/* ---- means ---- */

static uint32_t key_of(const struct muster_op *before, const struct muster_op *op)
{
    uint64_t facts[] = {before->count, before->func, before->dtype, op->count, op->func, op->dtype};
    uint32_t key =
        (uint32_t)muster_hash_number(0, muster_hash(MUSTER_HASH_SEED, facts, sizeof facts));
    return key ? key : 1;
}

static void add(struct muster_sieve_rank *rank, uint32_t key, uint64_t ns)
{
    unsigned i = 0;
    while (i < KINDS && rank->kind[i].key && rank->kind[i].key != key)
        i++;
    if (i == KINDS)
        return;
    rank->kind[i].key = key;
    rank->kind[i].weight++;
    rank->kind[i].sum_ns += (float)ns;
}

static void take(struct muster_sieve_rank *rank, const struct muster_join_process *process)
{
    uint64_t news = process->taken - rank->taken;
    size_t from = news < process->ops ? process->ops - news : 1;
    rank->taken = process->taken;
    for (unsigned k = 0; k < KINDS && rank->kind[k].key; k++) {
        rank->kind[k].weight *= (float)KEPT;
        rank->kind[k].sum_ns *= (float)KEPT;
    }
    for (size_t i = from ? from : 1; i < process->ops; i++) {
        const struct muster_op *op = &process->op[i], *before = op - 1;
        if (op->end_ns && before->end_ns && op->begin_ns > before->end_ns)
            add(rank, key_of(before, op), op->begin_ns - before->end_ns);
    }
}

static bool make_room(struct muster_sieve *sieve, size_t ranks)
{
    if (ranks <= sieve->ranks)
        return true;
    struct muster_sieve_rank *rank = realloc(sieve->rank, ranks * sizeof *rank);
    if (!rank)
        return false;
    memset(rank + sieve->ranks, 0, (ranks - sieve->ranks) * sizeof *rank);
    sieve->rank = rank;
    sieve->ranks = ranks;
    return true;
}

/* ---- what is usual ---- */

static double mean_of(const struct kind *kind)
{
    return (double)kind->sum_ns / (double)kind->weight;
}

static int by_key(const void *left, const void *right)
{
    const struct usual *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

/* Of each kind the lower median over a sample of the ranks, by key; returns how many. */
static size_t find_usual(const struct muster_sieve *sieve, struct usual *usual)
{
    size_t n = 0, kinds = 0, stride = (sieve->ranks + SAMPLED - 1) / SAMPLED;
    for (size_t r = 0; r < sieve->ranks; r += stride) {
        const struct kind *kind = sieve->rank[r].kind;
        for (unsigned k = 0; k < KINDS && kind[k].key; k++)
            if (kind[k].weight >= LEAST_WEIGHT)
                usual[n++] = (struct usual){.key = kind[k].key, .ns = mean_of(&kind[k])};
    }
    qsort(usual, n, sizeof *usual, by_key);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && usual[end].key == usual[i].key; end++)
            ;
        usual[kinds++] = (struct usual){
            .key = usual[i].key, .n = (uint32_t)(end - i), .ns = usual[i + (end - i - 1) / 2].ns};
    }
    return kinds;
}

static const struct usual *usual_of(const struct usual *usual, size_t n, uint32_t key)
{
    size_t from = 0;
    while (n > 0) {
        size_t half = n / 2;
        bool after = usual[from + half].key < key;
        from += after ? half + 1 : 0;
        n = after ? n - half - 1 : half;
    }
    return &usual[from]; /* one more is there, of key 0 */
}

static void score(struct muster_sieve_rank *rank, const struct usual *usual, size_t n)
{
    rank->score = 0;
    for (unsigned k = 0; k < KINDS && rank->kind[k].key; k++) {
        const struct kind *kind = &rank->kind[k];
        const struct usual *other = usual_of(usual, n, kind->key);
        if (other->key != kind->key || other->n < OTHERS || kind->weight < LEAST_WEIGHT)
            continue;
        double beyond =
            (mean_of(kind) - other->ns) / (double)muster_seat_limit_ns((int64_t)other->ns);
        rank->score = beyond > rank->score ? beyond : rank->score;
    }
}

bool muster_sieve_take(struct muster_sieve *sieve, const struct muster_join *join)
{
    struct usual *usual = malloc((SAMPLED * KINDS + 1) * sizeof *usual);
    bool whole = usual && make_room(sieve, join->processes);
    if (whole && sieve->ranks > 0) {
        for (size_t i = 0; i < join->processes; i++)
            take(&sieve->rank[i], &join->process[i]);
        size_t n = find_usual(sieve, usual);
        usual[n] = (struct usual){0};
        for (size_t i = 0; i < sieve->ranks; i++)
            score(&sieve->rank[i], usual, n);
    }
    free(usual);
    return whole;
}

double muster_sieve_score(const struct muster_sieve *sieve, size_t process)
{
    return process < sieve->ranks ? sieve->rank[process].score : 0;
}

void muster_sieve_free(struct muster_sieve *sieve)
{
    free(sieve->rank);
    *sieve = (struct muster_sieve){0};
}
