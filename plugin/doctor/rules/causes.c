#include "doctor/rules/causes.h"

#include <stdlib.h>
#include <string.h>

#include "base/finding_kinds.h"

enum { GREATEST_WEIGHT = 10, COST_OF_A_CAUSE = GREATEST_WEIGHT * (MUSTER_SYMPTOMS + 1) };

/* Whether `word` is one of the words in a list. */
static bool has_word(const char *list, const char *word, const char *separators)
{
    size_t n = strlen(word);
    while (*list) {
        size_t length = strcspn(list, separators);
        if (length == n && strncmp(list, word, n) == 0)
            return true;
        list += length;
        list += strspn(list, separators);
    }
    return false;
}

int muster_cause_weight(const char *cause, const char *symptom)
{
    int weight = 0;
    for (size_t i = 0; i < muster_cause_rows_n; i++) {
        const struct muster_cause_row *row = &muster_cause_rows[i];
        if (row->weight > weight && strcmp(row->cause, cause) == 0 &&
            has_word(row->symptoms, symptom, " "))
            weight = row->weight;
    }
    return weight;
}

static bool is_explained(const char *symptom)
{
    for (size_t i = 0; i < muster_cause_rows_n; i++)
        if (has_word(muster_cause_rows[i].symptoms, symptom, " "))
            return true;
    return false;
}

static bool is_name(const char *symptom, const char *name, size_t length)
{
    return strlen(symptom) == length && strncmp(symptom, name, length) == 0;
}

const char *muster_symptom_find(const char *name, size_t length)
{
    for (int i = 0; muster_symptoms[i]; i++)
        if (is_name(muster_symptoms[i], name, length))
            return muster_symptoms[i];
    for (int kind = 0; kind < MUSTER_FINDING_KINDS; kind++) {
        const char *finding = muster_finding_rows[kind].name;
        if (is_name(finding, name, length))
            return is_explained(finding) ? finding : NULL;
    }
    return NULL;
}

static bool is_seen(const struct muster_check *check)
{
    return check->status >= MUSTER_CHECK_WARNING;
}

static void add_symptom(struct muster_causes *causes, const char *id, int check)
{
    for (int i = 0; i < causes->symptoms; i++)
        if (strcmp(causes->symptom[i].id, id) == 0)
            return;
    if (causes->symptoms == MUSTER_SYMPTOMS)
        return;
    causes->symptom[causes->symptoms].id = id;
    causes->symptom[causes->symptoms++].check = check;
}

static int add_given(struct muster_causes *causes, const char *given, struct muster_err *err)
{
    while (given && *given) {
        size_t n = strcspn(given, ",");
        const char *id = muster_symptom_find(given, n);
        if (!id)
            return muster_fail(err, "no symptom \"%.*s\"; docs/doctor.md lists them",
                               (int)(n < 100 ? n : 100), given);
        add_symptom(causes, id, -1);
        given += n + (given[n] == ',');
    }
    return 0;
}

static void add_failed(struct muster_causes *causes, const struct muster_checks *checks)
{
    for (int i = 0; i < checks->n; i++)
        if (is_seen(&checks->at[i]) &&
            muster_symptom_find(checks->at[i].id, strlen(checks->at[i].id)))
            add_symptom(causes, checks->at[i].id, i);
}

struct candidate {
    int check, weight[MUSTER_SYMPTOMS];
    unsigned explains;
};

static int find_candidates(const struct muster_checks *checks, const struct muster_causes *causes,
                           struct candidate *candidate)
{
    int n = 0;
    for (int i = 0; i < checks->n; i++) {
        struct candidate *at = &candidate[n];
        *at = (struct candidate){.check = i};
        if (!is_seen(&checks->at[i]))
            continue;
        for (int j = 0; j < causes->symptoms; j++) {
            at->weight[j] = muster_cause_weight(checks->at[i].id, causes->symptom[j].id);
            at->explains |= at->weight[j] ? 1u << j : 0u;
        }
        n += at->explains != 0;
    }
    return n;
}

/* What a set of symptoms costs to explain, and its last cause. */
struct best {
    int cost, candidate;
    unsigned before;
};

static int cost_of(const struct candidate *candidate, unsigned fresh)
{
    int cost = COST_OF_A_CAUSE;
    for (int i = 0; i < MUSTER_SYMPTOMS; i++)
        cost -= fresh & 1u << i ? candidate->weight[i] : 0;
    return cost;
}

/* best[set] over all sets, smaller ones first: a cause is added for every subset of what it
 * explains, so that each symptom goes to the cause that weighs most. */
static void solve(const struct candidate *candidate, int n, struct best *best, unsigned sets)
{
    for (unsigned set = 1; set < sets; set++)
        best[set].cost = -1;
    for (unsigned set = 0; set < sets; set++)
        for (int c = 0; c < n && best[set].cost >= 0; c++) {
            unsigned open = candidate[c].explains & ~set;
            for (unsigned fresh = open; fresh; fresh = (fresh - 1) & open) {
                int cost = best[set].cost + cost_of(&candidate[c], fresh);
                struct best *to = &best[set | fresh];
                if (to->cost < 0 || cost < to->cost)
                    *to = (struct best){cost, c, set};
            }
        }
}

static void take(struct muster_causes *causes, const struct candidate *candidate, int n,
                 const struct best *best, unsigned set)
{
    while (set && causes->n < MUSTER_CAUSES) {
        int chosen = best[set].candidate, at = causes->n++;
        causes->at[at].check = candidate[chosen].check;
        causes->at[at].explains = set & ~best[set].before;
        for (int c = 0; c < n && causes->at[at].others < MUSTER_CAUSES_OTHER; c++)
            if (c != chosen && candidate[c].explains & causes->at[at].explains)
                causes->at[at].other[causes->at[at].others++] = candidate[c].check;
        set = best[set].before;
    }
}

/* A chosen cause stands by itself, not under another one. */
static void drop_chosen_others(struct muster_causes *causes)
{
    for (int i = 0; i < causes->n; i++) {
        int kept = 0;
        for (int j = 0; j < causes->at[i].others; j++) {
            bool chosen = false;
            for (int k = 0; k < causes->n; k++)
                chosen |= causes->at[k].check == causes->at[i].other[j];
            if (!chosen)
                causes->at[i].other[kept++] = causes->at[i].other[j];
        }
        causes->at[i].others = kept;
    }
}

static void raise(struct muster_checks *checks, const struct muster_causes *causes)
{
    for (int i = 0; i < causes->n; i++)
        for (int j = 0; j < causes->symptoms; j++) {
            int symptom = causes->symptom[j].check;
            if (causes->at[i].explains & 1u << j)
                muster_check_worse(&checks->at[causes->at[i].check],
                                   symptom < 0 ? MUSTER_CHECK_PROBLEM : checks->at[symptom].status);
        }
}

int muster_causes_find(struct muster_checks *checks, const char *given,
                       struct muster_causes *causes, struct muster_err *err)
{
    *causes = (struct muster_causes){.n = 0};
    if (add_given(causes, given, err))
        return -1;
    add_failed(causes, checks);
    unsigned all = 0, sets = 1u << causes->symptoms;
    struct candidate *candidate = calloc(MUSTER_CHECKS + 1, sizeof *candidate);
    struct best *best = calloc(sets, sizeof *best);
    if (!candidate || !best) {
        free(candidate);
        free(best);
        return muster_fail_memory(err, "the causes");
    }
    int n = find_candidates(checks, causes, candidate);
    for (int i = 0; i < n; i++)
        all |= candidate[i].explains;
    solve(candidate, n, best, sets);
    take(causes, candidate, n, best, all);
    drop_chosen_others(causes);
    causes->unexplained = (sets - 1) & ~all;
    raise(checks, causes);
    free(candidate);
    free(best);
    return 0;
}
