#include "segment/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/host.h"
#include "base/text.h"

/* The first variable that is set and a plausible number, -1 without. */
static int32_t first_number(const char *const *names)
{
    for (; *names; names++) {
        const char *text = getenv(*names);
        uint64_t value;
        if (text && muster_text_u64(text, &value) && value <= INT32_MAX)
            return (int32_t)value;
    }
    return -1;
}

enum { NAMES = 8 };

/* In a job of Slurm MPI's variables come before Slurm's, which may be those of the batch script
 * that called mpirun, or of mpirun's daemon, which srun started on another host. */
static int32_t launcher_number(const char *framework, const char *slurm, const char *const *mpi)
{
    const char *names[NAMES] = {framework};
    size_t n = 1;
    bool job = muster_env("SLURM_JOB_ID");
    if (!job)
        names[n++] = slurm;
    while (*mpi)
        names[n++] = *mpi++;
    if (job && !muster_is_before_srun())
        names[n++] = slurm;
    return first_number(names);
}

static void fill_ranks(struct muster_seg_identity *identity)
{
    static const char *const rank[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", NULL};
    static const char *const local[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", NULL};
    static const char *const world[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
    identity->rank = launcher_number("RANK", "SLURM_PROCID", rank);
    identity->rank_source = MUSTER_RANK_FROM_ENV;
    if (identity->rank < 0)
        identity->rank_source = MUSTER_RANK_FROM_COMM;
    identity->local_rank = launcher_number("LOCAL_RANK", "SLURM_LOCALID", local);
    identity->world = launcher_number("WORLD_SIZE", "SLURM_NTASKS", world);
}

/* Set by `muster replay`: host times of a replay mean less, and reports say so. */
static uint32_t replay_speed(void)
{
    const char *text = muster_env("MUSTER_REPLAY");
    uint64_t speed;
    if (!text)
        return 0;
    if (strcmp(text, "max") == 0)
        return UINT32_MAX;
    return muster_text_u64(text, &speed) && speed < UINT32_MAX ? (uint32_t)speed : UINT32_MAX;
}

static void fill_host(struct muster_seg_identity *identity)
{
    struct muster_host host;
    muster_host_read(&host, getenv("NCCL_HOSTID"));
    muster_text_copy(identity->host, sizeof(identity->host), host.id);
    muster_text_copy(identity->hostname, sizeof(identity->hostname), host.name);
    identity->boot_hash = host.boot_hash;
    snprintf(identity->file_stem, sizeof(identity->file_stem), "%s-%u", host.stem, identity->pid);
}

void muster_identity_read(struct muster_seg_identity *identity)
{
    memset(identity, 0, sizeof(*identity));
    identity->pid = (uint32_t)getpid();
    identity->uid = (uint32_t)geteuid();
    identity->start_ticks = muster_process_start_ticks(0);
    identity->begin_mono_ns = muster_now_ns();
    identity->begin_unix_ns = muster_unix_ns();
    identity->replay_speed = replay_speed();
    fill_ranks(identity);
    fill_host(identity);
}
