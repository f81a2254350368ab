/* `muster doctor`: what the parts of it share. Each doctor_*.c adds the checks of one subject; ids
 * are listed in docs/doctor.md. */
#ifndef MUSTER_DOCTOR_DOCTOR_H
#define MUSTER_DOCTOR_DOCTOR_H

#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "doctor/env/env_rules.h"
#include "doctor/rules/checks.h"
#include "doctor/survey.h"
#include "topology/interfaces.h"

struct muster_job_log;

enum { MUSTER_NCCL_1 = 10000, MUSTER_NCCL_2 = 20000 }; /* version codes */
enum { MUSTER_DOCTOR_LIBRARIES = 16, MUSTER_DOCTOR_FILE = 64 << 10, MUSTER_DOCTOR_CPU_WORDS = 64 };

struct muster_nccl_library {
    char path[512];
    int version; /* code (base/nccl_types.h); 0: not in its text */
    int cuda;    /* that it was built for, 13000; 0: not in its text */
};

/* A variable that a file sets for NCCL, where the environment does not. */
struct muster_doctor_set {
    const char *name, *value;
    const char *from; /* "/etc/nccl.conf:3" */
};

struct muster_doctor {
    struct muster_arena *memory; /* of one examination */
    struct muster_checks *checks;
    const struct muster_survey *survey;
    const char *sysfs, *procfs, *devfs; /* MUSTER_SYSFS, MUSTER_PROCFS, MUSTER_DEVFS */
    const char *root;                   /* MUSTER_ROOT: where /etc and /run are; "" */
    const char *nccl;                   /* --nccl; NULL: as the loader finds it */
    const char *symptoms;               /* --symptom: words, separated by commas; NULL: none */
    const struct muster_job_log *log;   /* --log; NULL: none */
    const char *log_name;
    unsigned local_ranks; /* that will run on this host: by the launcher, else one a GPU */
    enum { MUSTER_DOCTOR_AUTO, MUSTER_DOCTOR_ACTIVE, MUSTER_DOCTOR_PASSIVE } activity;
    char no_driver[384]; /* filled by muster_doctor_driver: why nothing can be asked of it */
    /* filled by muster_doctor_environment */
    const struct muster_doctor_set *set;
    int sets;
    /* filled by muster_doctor_nccl */
    struct muster_nccl_library library[MUSTER_DOCTOR_LIBRARIES];
    int libraries;
    int loaded; /* index; -1: none could be loaded */
    char not_loaded[256];
};

/* A new check of GPUs; unchecked, with the reason, where no driver can be asked. */
struct muster_check *muster_doctor_begin_gpu(struct muster_doctor *doctor, const char *id,
                                             const char *class_id, const char *expected);
/* All checks, in the order in which they are shown. -1: out of memory. */
int muster_doctor_examine(struct muster_doctor *doctor, struct muster_err *err);

/* What the job printed: reads a file, or standard input for "-", at most 64 MiB of it. -1: it
 * cannot be read, with err. */
int muster_doctor_log_read(const char *path, struct muster_job_log *log, struct muster_err *err);
void muster_doctor_log(struct muster_doctor *doctor);
/* Adds to what the log's ways between ranks show: which ways this host has. */
void muster_doctor_ways(struct muster_doctor *doctor);
/* A variable of this environment, else of the job's log: nothing is loaded or opened by such a
 * value. NULL: set in neither. */
const char *muster_doctor_setting(const struct muster_doctor *doctor, const char *name);
/* The same of this environment (also an empty one), else of the files that NCCL adds to it. `from`,
 * unless it is NULL: the file and line, "" for the environment. NULL: set in neither. */
const char *muster_doctor_variable(const struct muster_doctor *doctor, const char *name,
                                   const char **from);
/* Libraries on this host; first, because others ask for the version. */
void muster_doctor_nccl(struct muster_doctor *doctor);
void muster_doctor_environment(struct muster_doctor *doctor);
void muster_doctor_network(struct muster_doctor *doctor);
/* Where ranks meet, if somebody chose it. */
void muster_doctor_oob(struct muster_doctor *doctor, const struct muster_interfaces *interfaces);
/* Open MPI's own interfaces, where it has several hosts. */
void muster_doctor_mpi(struct muster_doctor *doctor, const struct muster_interfaces *interfaces);
/* MASTER_ADDR and MASTER_PORT. */
void muster_doctor_master(struct muster_doctor *doctor, const struct muster_interfaces *interfaces);
void muster_doctor_names(struct muster_doctor *doctor);
void muster_doctor_firewall(struct muster_doctor *doctor);
void muster_doctor_mesh(struct muster_doctor *doctor);
void muster_doctor_proxy(struct muster_doctor *doctor);
void muster_doctor_scanner(struct muster_doctor *doctor);
/* The kernel's version and settings. */
void muster_doctor_kernel(struct muster_doctor *doctor);
/* The launcher's numbers. */
void muster_doctor_ranks(struct muster_doctor *doctor);
/* Locks that PyTorch's builds of extensions left. */
void muster_doctor_extensions(struct muster_doctor *doctor);
void muster_doctor_shm(struct muster_doctor *doctor);
void muster_doctor_limits(struct muster_doctor *doctor);
void muster_doctor_threads(struct muster_doctor *doctor);
void muster_doctor_binding(struct muster_doctor *doctor);
void muster_doctor_service(struct muster_doctor *doctor);
/* What a container lacks, of what other checks found: after them. */
void muster_doctor_runtime(struct muster_doctor *doctor);
void muster_doctor_host(struct muster_doctor *doctor);
void muster_doctor_kernel_log(struct muster_doctor *doctor);
/* Known bugs of the NCCL that is loaded. */
void muster_doctor_known_nccl(struct muster_doctor *doctor);
void muster_doctor_versions(struct muster_doctor *doctor);
/* Add to version.nccl: the NCCL that vLLM opens, and libraries that stand before it. */
void muster_doctor_vllm(const struct muster_doctor *doctor, struct muster_check *check);
void muster_doctor_profile(const struct muster_doctor *doctor, struct muster_check *check);
void muster_doctor_preload(const struct muster_doctor *doctor, struct muster_check *check);
/* Known bugs of the network plugin for EFA. */
void muster_doctor_known_plugin(struct muster_doctor *doctor);
/* GPUs for which the NCCL that is loaded was not built. */
void muster_doctor_gpu_code(struct muster_doctor *doctor);
/* Two NCCLs in one process. */
void muster_doctor_two(struct muster_doctor *doctor);
/* Two frameworks that take the GPUs. */
void muster_doctor_frameworks(struct muster_doctor *doctor);
/* Known bugs of the job's PyTorch. */
void muster_doctor_torch(struct muster_doctor *doctor);
/* Versions of two things that do not go together. */
void muster_doctor_pairs(struct muster_doctor *doctor);
void muster_doctor_driver(struct muster_doctor *doctor);
void muster_doctor_gpus(struct muster_doctor *doctor);
/* Adds to gpu.fabric; NVML answers. */
void muster_doctor_manager(struct muster_doctor *doctor, struct muster_check *check);
/* NVLink SHARP. */
void muster_doctor_multicast(struct muster_doctor *doctor);
void muster_doctor_sharing(struct muster_doctor *doctor);
void muster_doctor_rdma(struct muster_doctor *doctor);
/* Ports that NCCL takes. */
void muster_doctor_hca(struct muster_doctor *doctor);
void muster_doctor_ports(struct muster_doctor *doctor);
void muster_doctor_pcie(struct muster_doctor *doctor);
void muster_doctor_fabric(struct muster_doctor *doctor);
void muster_doctor_active(struct muster_doctor *doctor);

/* Room for a file; NULL: no memory, which the examination reports at its end. */
char *muster_doctor_room(const struct muster_doctor *doctor);
/* A file (below /proc), cut at MUSTER_DOCTOR_FILE - 1 bytes; false, and "", where it cannot be
 * read. `text` NULL: false.
 */
bool muster_doctor_read_file(const char *path, char *text);
bool muster_doctor_read_proc(const struct muster_doctor *doctor, const char *below, char *text);

/* Ranks and hosts of the job that the environment shows; 0 and false: it does not. */
unsigned muster_doctor_world(void);
bool muster_doctor_several_hosts(void);
/* The launcher starts the job on this host alone; false, too, where nothing is known of it. */
bool muster_doctor_one_host(void);
/* What started this container, by the marks that each leaves; docker for others that are like it.
 */
enum muster_container {
    MUSTER_CONTAINER_NONE,
    MUSTER_CONTAINER_DOCKER,
    MUSTER_CONTAINER_PODMAN,
    MUSTER_CONTAINER_KUBERNETES,
    MUSTER_CONTAINER_ENROOT, /* pyxis, too */
    MUSTER_CONTAINER_APPTAINER,
};
enum muster_container muster_doctor_container_kind(const struct muster_doctor *doctor);
bool muster_doctor_container(const struct muster_doctor *doctor);
/* A container without /dev/nvidia-caps. */
bool muster_doctor_lacks_caps(const struct muster_doctor *doctor);
/* Whether memory may not be bound to NUMA nodes here: a container's seccomp (docker's default, a
 * pod's RuntimeDefault) refuses that without CAP_SYS_NICE. `text`: room for a file. */
bool muster_doctor_may_not_bind(const struct muster_doctor *doctor, char *text);
/* Whether its CPUs are ARM's. `text`: room for a file. */
bool muster_doctor_is_arm(const struct muster_doctor *doctor, char *text);
/* The rank that this process is, where its launcher binds each rank to CPUs of its own; -1. */
int muster_doctor_local_rank(void);
/* CPUs that this process may run on, into MUSTER_DOCTOR_CPU_WORDS; 0: unknown. */
int muster_doctor_cpus(const struct muster_doctor *doctor, uint64_t *set);
/* How many of a set of these are on a GPU's NUMA node; -1: unknown. */
int muster_doctor_cpus_near(const struct muster_doctor *doctor, int gpu, const uint64_t *set);
/* Whether NCCL's data takes RDMA devices of this host. */
bool muster_doctor_uses_rdma(const struct muster_doctor *doctor);
/* EFA or Slingshot, which NCCL reaches through libfabric and a network plugin alone. */
bool muster_doctor_needs_net_plugin(const struct muster_doctor *doctor);
/* Ports whose link layer is Ethernet. */
int muster_doctor_roce_ports(const struct muster_doctor *doctor);
/* The first address of a name, within seconds. */
int muster_doctor_resolve(const char *name, struct muster_interface *to, struct muster_err *err);
/* The same of the host that is looked at: of a recorded one its /etc/hosts is asked first. */
int muster_doctor_resolve_there(const struct muster_doctor *doctor, const char *name,
                                struct muster_interface *to, struct muster_err *err);
/* Whether a name is a number, which resolvers take for an address ("3472853": 0.52.253.213). */
bool muster_doctor_is_number(const char *name);
/* The one of them that has the address; NULL: none. */
const struct muster_interface *muster_doctor_owner(const struct muster_interfaces *interfaces,
                                                   const struct muster_interface *of);
/* "eth0 10.0.0.1/24", or the address alone where it has no name. */
void muster_doctor_address(const struct muster_interface *interface, char *text, size_t size);
/* Of the examination; NULL: they cannot be listed. */
struct muster_interfaces *muster_doctor_interfaces(const struct muster_doctor *doctor);
/* Which of them NCCL takes, by its variables. */
void muster_doctor_choose(const struct muster_doctor *doctor,
                          const struct muster_interfaces *interfaces, struct muster_choice *choice);
/* Entries of a folder; 0 where it cannot be read. */
int muster_doctor_entries(const char *root, const char *below);
/* The place, from 1 on, of the first of these programs that runs here; `names` ends with NULL, ""
 * among them is no program, and `process` gets its number. 0: none. */
int muster_doctor_process(const struct muster_doctor *doctor, const char *const *names,
                          char process[24]);
/* Between no two GPUs, by the driver. */
bool muster_doctor_lacks_p2p(const struct muster_nvml *nvml);
bool muster_doctor_in_use(const struct muster_nvml_gpu *gpu);

/* NCCL_ names in a library, sorted. 0 if it cannot be read. */
size_t muster_nccl_strings(struct muster_arena *arena, const char *path,
                           const char *const **strings);
/* "NCCL version 2.28.9+cuda13.0" in a library's bytes: 22809; 0: not there. *cuda gets 13000, or 0.
 */
int muster_nccl_version_in(const char *path, int *cuda);

/* Whether the host is the one that this runs on, which can be asked what no file has. */
static inline bool muster_doctor_is_live(const struct muster_doctor *doctor)
{
    return strcmp(doctor->procfs, "/proc") == 0;
}

struct muster_gpu_code;
/* The architectures for which a library has code; false: it does not name them. */
bool muster_nccl_gpu_code(const char *path, struct muster_gpu_code *code);

static inline int muster_doctor_version(const struct muster_doctor *doctor)
{
    return doctor->loaded >= 0 ? doctor->library[doctor->loaded].version : 0;
}

/* What this program does as a rank of doctor's all-reduce. */
extern const char *const muster_doctor_rank[];

#endif
