#include "fleet/near.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/sort.h"

enum {
    SAMPLED_HOSTS = 64, /* about */
    ONE_IN = 64,        /* hosts */
    SMALL = 64          /* ranks of a communicator whose hosts are looked at together */
};
/* The evidence of a dozen steps is there, or none will be. */
#define FRESH_NS (6 * MUSTER_NS_PER_S)
/* A host is looked at beyond the last time that it showed. */
#define HOLD_NS    (10 * MUSTER_NS_PER_S)
#define STANDS_OUT 1.5 /* times as much as that of one host in so many */
#define STAY       2.0 /* times another one's score, of one that is looked at */

static bool make_room(struct muster_near *near, size_t hosts)
{
    if (hosts <= near->room)
        return true;
    struct muster_near_host *host = realloc(near->of_host, hosts * sizeof *host);
    if (!host)
        return false;
    memset(host + near->room, 0, (hosts - near->room) * sizeof *host);
    near->of_host = host;
    double *sorted = realloc(near->sorted, hosts * sizeof *sorted);
    if (!sorted)
        return false;
    near->sorted = sorted;
    near->room = hosts;
    return true;
}

/* From which score on a host is worth a look: what one in so many has is how much hosts differ. */
static double worth(struct muster_near *near, size_t hosts)
{
    for (size_t h = 0; h < hosts; h++)
        near->sorted[h] = near->of_host[h].score;
    muster_sort_double(near->sorted, hosts);
    double common = hosts > 1 ? STANDS_OUT * near->sorted[hosts - 2 - hosts / ONE_IN] : 0;
    return common > 1 ? common : 1;
}

static bool is_held(const struct muster_near_host *host, uint64_t now_ns)
{
    return host->shown_ns && now_ns - host->shown_ns <= HOLD_NS;
}

static void score_hosts(struct muster_near *near, const struct muster_join *join, uint64_t now_ns)
{
    for (size_t h = 0; h < join->hosts; h++)
        near->of_host[h].score = 0;
    for (size_t i = 0; i < join->processes; i++) {
        struct muster_near_host *host = &near->of_host[join->process[i].host];
        double score = muster_sieve_score(&near->sieve, i);
        host->score = score > host->score ? score : host->score;
    }
    double least = worth(near, join->hosts);
    near->fresh = false;
    for (size_t h = 0; h < join->hosts; h++) {
        struct muster_near_host *host = &near->of_host[h];
        if (host->score <= least)
            continue;
        host->first_ns = is_held(host, now_ns) ? host->first_ns : now_ns;
        host->shown_ns = now_ns;
        near->fresh |= now_ns - host->first_ns < FRESH_NS;
    }
}

static bool is_chosen(const struct muster_near *near, uint32_t host)
{
    for (size_t i = 0; i < near->hosts; i++)
        if (near->host[i] == host)
            return true;
    return false;
}

/* The highest, those that are looked at already first. */
static size_t choose(const struct muster_near *near, const struct muster_join *join,
                     uint64_t now_ns, uint32_t *host)
{
    double score[MUSTER_NEAR_HOSTS];
    size_t n = 0;
    for (uint32_t h = 0; h < join->hosts; h++) {
        if (!is_held(&near->of_host[h], now_ns))
            continue;
        double own = near->of_host[h].score * (is_chosen(near, h) ? STAY : 1);
        size_t at = n;
        for (; at > 0 && score[at - 1] < own; at--)
            ;
        if (at == MUSTER_NEAR_HOSTS)
            continue;
        n += n < MUSTER_NEAR_HOSTS;
        memmove(score + at + 1, score + at, (n - at - 1) * sizeof *score);
        memmove(host + at + 1, host + at, (n - at - 1) * sizeof *host);
        score[at] = own;
        host[at] = h;
    }
    return n;
}

static bool is_sampled(const struct muster_join *join, uint32_t host)
{
    return muster_hash_number(0, host) % (join->hosts / SAMPLED_HOSTS + 1) == 0;
}

/* Communicators that are small and of a chosen host. */
static bool collect(const struct muster_near *near, const struct muster_join *join,
                    struct muster_hashmap *small)
{
    bool whole = true;
    for (size_t i = 0; i < join->processes; i++) {
        const struct muster_segment *segment = join->process[i].segment;
        if (!is_chosen(near, join->process[i].host))
            continue;
        for (unsigned c = 0; c < MUSTER_SEG_COMMS && segment->comm[c].uid; c++)
            if (segment->comm[c].nranks <= SMALL)
                whole &= muster_hashmap_put(small, &segment->comm[c].id, 0);
    }
    return whole;
}

static bool has_one_of(const struct muster_segment *segment, const struct muster_hashmap *small)
{
    for (unsigned c = 0; c < MUSTER_SEG_COMMS && segment->comm[c].uid; c++)
        if (segment->comm[c].nranks <= SMALL &&
            muster_hashmap_find(small, &segment->comm[c].id) != SIZE_MAX)
            return true;
    return false;
}

static bool mark(struct muster_near *near, struct muster_join *join)
{
    struct muster_hashmap small = {.key_bytes = sizeof(uint64_t)};
    bool whole = collect(near, join, &small);
    for (size_t i = 0; i < join->processes; i++) {
        struct muster_join_process *process = &join->process[i];
        process->near = is_sampled(join, process->host) || is_chosen(near, process->host) ||
                        (near->hosts > 0 && has_one_of(process->segment, &small));
    }
    near->processes = join->processes;
    muster_hashmap_free(&small);
    return whole;
}

static int by_number(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

bool muster_near_choose(struct muster_near *near, struct muster_join *join, uint64_t now_ns)
{
    uint32_t host[MUSTER_NEAR_HOSTS];
    if (!make_room(near, join->hosts) || !muster_sieve_take(&near->sieve, join))
        return false;
    score_hosts(near, join, now_ns);
    size_t n = choose(near, join, now_ns, host);
    qsort(host, n, sizeof *host, by_number);
    bool same = n == near->hosts && memcmp(host, near->host, n * sizeof *host) == 0;
    if (same && near->processes == join->processes)
        return true;
    memcpy(near->host, host, n * sizeof *host);
    near->hosts = n;
    return mark(near, join);
}

void muster_near_free(struct muster_near *near)
{
    muster_sieve_free(&near->sieve);
    free(near->of_host);
    free(near->sorted);
    *near = (struct muster_near){0};
}
