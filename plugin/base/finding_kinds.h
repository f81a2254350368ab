/*
 * The kinds of findings: one row each, and no other list of them anywhere. A new kind is a row here
 * and the two functions that it names.
 */
#ifndef MUSTER_BASE_FINDING_KINDS_H
#define MUSTER_BASE_FINDING_KINDS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * enum   the kind is MUSTER_FINDING_...
 * name   as files, reports and `on:` have it
 * scope  what it is about: MUSTER_SCOPE_...
 * shown  by default: a line in the job's log, and in the report at the end
 * abort  whether `on:` may end the job for it; what is not certain may not
 * text   its sentence: put_... in diagnose/finding_sentence.c
 * find   who looks for it: find_... in diagnose/diagnose.c, once for kinds that follow one another;
 *        in the order of the rows, and each sees what was found before
 */
/* clang-format off */
#define MUSTER_FINDING_LIST(ROW) \
    /*  enum               name               scope     shown  abort  text        find       */ \
    ROW(HANG_ABSENT,       hang_absent,       HANG,     true,  true,  absent,     hangs)       \
    ROW(HANG_DEAD,         hang_dead,         HANG,     true,  true,  dead,       hangs)       \
    ROW(HANG_MISMATCH,     hang_mismatch,     HANG,     true,  true,  mismatch,   hangs)       \
    ROW(HANG_STUCK,        hang_stuck,        HANG,     true,  false, stuck,      hangs)       \
    ROW(HANG_ORDER,        hang_order,        HANG,     true,  false, order,      hangs)       \
    ROW(MISMATCH,          mismatch,          CALLS,    true,  false, calls,      mismatches)  \
    ROW(LATE_RANK,         late_rank,         SLOW,     true,  false, late,       stragglers)  \
    ROW(LATE_HOST,         late_host,         SLOW,     true,  false, host,       stragglers)  \
    ROW(ALL_WAIT,          all_wait,          SLOW,     true,  false, alike,      stragglers)  \
    ROW(UNEVEN_STAGES,     uneven_stages,     SLOW,     true,  false, uneven,     stragglers)  \
    ROW(SLOW_TRANSFER,     slow_transfer,     SLOW,     true,  false, transfer,   transfers)   \
    ROW(PATH_DEGRADED,     path_degraded,     PATH,     false, false, path,       paths)       \
    ROW(PATH_MISSING,      path_missing,      PATH,     false, false, path,       paths)       \
    ROW(POLICY_DIVERGENCE, policy_divergence, CHOICE,   true,  false, divergence, divergence)
/* clang-format on */

#define MUSTER_FINDING_ENUM(kind, name, scope, shown, abort, text, find) MUSTER_FINDING_##kind,
enum muster_finding_kind { MUSTER_FINDING_LIST(MUSTER_FINDING_ENUM) MUSTER_FINDING_KINDS };
#undef MUSTER_FINDING_ENUM

enum muster_finding_scope {
    MUSTER_SCOPE_HANG,   /* what does not end; over once it does */
    MUSTER_SCOPE_SLOW,   /* what ends late */
    MUSTER_SCOPE_PATH,   /* the machine, not what the job does */
    MUSTER_SCOPE_CHOICE, /* what ranks chose for one operation */
    MUSTER_SCOPE_CALLS,  /* what ranks called, and did not hang in */
};

struct muster_finding_row {
    const char *name;
    enum muster_finding_scope scope;
    bool shown, may_abort;
};

/* By enum muster_finding_kind. */
extern const struct muster_finding_row muster_finding_rows[MUSTER_FINDING_KINDS];

/* The kind of a name, of which `length` bytes count; MUSTER_FINDING_KINDS: there is none. */
enum muster_finding_kind muster_finding_kind_of(const char *name, size_t length);

#endif
