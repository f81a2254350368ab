/* The numbers that a launcher, or a script in its place, gave this process: against each other, and
 * against the GPUs that it sees. */
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/visible.h"

/* -1: not set, or no number. */
static long long number(const char *name)
{
    const char *text = muster_env(name);
    uint64_t n;
    return text && muster_text_u64(text, &n) && n < UINT32_MAX ? (long long)n : -1;
}

static void compare(struct muster_check *check, const char *rank, const char *size)
{
    if (number(rank) < 0 || number(size) < 0 || number(rank) < number(size))
        return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check, "%s=%lld, but %s=%lld: ranks count from 0", rank, number(rank), size,
                       number(size));
    muster_check_advice(check,
                        "let one launcher set all of them, and unset what an earlier one, or "
                        "a script, left");
}

static void evaluate_sizes(struct muster_check *check)
{
    long long world = number("WORLD_SIZE"), local = number("LOCAL_WORLD_SIZE");
    const char *port = muster_env("MASTER_PORT");
    compare(check, "RANK", "WORLD_SIZE");
    compare(check, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
    if (world >= 0 && local > world) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "LOCAL_WORLD_SIZE=%lld of WORLD_SIZE=%lld", local, world);
        muster_check_advice(check, "WORLD_SIZE counts the ranks of all hosts");
    }
    if (port && (number("MASTER_PORT") < 1 || number("MASTER_PORT") > 65535)) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "MASTER_PORT=%.40s is no port", port);
        muster_check_advice(check, "a number from 1024 to 65535, the same on all hosts");
    }
}

/* Slurm's tasks may start ranks of their own: then they are fewer, which is fine. */
static void suspect_slurm(struct muster_check *check)
{
    long long world = number("WORLD_SIZE"), tasks = number("SLURM_NTASKS");
    if (world <= tasks || tasks <= 0 || muster_env("TORCHELASTIC_RUN_ID") ||
        number("SLURM_PROCID") < 0)
        return;
    muster_check_suspect(check,
                         "WORLD_SIZE=%lld, but Slurm starts %lld tasks: the others may never "
                         "come",
                         world, tasks);
    muster_check_advice(check, "--ntasks-per-node must be the ranks of a host, unless each task "
                               "starts several (torchrun)");
}

/* As with Slurm's --gpus-per-task: programs that take GPU LOCAL_RANK fail ("invalid device
 * ordinal"), and NCCL cannot map what the other ranks have where a cgroup hides it: it goes by
 * shared memory or the network. */
static void suspect_one_gpu(const struct muster_doctor *doctor, struct muster_check *check,
                            const struct muster_visible *visible)
{
    long long local = number("LOCAL_RANK") >= 0 ? number("LOCAL_RANK") : number("SLURM_LOCALID");
    bool per_task = muster_env("SLURM_GPUS_PER_TASK") != NULL;
    bool beyond = visible->known && visible->n > 0 && local >= visible->n;
    if (!beyond && !(per_task && doctor->local_ranks > 1))
        return;
    muster_check_suspect(check,
                         "each rank sees %s: what takes GPU LOCAL_RANK fails, and NCCL may "
                         "not reach the GPUs of its peers",
                         per_task ? "the GPU of --gpus-per-task alone"
                                  : "fewer GPUs than its number");
    muster_check_advice(check, "Slurm: --gpus-per-node (or --gres) in place of --gpus-per-task, or "
                               "--gpu-bind=none; else unset CUDA_VISIBLE_DEVICES");
}

/* Lightning takes Slurm's tasks for its ranks, whatever number of devices it is given. */
static void suspect_tasks(struct muster_check *check, const struct muster_visible *visible)
{
    static const char *const launchers[] = {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                            "TORCHELASTIC_RUN_ID"};
    long long nodes = number("SLURM_JOB_NUM_NODES"), tasks = number("SLURM_NTASKS");
    long long here = tasks / (nodes > 0 ? nodes : 1);
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (muster_env(launchers[i]))
            return;
    if (check->suspect[0] || number("SLURM_PROCID") < 0 || here < 1 || !visible->known ||
        here >= visible->n)
        return;
    muster_check_suspect(
        check,
        "Slurm starts %lld task%s on a host for %d GPUs: Lightning takes tasks for "
        "its ranks, and waits for those that nobody starts",
        here, here == 1 ? "" : "s", visible->n);
    muster_check_advice(check,
                        "srun --ntasks-per-node=%d, or torchrun in one task a host; in an "
                        "interactive shell unset SLURM_NTASKS SLURM_PROCID first",
                        visible->n);
    check->suspect_of = "init_error hang_absent";
    check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
}

/* A batch script, which Slurm starts once: SLURM_STEP_ID is srun's. */
static void suspect_batch(struct muster_check *check)
{
    static const char *const starts[] = {"SLURM_STEP_ID",        "RANK",     "WORLD_SIZE",
                                         "LOCAL_WORLD_SIZE",     "PMI_SIZE", "TORCHELASTIC_RUN_ID",
                                         "OMPI_COMM_WORLD_SIZE", "PMIX_RANK"};
    long long tasks = number("SLURM_NTASKS");
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (muster_env(starts[i]))
            return;
    if (check->suspect[0] || number("SLURM_PROCID") != 0 || tasks < 2)
        return;
    muster_check_suspect(check,
                         "no srun started this (no SLURM_STEP_ID), and Slurm has %lld tasks: what "
                         "takes them for its ranks, as Lightning does, waits for the others",
                         tasks);
    muster_check_advice(check, "srun before the program in the batch script, or torchrun");
    check->suspect_of = "init_error hang_absent";
    check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
}

/* Lightning starts the ranks of a host itself, unless it takes such a variable for a launcher's:
 * which one depends on its version. */
static void suspect_remains(struct muster_check *check)
{
    static const char *const of_rank[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                                          "PMI_RANK"};
    static const char *const left[] = {"LOCAL_RANK", "NODE_RANK", "GROUP_RANK"};
    if (muster_doctor_several_hosts())
        return;
    for (size_t i = 0; i < sizeof of_rank / sizeof *of_rank; i++)
        if (muster_env(of_rank[i]))
            return;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        if (number(left[i]) < 0)
            continue;
        muster_check_suspect(check,
                             "%s=%lld is set, but RANK is not: Lightning takes it for a "
                             "launcher's, and waits for ranks that nobody starts",
                             left[i], number(left[i]));
        muster_check_advice(check,
                            "unset %s, and what else env | grep -E 'RANK|WORLD_SIZE' shows, "
                            "where the program starts its ranks itself",
                            left[i]);
        check->suspect_of = "init_error hang_absent";
        check->suspect_weight = 6; /* before bugs of NCCL that few jobs meet */
        return;
    }
}

/* The numbers that an MPI gave this process; `size` -1: none did. */
struct mpi {
    const char *name;
    long long rank, size, local;
};

static struct mpi ask_mpi(void)
{
    static const char *const names[][4] = {
        {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"},
        {"MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (number(names[i][1]) >= 0 && number(names[i][2]) > 1)
            return (struct mpi){names[i][0], number(names[i][1]), number(names[i][2]),
                                number(names[i][3])};
    return (struct mpi){"", -1, -1, -1};
}

static void suspect_launchers(struct muster_check *check)
{
    muster_check_advice(check, "from MPI's in each rank: RANK and WORLD_SIZE, LOCAL_RANK, and "
                               "NODE_RANK, which is RANK / ranks of a host; nothing of it with -x "
                               "or from a script that ran once; or torchrun on each host");
    check->suspect_of = "wrong_result init_error hang_absent";
    check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
}

/* PyTorch reads RANK and WORLD_SIZE, Lightning NODE_RANK, neither of them MPI's (DeepSpeed#461,
 * pytorch-lightning#13639, azure-docs#95788). A torchrun that MPI starts counts anew. */
static void suspect_mpi(struct muster_check *check)
{
    const struct mpi mpi = ask_mpi();
    long long rank = number("RANK"), world = number("WORLD_SIZE"), node = number("NODE_RANK");
    if (mpi.size < 0 || check->suspect[0])
        return;
    if (world >= 0 && world < mpi.size)
        muster_check_suspect(check,
                             "%s starts %lld ranks, but WORLD_SIZE=%lld: several jobs in "
                             "place of one, or ranks that are none",
                             mpi.name, mpi.size, world);
    else if (world == mpi.size && rank >= 0 && rank != mpi.rank &&
             !muster_env("TORCHELASTIC_RUN_ID"))
        muster_check_suspect(check,
                             "%s says rank %lld, but RANK=%lld: two ranks may have one number",
                             mpi.name, mpi.rank, rank);
    else if (rank < 0 && mpi.local > 0 && mpi.local < mpi.size && node >= 0 &&
             node != mpi.rank / mpi.local && node != mpi.rank % (mpi.size / mpi.local))
        muster_check_suspect(check,
                             "NODE_RANK=%lld, but %s's rank %lld, with %lld a host, is on host "
                             "%lld: NODE_RANK counts hosts",
                             node, mpi.name, mpi.rank, mpi.local, mpi.rank / mpi.local);
    else if (rank < 0 && node < 0 && mpi.local > 0 && mpi.local < mpi.size &&
             muster_env("MASTER_ADDR"))
        muster_check_suspect(check,
                             "%s tells ranks, but NODE_RANK is not set: Lightning takes each "
                             "host for the first one",
                             mpi.name);
    else
        return;
    suspect_launchers(check);
}

/* What Slurm numbers anew in each task, and a batch script sees as the first host's (srun's page,
 * "output environment variables"; aiconfigurator#1554). */
static void suspect_once(struct muster_check *check)
{
    static const char *const pairs[][2] = {{"NODE_RANK", "SLURM_NODEID"}, {"RANK", "SLURM_PROCID"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !check->suspect[0]; i++) {
        if (number(pairs[i][0]) != 0 || number(pairs[i][1]) < 1 ||
            muster_env("TORCHELASTIC_RUN_ID") || number("LOCAL_RANK") > 0 ||
            number("WORLD_SIZE") == 1)
            continue;
        muster_check_suspect(check,
                             "%s=0, but %s=%lld: as a batch script sets it, which runs once, "
                             "on the first host",
                             pairs[i][0], pairs[i][1], number(pairs[i][1]));
        muster_check_advice(check,
                            "srun bash -c '%s=$%s ...', in single quotes, so that each task "
                            "sets its own",
                            pairs[i][0], pairs[i][1]);
        check->suspect_of = "wrong_result init_error hang_absent";
        check->suspect_weight = 5; /* before bugs of NCCL that few jobs meet */
    }
}

/* What most often fails a job of one host where the host shows nothing, as its program alone knows.
 */
static void suspect_program(const struct muster_doctor *doctor, struct muster_check *check,
                            const struct muster_visible *visible)
{
    const char *given = doctor->symptoms;
    bool alone = given && strstr(given, "hang_absent") && !muster_doctor_world();
    if (!given || check->suspect[0] || check->status != MUSTER_CHECK_OK || visible->n < 2 ||
        muster_doctor_several_hosts() ||
        !(strstr(given, "init_error") || strstr(given, "hang_absent")))
        return;
    muster_check_suspect(check,
                         "this host does not show it: then mostly two ranks take the same GPU, or "
                         "another job holds the port of the rendezvous%s",
                         alone ? ", or no launcher started the other ranks" : "");
    muster_check_advice(check,
                        "%seach rank calls torch.cuda.set_device(LOCAL_RANK), and a host has at "
                        "most one rank a GPU (nccl-tests: -g times processes); torchrun "
                        "--standalone, or a MASTER_PORT of its own for each job%s",
                        doctor->log ? ""
                                    : "`muster doctor --log` of the job's output with "
                                      "NCCL_DEBUG=INFO tells which; ",
                        alone ? "; torchrun or srun on each host of several" : "");
    check->suspect_of = "init_error hang_absent";
    check->suspect_blind = true;
}

void muster_doctor_ranks(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "job.ranks", "F17,F36");
    struct muster_visible visible;
    muster_check_expected(check, "numbers of ranks and hosts that fit each other");
    muster_check_found(check,
                       muster_doctor_world() ? "nothing against them" : "no launcher's numbers");
    suspect_remains(check);
    suspect_slurm(check);
    muster_visible_gpus(doctor->survey->machine, muster_env("CUDA_VISIBLE_DEVICES"),
                        muster_env("CUDA_DEVICE_ORDER"), &visible);
    suspect_one_gpu(doctor, check, &visible);
    suspect_tasks(check, &visible);
    suspect_batch(check);
    suspect_mpi(check);
    suspect_once(check);
    evaluate_sizes(check);
    suspect_program(doctor, check, &visible);
}
