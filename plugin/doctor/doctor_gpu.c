/* GPUs as NVML and the PCI tree show them, at rest. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "doctor/doctor.h"
#include "doctor/rules/known_bad.h"
#include "doctor/visible.h"
#include "topology/faults.h"
#include "topology/paths.h"
#include "topology/sysfs.h"

struct muster_check *muster_doctor_begin_gpu(struct muster_doctor *doctor, const char *id,
                                             const char *class_id, const char *expected)
{
    struct muster_check *check = muster_check_begin(doctor->checks, id, class_id);
    muster_check_expected(check, "%s", expected);
    if (!doctor->survey->nvml)
        muster_check_unchecked(check, "%s", doctor->no_driver);
    return check;
}

static int in_tree(const struct muster_machine *machine)
{
    int n = 0;
    for (int i = 0; i < machine->gpus; i++)
        n += machine->gpu[i].node >= 0;
    return n;
}

/* What CUDA will show to a job with this environment. */
static void evaluate_visible(struct muster_check *check, const struct muster_machine *machine)
{
    struct muster_visible visible;
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    muster_visible_gpus(machine, list, getenv("CUDA_DEVICE_ORDER"), &visible);
    if (!list || !visible.known || machine->gpus == 0)
        return;
    muster_check_evidence(check,
                          "CUDA_VISIBLE_DEVICES=%.100s: CUDA shows %d of them, and tests "
                          "are made on these alone",
                          list, visible.n);
    if (visible.stopped_at[0]) {
        muster_check_worse(check, visible.n ? MUSTER_CHECK_WARNING : MUSTER_CHECK_PROBLEM);
        muster_check_evidence(check,
                              "\"%s\" is no GPU of this host: CUDA takes neither it nor "
                              "what comes after it",
                              visible.stopped_at);
        muster_check_advice(check, "name GPUs of this host in CUDA_VISIBLE_DEVICES, or unset it");
    }
}

/* NCCL takes them all, but works at the pace of the weakest, and choices differ by architecture. */
static void suspect_models(struct muster_check *check, const struct muster_nvml *nvml)
{
    for (int i = 1; i < nvml->gpus; i++)
        if (nvml->gpu[i].name[0] && strcmp(nvml->gpu[i].name, nvml->gpu[0].name) != 0) {
            muster_check_suspect(check, "GPUs of several models: %.60s and %.60s",
                                 nvml->gpu[0].name, nvml->gpu[i].name);
            muster_check_advice(check,
                                "try the job on GPUs of one model (CUDA_VISIBLE_DEVICES with "
                                "CUDA_DEVICE_ORDER=PCI_BUS_ID)");
            return;
        }
}

static void check_present(struct muster_doctor *doctor)
{
    struct muster_check *check =
        muster_doctor_begin_gpu(doctor, "gpu.present", "F46,F17", "every GPU of the host answers");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    if (!nvml)
        return;
    int answering = 0, seen = in_tree(doctor->survey->machine);
    for (int i = 0; i < nvml->gpus; i++)
        answering += nvml->gpu[i].uuid[0] != '\0';
    muster_check_found(check, "%d x %s", answering, nvml->gpus ? nvml->gpu[0].name : "no GPU");
    evaluate_visible(check, doctor->survey->machine);
    suspect_models(check, nvml);
    if (answering < nvml->gpus) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_evidence(check, "%d GPUs do not answer", nvml->gpus - answering);
        muster_check_advice(check, "a GPU that fell off the bus: look for Xid 79, reset or drain");
    }
    if (seen > nvml->gpus) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_evidence(check, "%d GPUs in the PCI tree, %d visible to the driver here", seen,
                              nvml->gpus);
        muster_check_advice(check, "%s",
                            muster_doctor_container(doctor)
                                ? "GPUs hidden from this container cannot be reached by P2P: give "
                                  "every container all GPUs of the job"
                                : "one that the driver does not start: dmesg | grep NVRM says why "
                                  "(power, seat, a board that this driver no longer knows), or it "
                                  "is a virtual machine's; until then as many ranks as answer");
    }
}

static void check_fabric(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_doctor_begin_gpu(
        doctor, "gpu.fabric", "F49,F50", "fabric state completed, where there is one");
    static const char *const states[] = {"not supported", "not started", "in progress",
                                         "completed"};
    const struct muster_nvml *nvml = doctor->survey->nvml;
    if (!nvml)
        return;
    muster_check_found(check, "no fabric manager needed");
    for (int i = 0; i < nvml->gpus; i++) {
        int state = nvml->gpu[i].fabric_state;
        if (state <= 0 || state > 3)
            continue;
        muster_check_found(check, "fabric %s", states[state]);
        if (state != 3 || nvml->gpu[i].fabric_status != 0) {
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
            muster_check_evidence(check, "GPU %d: fabric %s, status %d", i, states[state],
                                  nvml->gpu[i].fabric_status);
            muster_check_advice(check, "start nvidia-fabricmanager of the driver's version; after "
                                       "its restart the GPUs need a reset");
        }
    }
    muster_doctor_manager(doctor, check);
}

/* Drivers report a link in microseconds. They train one that has half a contact again and again
 * while they are asked (nccl#340: a bridge that is not fully plugged in, nccl#557: 112 s). */
static void evaluate_slow_links(struct muster_check *check, const struct muster_nvml *nvml)
{
    enum { SLOW_MS = 1000 };
    for (int i = 0; i < nvml->gpus; i++) {
        if (nvml->gpu[i].links_ms < SLOW_MS)
            continue;
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "NVLinks of which the driver cannot tell at once");
        muster_check_evidence(check, "GPU %d: the driver took more than a second", i);
        muster_check_advice(check, "a link that trains again and again: is an NVLink bridge not "
                                   "fully plugged in? Without it, or with NCCL_P2P_DISABLE=1, the "
                                   "job shows whether it is that");
    }
}

/* Boards with places for links, all of them down: what two boards without a bridge look like, and
 * two with one that has no contact. */
static void suspect_bridge(struct muster_check *check, const struct muster_machine *machine)
{
    int without = 0;
    for (int i = 0; i < machine->gpus; i++)
        without += machine->gpu[i].nvlinks == 0 && machine->gpu[i].nvlinks_present > 0;
    if (without < 2)
        return;
    muster_check_suspect(check, "NVLinks that are all down: without a bridge that is as it should "
                                "be, with one it has no contact");
    muster_check_advice(check, "if there is an NVLink bridge, plug it in fully (a cooler or a case "
                               "may be in its way), or try the job without it");
}

static void check_links(struct muster_doctor *doctor, const struct muster_faults *faults)
{
    struct muster_check *check = muster_doctor_begin_gpu(
        doctor, "gpu.nvlink", "F55,F51", "as many links on every GPU, none retrained");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    const struct muster_machine *machine = doctor->survey->machine;
    if (!nvml)
        return;
    int most = 0;
    for (int i = 0; i < machine->gpus; i++)
        if (machine->gpu[i].nvlinks > most)
            most = machine->gpu[i].nvlinks;
    muster_check_found(check, most ? "%d NVLinks a GPU" : "no NVLink", most);
    evaluate_slow_links(check, nvml);
    if (!most)
        suspect_bridge(check, machine);
    for (int i = 0; i < faults->n; i++)
        if (faults->at[i].kind == MUSTER_FAULT_NVLINK) {
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
            muster_check_evidence(check, "%s", faults->at[i].text);
            muster_check_advice(check, "links that are down: reset the GPU, else drain the host");
        }
    for (int i = 0; i < nvml->gpus; i++) {
        unsigned long long corrected = 0;
        for (int j = 0; j < MUSTER_NVML_LINKS; j++) {
            const struct muster_nvml_link *link = &nvml->gpu[i].link[j];
            corrected += link->corrected;
            if (link->recoveries == 0)
                continue;
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_evidence(check, "GPU %d link %d: retrained %llu times", i, j,
                                  (unsigned long long)link->recoveries);
            muster_check_advice(check, "a link that retrains during a job is a bad one");
        }
        if (corrected)
            muster_check_evidence(check,
                                  "GPU %d: %llu errors corrected on all links since the driver was "
                                  "loaded: some are normal",
                                  i, corrected);
    }
}

static void check_pcie(struct muster_doctor *doctor, const struct muster_faults *faults)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.pcie", "F54");
    const struct muster_machine *machine = doctor->survey->machine;
    const struct muster_nvml *nvml = doctor->survey->nvml;
    muster_check_expected(check, "links as wide and fast as both ends can");
    if (machine->hidden || (!in_tree(machine) && machine->nics == 0)) {
        muster_check_unchecked(check, machine->hidden ? "PCI tree hidden by the hypervisor"
                                                      : "no GPU or NIC in the PCI tree");
    } else {
        muster_check_found(check, "no link short of what it can");
    }
    for (int i = 0; i < faults->n; i++) {
        const struct muster_fault *fault = &faults->at[i];
        if (fault->kind == MUSTER_FAULT_NVLINK || fault->kind == MUSTER_FAULT_NIC)
            continue;
        muster_check_evidence(check, "%s", fault->text);
        if (fault->kind == MUSTER_FAULT_IDLE)
            continue;
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "links below what they can");
        muster_check_advice(check, "reseat the card, look at the slot and the BIOS");
    }
    for (int i = 0; nvml && i < nvml->gpus; i++) {
        const struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        if (gpu->pcie_width && gpu->pcie_width < gpu->pcie_max_width) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_found(check, "links below what they can");
            muster_check_evidence(check, "GPU %d: NVML says x%d of x%d", i, gpu->pcie_width,
                                  gpu->pcie_max_width);
        }
        if (gpu->pcie_replays > 1000)
            muster_check_evidence(check, "GPU %d: %lld PCIe replays", i,
                                  (long long)gpu->pcie_replays);
    }
}

static void check_clocks(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_doctor_begin_gpu(doctor, "gpu.clocks", "F53",
                                                         "nothing but idleness limits the clocks");
    static const struct {
        int64_t bit;
        const char *text;
        bool grave;
    } reasons[] = {
        {MUSTER_CLOCK_HW_SLOWDOWN, "hardware slowdown", true},
        {MUSTER_CLOCK_HW_THERMAL, "hardware thermal slowdown", true},
        {MUSTER_CLOCK_POWER_BRAKE, "power brake", true},
        {MUSTER_CLOCK_SW_THERMAL, "thermal limit", true},
        {MUSTER_CLOCK_SW_POWER_CAP, "power cap", false},
        {MUSTER_CLOCK_APPLICATIONS, "clocks that somebody set (nvidia-smi -ac, -lgc)", false},
    };
    const struct muster_nvml *nvml = doctor->survey->nvml;
    if (!nvml)
        return;
    muster_check_found(check, "no limit seen, at rest");
    for (int i = 0; i < nvml->gpus; i++)
        for (size_t j = 0; j < sizeof reasons / sizeof *reasons; j++) {
            if (nvml->gpu[i].limits < 0 || !(nvml->gpu[i].limits & reasons[j].bit))
                continue;
            muster_check_evidence(check, "GPU %d: %s, %d MHz of %d, %d C", i, reasons[j].text,
                                  nvml->gpu[i].sm_mhz, nvml->gpu[i].sm_max_mhz,
                                  nvml->gpu[i].temperature);
            if (!reasons[j].grave)
                muster_check_suspect(check, "GPU %d: %s", i, reasons[j].text);
            if (reasons[j].grave) {
                muster_check_worse(check, MUSTER_CHECK_WARNING);
                muster_check_found(check, "clocks are limited");
                muster_check_advice(check, "that GPU holds all ranks: look at cooling and power");
            }
        }
}

static void check_memory(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_doctor_begin_gpu(
        doctor, "gpu.ecc", "F51", "no uncorrected errors, no rows to be remapped");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    if (!nvml)
        return;
    muster_check_found(check, "no uncorrected errors");
    for (int i = 0; i < nvml->gpus; i++) {
        const struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        if (gpu->ecc_uncorrected > 0 || gpu->remap_pending > 0 || gpu->remap_failed > 0) {
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
            muster_check_found(check, "memory errors");
            muster_check_evidence(check, "GPU %d: %lld uncorrected, remap pending %d, failed %d", i,
                                  (long long)gpu->ecc_uncorrected, gpu->remap_pending,
                                  gpu->remap_failed);
            muster_check_advice(check, "reset the GPU; replace it if rows cannot be remapped");
        }
    }
}

static void check_mig(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_doctor_begin_gpu(doctor, "gpu.mig", "F55", "MIG off");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    if (!nvml)
        return;
    muster_check_found(check, "MIG off");
    for (int i = 0; i < nvml->gpus; i++)
        if (nvml->gpu[i].mig == 1) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_found(check, "MIG on");
            muster_check_evidence(check, "GPU %d", i);
            muster_check_advice(check,
                                "MIG slices have no P2P and no NVLink between them, and NCCL "
                                "takes slices of one GPU for one GPU: turn MIG off for jobs "
                                "of several ranks (nvidia-smi -mig 0)");
        }
    if (check->status == MUSTER_CHECK_WARNING && muster_doctor_world() > 1)
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
}

/* Processes of other containers are not shown; what they hold and do is. A load of a few percent
 * may be what ended a moment ago. */
bool muster_doctor_in_use(const struct muster_nvml_gpu *gpu)
{
    enum { BUSY_PERCENT = 10, FULL = 20 };
    return gpu->processes > 0 || gpu->utilization >= BUSY_PERCENT ||
           (gpu->memory_total && gpu->memory_used > gpu->memory_total / FULL);
}

static void check_use(struct muster_doctor *doctor)
{
    struct muster_check *check =
        muster_doctor_begin_gpu(doctor, "gpu.in_use", "F53,F36", "no other process on the GPUs");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    if (!nvml)
        return;
    muster_check_found(check, "not in use");
    for (int i = 0; i < nvml->gpus; i++) {
        const struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        if (!muster_doctor_in_use(gpu))
            continue;
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "in use");
        char processes[32] = "";
        if (gpu->processes > 0)
            snprintf(processes, sizeof processes, "%d process%s, ", gpu->processes,
                     gpu->processes > 1 ? "es" : "");
        muster_check_evidence(check, "GPU %d: %s%llu of %llu MiB in use, %d %% busy", i, processes,
                              (unsigned long long)(gpu->memory_used >> 20),
                              (unsigned long long)(gpu->memory_total >> 20), gpu->utilization);
        muster_check_advice(check, "a rank that shares its GPU is late: end what was left behind");
    }
}

/* A framework's worker, its parent and a second rank are processes of their own. */
static void check_mode(struct muster_doctor *doctor)
{
    enum { PROHIBITED = 2 };
    struct muster_check *check =
        muster_doctor_begin_gpu(doctor, "gpu.mode", "F17", "compute mode Default");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    if (!nvml)
        return;
    muster_check_found(check, "any process may use the GPUs");
    for (int i = 0; i < nvml->gpus; i++) {
        if (nvml->gpu[i].compute_mode <= 0)
            continue;
        muster_check_evidence(check, "GPU %d: compute mode %d", i, nvml->gpu[i].compute_mode);
        muster_check_advice(check, "nvidia-smi -c DEFAULT");
        if (nvml->gpu[i].compute_mode == PROHIBITED) {
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
            muster_check_found(check, "GPUs that no process may use (compute mode Prohibited)");
        } else {
            muster_check_suspect(check, "GPUs that one process alone may use (compute mode "
                                        "Exclusive): a second one is refused");
        }
    }
}

/* The driver calls P2P over PCIe fit for use on machines whose switches, IOMMU or BIOS do not carry
 * it. */
static void suspect_pcie(const struct muster_machine *machine, struct muster_check *check)
{
    const char *off = getenv("NCCL_P2P_DISABLE"), *level = getenv("NCCL_P2P_LEVEL");
    bool used = !(off && strcmp(off, "1") == 0) &&
                !(level && (strcasecmp(level, "LOC") == 0 || strcasecmp(level, "NVL") == 0));
    for (int gpu = 0; gpu < machine->gpus; gpu++)
        used &= machine->gpu[gpu].nvlinks <= 0;
    if (!used || machine->gpus < 2)
        return;
    muster_check_suspect(
        check, "P2P over PCIe: the driver allows it, which does not say that this machine's "
               "switches, IOMMU and BIOS carry it");
    check->suspect_of = "hang_stuck wrong_result";
    /* each of several hosts would be stopped by itself: where they meet is likelier */
    check->suspect_weight = muster_doctor_several_hosts() ? 0 : 3;
    muster_check_advice(check,
                        "NCCL_P2P_DISABLE=1 shows whether it is that; `--active` tests each pair "
                        "(p2p.kernel). Then gpu.iommu, gpu.acs (as root), a newer driver and BIOS");
}

static void check_p2p(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_doctor_begin_gpu(doctor, "gpu.p2p_status", "F43,F46",
                                                         "the driver allows P2P between all pairs");
    const struct muster_machine *machine = doctor->survey->machine;
    int ok = 0, refused = 0;
    if (!doctor->survey->nvml)
        return;
    for (int a = 0; a < machine->gpus; a++)
        for (int b = 0; b < machine->gpus; b++) {
            int state = machine->p2p[a][b];
            ok += state == MUSTER_P2P_OK;
            if (a == b || state == MUSTER_P2P_OK || state == MUSTER_P2P_UNKNOWN)
                continue;
            refused++;
            muster_check_evidence(check, "GPU %d to %d: %s", a, b, muster_p2p_name(state));
        }
    muster_check_found(check, refused ? "P2P is refused for some pairs"
                              : ok    ? "P2P between all pairs"
                                      : "a single GPU, or not told");
    if (!refused)
        suspect_pcie(machine, check);
    if (refused) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check,
                            "GeForce, L40S and A6000 boards and some chipsets have none; else "
                            "look at gpu.iommu and gpu.acs. Where a job fails (\"Cuda failure "
                            "217\"), NCCL_P2P_DISABLE=1 shows whether it is that");
    }
}

/* GPUs that are passed through reach each other by way of the host's IOMMU, if at all. */
static void suspect_virtual(struct muster_doctor *doctor, struct muster_check *check, bool linked)
{
    const struct muster_machine *machine = doctor->survey->machine;
    char *text = muster_doctor_room(doctor);
    bool wsl = muster_doctor_read_proc(doctor, "version", text) &&
               (strstr(text, "microsoft") || strstr(text, "WSL"));
    char product[64];
    if (machine->virtual_machine &&
        muster_sysfs_line(doctor->sysfs, product, sizeof product, "class/dmi/id/product_name") &&
        strstr(product, "i440FX")) {
        muster_check_suspect(check,
                             "a guest of machine type i440FX, whose PCI tree is flat: NCCL sees no "
                             "links and no distances");
        muster_check_advice(
            check, "machine type q35, with a root port for each GPU and NIC; or NCCL_TOPO_FILE "
                   "of the real tree");
        return;
    }
    if ((!machine->virtual_machine && !wsl) || machine->gpus < 2 || linked)
        return;
    muster_check_suspect(check,
                         wsl ? "Windows' subsystem for Linux (WSL): P2P between GPUs does not "
                               "work there"
                             : "GPUs that are passed through to a virtual machine: P2P between "
                               "them depends on the host's IOMMU, ACS and BIOS");
    muster_check_advice(check, "NCCL_P2P_DISABLE=1 shows whether it is that; p2p.kernel (--active) "
                               "tests each pair");
}

/* P2P of vGPUs goes by NVLink alone, and only where each is a whole board in slices of time. */
static void evaluate_vgpus(const struct muster_doctor *doctor, struct muster_check *check)
{
    const struct muster_nvml *nvml = doctor->survey->nvml;
    enum { VGPU = 2 };
    int vgpus = 0;
    for (int i = 0; nvml && i < nvml->gpus; i++) {
        if (nvml->gpu[i].virtualization != VGPU && !muster_known_vgpu(nvml->gpu[i].name))
            continue;
        vgpus++;
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_evidence(check, "GPU %d is a vGPU (%.60s)", i, nvml->gpu[i].name);
    }
    if (vgpus)
        muster_check_advice(check,
                            "whole GPUs (passed through), or one vGPU a job: vGPUs have no P2P "
                            "but by NVLink, where each takes a whole board; NCCL 2.24 and later "
                            "may need unified memory (enable_uvm), which the hypervisor's "
                            "administrator allows");
    if (vgpus > 1)
        muster_check_found(check, "%d vGPUs: NCCL may not reach one from another", vgpus);
}

static void check_virtual(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.virtual", "F47,F48");
    const struct muster_machine *machine = doctor->survey->machine;
    const char *file = getenv("NCCL_TOPO_FILE");
    muster_check_expected(check, "a PCI tree as it is, or a topology file");
    muster_check_found(check, machine->hidden ? "a virtual machine that hides the PCI tree"
                              : machine->virtual_machine ? "a virtual machine"
                                                         : "no virtual machine");
    evaluate_vgpus(doctor, check);
    bool linked = machine->gpus > 1 && machine->nvlinks[0][1] > 0;
    suspect_virtual(doctor, check, linked);
    if (machine->hidden && machine->gpus > 1 && !file) {
        if (!linked)
            muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_evidence(check, "%s",
                              linked ? "NVLink joins the GPUs all the same"
                                     : "NCCL sees no path between the GPUs");
        muster_check_advice(check, "NCCL_TOPO_FILE from the cloud's documentation gives NCCL the "
                                   "real tree");
    }
}

static void check_nics(struct muster_doctor *doctor, const struct muster_faults *faults)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.nic", "F33,F60");
    muster_check_expected(check, "as many fabric NICs near each socket's GPUs");
    if (doctor->survey->machine->hidden) {
        muster_check_unchecked(check, "PCI tree hidden by the hypervisor");
        return;
    }
    int fabric = 0;
    for (int i = 0; i < doctor->survey->machine->nics; i++)
        fabric += doctor->survey->machine->nic[i].fabric;
    muster_check_found(check, fabric ? "balanced" : "no fabric NIC");
    for (int i = 0; i < faults->n; i++)
        if (faults->at[i].kind == MUSTER_FAULT_NIC) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_found(check, "unequal");
            muster_check_evidence(check, "%s", faults->at[i].text);
            muster_check_advice(check, "a NIC in the wrong slot, or one that is missing");
        }
}

void muster_doctor_gpus(struct muster_doctor *doctor)
{
    struct muster_faults *faults = muster_arena_array(doctor->memory, 1, sizeof *faults);
    if (!faults)
        return;
    muster_faults_find(doctor->survey->machine, faults);
    check_present(doctor);
    check_fabric(doctor);
    check_links(doctor, faults);
    check_pcie(doctor, faults);
    check_nics(doctor, faults);
    check_clocks(doctor);
    check_memory(doctor);
    check_mig(doctor);
    check_mode(doctor);
    check_use(doctor);
    check_p2p(doctor);
    check_virtual(doctor);
}
