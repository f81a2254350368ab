/*
 * Causes before symptoms. A symptom is what goes wrong: a test between GPUs that fails, or a
 * finding about a job (`muster diagnose`) that somebody names. A cause is a check that found
 * something and that can bring the symptom about; which brings about which is a table. Pure.
 */
#ifndef MUSTER_DOCTOR_RULES_CAUSES_H
#define MUSTER_DOCTOR_RULES_CAUSES_H

#include "doctor/rules/checks.h"

enum { MUSTER_CAUSES = 16, MUSTER_SYMPTOMS = 12, MUSTER_CAUSES_OTHER = 8 };

/* A row of the table. The words of `symptoms` are separated by blanks; "" for a check that is there
 * for `compare` or as evidence of others. */
struct muster_cause_row {
    const char *cause, *symptoms;
    int weight; /* 1 to 9: how often it is the cause where both are seen */
};
extern const struct muster_cause_row muster_cause_rows[];
extern const size_t muster_cause_rows_n;
/* Of these, what very many hosts have whose jobs run: no more than a suspect. Without weights. */
extern const struct muster_cause_row muster_common_rows[];
extern const size_t muster_common_rows_n;
/* The same of checks that find different things on different hosts (`compare`), whatever each
 * finds. */
extern const struct muster_cause_row muster_difference_rows[];
extern const size_t muster_difference_rows_n;

/* Symptoms that are no findings, NULL at the end: checks that are tests, then what a job shows. */
extern const char *const muster_symptoms[];
/* The symptom of that name: one of the above, or a kind of finding that some check may explain.
 * NULL: none. */
const char *muster_symptom_find(const char *name, size_t length);

/* How much a check of that id is worth as the cause of a symptom: 0, or a row's weight. */
int muster_cause_weight(const char *cause, const char *symptom); /* or lines of a log (job_log.h) */
/* The same of a check that differs between hosts; `symptoms`: words of a job's symptoms, separated
 * by commas. The greatest weight of them. */
int muster_difference_weight(const char *check, const char *symptoms);
/* -1: a word that is no symptom, with err. `symptoms` NULL: none. */
int muster_symptoms_check(const char *symptoms, struct muster_err *err);

struct muster_causes {
    struct {
        const char *id;
        int check; /* index; -1: a job's, given by word */
    } symptom[MUSTER_SYMPTOMS];
    int symptoms;
    struct {
        int check;
        bool suspect;                   /* fine by itself: nothing else explains these */
        unsigned explains;              /* bit i: symptom i. Each symptom is in one cause at most */
        int other[MUSTER_CAUSES_OTHER]; /* checks that would explain one of these, too */
        int others;
    } at[MUSTER_CAUSES];
    int n;
    unsigned unexplained; /* symptoms */
};

/*
 * The smallest set of causes that explains all symptoms that can be explained; of several, that of
 * the greatest weight. `given`: words of a job's symptoms, separated by commas, or NULL; a word
 * that is none fails, with err. A cause that explains a problem becomes one itself. What explains a
 * symptom that is itself a cause explains what that one brings about; a given symptom that is one
 * is added to `checks`. Lines of a job's log that show what the job showed are symptoms, too, and
 * where none does, all of its errors. A suspect (checks.h) explains what nothing else does, or a
 * line.
 */
int muster_causes_find(struct muster_checks *checks, const char *given,
                       struct muster_causes *causes, struct muster_err *err);

#endif
