#include "doctor/hosts/hosts_fold.h"

#include <stdlib.h>
#include <string.h>

/* A set of hosts that a sentence may be about: all of a subnet, or one host. */
struct group {
    const char *word, *name;
    const unsigned *host;
    size_t n;
};

struct folding {
    const struct muster_fold_input *input;
    struct muster_arena *arena;
    char *left;      /* pairs not reported yet */
    unsigned *order; /* hosts by subnet */
    struct group *group;
    size_t groups;
    struct muster_fold *fold;
    size_t folds;
};

static enum muster_fold_pair pair_at(const struct folding *folding, unsigned from, unsigned to)
{
    return from == to
               ? MUSTER_FOLD_UNKNOWN
               : (enum muster_fold_pair)folding->input->bad[(size_t)from * folding->input->n + to];
}

static int by_subnet(const void *a, const void *b, void *arg)
{
    const struct muster_fold_input *input = arg;
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    int order = strcmp(input->subnet[x], input->subnet[y]);
    return order ? order : x < y ? -1 : x > y;
}

static void add_group(struct folding *folding, const char *word, const char *name,
                      const unsigned *host, size_t n)
{
    struct group *group =
        muster_arena_add(folding->arena, &folding->group, &folding->groups, sizeof *group);
    *group = (struct group){word, name, host, n};
}

/* Subnets of two hosts and more that are not all there is, then each host. */
static void find_groups(struct folding *folding)
{
    const struct muster_fold_input *input = folding->input;
    unsigned *order = folding->order;
    for (unsigned i = 0; i < input->n; i++)
        order[i] = i;
    qsort_r(order, input->n, sizeof *order, by_subnet, (void *)(uintptr_t)input);
    for (unsigned first = 0, end; first < input->n; first = end) {
        const char *subnet = input->subnet[order[first]];
        for (end = first + 1; end < input->n && strcmp(input->subnet[order[end]], subnet) == 0;)
            end++;
        if (*subnet && end - first > 1 && end - first < input->n)
            add_group(folding, "subnet", subnet, order + first, end - first);
    }
    for (unsigned i = 0; i < input->n; i++)
        add_group(folding, "host", input->name[order[i]], order + i, 1);
}

/* Whether all pairs of two sets that are known fail that way, and more than one is where there are
 * more. *fresh: how many of them are not reported yet. */
static bool all_bad(const struct folding *folding, const struct group *from, const struct group *to,
                    size_t *fresh)
{
    size_t pairs = 0;
    for (size_t i = 0; i < from->n; i++)
        for (size_t j = 0; j < to->n; j++) {
            enum muster_fold_pair pair = pair_at(folding, from->host[i], to->host[j]);
            if (pair == MUSTER_FOLD_GOOD)
                return false;
            pairs += pair == MUSTER_FOLD_BAD;
            *fresh +=
                (size_t)folding->left[(size_t)from->host[i] * folding->input->n + to->host[j]];
        }
    return pairs > (from->n * to->n > 1 ? 1 : 0);
}

/* Those of all hosts that are not in the group. */
static struct group others_of(const struct folding *folding, const struct group *group)
{
    size_t n = 0;
    unsigned *host = muster_arena_array(folding->arena, folding->input->n, sizeof *host);
    for (unsigned i = 0; host && i < folding->input->n; i++) {
        bool is_in = false;
        for (size_t j = 0; j < group->n && !is_in; j++)
            is_in = group->host[j] == i;
        if (!is_in)
            host[n++] = i;
    }
    return (struct group){"", "all others", host, n};
}

static void take(struct folding *folding, const struct group *from, const struct group *to,
                 struct muster_fold *fold)
{
    for (size_t i = 0; i < from->n; i++)
        for (size_t j = 0; j < to->n; j++) {
            char *left = &folding->left[(size_t)from->host[i] * folding->input->n + to->host[j]];
            if (*left) {
                fold->pairs++;
                fold->from = from->host[i];
                fold->to = to->host[j];
            }
            *left = 0;
        }
}

/* A group against all others, or against one other group, one way or both. */
static void report_if_bad(struct folding *folding, const struct group *a, const struct group *b)
{
    size_t there_fresh = 0, back_fresh = 0;
    bool there = all_bad(folding, a, b, &there_fresh), back = all_bad(folding, b, a, &back_fresh);
    bool alone = !*b->word;
    if (!(there && there_fresh) && !(back && back_fresh))
        return;
    const char *text;
    if (alone)
        text =
            there && back
                ? muster_arena_format(folding->arena, "%s %s, both ways", a->word, a->name)
            : there
                ? muster_arena_format(folding->arena, "from %s %s to all others", a->word, a->name)
                : muster_arena_format(folding->arena, "from all others to %s %s", a->word, a->name);
    else if (there && back)
        text = muster_arena_format(folding->arena, "between %s %s and %s %s, both ways", a->word,
                                   a->name, b->word, b->name);
    else
        text = muster_arena_format(folding->arena, "from %s %s to %s %s", there ? a->word : b->word,
                                   there ? a->name : b->name, there ? b->word : a->word,
                                   there ? b->name : a->name);
    struct muster_fold *fold =
        muster_arena_add(folding->arena, &folding->fold, &folding->folds, sizeof *fold);
    *fold = (struct muster_fold){.text = text};
    if (there)
        take(folding, a, b, fold);
    if (back)
        take(folding, b, a, fold);
}

static bool has_left(const struct folding *folding, const struct group *group)
{
    size_t n = folding->input->n;
    for (size_t i = 0; i < group->n; i++)
        for (size_t j = 0; j < n; j++)
            if (folding->left[group->host[i] * n + j] || folding->left[j * n + group->host[i]])
                return true;
    return false;
}

static int by_pairs(const void *a, const void *b)
{
    const struct muster_fold *x = a, *y = b;
    return x->pairs != y->pairs ? (x->pairs < y->pairs ? 1 : -1) : strcmp(x->text, y->text);
}

static void fold_all(struct folding *folding)
{
    for (size_t i = 0; i < folding->groups; i++) {
        const struct group *group = &folding->group[i];
        if (!has_left(folding, group))
            continue;
        const struct group others = others_of(folding, group);
        if (others.host && others.n > 1)
            report_if_bad(folding, group, &others);
    }
    for (size_t i = 0; i < folding->groups; i++)
        for (size_t j = i + 1; j < folding->groups && has_left(folding, &folding->group[i]); j++)
            report_if_bad(folding, &folding->group[i], &folding->group[j]);
}

size_t muster_hosts_fold(const struct muster_fold_input *input, struct muster_arena *arena,
                         const struct muster_fold **folds)
{
    size_t cells = (size_t)input->n * input->n;
    struct folding folding = {
        .input = input,
        .arena = arena,
        .left = muster_arena_array(arena, cells + 1, 1),
        .order = muster_arena_array(arena, input->n + 1, sizeof(unsigned)),
    };
    *folds = NULL;
    if (!folding.left || !folding.order)
        return 0;
    for (unsigned i = 0; i < input->n; i++)
        for (unsigned j = 0; j < input->n; j++)
            folding.left[(size_t)i * input->n + j] =
                (char)(pair_at(&folding, i, j) == MUSTER_FOLD_BAD);
    find_groups(&folding);
    if (!arena->failed)
        fold_all(&folding);
    if (arena->failed || !folding.folds)
        return 0;
    qsort(folding.fold, folding.folds, sizeof *folding.fold, by_pairs);
    *folds = folding.fold;
    return folding.folds;
}
