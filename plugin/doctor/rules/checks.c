#include "doctor/rules/checks.h"

#include <stdarg.h>
#include <string.h>

#include "base/clock.h"

static const char *const words[] = {"ok", "unchecked", "warning", "problem"};

void muster_checks_end(struct muster_checks *checks)
{
    struct muster_check *last = checks->n ? &checks->at[checks->n - 1] : NULL;
    if (!last || last->begin_ns == 0)
        return;
    last->ms = (double)(muster_now_ns() - last->begin_ns) / (double)MUSTER_NS_PER_MS;
    last->begin_ns = 0;
}

struct muster_check *muster_check_begin(struct muster_checks *checks, const char *id,
                                        const char *class_id)
{
    muster_checks_end(checks);
    if (checks->n < MUSTER_CHECKS)
        checks->n++;
    struct muster_check *check = &checks->at[checks->n - 1];
    *check = (struct muster_check){
        .id = id, .class_id = class_id, .begin_ns = muster_now_ns(), .memory = &checks->memory};
    return check;
}

struct muster_check *muster_checks_find(struct muster_checks *checks, const char *id)
{
    for (int i = 0; i < checks->n; i++)
        if (strcmp(checks->at[i].id, id) == 0)
            return &checks->at[i];
    return NULL;
}

void muster_checks_free(struct muster_checks *checks)
{
    muster_arena_free(&checks->memory);
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
            return muster_fail(
                err,
                "no check \"%.*s\"; docs/doctor.md, docs/doctor-lines.md (log.*) and "
                "--all list them",
                (int)(length < 100 ? length : 100), only + at);
        if (only[at + length] == '\0')
            break;
    }
    for (int i = 0; i < checks->n; i++)
        if (is_kept(only, checks->at[i].id))
            checks->at[kept++] = checks->at[i];
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

void muster_check_suspect(struct muster_check *check, const char *fmt, ...)
{
    PRINT_INTO(suspect);
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
    if (check->evidences == MUSTER_CHECK_EVIDENCE) {
        check->left_out++;
        return;
    }
    va_start(args, fmt);
    check->evidence[check->evidences++] = muster_arena_vformat(check->memory, fmt, args);
    va_end(args);
}

void muster_check_worse(struct muster_check *check, enum muster_check_status status)
{
    if (status > check->status)
        check->status = status;
}

const char *muster_check_name(enum muster_check_status status)
{
    return words[status];
}

int muster_checks_exit(const struct muster_checks *checks)
{
    for (int i = 0; i < checks->n; i++)
        if (checks->at[i].status == MUSTER_CHECK_PROBLEM)
            return 1;
    return 0;
}
