/* What the launcher's variables show of the job. */
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"

unsigned muster_doctor_world(void)
{
    static const char *const names[] = {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE",
                                        "PMI_SIZE"};
    uint64_t n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && muster_text_u64(text, &n) && n > 0 && n < UINT32_MAX)
            return (unsigned)n;
    }
    return 0;
}

bool muster_doctor_several_hosts(void)
{
    const char *nodes = getenv("SLURM_JOB_NUM_NODES"), *groups = getenv("GROUP_WORLD_SIZE");
    const char *asked = muster_env("MUSTER_HOSTS"); /* set by `muster doctor --hosts` */
    const char *world = getenv("WORLD_SIZE"), *local = getenv("LOCAL_WORLD_SIZE");
    return (nodes && atoi(nodes) > 1) || (asked && atoi(asked) > 1) ||
           (groups && atoi(groups) > 1) || (world && local && atoi(world) > atoi(local));
}

bool muster_doctor_one_host(void)
{
    static const char *const hosts[] = {"SLURM_JOB_NUM_NODES", "GROUP_WORLD_SIZE"};
    const char *local = getenv("LOCAL_WORLD_SIZE");
    unsigned world = muster_doctor_world();
    if (muster_doctor_several_hosts())
        return false;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        const char *n = getenv(hosts[i]);
        if (n && atoi(n) == 1)
            return true;
    }
    local = local ? local : getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    return local && world > 0 && (unsigned)atoi(local) == world;
}

int muster_doctor_local_rank(void)
{
    static const char *const names[] = {"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MPI_LOCALRANKID"};
    uint64_t rank;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && muster_text_u64(text, &rank) && rank < MUSTER_MACHINE_GPUS)
            return (int)rank;
    }
    return -1;
}
