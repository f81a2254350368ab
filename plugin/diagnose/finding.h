/*
 * What muster finds in a job: one finding is one sentence that somebody can act on, with its
 * evidence and with what could not be seen. Fields and words: docs/reference/diagnose.md. The same
 * struct comes out of the live leader, `muster diagnose`, logs and hooks.
 */
#ifndef MUSTER_DIAGNOSE_FINDING_H
#define MUSTER_DIAGNOSE_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/finding_kinds.h"
#include "base/json.h"
#include "base/nccl_types.h"
#include "view/view.h"

enum muster_finding_mode {
    MUSTER_MODE_NONE,
    MUSTER_MODE_PERSISTENT,
    MUSTER_MODE_INTERMITTENT,
    MUSTER_MODE_ONCE,
    MUSTER_MODE_MOVES /* one rank after the other */
};
enum muster_finding_cause { MUSTER_CAUSE_UNKNOWN, MUSTER_CAUSE_GPU, MUSTER_CAUSE_HOST };

enum { MUSTER_FINDING_LINES = 16, MUSTER_FINDING_LINE = 256, MUSTER_FINDING_RANKS = 64 };
enum { MUSTER_FINDING_STRETCHES = 16, MUSTER_FINDING_WHERE = 96 };

/* A culprit is late from when to when, but for a fiftieth of its lateness on either side, and by
 * what. */
struct muster_finding_stretch {
    int32_t rank;
    enum muster_finding_cause cause;
    uint64_t since_unix_ns, until_unix_ns;
};

struct muster_finding_lines {
    char line[MUSTER_FINDING_LINES][MUSTER_FINDING_LINE];
    unsigned n;
};

/* How a process that is gone went, as far as it is seen. */
enum muster_finding_went {
    MUSTER_WENT_KILLED,
    MUSTER_WENT_LEFT,    /* in order, but for its communicators */
    MUSTER_WENT_UNKNOWN, /* as one that is killed between two calls, or that leaves by _exit() */
};

struct muster_finding {
    enum muster_finding_kind kind;
    uint64_t comm;                      /* NCCL's id */
    char comm_name[MUSTER_SEG_NAME];    /* as the job calls it; "": not known */
    uint64_t comms[2];                  /* hang_order: both; else 0 */
    int32_t rank[MUSTER_FINDING_RANKS]; /* global ranks of the culprits, the worst first */
    unsigned ranks;
    int32_t victim[MUSTER_FINDING_RANKS];
    unsigned victims;
    char host[128];    /* of the first culprit */
    char to_host[128]; /* slow_transfer: of the rank that it goes to; "": not known */
    int32_t gpu;       /* of the first culprit; -1: not known */
    bool has_op;
    struct {
        uint8_t func, dtype;
        uint64_t index; /* operation number */
        uint64_t bytes;
        int32_t root; /* -1: none */
    } op;
    enum muster_finding_mode mode;   /* muster_finding_is_late only */
    enum muster_finding_cause cause; /* the same; unknown where culprits have several */
    uint64_t since_unix_ns;
    enum muster_finding_went went; /* hang_dead */
    bool entered;                  /* hang_dead: who is gone had called the operation, too */
    bool resolved;
    bool retracted; /* emitted while the job ran, and withdrawn: more operations do not bear it out
                     */
    double cost_s;  /* lost so far by those who waited */
    double cost_share;              /* of the run */
    double cost_low_s, cost_high_s; /* four of five true costs lie between; 0: not known */
    double cost_run_s; /* lost in the whole run, what was not timed included; 0: not known */
    bool by_calls;     /* known from when hosts called alone: no operation was timed */
    double gpu_hours;  /* cost_run_s of all GPUs of the job; 0: not known */
    char where[MUSTER_FINDING_WHERE]; /* "before the first of 3 AllReduce of each step"; "": not
                                         known */
    uint32_t every_steps;             /* late at a beat of so many steps; 0: at none */
    double every_s;
    double step_s;    /* how long a step takes where it is late; 0: not known */
    bool against_one; /* late ranks: held against one other rank, or the own past, alone */
    struct muster_finding_stretch stretch[MUSTER_FINDING_STRETCHES]; /* in time */
    unsigned stretches;
    double confidence; /* share of generated cases with this evidence that were right */
    struct muster_finding_lines evidence, not_observable;
    char advice[MUSTER_FINDING_LINE];
};

/* What a verdict without a late rank rests on: the communicator with most comparisons. */
struct muster_finding_clean {
    uint64_t comm;
    uint32_t seen, nranks;
    uint64_t compared; /* operations */
    uint64_t least_ns; /* delay in one of five of them that would have been named; 0: too few were
                          compared to name anybody */
};

struct muster_findings {
    struct muster_finding *finding;
    size_t n;
    struct muster_finding_clean clean;          /* compared 0: there is no such communicator */
    struct muster_finding_lines not_observable; /* of the whole run */
};

/* Ranks that come late, one by one or as a host: the same is reported of both. */
static inline bool muster_finding_is_late(const struct muster_finding *finding)
{
    return finding->kind == MUSTER_FINDING_LATE_RANK || finding->kind == MUSTER_FINDING_LATE_HOST;
}

bool muster_findings_any_late(const struct muster_findings *findings);

/* What does not end, or did not while it was seen. */
static inline bool muster_finding_is_hang(const struct muster_finding *finding)
{
    return muster_finding_rows[finding->kind].scope == MUSTER_SCOPE_HANG;
}

/* A process that is gone before anybody waits for it: no hang yet. */
static inline bool muster_finding_hangs_not_yet(const struct muster_finding *finding)
{
    return finding->kind == MUSTER_FINDING_HANG_DEAD && !finding->has_op;
}

/* "killed or crashed", ...; a static string. */
const char *muster_finding_went_words(const struct muster_finding *finding);
/* "late_rank", ...; "persistent" (NULL for none); "unknown"; "killed". Static strings. */
const char *muster_finding_name(enum muster_finding_kind kind);
const char *muster_finding_mode_name(enum muster_finding_mode mode);
const char *muster_finding_cause_name(enum muster_finding_cause cause);
const char *muster_finding_went_name(enum muster_finding_went went);

/* Gives each finding the name that its communicator has in the view. */
void muster_findings_name(struct muster_findings *findings, const struct muster_view *view);

/* A new, zeroed finding at the end (gpu -1, root -1); NULL: no memory. */
struct muster_finding *muster_findings_add(struct muster_findings *findings);
/* A copy of one that is not of these, at the end; NULL: no memory. */
struct muster_finding *muster_findings_copy(struct muster_findings *findings,
                                            const struct muster_finding *finding);
void muster_findings_free(struct muster_findings *findings);
/* What `more` holds comes behind, and `more` is empty. False: no memory; *findings is as before. */
bool muster_findings_join(struct muster_findings *findings, struct muster_findings *more);

/* Printf into the next free line; a line too many is left out, a long one is cut. */
__attribute__((format(printf, 2, 3))) void muster_finding_line(struct muster_finding_lines *lines,
                                                               const char *fmt, ...);

/* The one sentence, for logs and people. */
void muster_finding_sentence(const struct muster_finding *finding, char *to, size_t size);
/* What its sentence leaves out, for people; the same in text and pages. The cost beyond what was
 * timed, and how sure it is ("": nothing more is known); from when to when, a line for each culprit
 * where there are several; and whose cause is which ("": all have the same, or none is known). */
void muster_finding_cost(const struct muster_finding *finding, char *to, size_t size);
void muster_finding_when(const struct muster_finding *finding, struct muster_finding_lines *to);
void muster_finding_causes(const struct muster_finding *finding, char *to, size_t size);
void muster_finding_json(const struct muster_finding *finding, struct muster_json *json);

/* A transfer's two ends: ranks and hosts of both, and the sender's GPU. */
void muster_finding_set_ends(struct muster_finding *finding, const struct muster_view_gpu *from,
                             const struct muster_view_gpu *to);

/* Sets finding->op from the view's operation, but for its root. */
void muster_finding_set_op(struct muster_finding *finding, const struct muster_view *view,
                           const struct muster_view_comm *comm, const struct muster_view_op *op);

#endif
