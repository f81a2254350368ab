#include "cli/checks.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"

static const char *const words[] = {"ok", "unchecked", "warning", "problem"};

void muster_checks_end(struct muster_checks *checks)
{
    if (checks->n == 0)
        return;
    struct muster_check *last = &checks->at[checks->n - 1];
    last->ms = (double)(muster_now_ns() - last->begin_ns) / (double)MUSTER_NS_PER_MS;
}

struct muster_check *muster_check_begin(struct muster_checks *checks, const char *id,
                                        const char *class_id)
{
    muster_checks_end(checks);
    if (checks->n < MUSTER_CHECKS)
        checks->n++;
    struct muster_check *check = &checks->at[checks->n - 1];
    *check = (struct muster_check){.id = id, .class_id = class_id, .begin_ns = muster_now_ns()};
    return check;
}

static void drop(struct muster_check *check)
{
    for (int i = 0; i < check->evidences; i++)
        free(check->evidence[i]);
    check->evidences = 0;
}

void muster_checks_free(struct muster_checks *checks)
{
    for (int i = 0; i < checks->n; i++)
        drop(&checks->at[i]);
    checks->n = 0;
}

/* Whether a word of `length` is an id or its subject: "env" is that of "env.unread". */
static bool names(const char *word, size_t length, const char *id)
{
    return strncmp(word, id, length) == 0 && (id[length] == '\0' || id[length] == '.');
}

static bool is_kept(const char *only, const char *id)
{
    for (size_t length; *only; only += length + (only[length] == ',')) {
        length = strcspn(only, ",");
        if (length && names(only, length, id))
            return true;
    }
    return false;
}

static bool names_any(const struct muster_checks *checks, const char *word, size_t length)
{
    for (int i = 0; i < checks->n; i++)
        if (length && names(word, length, checks->at[i].id))
            return true;
    return false;
}

int muster_checks_keep(struct muster_checks *checks, const char *only, struct muster_err *err)
{
    int kept = 0;
    for (size_t length, at = 0; at == 0 || only[at - 1] == ','; at += length + 1) {
        length = strcspn(only + at, ",");
        if (!names_any(checks, only + at, length))
            return muster_fail(err, "no check \"%.*s\"; docs/doctor.md and --all list them",
                               (int)(length < 100 ? length : 100), only + at);
        if (only[at + length] == '\0')
            break;
    }
    for (int i = 0; i < checks->n; i++) {
        if (is_kept(only, checks->at[i].id))
            checks->at[kept++] = checks->at[i];
        else
            drop(&checks->at[i]);
    }
    checks->n = kept;
    return 0;
}

#define PRINT_INTO(field)                                                                          \
    do {                                                                                           \
        va_list args;                                                                              \
        va_start(args, fmt);                                                                       \
        vsnprintf(check->field, sizeof check->field, fmt, args);                                   \
        va_end(args);                                                                              \
    } while (0)

void muster_check_found(struct muster_check *check, const char *fmt, ...)
{
    PRINT_INTO(found);
}

void muster_check_expected(struct muster_check *check, const char *fmt, ...)
{
    PRINT_INTO(expected);
}

void muster_check_advice(struct muster_check *check, const char *fmt, ...)
{
    PRINT_INTO(advice);
}

void muster_check_unchecked(struct muster_check *check, const char *fmt, ...)
{
    PRINT_INTO(found);
    muster_check_worse(check, MUSTER_CHECK_UNCHECKED);
}

void muster_check_evidence(struct muster_check *check, const char *fmt, ...)
{
    va_list args;
    char *text = NULL;
    if (check->evidences == MUSTER_CHECK_EVIDENCE) {
        check->left_out++;
        return;
    }
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n >= 0)
        check->evidence[check->evidences++] = text;
}

void muster_check_worse(struct muster_check *check, enum muster_check_status status)
{
    if (status > check->status)
        check->status = status;
}

const char *muster_check_word(enum muster_check_status status)
{
    return words[status];
}

static void put_text(const struct muster_check *check, FILE *out)
{
    fprintf(out, "%-9s %s", words[check->status], check->id);
    if (check->found[0])
        fprintf(out, ": %s", check->found);
    fputc('\n', out);
    for (int i = 0; i < check->evidences; i++)
        fprintf(out, "          - %s\n", check->evidence[i]);
    if (check->left_out)
        fprintf(out, "          - and %d more\n", check->left_out);
    if (check->status == MUSTER_CHECK_OK || check->status == MUSTER_CHECK_UNCHECKED)
        return;
    if (check->expected[0])
        fprintf(out, "          expected: %s\n", check->expected);
    if (check->advice[0])
        fprintf(out, "          do: %s\n", check->advice);
}

void muster_checks_text(const struct muster_checks *checks, bool all, FILE *out)
{
    int count[4] = {0};
    for (int status = MUSTER_CHECK_PROBLEM; status >= MUSTER_CHECK_OK; status--)
        for (int i = 0; i < checks->n; i++) {
            if ((int)checks->at[i].status != status)
                continue;
            count[status]++;
            if (all || status >= MUSTER_CHECK_WARNING)
                put_text(&checks->at[i], out);
        }
    fprintf(out, "%d problem%s, %d warning%s, %d ok, %d unchecked%s\n", count[MUSTER_CHECK_PROBLEM],
            count[MUSTER_CHECK_PROBLEM] == 1 ? "" : "s", count[MUSTER_CHECK_WARNING],
            count[MUSTER_CHECK_WARNING] == 1 ? "" : "s", count[MUSTER_CHECK_OK],
            count[MUSTER_CHECK_UNCHECKED], all ? "" : " (--all shows them)");
}

void muster_checks_json(const struct muster_checks *checks, const char *host, const char *host_id,
                        FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", 1);
    muster_json_str(&json, "muster", MUSTER_VERSION);
    muster_json_str(&json, "host", host);
    muster_json_str(&json, "host_id", host_id);
    muster_json_array(&json, "checks");
    for (int i = 0; i < checks->n; i++) {
        const struct muster_check *check = &checks->at[i];
        muster_json_object(&json, NULL);
        muster_json_str(&json, "id", check->id);
        muster_json_str(&json, "status", words[check->status]);
        muster_json_str(&json, "class", check->class_id);
        muster_json_str(&json, "found", check->found);
        muster_json_str(&json, "expected", check->expected);
        muster_json_array(&json, "evidence");
        for (int j = 0; j < check->evidences; j++)
            muster_json_str(&json, NULL, check->evidence[j]);
        if (check->left_out) {
            char text[32];
            snprintf(text, sizeof text, "and %d more", check->left_out);
            muster_json_str(&json, NULL, text);
        }
        muster_json_end(&json);
        muster_json_str(&json, "advice", check->advice);
        muster_json_real(&json, "ms", check->ms, 3);
        muster_json_end(&json);
    }
    muster_json_end(&json);
    muster_json_end(&json);
    fputc('\n', out);
}

int muster_checks_exit(const struct muster_checks *checks)
{
    for (int i = 0; i < checks->n; i++)
        if (checks->at[i].status == MUSTER_CHECK_PROBLEM)
            return 1;
    return 0;
}
