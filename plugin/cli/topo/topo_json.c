#include "base/json.h"
#include "cli/topo/topo_out.h"
#include "doctor/survey.h"
#include "topology/paths.h"

static void put_number(struct muster_json *json, const char *key, int value)
{
    if (value < 0)
        muster_json_null(json, key);
    else
        muster_json_i64(json, key, value);
}

static void put_numa(struct muster_json *json, uint64_t numa)
{
    put_number(json, "numa", numa && (numa & (numa - 1)) == 0 ? __builtin_ctzll(numa) : -1);
}

static void put_pci(struct muster_json *json, struct muster_pci pci)
{
    char text[24];
    muster_pci_print(pci, text, sizeof text);
    muster_json_str(json, "pci", text);
}

static void put_real(struct muster_json *json, const char *key, double value)
{
    if (value > 0)
        muster_json_real(json, key, value, 3);
    else
        muster_json_null(json, key);
}

/* A link as an object; null where there is none. */
static void put_link(struct muster_json *json, const char *key,
                     const struct muster_machine *machine, int node)
{
    struct muster_link link;
    char text[24];
    if (node < 0 || !muster_link_above(machine, node, &link)) {
        muster_json_null(json, key);
        return;
    }
    muster_json_object(json, key);
    muster_pci_print(machine->node[node].pci, text, sizeof text);
    muster_json_str(json, "lower", text);
    muster_pci_print(machine->node[machine->node[node].parent].pci, text, sizeof text);
    muster_json_str(json, "upper", text);
    put_real(json, "gts", link.gts);
    put_number(json, "width", link.width ? (int)link.width : -1);
    put_real(json, "can_gts", link.can_gts);
    put_number(json, "can_width", link.can_width ? (int)link.can_width : -1);
    put_real(json, "gbs", link.gbs);
    put_real(json, "can_gbs", link.can_gbs);
    muster_json_end(json);
}

static void put_nearest(struct muster_json *json, const struct muster_machine *machine, int gpu)
{
    bool nearest[MUSTER_MACHINE_NICS];
    struct muster_path path = {.narrowest = -1};
    char name[40];
    muster_path_nearest(machine, gpu, nearest, &path.class);
    muster_json_array(json, "nics");
    for (int i = 0; i < machine->nics && !machine->hidden; i++)
        if (nearest[i]) {
            muster_topo_nic_name(machine, i, name, sizeof name);
            muster_json_str(json, NULL, name);
        }
    muster_json_end(json);
    muster_path_name(&path, name, sizeof name);
    muster_json_str(json, "nic_class",
                    machine->hidden || path.class == MUSTER_PATH_UNKNOWN ? NULL : name);
}

static void put_gpu(struct muster_json *json, const struct muster_machine *machine, int at,
                    const struct muster_visible *visible)
{
    const struct muster_gpu *gpu = &machine->gpu[at];
    uint64_t numa = muster_machine_numa(machine, gpu->node);
    muster_json_object(json, NULL);
    muster_json_i64(json, "id", at);
    put_number(json, "index", gpu->index);
    put_pci(json, gpu->pci);
    muster_json_str(json, "name", gpu->name[0] ? gpu->name : NULL);
    muster_json_str(json, "uuid", gpu->uuid[0] ? gpu->uuid : NULL);
    put_numa(json, numa);
    put_number(json, "cpus_allowed", muster_survey_cpus(numa));
    put_number(json, "utilization", gpu->utilization);
    muster_json_bool(json, "mig", gpu->mig);
    if (visible->known)
        muster_json_bool(json, "visible", visible->gpu[at]);
    else
        muster_json_null(json, "visible");
    put_link(json, "pcie", machine, gpu->node);
    put_number(json, "nvlinks", gpu->nvlinks);
    put_real(json, "nvlink_gbs", gpu->nvlink_gbs);
    put_nearest(json, machine, at);
    muster_json_end(json);
}

static void put_nic(struct muster_json *json, const struct muster_machine *machine, int at)
{
    const struct muster_nic *nic = &machine->nic[at];
    muster_json_object(json, NULL);
    muster_json_i64(json, "id", at);
    put_pci(json, machine->node[nic->node].pci);
    muster_json_str(json, "interface", nic->name[0] ? nic->name : NULL);
    muster_json_str(json, "verbs", nic->verbs[0] ? nic->verbs : NULL);
    put_numa(json, muster_machine_numa(machine, nic->node));
    put_real(json, "gbps", nic->mbps / 1000.0);
    muster_json_bool(json, "up", nic->up);
    muster_json_bool(json, "fabric", nic->fabric);
    put_link(json, "pcie", machine, nic->node);
    muster_json_end(json);
}

static void put_pair(struct muster_json *json, const struct muster_machine *machine,
                     const struct muster_faults *faults, int a, int b)
{
    struct muster_path path;
    char word[16];
    muster_path_gpus(machine, a, b, &path);
    muster_path_name(&path, word, sizeof word);
    bool unknown = path.class == MUSTER_PATH_UNKNOWN || (machine->hidden && path.nvlinks == 0);
    muster_json_object(json, NULL);
    muster_json_i64(json, "a", a);
    muster_json_i64(json, "b", b);
    muster_json_str(json, "class", unknown ? NULL : word);
    muster_json_array(json, "links");
    for (int i = 0; i < path.links && !unknown; i++)
        put_link(json, NULL, machine, path.link[i]);
    muster_json_end(json);
    if (path.narrowest >= 0 && !unknown)
        put_link(json, "narrowest", machine, path.link[path.narrowest]);
    else
        muster_json_null(json, "narrowest");
    put_real(json, "limit_gbs", unknown ? 0 : path.limit_gbs);
    muster_json_str(json, "p2p", machine->p2p[a][b] ? muster_p2p_name(machine->p2p[a][b]) : NULL);
    muster_json_array(json, "degraded");
    for (int i = 0; i < faults->n; i++)
        if (faults->at[i].kind != MUSTER_FAULT_IDLE &&
            muster_fault_between(machine, &faults->at[i], a, b))
            muster_json_str(json, NULL, faults->at[i].text);
    muster_json_end(json);
    muster_json_end(json);
}

static void put_faults(struct muster_json *json, const struct muster_faults *faults)
{
    static const char *const words[] = {"width", "speed", "idle", "nvlink", "nic"};
    muster_json_array(json, "degraded");
    for (int i = 0; i < faults->n; i++) {
        muster_json_object(json, NULL);
        muster_json_str(json, "kind", words[faults->at[i].kind]);
        put_number(json, "gpu", faults->at[i].gpu);
        muster_json_str(json, "text", faults->at[i].text);
        muster_json_end(json);
    }
    muster_json_end(json);
}

void muster_topo_json(const struct muster_machine *machine, const struct muster_faults *faults,
                      const struct muster_visible *visible, FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", 1);
    muster_json_str(&json, "source", machine->source);
    muster_json_bool(&json, "virtual", machine->virtual_machine);
    muster_json_bool(&json, "pci_hidden", machine->hidden);
    muster_json_array(&json, "gpus");
    for (int i = 0; i < machine->gpus; i++)
        put_gpu(&json, machine, i, visible);
    muster_json_end(&json);
    muster_json_array(&json, "nics");
    for (int i = 0; i < machine->nics; i++)
        put_nic(&json, machine, i);
    muster_json_end(&json);
    muster_json_array(&json, "pairs");
    for (int a = 0; a < machine->gpus; a++)
        for (int b = 0; b < machine->gpus; b++)
            if (a != b)
                put_pair(&json, machine, faults, a, b);
    muster_json_end(&json);
    put_faults(&json, faults);
    muster_json_array(&json, "notes");
    for (int i = 0; i < machine->notes; i++)
        muster_json_str(&json, NULL, machine->note[i]);
    muster_json_end(&json);
    muster_json_end(&json);
    fputc('\n', out);
}
