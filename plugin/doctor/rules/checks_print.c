#include "doctor/rules/checks_print.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "doctor/rules/job_log.h"

static void put_check_as(const struct muster_check *check, const char *status, int indent,
                         FILE *out)
{
    fprintf(out, "%*s%-9s %s", indent, "", status, check->id);
    if (check->found[0])
        fprintf(out, ": %s", check->found);
    fputc('\n', out);
    for (int i = 0; i < check->evidences; i++)
        fprintf(out, "%*s- %s\n", indent + 10, "", check->evidence[i]);
    if (check->left_out)
        fprintf(out, "%*s- and %d more\n", indent + 10, "", check->left_out);
}

static void put_check(const struct muster_check *check, int indent, FILE *out)
{
    put_check_as(check, muster_check_name(check->status), indent, out);
}

static void put_advice(const struct muster_check *check, int indent, FILE *out)
{
    if (check->status == MUSTER_CHECK_OK || check->status == MUSTER_CHECK_UNCHECKED)
        return;
    if (check->expected[0])
        fprintf(out, "%*sexpected: %s\n", indent + 10, "", check->expected);
    if (check->advice[0])
        fprintf(out, "%*sfix: %s\n", indent + 10, "", check->advice);
}

static bool is_unchecked(const struct muster_check *check)
{
    return check->status == MUSTER_CHECK_UNCHECKED;
}

/* Whether check i is the first that could not run for this reason. */
static bool is_first_reason(const struct muster_checks *checks, int i)
{
    for (int j = 0; j < i; j++)
        if (is_unchecked(&checks->at[j]) && strcmp(checks->at[j].found, checks->at[i].found) == 0)
            return false;
    return true;
}

static bool same_reason(const struct muster_check *a, const struct muster_check *b)
{
    return is_unchecked(a) && is_unchecked(b) && strcmp(a->found, b->found) == 0;
}

/* Whether the subject of check j stands in the list that check i begins. */
static bool is_listed(const struct muster_checks *checks, int i, int j)
{
    size_t length = strcspn(checks->at[j].id, ".");
    for (int k = i; k < j; k++)
        if (same_reason(&checks->at[k], &checks->at[i]) &&
            strncmp(checks->at[k].id, checks->at[j].id, length + 1) == 0)
            return true;
    return false;
}

/* The checks that could not run for the reason of check i: their subjects, each once, or the id
 * where that is one. */
static void put_subjects(const struct muster_checks *checks, int i, FILE *out)
{
    const char *separator = "";
    int n = 0;
    for (int j = i; j < checks->n; j++)
        n += same_reason(&checks->at[j], &checks->at[i]);
    if (n == 1) {
        fputs(checks->at[i].id, out);
        return;
    }
    for (int j = i; j < checks->n; j++) {
        if (!same_reason(&checks->at[j], &checks->at[i]) || is_listed(checks, i, j))
            continue;
        fprintf(out, "%s%.*s", separator, (int)strcspn(checks->at[j].id, "."), checks->at[j].id);
        separator = ", ";
    }
    fprintf(out, " (%d checks)", n);
}

/* Behind what was found: it is long, and mends nothing. */
static void put_not_run(const struct muster_checks *checks, FILE *out)
{
    const char *word = "not run";
    for (int i = 0; i < checks->n; i++) {
        if (!is_unchecked(&checks->at[i]) || !is_first_reason(checks, i))
            continue;
        fprintf(out, "%-9s ", word);
        put_subjects(checks, i, out);
        fprintf(out, ": %s\n", checks->at[i].found);
        word = "";
    }
}

static void put_symptoms(const struct muster_checks *checks, const struct muster_causes *causes,
                         int cause, int indent, FILE *out)
{
    for (int i = 0; i < causes->symptoms; i++) {
        if (!(causes->at[cause].explains & 1u << i) ||
            causes->symptom[i].check == causes->at[cause].check)
            continue;
        if (causes->symptom[i].check < 0)
            fprintf(out, "%*s%s\n", indent, "", causes->symptom[i].id);
        else
            put_check(&checks->at[causes->symptom[i].check], indent, out);
    }
}

static void put_causes(const struct muster_checks *checks, const struct muster_causes *causes,
                       FILE *out)
{
    for (int i = 0; i < causes->n; i++) {
        const struct muster_check *cause = &checks->at[causes->at[i].check];
        put_check_as(cause, causes->at[i].suspect ? "suspect" : muster_check_name(cause->status), 0,
                     out);
        put_advice(cause, 0, out);
        fputs(causes->at[i].suspect ? "          may explain:\n" : "          explains:\n", out);
        put_symptoms(checks, causes, i, 12, out);
        for (int j = 0; j < causes->at[i].others; j++) {
            const struct muster_check *other = &checks->at[causes->at[i].other[j]];
            fprintf(out, "          or %s: %s\n", other->id, other->found);
        }
    }
}

/* Checks that would explain a symptom and could not run: what to look at next. */
static void put_unseen_causes(const struct muster_checks *checks, const char *symptom, FILE *out)
{
    const char *separator = "no cause seen; not checked: ";
    for (int i = 0; i < checks->n; i++) {
        if (!is_unchecked(&checks->at[i]) || !muster_cause_weight(checks->at[i].id, symptom))
            continue;
        fprintf(out, "%*s%s%s", *separator == 'n' ? 10 : 0, "", separator, checks->at[i].id);
        separator = ", ";
    }
    if (*separator == ',')
        fputc('\n', out);
}

/* Index of the symptom that check i is; -1. */
static int symptom_of(const struct muster_causes *causes, int check)
{
    for (int i = 0; i < causes->symptoms; i++)
        if (causes->symptom[i].check == check)
            return i;
    return -1;
}

/* Whether a check stands in the causes already, as one or as a symptom. */
static bool is_shown(const struct muster_causes *causes, int check)
{
    int symptom = symptom_of(causes, check);
    for (int i = 0; i < causes->n; i++)
        if (causes->at[i].check == check)
            return true;
    return symptom >= 0 && !(causes->unexplained & 1u << symptom);
}

static void put_rest(const struct muster_checks *checks, const struct muster_causes *causes,
                     enum muster_check_status status, FILE *out)
{
    for (int i = 0; i < checks->n; i++) {
        if (checks->at[i].status != status || is_shown(causes, i))
            continue;
        put_check(&checks->at[i], 0, out);
        put_advice(&checks->at[i], 0, out);
        if (symptom_of(causes, i) >= 0)
            put_unseen_causes(checks, checks->at[i].id, out);
    }
}

enum { STATES = 4 };

static void count_states(const struct muster_checks *checks, int count[STATES])
{
    memset(count, 0, STATES * sizeof *count);
    for (int i = 0; i < checks->n; i++)
        count[checks->at[i].status]++;
}

/* Why a check could not run; NULL: it did, or nobody asked. */
static const char *why_not_run(const struct muster_checks *checks, const char *id)
{
    for (int i = 0; i < checks->n; i++)
        if (is_unchecked(&checks->at[i]) && strcmp(checks->at[i].id, id) == 0)
            return checks->at[i].found;
    return NULL;
}

/* NULL: one is here, or nobody asked. */
static const char *why_no_gpu(const struct muster_checks *checks)
{
    return why_not_run(checks, "gpu.present");
}

/* Kinds of checks of which none could run, where a job needs what they are of: " (GPUs, RDMA)". */
static void put_kinds(const struct muster_checks *checks, bool but_gpus, FILE *out)
{
    bool gpus = why_no_gpu(checks) && !but_gpus;
    bool rdma = (checks->several_hosts && why_not_run(checks, "ib.ports")) ||
                why_not_run(checks, "hosts.rdma");
    if (gpus || rdma)
        fprintf(out, " (%s%s%s)", gpus ? "GPUs" : "", gpus && rdma ? ", " : "", rdma ? "RDMA" : "");
}

enum state { STATE_OK, STATE_WARNING, STATE_PROBLEM, STATE_NOT_KNOWN };

/* What was not checked may be wrong, so that nobody reads that all is well then. */
static enum state state_of(const struct muster_checks *checks, const int count[STATES])
{
    return count[MUSTER_CHECK_PROBLEM]                     ? STATE_PROBLEM
           : count[MUSTER_CHECK_WARNING]                   ? STATE_WARNING
           : why_no_gpu(checks) || !count[MUSTER_CHECK_OK] ? STATE_NOT_KNOWN
                                                           : STATE_OK;
}

/* Symptoms of the job for which no cause was seen, suspects or none. */
static unsigned not_known(const struct muster_causes *causes)
{
    unsigned symptoms = causes->unexplained;
    for (int i = 0; i < causes->n; i++)
        symptoms |= causes->at[i].suspect ? causes->at[i].explains : 0;
    for (int i = 0; i < causes->symptoms; i++)
        symptoms &= causes->symptom[i].check < 0 ? ~0u : ~(1u << i);
    return symptoms;
}

/* "No cause of hang_stuck was seen, only a suspect": what is not known comes first. */
static void put_not_known(const struct muster_causes *causes, FILE *out)
{
    const char *separator = "No cause of ";
    unsigned symptoms = not_known(causes);
    int suspects = 0;
    if (!symptoms)
        return;
    for (int i = 0; i < causes->n; i++)
        suspects += causes->at[i].suspect;
    for (int i = 0; i < causes->symptoms; i++) {
        if (!(symptoms & 1u << i))
            continue;
        fprintf(out, "%s%s", separator, causes->symptom[i].id);
        separator = ", ";
    }
    fprintf(out, " was seen%s. ",
            suspects == 0   ? ""
            : suspects == 1 ? ", only a suspect that is fine on most hosts"
                            : ", only suspects that are fine on most hosts");
}

static void put_verdict(const struct muster_checks *checks, const struct muster_causes *causes,
                        FILE *out)
{
    int count[STATES];
    count_states(checks, count);
    int problems = count[MUSTER_CHECK_PROBLEM], warnings = count[MUSTER_CHECK_WARNING];
    enum state state = state_of(checks, count);
    bool between = checks->n && strncmp(checks->at[0].id, "hosts.", 6) == 0;
    const char *looked_at = between ? "What is between these hosts" : "This host";
    put_not_known(causes, out);
    if (state == STATE_PROBLEM)
        fprintf(out, "%s would spoil a job: %d problem%s", looked_at, problems,
                problems == 1 ? "" : "s");
    else if (state == STATE_WARNING)
        fprintf(out, "%s can run a job, perhaps not well: %d warning%s", looked_at, warnings,
                warnings == 1 ? "" : "s");
    else if (state == STATE_NOT_KNOWN && why_no_gpu(checks))
        fprintf(out, "Not known whether this host can run a job: %s", why_no_gpu(checks));
    else if (state == STATE_OK)
        fprintf(out, "Nothing is wrong %s as far as was checked",
                between ? "between these hosts" : "with this host");
    else
        fprintf(out, "Nothing was checked");
    if (!count[MUSTER_CHECK_UNCHECKED]) {
        fprintf(out, "; all %d checks ran.\n", checks->n);
        return;
    }
    fprintf(out, "; %d of %d checks could not run", count[MUSTER_CHECK_UNCHECKED], checks->n);
    put_kinds(checks, state == STATE_NOT_KNOWN, out);
    fputs(".\n", out);
}

/* Whether the first cause, as certain as one is, explains what the job's log shows. */
static bool explains_log(const struct muster_checks *checks, const struct muster_causes *causes)
{
    bool shown = causes->n && muster_job_log_find(checks->at[causes->at[0].check].id);
    for (int i = 0; i < causes->symptoms && causes->n; i++)
        shown |= causes->at[0].explains & 1u << i &&
                 (causes->symptom[i].check < 0 || muster_job_log_find(causes->symptom[i].id));
    return shown && !causes->at[0].suspect;
}

/* Where a job's log was read: why the job failed, or why that is not known. */
static void put_log(const struct muster_checks *checks, const struct muster_causes *causes,
                    FILE *out)
{
    const struct muster_check *log = NULL;
    for (int i = 0; i < checks->n; i++)
        log = strcmp(checks->at[i].id, "log.job") == 0 ? &checks->at[i] : log;
    if (!log)
        return;
    if (explains_log(checks, causes))
        fprintf(out, "The job failed most likely because of this: %s.\n",
                checks->at[causes->at[0].check].found);
    else
        fprintf(out, "Why the job failed is not known: %s\n", log->found);
}

static void put_counts(const struct muster_checks *checks, bool all, FILE *out)
{
    int count[STATES];
    count_states(checks, count);
    fprintf(out, "%d problem%s, %d warning%s, %d ok, %d unchecked%s\n", count[MUSTER_CHECK_PROBLEM],
            count[MUSTER_CHECK_PROBLEM] == 1 ? "" : "s", count[MUSTER_CHECK_WARNING],
            count[MUSTER_CHECK_WARNING] == 1 ? "" : "s", count[MUSTER_CHECK_OK],
            count[MUSTER_CHECK_UNCHECKED], all ? "" : " (--all shows them)");
}

void muster_checks_text(const struct muster_checks *checks, const struct muster_causes *causes,
                        bool all, FILE *out)
{
    put_log(checks, causes, out);
    put_verdict(checks, causes, out);
    put_causes(checks, causes, out);
    for (int i = 0; i < causes->symptoms; i++)
        if (causes->unexplained & 1u << i && causes->symptom[i].check < 0) {
            fprintf(out, "%s: nothing seen on this host explains it\n", causes->symptom[i].id);
            put_unseen_causes(checks, causes->symptom[i].id, out);
        }
    for (int status = MUSTER_CHECK_PROBLEM; status >= MUSTER_CHECK_OK; status--)
        if (all || status >= MUSTER_CHECK_WARNING)
            put_rest(checks, causes, (enum muster_check_status)status, out);
    if (!all)
        put_not_run(checks, out);
    put_counts(checks, all, out);
}

static void json_causes(struct muster_json *json, const struct muster_checks *checks,
                        const struct muster_causes *causes)
{
    muster_json_array(json, "causes");
    for (int i = 0; i < causes->n; i++) {
        muster_json_object(json, NULL);
        muster_json_str(json, "id", checks->at[causes->at[i].check].id);
        if (causes->at[i].suspect)
            muster_json_bool(json, "suspect", true);
        muster_json_array(json, "explains");
        for (int j = 0; j < causes->symptoms; j++)
            if (causes->at[i].explains & 1u << j && causes->symptom[j].check != causes->at[i].check)
                muster_json_str(json, NULL, causes->symptom[j].id);
        muster_json_end(json);
        muster_json_array(json, "or");
        for (int j = 0; j < causes->at[i].others; j++)
            muster_json_str(json, NULL, checks->at[causes->at[i].other[j]].id);
        muster_json_end(json);
        muster_json_end(json);
    }
    muster_json_end(json);
    muster_json_array(json, "unexplained");
    for (int i = 0; i < causes->symptoms; i++)
        if (causes->unexplained & 1u << i)
            muster_json_str(json, NULL, causes->symptom[i].id);
    muster_json_end(json);
}

static void json_summary(struct muster_json *json, const struct muster_checks *checks,
                         const struct muster_causes *causes)
{
    static const char *const words[] = {"ok", "warning", "problem", "not_known"};
    int count[STATES];
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    count_states(checks, count);
    if (out) {
        put_verdict(checks, causes, out);
        fclose(out);
    }
    if (text)
        text[strcspn(text, "\n")] = '\0';
    muster_json_object(json, "summary");
    muster_json_str(json, "state", words[state_of(checks, count)]);
    muster_json_str(json, "text", text);
    muster_json_i64(json, "problems", count[MUSTER_CHECK_PROBLEM]);
    muster_json_i64(json, "warnings", count[MUSTER_CHECK_WARNING]);
    muster_json_i64(json, "ok", count[MUSTER_CHECK_OK]);
    muster_json_i64(json, "unchecked", count[MUSTER_CHECK_UNCHECKED]);
    muster_json_end(json);
    free(text);
}

static void json_check(struct muster_json *json, const struct muster_check *check)
{
    muster_json_object(json, NULL);
    muster_json_str(json, "id", check->id);
    muster_json_str(json, "status", muster_check_name(check->status));
    muster_json_str(json, "class", check->class_id);
    muster_json_str(json, "found", check->found);
    muster_json_str(json, "expected", check->expected);
    muster_json_array(json, "evidence");
    for (int j = 0; j < check->evidences; j++)
        muster_json_str(json, NULL, check->evidence[j]);
    if (check->left_out) {
        char text[32];
        snprintf(text, sizeof text, "and %d more", check->left_out);
        muster_json_str(json, NULL, text);
    }
    muster_json_end(json);
    muster_json_str(json, "advice", check->advice);
    muster_json_real(json, "ms", check->ms, 3);
    muster_json_end(json);
}

void muster_checks_json(const struct muster_checks *checks, const struct muster_causes *causes,
                        const struct muster_checks_place *place, FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", 1);
    muster_json_str(&json, "muster", MUSTER_VERSION);
    muster_json_str(&json, "host", place->host);
    muster_json_str(&json, "host_id", place->host_id);
    if (place->rank >= 0)
        muster_json_i64(&json, "rank", place->rank);
    if (place->local_rank >= 0)
        muster_json_i64(&json, "local_rank", place->local_rank);
    json_summary(&json, checks, causes);
    json_causes(&json, checks, causes);
    muster_json_array(&json, "checks");
    for (int i = 0; i < checks->n; i++)
        json_check(&json, &checks->at[i]);
    muster_json_end(&json);
    muster_json_end(&json);
    fputc('\n', out);
}
