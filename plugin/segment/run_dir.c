#include "segment/run_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "segment/layout.h"

enum { ID_BYTES = 128 };

/* NULL, too, where Slurm counts salloc's shell or a batch script as a step, by one of the last
 * numbers of 32 bits (SLURM_INTERACTIVE_STEP and others in slurm.h). */
const char *muster_slurm_step(void)
{
    const char *step = muster_env("SLURM_STEP_ID");
    uint64_t number;
    return step && muster_text_u64(step, &number) && number >= 0xfffffff0u ? NULL : step;
}

bool muster_is_before_srun(void)
{
    return muster_env("SLURM_JOB_ID") && !muster_slurm_step();
}

/* Job ids come from schedulers, but they become a file name: what does not fit one becomes '_'. */
static void make_file_name(char *id)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    for (; *id; id++)
        if (!strchr(good, *id))
            *id = '_';
}

static bool job_id(char id[static ID_BYTES])
{
    const char *slurm = muster_env("SLURM_JOB_ID"), *step = muster_slurm_step();
    const char *elastic = muster_env("TORCHELASTIC_RUN_ID");
    const char *other = muster_env("PBS_JOBID") ? muster_env("PBS_JOBID") : muster_env("LSB_JOBID");
    if (slurm)
        snprintf(id, ID_BYTES, "%s%s%s", slurm, step ? "." : "", step ? step : "");
    else if (other)
        snprintf(id, ID_BYTES, "%s", other);
    else if (elastic && strcmp(elastic, "none") != 0)
        snprintf(id, ID_BYTES, "%s", elastic);
    else
        return false;
    make_file_name(id);
    return true;
}

bool muster_run_dir_known(const char *configured)
{
    char id[ID_BYTES];
    if (configured && *configured)
        return true;
    return !muster_is_before_srun() && job_id(id);
}

/* "./name" is "name". */
static const char *plain(const char *relative)
{
    while (strncmp(relative, "./", 2) == 0 && relative[1 + strspn(relative + 1, "/")])
        relative += 1 + strspn(relative + 1, "/");
    return relative;
}

static int make_absolute(char *path, size_t size, const char *relative, struct muster_err *err)
{
    char cwd[MUSTER_SEG_PATH] = "";
    relative = plain(relative);
    if (relative[0] != '/' && !getcwd(cwd, sizeof(cwd)))
        return muster_fail(err, "the working directory: %s", strerror(errno));
    const char *slash = relative[0] == '/' || strcmp(cwd, "/") == 0 ? "" : "/";
    int n = snprintf(NULL, 0, "%s%s%s", cwd, slash, relative);
    if (n < 0 || (size_t)n >= size)
        return muster_fail(err, "the run directory %s%s%.100s is too long", cwd, slash, relative);
    snprintf(path, size, "%s%s%s", cwd, slash, relative);
    return 0;
}

int muster_run_dir_choose(char *path, size_t size, const char *configured, uint64_t comm_id,
                          struct muster_err *err)
{
    char id[ID_BYTES], relative[ID_BYTES + 16];
    if (configured && *configured)
        return make_absolute(path, size, configured, err);
    if (!job_id(id))
        snprintf(id, sizeof(id), "%08llx", (unsigned long long)(comm_id >> 32));
    snprintf(relative, sizeof(relative), "muster-%s", id);
    return make_absolute(path, size, relative, err);
}

int muster_run_dir_fallback(char *path, size_t size, const char *run_dir, struct muster_err *err)
{
    const char *tmp = getenv("TMPDIR");
    const char *name = strrchr(run_dir, '/');
    int n = snprintf(path, size, "%s/%s", tmp && tmp[0] == '/' ? tmp : "/tmp",
                     name && name[1] ? name + 1 : "muster");
    return n < 0 || (size_t)n >= size ? muster_fail(err, "TMPDIR is too long") : 0;
}
