/*
 * What a job printed: NCCL's log (NCCL_DEBUG=INFO), the framework's errors, the kernel's lines. A
 * table knows which words mean what; each line is compared with all of it. Pure.
 */
#ifndef MUSTER_DOCTOR_RULES_JOB_LOG_H
#define MUSTER_DOCTOR_RULES_JOB_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "doctor/rules/checks.h"

enum {
    MUSTER_JOB_LOG_LINE = 4096,
    MUSTER_JOB_LOG_KERNEL = 32,
    MUSTER_JOB_LOG_TEXT = 200,
    MUSTER_JOB_LOG_KINDS = 224, /* room; doctor_job_log_test asks whether all fit */
    MUSTER_JOB_LOG_SET = 64
};

/* How ranks reach each other, by lines of channels. */
enum muster_job_log_way {
    MUSTER_WAY_P2P,
    MUSTER_WAY_SHM,
    MUSTER_WAY_RDMA,      /* from GPU to network card */
    MUSTER_WAY_RDMA_HOST, /* by way of the host's memory */
    MUSTER_WAY_SOCKET,
    MUSTER_WAYS
};

/* What lines mean, whichever of them stands there. */
struct muster_job_log_kind {
    const char *id, *class_id;
    const char *shows; /* the symptom (causes.h) that such a line proves */
    /* 0: the line shows that the job failed, not why. 1 to 9: how much it shows of the cause; 1:
     * healthy logs have it, too */
    int weight;
    const char *found, *advice;
    const char *causes; /* checks that such a line fits, the likeliest first; "" */
};
struct muster_job_log_kinds {
    const struct muster_job_log_kind *at;
    size_t n;
};
extern const struct muster_job_log_kinds muster_job_log_kinds_of_nccl,
    muster_job_log_kinds_of_programs;
/* The i-th of all of them; NULL behind the last. */
const struct muster_job_log_kind *muster_job_log_kind(size_t i);

/* Words of a line: parts in this order, separated by '*'; '^' first: at the line's begin; '$' last:
 * at its end. */
struct muster_job_log_line {
    const char *words, *id;
    const char *from; /* the source that prints it: a file of NCCL's, or the program */
};
struct muster_job_log_lines {
    const struct muster_job_log_line *at;
    size_t n;
};
extern const struct muster_job_log_lines muster_job_log_of_nccl, muster_job_log_of_systems,
    muster_job_log_of_programs;
/* The i-th of all of them; NULL behind the last. */
const struct muster_job_log_line *muster_job_log_line(size_t i);

struct muster_job_log {
    struct {
        unsigned long lines, first; /* how many, and the number of the first, from 1 */
        unsigned long behind; /* of one that a program may catch: lines of a job that goes on */
        bool fatal;           /* and soon behind it one that is known */
        char text[MUSTER_JOB_LOG_TEXT]; /* the first, cut, fit for a terminal */
    } of[MUSTER_JOB_LOG_KINDS];         /* as muster_job_log_kind counts them */
    unsigned long lines;
    int version, cuda; /* of the NCCL that printed it: 22809, 13000; 0: not there */
    int plugin;        /* of aws-ofi-nccl (known_plugin.h), 11702; 0: not there */
    char kernel[MUSTER_JOB_LOG_KERNEL][MUSTER_JOB_LOG_TEXT]; /* lines of the kernel's log in it */
    int kernels;
    struct {
        char name[64], value[64];
    } set[MUSTER_JOB_LOG_SET]; /* variables that NCCL logged as read, and MASTER_ADDR by where the
                                  ranks meet; each once */
    int sets;
    unsigned long way[MUSTER_WAYS]; /* lines of channels */
    bool nvls_none;                 /* NCCL logged that it goes without NVLink SHARP */
    bool cut;                       /* there was more than was read */
    struct {
        bool begun;
        char host[64], rank[64];
    } ended;       /* the rank that torchrun saw end first; rank "": it names none */
    size_t quoted; /* where the next line quotes NCCL's last warning, from 1; 0: it does not */
};

/* Takes a text, any bytes, lines behind those that were taken before: whole ones, but for the last.
 */
void muster_job_log_take(struct muster_job_log *log, const char *text, size_t size);
/* log.job, and a check of each kind of line that shows something of a cause. `name`: the file. */
void muster_job_log_checks(const struct muster_job_log *log, const char *name,
                           struct muster_checks *checks);
/* Words for the symptoms that its lines prove, separated by commas; what healthy logs have, too, as
 * lines of slow ways, proves none. */
void muster_job_log_symptoms(const struct muster_job_log *log, char *words, size_t size);

/* The ids of all kinds of lines that it has, separated by blanks. */
void muster_job_log_kinds_seen(const struct muster_job_log *log, char *words, size_t size);

/* The value of a variable as the job had it; NULL: not in the log. */
const char *muster_job_log_value(const struct muster_job_log *log, const char *name);

/* NULL: none of that id. */
const struct muster_job_log_kind *muster_job_log_find(const char *id);
/* How much a check is worth as the cause of such lines: 0, or 1 to 9. The lines' own check is worth
 * half of their weight. */
int muster_job_log_weight(const struct muster_job_log_kind *kind, const char *check);

#endif
