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
static void order(const char *names[NAMES], const char *framework, const char *slurm,
                  const char *const *mpi)
{
    size_t n = 0;
    bool job = muster_env("SLURM_JOB_ID");
    names[n++] = framework;
    if (!job)
        names[n++] = slurm;
    while (*mpi)
        names[n++] = *mpi++;
    if (job && !muster_is_before_srun())
        names[n++] = slurm;
    names[n] = NULL;
}

static const char *const mpi_rank[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", NULL};

int32_t muster_identity_launcher_rank(void)
{
    const char *names[NAMES];
    order(names, "RANK", "SLURM_PROCID", mpi_rank);
    return first_number(names);
}

/* A rank without its world is somebody's, and not always this process's: Lightning sets the world
 * alone, shells hand ranks on. */
static void fill_ranks(struct muster_seg_identity *identity)
{
    static const char *const local[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", NULL};
    static const struct {
        const char *rank, *world;
    } launcher[] = {{"RANK", "WORLD_SIZE"},
                    {"SLURM_PROCID", "SLURM_NTASKS"},
                    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                    {"PMI_RANK", "PMI_SIZE"},
                    {"PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}};
    const char *names[NAMES];
    identity->rank = identity->world = -1;
    identity->rank_source = MUSTER_RANK_FROM_COMM;
    order(names, "RANK", "SLURM_PROCID", mpi_rank);
    for (const char **name = names; *name && identity->rank < 0; name++) {
        for (size_t i = 0; i < sizeof launcher / sizeof *launcher; i++) {
            int32_t rank = first_number((const char *const[]){launcher[i].rank, NULL});
            int32_t world = first_number((const char *const[]){launcher[i].world, NULL});
            if (strcmp(launcher[i].rank, *name) != 0 || rank < 0 || rank >= world)
                continue;
            identity->rank = rank;
            identity->world = world;
            identity->rank_source = MUSTER_RANK_FROM_ENV;
        }
    }
    order(names, "LOCAL_RANK", "SLURM_LOCALID", local);
    identity->local_rank = first_number(names);
}

enum muster_rank_news muster_identity_learn(struct muster_seg_identity *identity, bool *settled,
                                            int32_t nranks, int32_t rank)
{
    bool from_env = identity->rank_source == MUSTER_RANK_FROM_ENV;
    if (rank < 0 || rank >= nranks || nranks < identity->world)
        return MUSTER_RANK_KNOWN;
    if (nranks == identity->world && (!from_env || *settled || rank == identity->rank)) {
        *settled = true;
        return MUSTER_RANK_KNOWN;
    }
    identity->rank = rank;
    identity->world = nranks;
    identity->rank_source = MUSTER_RANK_FROM_COMM;
    return from_env ? MUSTER_RANK_CONTRADICTED : MUSTER_RANK_LEARNED;
}

/* Set by `muster replay`: host times of a replay mean less, and reports note that. */
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

static void fill_slurm(struct muster_seg_identity *identity)
{
    const char *job = muster_env("SLURM_JOB_ID"), *step = job ? muster_slurm_step() : NULL;
    muster_text_copy(identity->slurm_job, sizeof(identity->slurm_job), job ? job : "");
    muster_text_copy(identity->slurm_step, sizeof(identity->slurm_step), step ? step : "");
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
    fill_slurm(identity);
}

void muster_identity_file(const struct muster_seg_identity *who, const char *suffix, char *to,
                          size_t size)
{
    snprintf(to, size, "%s/%s%s", who->run_dir, who->file_stem, suffix);
}

const char *muster_identity_host_text(const struct muster_seg_identity *who)
{
    size_t n = strlen(who->hostname);
    return n && strncmp(who->host, who->hostname, n) == 0 ? who->hostname : who->host;
}
