/* What variables NCCL and PyTorch read, from env/data. */
#ifndef MUSTER_DOCTOR_ENV_ENV_TABLE_H
#define MUSTER_DOCTOR_ENV_ENV_TABLE_H

#include <stddef.h>

/* 2.28.9 is 22809, as ncclGetVersion returns it. */
#define MUSTER_NCCL_CODE(major, minor, patch) (10000 * (major) + 100 * (minor) + (patch))

enum muster_env_kind {
    MUSTER_ENV_INT,  /* strtoll: text without a number is 0 */
    MUSTER_ENV_FLAG, /* true or false by words or numbers */
    MUSTER_ENV_TEXT,
};

struct muster_env_known {
    const char *name;
    enum muster_env_kind kind;
    int since; /* version code of the first release with it */
};

struct muster_env_removed {
    const char *name;
    int last;            /* version code of the last release that had it; 0: unknown */
    const char *instead; /* "": nothing */
};

struct muster_env_torch {
    const char *name;
    enum muster_env_kind kind;
    const char *legacy; /* older spelling, which `name` shadows; "": none */
};

extern const struct muster_env_known muster_env_nccl[];
extern const size_t muster_env_nccl_n;
extern const struct muster_env_removed muster_env_gone[];
extern const size_t muster_env_gone_n;
extern const struct muster_env_torch muster_env_pytorch[];
extern const size_t muster_env_pytorch_n;

#endif
