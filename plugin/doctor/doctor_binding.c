/* Which CPUs the ranks of this host are bound to, and how its memory and CPUs are divided. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "doctor/visible.h"
#include "topology/sysfs.h"

enum { RANKS_MAX = 64, PROCESSES_MAX = 4096, CPUS_PER_RANK = 2, NODES_MAX = 64 };

struct bound {
    unsigned rank;     /* on this host */
    long pid;          /* 0: as the launcher will bind it */
    const char *text;  /* the CPUs, as the source has them */
    char job[32];      /* its port, which ranks of one job share */
    char visible[128]; /* its CUDA_VISIBLE_DEVICES; "": not set */
    int cpus;
    uint64_t set[MUSTER_DOCTOR_CPU_WORDS];
};

struct ranks {
    struct bound *at; /* RANKS_MAX */
    int n;
};

/* ---- ranks that run ---- */

/* Of a rank's variables: its number by the innermost launcher that gave one, and its job. */
static void take_variable(const char *entry, struct bound *rank, size_t *by)
{
    static const char *const names[] = {
        "LOCAL_RANK=", "OMPI_COMM_WORLD_LOCAL_RANK=", "MPI_LOCALRANKID=", "SLURM_LOCALID="};
    uint64_t number;
    for (size_t i = 0; i < sizeof names / sizeof *names && i < *by; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0 &&
            muster_text_u64(entry + strlen(names[i]), &number) && number < RANKS_MAX) {
            rank->rank = (unsigned)number;
            *by = i;
        }
    if (strncmp(entry, "MASTER_PORT=", strlen("MASTER_PORT=")) == 0)
        muster_text_copy(rank->job, sizeof rank->job, entry + strlen("MASTER_PORT="));
    if (strncmp(entry, "CUDA_VISIBLE_DEVICES=", strlen("CUDA_VISIBLE_DEVICES=")) == 0)
        muster_text_copy(rank->visible, sizeof rank->visible,
                         entry + strlen("CUDA_VISIBLE_DEVICES="));
}

/* false: the process is no rank, or its variables are not to be read. */
static bool read_variables(const struct muster_doctor *doctor, const char *pid, struct bound *rank)
{
    char path[PATH_MAX], *entry = NULL;
    size_t room = 0, by = SIZE_MAX;
    snprintf(path, sizeof path, "%s/%.20s/environ", doctor->procfs, pid);
    FILE *variables = fopen(path, "re");
    while (variables && getdelim(&entry, &room, '\0', variables) > 0)
        take_variable(entry, rank, &by);
    free(entry);
    if (variables)
        fclose(variables);
    return by != SIZE_MAX;
}

/* What a rank starts has its variables, too, and a later number: the first process is the rank. */
static struct bound *place_of(struct ranks *ranks, const struct bound *rank)
{
    for (int i = 0; i < ranks->n; i++)
        if (ranks->at[i].rank == rank->rank && strcmp(ranks->at[i].job, rank->job) == 0)
            return rank->pid < ranks->at[i].pid ? &ranks->at[i] : NULL;
    return ranks->n < RANKS_MAX ? &ranks->at[ranks->n++] : NULL;
}

/* Without CPUs where they are not known. */
static void read_cpus(const struct muster_doctor *doctor, char *text, struct bound *rank)
{
    char below[64];
    snprintf(below, sizeof below, "%ld/status", rank->pid);
    const char *list =
        muster_doctor_read_proc(doctor, below, text) ? strstr(text, "Cpus_allowed_list:") : NULL;
    if (!list)
        return;
    list += strlen("Cpus_allowed_list:");
    list += strspn(list, " \t");
    rank->text = muster_arena_format(doctor->memory, "CPUs %.*s", (int)strcspn(list, "\n"), list);
    rank->cpus = muster_proc_cpus(list, rank->set, MUSTER_DOCTOR_CPU_WORDS);
}

static void find_running(const struct muster_doctor *doctor, struct ranks *ranks)
{
    char *text = muster_doctor_room(doctor);
    int seen = 0;
    DIR *dir = opendir(doctor->procfs);
    for (struct dirent *entry; dir && (entry = readdir(dir)) && seen < PROCESSES_MAX;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        struct bound rank = {.pid = strtol(entry->d_name, NULL, 10), .text = "CPUs not told"};
        seen++;
        if (!read_variables(doctor, entry->d_name, &rank))
            continue;
        struct bound *place = place_of(ranks, &rank);
        if (place) {
            read_cpus(doctor, text, &rank);
            *place = rank;
        }
    }
    if (dir)
        closedir(dir);
}

/* ---- ranks that Slurm will bind ---- */

/* "0x0f0", of any length. */
static void read_mask(const char *mask, size_t length, struct bound *rank)
{
    static const char digits[] = "0123456789abcdef";
    if (length > 2 && mask[0] == '0' && tolower((unsigned char)mask[1]) == 'x') {
        mask += 2;
        length -= 2;
    }
    for (size_t i = 0; i < length && i < (size_t)MUSTER_DOCTOR_CPU_WORDS * 16; i++) {
        const char *digit = strchr(digits, tolower((unsigned char)mask[length - 1 - i]));
        if (!digit || !*digit)
            return;
        rank->set[i / 16] |= (uint64_t)(digit - digits) << (i % 16 * 4);
        rank->cpus += __builtin_popcountll((unsigned long long)(digit - digits));
    }
}

/* Slurm goes through the list again where there are more ranks than entries. */
static void find_planned(const struct muster_doctor *doctor, struct ranks *ranks)
{
    const char *type = muster_env("SLURM_CPU_BIND_TYPE"), *list = muster_env("SLURM_CPU_BIND_LIST");
    bool masks = type && strstr(type, "mask_cpu"), numbers = type && strstr(type, "map_cpu");
    const char *at = list;
    if (!list || !*list || (!masks && !numbers))
        return;
    for (; ranks->n < RANKS_MAX && (unsigned)ranks->n < doctor->local_ranks; ranks->n++) {
        struct bound *rank = &ranks->at[ranks->n];
        size_t length = strcspn(at, ",");
        *rank = (struct bound){.rank = (unsigned)ranks->n};
        muster_text_copy(rank->visible, sizeof rank->visible, muster_env("CUDA_VISIBLE_DEVICES"));
        rank->text = muster_arena_format(doctor->memory, "%s %.*s", masks ? "mask" : "CPU",
                                         (int)(length < 64 ? length : 64), at);
        if (masks)
            read_mask(at, length, rank);
        else
            rank->cpus =
                muster_proc_cpus(muster_arena_format(doctor->memory, "%.*s", (int)length, at),
                                 rank->set, MUSTER_DOCTOR_CPU_WORDS);
        at = at[length] && at[length + 1] ? at + length + 1 : list;
    }
}

/* ---- what is wrong ---- */

static int common(const struct bound *a, const struct bound *b)
{
    int n = 0;
    for (int i = 0; i < MUSTER_DOCTOR_CPU_WORDS; i++)
        n += __builtin_popcountll(a->set[i] & b->set[i]);
    return n;
}

/* Ranks that have no CPU outside of what rank `of` has, that rank among them, and whether it is the
 * first of those who have just these. */
static int count_within(const struct ranks *ranks, int of, bool *first)
{
    int n = 0;
    *first = true;
    for (int i = 0; i < ranks->n; i++) {
        const struct bound *other = &ranks->at[i];
        bool within = other->cpus > 0 && common(other, &ranks->at[of]) == other->cpus;
        n += within;
        *first &= !(within && i < of && other->cpus == ranks->at[of].cpus);
    }
    return n;
}

static void evaluate(struct muster_check *check, const struct ranks *ranks, int online)
{
    for (int i = 0; i < ranks->n; i++) {
        const struct bound *rank = &ranks->at[i];
        bool first;
        int within = count_within(ranks, i, &first);
        if (within > 1 && first && rank->cpus < CPUS_PER_RANK * within && rank->cpus != online) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_evidence(check, "%d ranks on %d CPU%s: rank %u and others, %s", within,
                                  rank->cpus, rank->cpus == 1 ? "" : "s", rank->rank, rank->text);
        }
        for (int j = i + 1; j < ranks->n; j++) {
            const struct bound *other = &ranks->at[j];
            int both = common(rank, other);
            if (both == 0 || both == rank->cpus || both == other->cpus)
                continue; /* apart, or a socket's CPUs that its ranks share */
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_evidence(check, "ranks %u and %u share %d of their CPUs: %s, %s",
                                  rank->rank, other->rank, both, rank->text, other->text);
        }
    }
}

static int count_online(const struct muster_doctor *doctor)
{
    char text[1024];
    uint64_t all[MUSTER_DOCTOR_CPU_WORDS];
    return muster_sysfs_line(doctor->sysfs, text, sizeof text, "devices/system/cpu/online")
               ? muster_proc_cpus(text, all, MUSTER_DOCTOR_CPU_WORDS)
               : 0;
}

static void check_binding(struct muster_doctor *doctor, const struct ranks *ranks)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.binding", "F33");
    muster_check_expected(check, "CPUs of its own for each rank, or %d each of what they share",
                          CPUS_PER_RANK);
    if (ranks->n < 2) {
        muster_check_found(check, "no ranks are bound here");
        return;
    }
    evaluate(check, ranks, count_online(doctor));
    bool shared = check->status == MUSTER_CHECK_WARNING;
    muster_check_found(check, shared ? "ranks are bound to the same CPUs"
                                     : "no rank is bound to CPUs that others need");
    if (shared)
        muster_check_advice(check, "a list or mask of its own for each rank (srun --cpu-bind=cores "
                                   "-c N, mpirun --map-by slot:PE=N, numactl by LOCAL_RANK): "
                                   "NCCL's proxy threads wait while another rank runs");
}

/* ---- CPUs and GPUs ---- */

/* The GPU that a rank will take: the only one that it sees, else that of its own number, as
 * frameworks do; -1: not known. */
static int gpu_of(const struct muster_machine *machine, const struct bound *rank)
{
    struct muster_visible visible;
    if (!rank->visible[0])
        return rank->rank < (unsigned)machine->gpus ? (int)rank->rank : -1;
    muster_visible_gpus(machine, rank->visible, getenv("CUDA_DEVICE_ORDER"), &visible);
    for (int i = 0; visible.known && visible.n == 1 && i < machine->gpus; i++)
        if (visible.gpu[i])
            return i;
    return -1;
}

static void check_near(struct muster_doctor *doctor, const struct ranks *ranks)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.near", "F33");
    int online = count_online(doctor), known = 0, far = 0;
    muster_check_expected(check, "CPUs on the NUMA node of its GPU for each rank");
    for (int i = 0; i < ranks->n; i++) {
        const struct bound *rank = &ranks->at[i];
        int gpu = gpu_of(doctor->survey->machine, rank);
        int near = gpu >= 0 && rank->cpus > 0 && rank->cpus != online
                       ? muster_doctor_cpus_near(doctor, gpu, rank->set)
                       : -1;
        known += near >= 0;
        if (near != 0)
            continue;
        far++;
        muster_check_evidence(check, "rank %u: %s, none of them on the node of GPU %d", rank->rank,
                              rank->text, gpu);
    }
    muster_check_found(check, far     ? "ranks are bound far from their GPUs"
                              : known ? "every rank has CPUs near its GPU"
                                      : "no ranks are bound here, or nodes are not told");
    if (!far)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_advice(check,
                        "bind by the GPU's node (nvidia-smi topo -m; srun --gpu-bind=closest, "
                        "numactl --cpunodebind by LOCAL_RANK): what its proxy threads copy "
                        "crosses the sockets");
}

/* ---- NUMA ---- */

/* The socket of a node's first CPU; -1: it has no CPU, as memory on a GPU, or does not show it. */
static int socket_of(const struct muster_doctor *doctor, int node)
{
    char list[1024];
    if (!muster_sysfs_line(doctor->sysfs, list, sizeof list, "devices/system/node/node%d/cpulist",
                           node) ||
        !isdigit((unsigned char)list[0]))
        return -1;
    return (int)muster_sysfs_number(doctor->sysfs, -1,
                                    "devices/system/cpu/cpu%d/topology/physical_package_id",
                                    (int)strtol(list, NULL, 10));
}

static void list_gpus(struct muster_check *check, const struct muster_machine *machine)
{
    for (int i = 0; i < machine->gpus; i++) {
        uint64_t near = muster_machine_numa(machine, machine->gpu[i].node);
        if (near && (near & (near - 1)) == 0)
            muster_check_evidence(check, "GPU %d: node %d", i, __builtin_ctzll(near));
        else if (near == 0 && !machine->hidden && !machine->virtual_machine) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_evidence(check, "GPU %d: its node is not told (numa_node is -1)", i);
            muster_check_advice(check, "a setting of the BIOS (ACPI's _PXM): until then NCCL and "
                                       "launchers take any CPU as near");
        }
    }
}

/* Sockets of an EPYC whose quarters are one node, by /proc/cpuinfo; 0: another processor. */
static int count_epycs(const struct muster_doctor *doctor)
{
    char *text = muster_doctor_room(doctor);
    uint64_t seen = 0;
    if (!muster_doctor_read_proc(doctor, "cpuinfo", text) || !strstr(text, "EPYC"))
        return 0;
    for (const char *at = strstr(text, "physical id"); at; at = strstr(at + 1, "physical id")) {
        const char *value = strchr(at, ':');
        unsigned long socket = value ? strtoul(value + 1, NULL, 10) : 64;
        seen |= socket < 64 ? 1ull << socket : 0;
    }
    return __builtin_popcountll(seen);
}

/* What a GPU and a NIC of different quarters send each other is slow then (nccl-tests#293,
 * nccl#1285). */
static void suspect_one_node(const struct muster_doctor *doctor, struct muster_check *check)
{
    int nodes = 0, sockets = count_epycs(doctor);
    char list[64];
    for (int node = 0; node < NODES_MAX; node++)
        nodes += muster_sysfs_line(doctor->sysfs, list, sizeof list,
                                   "devices/system/node/node%d/cpulist", node) &&
                 isdigit((unsigned char)list[0]);
    if (sockets == 0 || nodes == 0 || nodes > sockets || doctor->survey->machine->virtual_machine)
        return;
    muster_check_suspect(
        check, "one NUMA node a socket on EPYC (NPS1): PCIe devices of different quarters of a "
               "socket are slow between each other");
    muster_check_advice(
        check, "BIOS: NUMA nodes per socket 4 (NPS4), measured; P2P and GPUDirect across host "
               "bridges gain most");
}

static void check_numa(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "host.numa", "F33");
    int nodes = 0, sockets = 0;
    uint64_t seen = 0;
    for (int node = 0; node < NODES_MAX; node++) {
        int socket = socket_of(doctor, node);
        if (socket < 0 || socket >= 64)
            continue;
        nodes++;
        sockets += !(seen >> socket & 1);
        seen |= 1ull << socket;
    }
    muster_check_expected(check, "the node of every GPU is told where there are several");
    suspect_one_node(doctor, check);
    if (nodes == 0) {
        muster_check_found(check, "NUMA nodes are not told");
        return;
    }
    muster_check_found(check, "%d NUMA node%s on %d socket%s", nodes, nodes == 1 ? "" : "s",
                       sockets, sockets == 1 ? "" : "s");
    if (nodes > sockets)
        muster_check_evidence(check,
                              "several nodes a socket (NPS, sub-NUMA clustering): a GPU is near "
                              "to the CPUs of one of them alone");
    if (nodes > 1)
        list_gpus(check, doctor->survey->machine);
}

void muster_doctor_binding(struct muster_doctor *doctor)
{
    struct ranks ranks = {.at = muster_arena_array(doctor->memory, RANKS_MAX, sizeof *ranks.at)};
    if (!ranks.at)
        return;
    find_running(doctor, &ranks);
    if (ranks.n < 2) {
        ranks.n = 0;
        find_planned(doctor, &ranks);
    }
    check_binding(doctor, &ranks);
    check_near(doctor, &ranks);
    check_numa(doctor);
}
