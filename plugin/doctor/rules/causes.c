#include "doctor/rules/causes.h"

#include <stdio.h>
#include <string.h>

#include "base/finding_kinds.h"
#include "doctor/rules/job_log.h"

enum {
    LEAST_WEIGHT = 1,
    GREATEST_WEIGHT = 10,
    COST_OF_A_CAUSE = GREATEST_WEIGHT * (MUSTER_SYMPTOMS + 1),
    LINES_MAX = 4,     /* of a log that are to be explained */
    LESS_OF_LINES = 3, /* so much less than the weightiest, and a line is its consequence */
    HALVES = 2,        /* of a suspect's weight: those that nearly all hosts have lack one */
    SUSPECT_STEP = 2,  /* what is fine by itself stands so far behind what was found */
};

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

/* Whether a symptom is of a job that is slow. */
static bool is_slow(const char *symptom)
{
    enum muster_finding_kind kind = muster_finding_kind_of(symptom, strlen(symptom));
    if (kind == MUSTER_FINDING_KINDS)
        return has_word("p2p.bandwidth gpu.p2p_status", symptom, " ");
    enum muster_finding_scope scope = muster_finding_rows[kind].scope;
    return scope == MUSTER_SCOPE_SLOW || scope == MUSTER_SCOPE_PATH;
}

/* Whether all symptoms of a list are, and none of a job that fails. */
static bool is_slowness(const char *symptoms)
{
    char word[32];
    for (const char *at = symptoms; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (!is_slow(word))
            return false;
        at += n;
    }
    return true;
}

static int weight_in(const struct muster_cause_row *rows, size_t n, const char *cause,
                     const char *symptom)
{
    int weight = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].weight > weight && strcmp(rows[i].cause, cause) == 0 &&
            has_word(rows[i].symptoms, symptom, " "))
            weight = rows[i].weight;
    return weight;
}

int muster_cause_weight(const char *cause, const char *symptom)
{
    const struct muster_job_log_kind *line = muster_job_log_find(cause);
    const struct muster_job_log_kind *of = muster_job_log_find(symptom);
    if (of)
        return muster_job_log_weight(of, cause);
    if (line)
        return strcmp(line->shows, symptom) == 0 ? line->weight : 0;
    return weight_in(muster_cause_rows, muster_cause_rows_n, cause, symptom);
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
    enum muster_finding_kind kind = muster_finding_kind_of(name, length);
    const char *finding = kind < MUSTER_FINDING_KINDS ? muster_finding_rows[kind].name : NULL;
    return finding && is_explained(finding) ? finding : NULL;
}

static bool is_seen(const struct muster_check *check)
{
    return check->status >= MUSTER_CHECK_WARNING;
}

static bool is_known(const struct muster_causes *causes, const char *symptom)
{
    for (int i = 0; i < causes->symptoms; i++)
        if (strcmp(causes->symptom[i].id, symptom) == 0)
            return true;
    return false;
}

static void add_symptom(struct muster_causes *causes, const char *id, int check)
{
    if (is_known(causes, id) || causes->symptoms == MUSTER_SYMPTOMS)
        return;
    causes->symptom[causes->symptoms].id = id;
    causes->symptom[causes->symptoms++].check = check;
}

/* The next word of a list, as a symptom. NULL: none, with err. */
static const char *next_symptom(const char **list, struct muster_err *err)
{
    const char *word = *list;
    size_t n = strcspn(word, ",");
    const char *id = muster_symptom_find(word, n);
    if (!id)
        muster_fail(err, "no symptom \"%.*s\"; docs/reference/doctor-command.md lists them",
                    (int)(n < 100 ? n : 100), word);
    *list = word + n + (word[n] == ',');
    return id;
}

int muster_symptoms_check(const char *symptoms, struct muster_err *err)
{
    while (symptoms && *symptoms)
        if (!next_symptom(&symptoms, err))
            return -1;
    return 0;
}

int muster_difference_weight(const char *check, const char *symptoms)
{
    struct muster_err err;
    int weight = 0;
    while (symptoms && *symptoms) {
        const char *id = next_symptom(&symptoms, &err);
        int of_word =
            id ? weight_in(muster_difference_rows, muster_difference_rows_n, check, id) : 0;
        weight = of_word > weight ? of_word : weight;
    }
    return weight;
}

/* A finding that brings about another one is a cause beside the checks, as the job showed it. */
static int add_as_check(struct muster_checks *checks, const char *id)
{
    if (strcmp(id, muster_finding_rows[MUSTER_FINDING_POLICY_DIVERGENCE].name) != 0)
        return -1;
    struct muster_check *check = muster_check_begin(checks, id, "F34,F37");
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "ranks ran one operation in different ways, as the job showed");
    muster_check_expected(check, "one algorithm, protocol and number of channels on all ranks");
    muster_check_advice(check, "what chooses them has to be equal on all hosts: `muster doctor "
                               "--hosts`, or `compare` with the same --symptom, shows which "
                               "version, variable, file or HCA differs");
    return checks->n - 1;
}

static int add_given(struct muster_causes *causes, const char *given, struct muster_checks *checks,
                     struct muster_err *err)
{
    while (given && *given) {
        const char *id = next_symptom(&given, err);
        if (!id)
            return -1;
        if (!is_known(causes, id))
            add_symptom(causes, id, add_as_check(checks, id));
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

/* The weightiest line of a log that is no symptom yet and shows one; -1: none. */
static int next_line(const struct muster_causes *causes, const struct muster_checks *checks,
                     bool any)
{
    int best = -1;
    for (int i = 0; i < checks->n; i++) {
        const struct muster_job_log_kind *line = checks->at[i].line;
        if (!line || is_known(causes, line->id) ||
            !(is_known(causes, line->shows) || (any && is_seen(&checks->at[i]))))
            continue;
        if (best < 0 || line->weight > checks->at[best].line->weight)
            best = i;
    }
    return best;
}

/* Lines of the job's log are symptoms, too: those that show what the job showed, else any. */
static void add_lines(struct muster_causes *causes, struct muster_checks *checks)
{
    bool any = next_line(causes, checks, false) < 0;
    int best = 0;
    for (int n = 0, at; n < LINES_MAX && (at = next_line(causes, checks, any)) >= 0; n++) {
        const struct muster_job_log_kind *line = checks->at[at].line;
        best = n == 0 ? line->weight : best;
        if (line->weight < best - LESS_OF_LINES)
            return;
        add_symptom(causes, line->id, at);
        add_symptom(causes, line->shows, -1);
        muster_check_worse(&checks->at[at], MUSTER_CHECK_WARNING);
    }
}

struct candidate {
    bool suspect;
    int check, weight[MUSTER_SYMPTOMS];
    unsigned explains;
};

/* A test that only warns, as of boards that have no P2P, is no step: it would take what sets it off
 * for a cause of all else, before causes that weigh more. */
static bool is_step(const struct muster_checks *checks, int symptom)
{
    return symptom < 0 || checks->at[symptom].line ||
           checks->at[symptom].status == MUSTER_CHECK_PROBLEM;
}

/* What explains a symptom that brings about another one explains that, too: no more directly than
 * either step. */
static void follow(const struct muster_checks *checks, const struct muster_causes *causes,
                   struct candidate *candidate)
{
    for (int via = 0; via < causes->symptoms; via++)
        for (int to = 0; to < causes->symptoms && candidate->weight[via] &&
                         is_step(checks, causes->symptom[via].check);
             to++) {
            int step = muster_cause_weight(causes->symptom[via].id, causes->symptom[to].id);
            int weight = step < candidate->weight[via] ? step : candidate->weight[via];
            if (via != to && weight > candidate->weight[to])
                candidate->weight[to] = weight;
        }
}

/* What a line of a log points at may be fine by itself. */
static int weight_for_line(const struct muster_check *check, const struct muster_check *line)
{
    int weight = muster_job_log_weight(line->line, check->id);
    if (check->explains && !has_word(check->explains, line->line->shows, " "))
        return 0;
    if (is_seen(check) || weight == 0)
        return weight;
    if (check->suspect_blind)
        return 0;
    if (check->suspect_of && is_slowness(check->suspect_of) && !is_slowness(line->line->shows))
        return 0;
    int step = check->suspect_of ? 2 * SUSPECT_STEP : SUSPECT_STEP; /* that rests on little */
    return check->suspect[0] && weight > step ? weight - step : 0;
}

/* What is wrong by itself stands a step before what only may be. */
static int direct_weight(const struct muster_check *check, const char *symptom)
{
    int weight = is_seen(check) ? muster_cause_weight(check->id, symptom) : 0;
    if (check->explains && !has_word(check->explains, symptom, " "))
        return 0;
    return weight && check->status == MUSTER_CHECK_PROBLEM ? weight + 1 : weight;
}

static int find_candidates(const struct muster_checks *checks, const struct muster_causes *causes,
                           struct candidate *candidate)
{
    int n = 0;
    for (int i = 0; i < checks->n; i++) {
        struct candidate *at = &candidate[n];
        *at = (struct candidate){.check = i, .suspect = !is_seen(&checks->at[i])};
        if (at->suspect && !checks->at[i].suspect[0])
            continue;
        for (int j = 0; j < causes->symptoms; j++) {
            int symptom = causes->symptom[j].check;
            at->weight[j] = symptom >= 0 && checks->at[symptom].line
                                ? weight_for_line(&checks->at[i], &checks->at[symptom])
                                : direct_weight(&checks->at[i], causes->symptom[j].id);
        }
        follow(checks, causes, at);
        for (int j = 0; j < causes->symptoms; j++)
            at->explains |= at->weight[j] ? 1u << j : 0u;
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

/* Whether nothing but rows of what very many hosts have ties a cause to what it explains. */
static bool is_common(const struct muster_causes *causes, const char *cause, unsigned explains)
{
    unsigned common = 0;
    for (size_t i = 0; i < muster_common_rows_n; i++)
        for (int j = 0; j < causes->symptoms; j++)
            if (strcmp(muster_common_rows[i].cause, cause) == 0 &&
                has_word(muster_common_rows[i].symptoms, causes->symptom[j].id, " "))
                common |= 1u << j;
    return explains && (explains & ~common) == 0;
}

static void take(const struct muster_checks *checks, struct muster_causes *causes,
                 const struct candidate *candidate, int n, const struct best *best, unsigned set)
{
    while (set && causes->n < MUSTER_CAUSES) {
        int chosen = best[set].candidate, at = causes->n++;
        causes->at[at].check = candidate[chosen].check;
        causes->at[at].explains = set & ~best[set].before;
        causes->at[at].suspect =
            candidate[chosen].suspect ||
            is_common(causes, checks->at[candidate[chosen].check].id, causes->at[at].explains);
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
            if (causes->at[i].explains & 1u << j && !causes->at[i].suspect)
                muster_check_worse(&checks->at[causes->at[i].check],
                                   symptom < 0 ? MUSTER_CHECK_PROBLEM : checks->at[symptom].status);
        }
}

/* Whether what was found is something else than what could bring a symptom about. */
static bool found_another(const struct muster_check *check, const char *symptom)
{
    return is_seen(check) && muster_cause_weight(check->id, symptom) > 0 &&
           !(check->explains && !has_word(check->explains, symptom, " "));
}

/* Those of words of their own stand behind all that have rows. */
static int suspect_weight(const struct muster_check *check, const char *symptom, bool several_hosts)
{
    if (!check->suspect[0] || found_another(check, symptom) ||
        (check->suspect_of_kind && several_hosts))
        return 0;
    if (check->suspect_of)
        return has_word(check->suspect_of, symptom, " ")
                   ? HALVES * (LEAST_WEIGHT + check->suspect_weight) - check->suspect_blind
                   : 0;
    return HALVES * (GREATEST_WEIGHT + 1) * muster_cause_weight(check->id, symptom);
}

/* Whether a check can make a job slow, and nothing else. */
static bool only_slows(const char *check)
{
    bool known = false, fails = false;
    for (size_t i = 0; i < muster_cause_rows_n; i++)
        if (strcmp(muster_cause_rows[i].cause, check) == 0) {
            known = true;
            fails |= !is_slowness(muster_cause_rows[i].symptoms);
        }
    return known && !fails;
}

/* Whether something is wrong for certain, though nothing ties it to what the job showed. What only
 * slows most jobs is no reason why one hangs or sums wrongly; some do not start without it. */
static bool has_problem(const struct muster_checks *checks, const char *symptom)
{
    for (int i = 0; i < checks->n; i++)
        if (checks->at[i].status == MUSTER_CHECK_PROBLEM &&
            !muster_symptom_find(checks->at[i].id, strlen(checks->at[i].id)) &&
            (is_slowness(symptom) || strcmp(symptom, "init_error") == 0 ||
             !only_slows(checks->at[i].id)))
            return true;
    return false;
}

/* The suspect that weighs most for a symptom; -1: none. The least ones stand behind every problem.
 */
static int find_suspect(const struct muster_checks *checks, const char *symptom)
{
    int best = -1, most = has_problem(checks, symptom) ? HALVES * GREATEST_WEIGHT : 0;
    for (int i = 0; i < checks->n; i++) {
        int weight = suspect_weight(&checks->at[i], symptom, checks->several_hosts);
        if (weight > most) {
            most = weight;
            best = i;
        }
    }
    return best;
}

/* What is fine by itself leads where nothing else explains a symptom. */
static void add_suspects(struct muster_causes *causes, struct muster_checks *checks)
{
    const int first = causes->n;
    for (int j = 0; j < causes->symptoms; j++) {
        int check =
            causes->unexplained & 1u << j ? find_suspect(checks, causes->symptom[j].id) : -1;
        int at = first;
        while (check >= 0 && at < causes->n && causes->at[at].check != check)
            at++;
        if (check < 0 || at == MUSTER_CAUSES)
            continue;
        if (at == causes->n) {
            causes->at[causes->n].suspect = true;
            causes->at[causes->n++].check = check;
        }
        causes->at[at].explains |= 1u << j;
        causes->unexplained &= ~(1u << j);
    }
    for (int at = 0; at < causes->n; at++) {
        struct muster_check *check = &checks->at[causes->at[at].check];
        if (!causes->at[at].suspect || !check->suspect[0])
            continue;
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "%s", check->suspect);
    }
}

int muster_causes_find(struct muster_checks *checks, const char *given,
                       struct muster_causes *causes, struct muster_err *err)
{
    *causes = (struct muster_causes){.n = 0};
    if (add_given(causes, given, checks, err))
        return -1;
    add_failed(causes, checks);
    add_lines(causes, checks);
    unsigned all = 0, sets = 1u << causes->symptoms;
    struct muster_arena *memory = &checks->memory;
    struct candidate *candidate = muster_arena_array(memory, MUSTER_CHECKS + 1, sizeof *candidate);
    struct best *best = muster_arena_array(memory, sets, sizeof *best);
    if (muster_arena_check(memory, err, "the checks"))
        return -1;
    int n = find_candidates(checks, causes, candidate);
    for (int i = 0; i < n; i++)
        all |= candidate[i].explains;
    solve(candidate, n, best, sets);
    take(checks, causes, candidate, n, best, all);
    drop_chosen_others(causes);
    causes->unexplained = (sets - 1) & ~all;
    raise(checks, causes);
    add_suspects(causes, checks);
    return 0;
}
