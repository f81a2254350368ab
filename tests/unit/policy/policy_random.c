#include "policy_random.h"

#include <stdio.h>
#include <stdlib.h>

uint32_t random_next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

uint32_t random_below(uint32_t *seed, uint32_t n)
{
    return random_next(seed) % n;
}

uint64_t random_size(uint32_t *seed)
{
    uint64_t value =
        (uint64_t)random_next(seed) << 40 ^ (uint64_t)random_next(seed) << 20 ^ random_next(seed);
    return value >> (2 + random_below(seed, 62)); /* so that two of them can be added */
}

static void put_range(FILE *out, uint32_t *seed, const char *key, uint64_t most)
{
    uint64_t a = most ? random_below(seed, (uint32_t)most) + 1 : random_size(seed);
    uint64_t b = most ? random_below(seed, (uint32_t)most) + 1 : random_size(seed);
    uint64_t low = a < b ? a : b, high = a < b ? b : a;
    switch (random_below(seed, 4)) {
    case 0:
        fprintf(out, "%s: \">=%llu\", ", key, (unsigned long long)low);
        break;
    case 1:
        fprintf(out, "%s: \"<=%llu\", ", key, (unsigned long long)high);
        break;
    case 2:
        fprintf(out, "%s: %llu..%llu, ", key, (unsigned long long)low, (unsigned long long)high);
        break;
    default:
        fprintf(out, "%s: [%llu, %llu..%llu], ", key, (unsigned long long)low,
                (unsigned long long)high, (unsigned long long)(high + low));
    }
}

static void put_match(FILE *out, uint32_t *seed)
{
    static const char *const collective[] = {"all_reduce", "[all_gather, reduce_scatter]",
                                             "broadcast", "reduce", "[reduce, all_reduce]"};
    if (random_below(seed, 2))
        fprintf(out, "collective: %s, ", collective[random_below(seed, 5)]);
    if (random_below(seed, 4))
        put_range(out, seed, "bytes", 0);
    if (random_below(seed, 4) == 0)
        put_range(out, seed, "bytes_per_rank", 0);
    if (random_below(seed, 4) == 0)
        put_range(out, seed, "ranks", 20);
    if (random_below(seed, 4) == 0)
        put_range(out, seed, "nodes", 5);
    if (random_below(seed, 6) == 0)
        put_range(out, seed, "ranks_per_node", 8);
    if (random_below(seed, 6) == 0)
        put_range(out, seed, "nvlink_domains", 4);
    if (random_below(seed, 5) == 0)
        put_range(out, seed, "pipe_ops", 3);
}

char *random_document(uint32_t *seed, unsigned rules)
{
    static const char *const action[] = {"prefer: {proto: simple}",
                                         "prefer: {algo: ring, channels: 4}",
                                         "avoid: {proto: ll128}",
                                         "channels: 8",
                                         "leave: true",
                                         "prefer: {algo: ring, proto: [ll, simple]}"};
    char *text = NULL, *match = NULL;
    size_t size, match_size;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "muster: 1\npolicy:\n");
    for (unsigned i = 0; i < rules; i++) {
        FILE *part = open_memstream(&match, &match_size);
        put_match(part, seed);
        fclose(part);
        fprintf(out, "- {name: r%u, ", i);
        if (match_size)
            fprintf(out, "match: {%.*s}, ", (int)match_size - 2, match);
        fprintf(out, "%s}\n", action[random_below(seed, 6)]);
        free(match);
    }
    fclose(out);
    return text;
}
