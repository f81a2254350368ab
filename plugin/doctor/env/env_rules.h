/*
 * Environment variables against what NCCL and PyTorch do with them. Pure: variables in, remarks
 * out. Classes in brackets are those of docs/doctor.md.
 */
#ifndef MUSTER_DOCTOR_ENV_ENV_RULES_H
#define MUSTER_DOCTOR_ENV_ENV_RULES_H

#include <stdbool.h>
#include <stddef.h>

enum muster_env_rule {
    MUSTER_ENV_UNREAD,        /* nobody reads it [F18, F38] */
    MUSTER_ENV_MISSPELT,      /* nearly a name that is read [F38] */
    MUSTER_ENV_REMOVED,       /* read by other versions only [F38] */
    MUSTER_ENV_LEGACY,        /* an old spelling, shadowed or about to go [F38] */
    MUSTER_ENV_NUMBER,        /* not the number that was meant [F38] */
    MUSTER_ENV_VALUE,         /* text that is ignored or refused [F38, F40] */
    MUSTER_ENV_CONTRADICTION, /* two variables, one of which cannot count [F39] */
    MUSTER_ENV_COSTLY,        /* takes a path or speed away [F39] */
    MUSTER_ENV_UNSAFE,        /* may give wrong data or hang [F41, F71] */
    MUSTER_ENV_RULES
};

struct muster_env_variable {
    const char *name, *value;
};

struct muster_env_input {
    const struct muster_env_variable *at;
    size_t n;
    int nccl;                   /* version code; 0: unknown */
    const char *const *strings; /* NCCL_ names in the loaded library, sorted; NULL: not read */
    size_t strings_n;
    bool infiniband; /* this host has an InfiniBand or RoCE device */
    bool nvlink;
    bool one_rank_a_host; /* of a job of several: nothing passes between ranks inside a host */
};

enum { MUSTER_ENV_REMARKS = 256 };

struct muster_env_remark {
    enum muster_env_rule rule;
    bool grave; /* the job will fail, or does the opposite of what was meant */
    const char *name;
    char text[256]; /* begins with NAME=value */
};

struct muster_env_remarks {
    struct muster_env_remark at[MUSTER_ENV_REMARKS];
    int n;
    int dropped;
};

void muster_env_evaluate(const struct muster_env_input *input, struct muster_env_remarks *remarks);

/* A name that NCCL reads, but for a typo in its first word: CCL_NET_GDR_LEVEL. The names that
 * others give their own libraries (RCCL_) are none. */
bool muster_env_prefix_typo(const char *name);

/* For the files of rules. */
__attribute__((format(printf, 5, 6))) void muster_env_remark(struct muster_env_remarks *remarks,
                                                             enum muster_env_rule rule, bool grave,
                                                             const struct muster_env_variable *of,
                                                             const char *fmt, ...);
void muster_env_evaluate_values(const struct muster_env_input *input,
                                struct muster_env_remarks *remarks);
void muster_env_evaluate_together(const struct muster_env_input *input,
                                  struct muster_env_remarks *remarks);
/* NULL: not set. */
const struct muster_env_variable *muster_env_find(const struct muster_env_input *input,
                                                  const char *name);
/* As NCCL reads it: `otherwise` where it is unset, empty or out of range. */
long long muster_env_number(const struct muster_env_input *input, const char *name,
                            long long otherwise);

#endif
