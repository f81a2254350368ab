/* Which known bugs of NCCL this host and this job can meet. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"
#include "doctor/doctor.h"
#include "doctor/rdma/doctor_ports.h"
#include "doctor/rules/job_log.h"
#include "doctor/rules/known_bad.h"
#include "doctor/rules/known_nccl.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

bool muster_doctor_lacks_p2p(const struct muster_nvml *nvml)
{
    for (int a = 0; a < nvml->gpus; a++)
        for (int b = 0; b < nvml->gpus; b++)
            if (a != b &&
                (nvml->p2p[a][b] == MUSTER_P2P_OK || nvml->p2p[a][b] == MUSTER_P2P_UNKNOWN))
                return false;
    return true;
}

static uint64_t of_gpus(const struct muster_nvml *nvml)
{
    uint64_t has = 0;
    for (int i = 0; nvml && i < nvml->gpus; i++) {
        const struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        bool linked = false, to_switch = gpu->fabric_state > 0, down = false;
        for (int j = 0; j < MUSTER_NVML_LINKS; j++) {
            linked |= gpu->link[j].state == MUSTER_NVLINK_ACTIVE;
            down |= gpu->link[j].state == MUSTER_NVLINK_INACTIVE;
            to_switch |= gpu->link[j].remote == MUSTER_NVLINK_TO_SWITCH;
        }
        has |= gpu->major == 9 ? MUSTER_NCCL_ON_HOPPER : 0u;
        has |= gpu->major == 12 ? MUSTER_NCCL_ON_RTX50 : 0u;
        has |= gpu->major == 8 ? MUSTER_NCCL_AMPERE : 0u;
        has |= gpu->major && gpu->major < 10 ? MUSTER_NCCL_BEFORE_BLACKWELL : 0u;
        has |= gpu->major == 7 && gpu->minor == 0 ? MUSTER_NCCL_ON_VOLTA : 0u;
        has |= to_switch ? MUSTER_NCCL_NVSWITCH : linked ? MUSTER_NCCL_NO_NVSWITCH : 0u;
        has |= linked && down ? MUSTER_NCCL_LINKS_DOWN : 0u;
    }
    has |= nvml && nvml->gpus > 1 && muster_doctor_lacks_p2p(nvml) ? MUSTER_NCCL_NO_P2P : 0u;
    return nvml && nvml->gpus == 2 ? has | MUSTER_NCCL_TWO_GPUS : has;
}

/* NCCL counts devices against its limit, and ports only of the next device: it fails where one of
 * several ports passes the limit. */
static bool has_many_ports(const struct muster_doctor *doctor, int version)
{
    enum { LAST_OF_16 = 21801, THEN = 16, NOW = 32 };
    struct muster_doctor_port port[MUSTER_DOCTOR_PORTS];
    int n = muster_doctor_setting(doctor, "NCCL_IB_HCA") ? 0
                                                         : muster_doctor_list_ports(doctor, port),
        active = 0;
    bool several = false;
    for (int i = 0; i < n; i++) {
        char state[32] = "";
        muster_sysfs_line(doctor->sysfs, state, sizeof state, "class/infiniband/%s/ports/%s/state",
                          port[i].device, port[i].number);
        bool known =
            strcmp(port[i].layer, "Ethernet") == 0 || strcmp(port[i].layer, "InfiniBand") == 0;
        active += known && strstr(state, "ACTIVE");
        several |= i > 0 && strcmp(port[i].device, port[i - 1].device) == 0;
    }
    return several && active > (version <= LAST_OF_16 ? THEN : NOW);
}

static uint64_t of_cuda(const struct muster_doctor *doctor)
{
    enum { FIRST_OF_11 = 11000, WITH_CAPTURE = 11030 };
    const struct muster_nvml *nvml = doctor->survey->nvml;
    int built = doctor->loaded >= 0 ? doctor->library[doctor->loaded].cuda : 0;
    int driver = nvml ? nvml->cuda : 0;
    uint64_t has = built && built < WITH_CAPTURE ? MUSTER_NCCL_OLD_CUDA : 0u;
    return built >= WITH_CAPTURE && driver >= FIRST_OF_11 && driver < WITH_CAPTURE
               ? has | MUSTER_NCCL_OLD_DRIVER
               : has;
}

static uint64_t of_rdma(const struct muster_doctor *doctor, int version)
{
    char text[64];
    uint64_t has = 0;
    if (muster_doctor_entries(doctor->sysfs, "class/infiniband") == 0)
        return 0;
    has |= MUSTER_NCCL_RDMA;
    has |= muster_doctor_roce_ports(doctor) ? MUSTER_NCCL_ROCE : 0u;
    has |= has_many_ports(doctor, version) ? MUSTER_NCCL_MANY_PORTS : 0u;
    has |= muster_doctor_setting(doctor, "NCCL_IB_GID_INDEX") ? 0u : MUSTER_NCCL_NO_GID_INDEX;
    if (muster_sysfs_line(doctor->sysfs, text, sizeof text, "module/nvidia_peermem/version") &&
        muster_doctor_entries(doctor->sysfs, "kernel/mm/memory_peers") == 0)
        has |= MUSTER_NCCL_PEERMEM;
    return has;
}

/* A board's management controller, mostly. */
static bool has_usb_network(const struct muster_doctor *doctor)
{
    char pattern[PATH_MAX], real[PATH_MAX];
    bool found = false;
    glob_t names;
    snprintf(pattern, sizeof pattern, "%s/class/net/*", doctor->sysfs);
    if (glob(pattern, 0, NULL, &names) != 0)
        return false;
    for (size_t i = 0; i < names.gl_pathc; i++)
        found |= realpath(names.gl_pathv[i], real) && strstr(real, "/usb");
    globfree(&names);
    return found;
}

/* Memory of a GPU (Grace) and memory on CXL are nodes without CPUs, too: no more than a reason to
 * look. */
static bool has_odd_numa(const struct muster_doctor *doctor, char *text)
{
    enum { NODES = 64 };
    bool odd = false;
    for (int node = 0; node < NODES; node++) {
        char cpus[256], path[PATH_MAX];
        if (!muster_sysfs_line(doctor->sysfs, cpus, sizeof cpus,
                               "devices/system/node/node%d/cpulist", node))
            continue;
        snprintf(path, sizeof path, "%s/devices/system/node/node%d/meminfo", doctor->sysfs, node);
        bool readable = muster_doctor_read_file(path, text);
        const char *total = readable ? strstr(text, "MemTotal:") : NULL;
        odd |= !*cpus || (total && strtoull(total + strlen("MemTotal:"), NULL, 10) == 0);
    }
    return odd;
}

static bool lacks_numa(const struct muster_machine *machine)
{
    for (int i = 0; i < machine->gpus; i++)
        if (machine->gpu[i].node >= 0 && muster_machine_numa(machine, machine->gpu[i].node) == 0)
            return true;
    return false;
}

bool muster_doctor_is_arm(const struct muster_doctor *doctor, char *text)
{
#ifdef __aarch64__
    if (muster_doctor_is_live(doctor))
        return true;
#endif
    return muster_doctor_read_proc(doctor, "version", text) &&
           (strstr(text, "aarch64") || strstr(text, "arm64"));
}

static uint64_t of_system(const struct muster_doctor *doctor, char *text)
{
    uint64_t has = 0;
    has |= muster_doctor_is_arm(doctor, text) ? MUSTER_NCCL_ON_ARM : 0u;
    if (muster_doctor_read_proc(doctor, "version", text))
        has |= strstr(text, "microsoft") || strstr(text, "WSL") ? MUSTER_NCCL_WSL : 0u;
    has |= muster_doctor_may_not_bind(doctor, text) ? MUSTER_NCCL_CONTAINER : 0u;
    has |= muster_doctor_container(doctor) ? MUSTER_NCCL_ANY_CONTAINER : 0u;
    has |= has_usb_network(doctor) ? MUSTER_NCCL_USB_NETWORK : 0u;
    has |= !(has & MUSTER_NCCL_ON_ARM) && has_odd_numa(doctor, text) ? MUSTER_NCCL_ODD_NUMA : 0u;
    has |= doctor->survey->machine->virtual_machine ? MUSTER_NCCL_VIRTUAL : 0u;
    has |= lacks_numa(doctor->survey->machine) ? MUSTER_NCCL_NO_NUMA : 0u;
    return has;
}

static uint64_t of_job(const struct muster_doctor *doctor)
{
    const char *cumem = muster_doctor_setting(doctor, "NCCL_CUMEM_ENABLE");
    uint64_t has = 0;
    unsigned world = muster_doctor_world();
    if (muster_doctor_several_hosts())
        has |= MUSTER_NCCL_HOSTS | (doctor->local_ranks == 1 ? MUSTER_NCCL_ONE_GPU_A_HOST : 0u);
    has |= world > 80 ? MUSTER_NCCL_OVER_80_RANKS : 0u;
    has |= world > 1000 ? MUSTER_NCCL_OVER_1000_RANKS : 0u;
    return has | (cumem && strcmp(cumem, "0") == 0 ? MUSTER_NCCL_NO_CUMEM : MUSTER_NCCL_CUMEM);
}

static void report(struct muster_check *check, const struct muster_known_nccl *bug, bool logged)
{
    static const enum muster_check_status statuses[] = {MUSTER_CHECK_OK, MUSTER_CHECK_WARNING,
                                                        MUSTER_CHECK_PROBLEM};
    muster_check_evidence(check, "%s%s (%s, %s): %s",
                          logged                                  ? "the log has its line: "
                          : bug->weight == MUSTER_KNOWN_SOMETIMES ? "depends on the program: "
                                                                  : "",
                          bug->what, bug->class_id, bug->source, bug->fix);
    muster_check_worse(check, logged ? MUSTER_CHECK_PROBLEM : statuses[bug->weight]);
}

static const char *symptoms_of(const struct muster_check *check,
                               const struct muster_known_nccl *bug)
{
    char words[256];
    muster_known_nccl_symptoms(bug->shows, words, sizeof words);
    return muster_arena_text(check->memory, words);
}

/* Behind what a surer bug advises already, which is written over. */
static void advise_too(struct muster_check *check, const char *fix)
{
    const char *sure = muster_arena_text(check->memory, check->advice);
    if (sure && strstr(sure, fix) == NULL)
        muster_check_advice(check, "%.120s; %.120s", fix, sure);
}

static void name_bug(struct muster_check *check, const char *nccl,
                     const struct muster_known_nccl *bug)
{
    if (!bug)
        return;
    muster_check_found(check, "NCCL %s %s", nccl, bug->what);
    muster_check_advice(check, "%s", bug->fix);
    check->explains = symptoms_of(check, bug);
}

/* Without ranks that never came: they had not begun with NCCL. */
static const char *suspect_of(const struct muster_check *check, const struct muster_known_nccl *bug)
{
    static const char absent[] = " hang_absent";
    char words[256];
    muster_known_nccl_symptoms(bug->shows, words, sizeof words);
    char *at = strstr(words, absent);
    if (at)
        memmove(at, at + sizeof absent - 1, strlen(at + sizeof absent - 1) + 1);
    return muster_arena_text(check->memory, words);
}

/* Bugs of so many versions are behind what most often stops a job. */
static int suspect_weight(const struct muster_known_nccl *bug)
{
    return muster_known_nccl_is_rare(bug) ? 4 : muster_known_nccl_is_wide(bug) ? 0 : 1;
}

/* Behind every other suspect: such bugs are of most versions, and few jobs meet them. A surer one
 * that brings about something else does not hide it. */
static void suspect(const struct muster_doctor *doctor, struct muster_check *check,
                    const char *nccl, const struct muster_known_nccl *bug)
{
    if (!bug || (check->status != MUSTER_CHECK_OK &&
                 (!doctor->symptoms || !muster_known_nccl_explains(bug, doctor->symptoms) ||
                  !check->explains)))
        return;
    muster_check_suspect(check, "NCCL %s %.120s, with some programs (%.40s)", nccl, bug->what,
                         bug->source);
    check->suspect_of = suspect_of(check, bug);
    check->suspect_weight = suspect_weight(bug);
    if (check->status == MUSTER_CHECK_OK)
        muster_check_advice(check, "%s", bug->fix);
    else
        advise_too(check, bug->fix);
}

static void report_too_new(const struct muster_doctor *doctor, struct muster_check *check,
                           int version, const char *nccl)
{
    const struct muster_nvml *nvml = doctor->survey->nvml;
    for (int i = 0; nvml && i < nvml->gpus; i++) {
        const char *text = muster_known_too_new(nvml->gpu[i].major, version);
        if (!text)
            continue;
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "%s, and this is %s", text, nccl);
        int first = muster_known_first_cuda(nvml->gpu[i].major, nvml->gpu[i].minor);
        if (doctor->loaded >= 0 && doctor->library[doctor->loaded].cuda &&
            doctor->library[doctor->loaded].cuda < first)
            muster_check_advice(check,
                                "PyTorch, or the program, built for CUDA %d.%d or later, with the "
                                "NCCL that it brings: what came with this one may have no code "
                                "for these GPUs, either",
                                first / 1000, first % 1000 / 10);
        else
            muster_check_advice(check, "upgrade NCCL");
        check->explains = NULL;
    }
}

/* NULL: no log. */
static const char *words_of_log(const struct muster_doctor *doctor)
{
    enum { WORDS = 4096 };
    char *words = doctor->log ? muster_arena_array(doctor->memory, WORDS, 1) : NULL;
    if (words)
        muster_job_log_kinds_seen(doctor->log, words, WORDS);
    return words;
}

void muster_doctor_known_nccl(struct muster_doctor *doctor)
{
    struct muster_check *check =
        muster_check_begin(doctor->checks, "version.nccl_bad", "F29,F56,F68-F74");
    int version = muster_doctor_version(doctor);
    char *text = muster_doctor_room(doctor), nccl[32];
    muster_check_expected(check, "no version with a known bug that a job here meets");
    if (!version || !text) {
        muster_check_unchecked(check, "no NCCL could be loaded");
        return;
    }
    const struct muster_known_question of = {
        .version = version,
        .has = of_gpus(doctor->survey->nvml) | of_rdma(doctor, version) | of_cuda(doctor) |
               of_system(doctor, text) | of_job(doctor),
        .symptoms = doctor->symptoms,
        .logged = words_of_log(doctor),
    };
    muster_check_found(check, "nothing known that has to be met here");
    for (size_t i = 0; i < muster_known_nccl_n; i++)
        if (muster_known_nccl_holds(&muster_known_nccl[i], version, of.has))
            report(check, &muster_known_nccl[i],
                   muster_known_nccl_logged(&muster_known_nccl[i], &of));
    muster_nccl_version_text(nccl, sizeof nccl, (uint32_t)version);
    const struct muster_known_nccl *sure = muster_known_nccl_pick(&of, true);
    name_bug(check, nccl, sure);
    report_too_new(doctor, check, version, nccl);
    if (!sure || !muster_known_nccl_logged(sure, &of))
        suspect(doctor, check, nccl, muster_known_nccl_pick(&of, false));
}
