/* `muster doctor`: what the parts of it share. Each doctor_*.c adds the checks of one subject; ids
 * are listed in docs/doctor.md. */
#ifndef MUSTER_CLI_DOCTOR_H
#define MUSTER_CLI_DOCTOR_H

#include <limits.h>

#include "cli/checks.h"
#include "cli/env_rules.h"
#include "cli/survey.h"

enum { MUSTER_DOCTOR_LIBRARIES = 16, MUSTER_DOCTOR_FILE = 64 << 10 };

struct muster_nccl_library {
    char path[512];
    int version; /* code; 0: its text does not say */
};

struct muster_doctor {
    struct muster_checks *checks;
    const struct muster_survey *survey;
    const char *sysfs, *procfs;
    const char *nccl;     /* --nccl; NULL: as the loader finds it */
    unsigned local_ranks; /* that will run on this host: said by the launcher, else one a GPU */
    enum { MUSTER_DOCTOR_AUTO, MUSTER_DOCTOR_ACTIVE, MUSTER_DOCTOR_PASSIVE } activity;
    /* filled by muster_doctor_nccl */
    struct muster_nccl_library library[MUSTER_DOCTOR_LIBRARIES];
    int libraries;
    int loaded; /* index; -1: none could be loaded */
    char not_loaded[256];
};

/* Libraries on this host; first, because others ask for the version. */
void muster_doctor_nccl(struct muster_doctor *doctor);
void muster_doctor_environment(struct muster_doctor *doctor);
void muster_doctor_network(struct muster_doctor *doctor);
void muster_doctor_limits(struct muster_doctor *doctor);
void muster_doctor_host(struct muster_doctor *doctor);
void muster_doctor_versions(struct muster_doctor *doctor);
void muster_doctor_gpus(struct muster_doctor *doctor);
void muster_doctor_rdma(struct muster_doctor *doctor);
void muster_doctor_fabric(struct muster_doctor *doctor);
void muster_doctor_active(struct muster_doctor *doctor);

/* A file below /proc, cut at MUSTER_DOCTOR_FILE - 1 bytes; false, and "", where it cannot be read.
 */
bool muster_doctor_read_proc(const struct muster_doctor *doctor, const char *below, char *text);

/* Entries of a folder; 0 where it cannot be read. */
int muster_doctor_entries(const char *root, const char *below);
bool muster_doctor_in_use(const struct muster_nvml_gpu *gpu);

/* NCCL_ names in a library, sorted; free with muster_strings_free. 0 if it cannot be read. */
size_t muster_nccl_strings(const char *path, char ***strings);
void muster_strings_free(char **strings, size_t n);
/* "NCCL version 2.28.9+cuda13.0" in a library's bytes; 0: not there. */
int muster_nccl_version_in(const char *path);

static inline int muster_doctor_version(const struct muster_doctor *doctor)
{
    return doctor->loaded >= 0 ? doctor->library[doctor->loaded].version : 0;
}

/* What this program does as a rank of doctor's all-reduce. */
extern const char *const muster_doctor_rank[];

#endif
