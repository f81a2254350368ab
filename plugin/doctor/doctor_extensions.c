/* Locks of PyTorch's extensions: whoever builds one makes a file, and all ranks of all jobs that
 * load it wait until the file is gone. A build that was killed leaves it. */
#include <glob.h>

#include "base/env.h"
#include "doctor/doctor.h"

/* With a folder for each Python and CUDA, or without. Adds to `locks`. */
static void add_locks(const char *folder, glob_t *locks, bool *any)
{
    static const char *const below[] = {"*/lock", "*/*/lock"};
    char pattern[PATH_MAX];
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s", folder, below[i]);
        *any |= glob(pattern, *any ? GLOB_APPEND : 0, NULL, locks) == 0;
    }
}

static void find_locks(glob_t *locks, bool *any)
{
    const char *given = muster_env("TORCH_EXTENSIONS_DIR"), *home = muster_env("HOME");
    char folder[PATH_MAX];
    if (given)
        add_locks(given, locks, any);
    else if (home) {
        snprintf(folder, sizeof folder, "%s/.cache/torch_extensions", home);
        add_locks(folder, locks, any);
    }
}

void muster_doctor_extensions(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "job.extensions", "F10");
    glob_t locks = {0};
    bool any = false;
    find_locks(&locks, &any);
    muster_check_expected(check, "no extension of PyTorch's that is being built");
    muster_check_found(check, any ? "extensions of PyTorch's with a lock" : "no lock is seen");
    for (size_t i = 0; i < locks.gl_pathc; i++)
        muster_check_evidence(check, "%.200s", locks.gl_pathv[i]);
    if (any) {
        muster_check_suspect(check,
                             "a lock in PyTorch's folder of extensions (torch_extensions), as "
                             "a build that was killed leaves it: ranks that load the "
                             "extension wait for ever");
        muster_check_advice(check,
                            "where nothing is being built (no nvcc, no ninja runs), remove "
                            "%.200s, then start again",
                            locks.gl_pathv[0]);
        check->suspect_of = "hang_absent hang_stuck";
        check->suspect_weight = 6; /* before bugs of NCCL that few jobs meet */
    }
    globfree(&locks);
}
