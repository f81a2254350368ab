/*
 * The results of `muster doctor`: a check has an id that never changes, a status, what was found
 * and what was expected. Text in `found` is what `compare` compares between hosts, so it holds no
 * figures that differ from run to run.
 */
#ifndef MUSTER_DOCTOR_RULES_CHECKS_H
#define MUSTER_DOCTOR_RULES_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"

enum muster_check_status {
    MUSTER_CHECK_OK,
    MUSTER_CHECK_UNCHECKED, /* could not be seen; found has why */
    MUSTER_CHECK_WARNING,
    MUSTER_CHECK_PROBLEM,
};

enum { MUSTER_CHECKS = 128, MUSTER_CHECK_EVIDENCE = 64 };

struct muster_job_log_kind;

struct muster_check {
    const char *id, *class_id;
    enum muster_check_status status;
    char found[384], expected[192], advice[640];
    char suspect[192]; /* what is fine by itself, but what a failing job should have looked at */
    /* Words: the suspect stands for these symptoms alone, behind every other one. NULL: for those
     * of its rows of causes_table.c, as they weigh. */
    const char *suspect_of;
    /* Nothing but the kind of the host speaks for it: it leads in no job of several hosts, each of
     * which such a thing would stop by itself. */
    bool suspect_of_kind;
    /* It is of nearly all hosts: it explains no line of a log, and stands behind others of its
     * weight. */
    bool suspect_blind;
    int suspect_weight; /* of these, where there are several such suspects: the greatest leads */
    /* Words: what was found explains these of its rows of causes_table.c alone. NULL: all. */
    const char *explains;
    const struct muster_job_log_kind *line; /* of a job's log; NULL: of this host */
    const char *evidence[MUSTER_CHECK_EVIDENCE];
    int evidences;
    int left_out;      /* lines of evidence beyond those */
    uint64_t begin_ns; /* 0: its time has ended */
    double ms;
    struct muster_arena *memory; /* of the evidence: the checks' */
};

struct muster_checks {
    struct muster_arena memory; /* asked at the end whether it failed */
    struct muster_check at[MUSTER_CHECKS];
    int n;
    bool several_hosts; /* of the job */
};

/* A new one, OK and empty. Its time runs until the next begins. Never NULL: ids beyond the table
 * share the last place, which tests would find. */
struct muster_check *muster_check_begin(struct muster_checks *checks, const char *id,
                                        const char *class_id);
/* NULL: none of that id. */
struct muster_check *muster_checks_find(struct muster_checks *checks, const char *id);
void muster_checks_end(struct muster_checks *checks); /* stops the last one's time */
void muster_checks_free(struct muster_checks *checks);

#define MUSTER_CHECK_FORMAT __attribute__((format(printf, 2, 3)))
MUSTER_CHECK_FORMAT void muster_check_found(struct muster_check *check, const char *fmt, ...);
MUSTER_CHECK_FORMAT void muster_check_expected(struct muster_check *check, const char *fmt, ...);
MUSTER_CHECK_FORMAT void muster_check_advice(struct muster_check *check, const char *fmt, ...);
MUSTER_CHECK_FORMAT void muster_check_evidence(struct muster_check *check, const char *fmt, ...);
/* Becomes what was found, and a warning, where a symptom has no better explanation. */
MUSTER_CHECK_FORMAT void muster_check_suspect(struct muster_check *check, const char *fmt, ...);
/* found has why nothing could be seen. */
MUSTER_CHECK_FORMAT void muster_check_unchecked(struct muster_check *check, const char *fmt, ...);
/* Raises the status; never lowers it. */
void muster_check_worse(struct muster_check *check, enum muster_check_status status);

const char *muster_check_name(enum muster_check_status status);

/* Keeps the checks that `only` names: ids, or what an id has before its dot, separated by commas.
 * A word that names none fails, with err. */
int muster_checks_keep(struct muster_checks *checks, const char *only, struct muster_err *err);
/* 1 with a problem, else 0. */
int muster_checks_exit(const struct muster_checks *checks);

#endif
