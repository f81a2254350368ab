/*
 * NVML whose every answer is taken from the input: return codes, counts, texts without an end. What
 * is read of it is a machine that can be drawn.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/topo/topo_out.h"
#include "topology/faults.h"
#include "topology/nvml/nvml.h"
#include "topology/nvml/nvml_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    const uint8_t *at;
    size_t left;
} input;

/* Fills an answer; every eighth byte or so is a failure. What is not answered stays as it was. */
static int answer(void *to, size_t size)
{
    uint8_t code = 1;
    if (input.left) {
        code = *input.at++;
        input.left--;
    }
    if (code % 8 == 1)
        return code;
    size_t n = size < input.left ? size : input.left;
    memset(to, 0, size);
    if (n)
        memcpy(to, input.at, n);
    input.at += n;
    input.left -= n;
    return NVML_SUCCESS;
}

static int text(void *device, char *to, unsigned size)
{
    (void)device;
    return answer(to, size);
}

static int driver_text(char *to, unsigned size)
{
    return answer(to, size);
}

static int number(void *device, int *value)
{
    (void)device;
    return answer(value, sizeof *value);
}

static int unsigned_number(void *device, unsigned *value)
{
    (void)device;
    return answer(value, sizeof *value);
}

static int of_kind(void *device, int kind, unsigned *value)
{
    (void)device;
    (void)kind;
    return answer(value, sizeof *value);
}

static int version(int *value)
{
    return answer(value, sizeof *value);
}

/* Most machines have few GPUs: the byte is their number. */
static int count(unsigned *n)
{
    uint8_t few;
    int rc = answer(&few, sizeof few);
    *n = rc ? 0 : few == 255 ? UINT32_MAX : few % 10;
    return rc;
}

static int handle(unsigned index, void **device)
{
    uint8_t unused;
    *device = (void *)(uintptr_t)(index + 1);
    return answer(&unused, 0);
}

static int pci(void *device, struct nvml_pci *to)
{
    (void)device;
    return answer(to, sizeof *to);
}

static int capability(void *device, int *major, int *minor)
{
    (void)device;
    *minor = 0;
    return answer(major, sizeof *major);
}

static int link_number(void *device, unsigned link, unsigned *value)
{
    (void)device;
    (void)link;
    return answer(value, sizeof *value);
}

static int link_state(void *device, unsigned link, int *value)
{
    (void)device;
    (void)link;
    return answer(value, 1);
}

static int link_remote(void *device, unsigned link, struct nvml_pci *to)
{
    (void)link;
    return pci(device, to);
}

static int link_errors(void *device, unsigned link, int counter, unsigned long long *value)
{
    (void)device;
    (void)link;
    (void)counter;
    return answer(value, sizeof *value);
}

static int fields(void *device, int n, struct nvml_field *field)
{
    (void)device;
    return answer(field, (size_t)n * sizeof *field);
}

static int ecc(void *device, int type, int counter, unsigned long long *value)
{
    (void)type;
    (void)counter;
    return link_errors(device, 0, 0, value);
}

static int processes(void *device, unsigned *n, struct nvml_process *infos)
{
    (void)device;
    (void)infos;
    return answer(n, sizeof *n);
}

static int between(void *a, void *b, int index, int *status)
{
    (void)a;
    (void)b;
    (void)index;
    return answer(status, sizeof *status);
}

static int ancestor(void *a, void *b, int *level)
{
    return between(a, b, 0, level);
}

static void look(const struct muster_nvml *nvml)
{
    static struct muster_faults faults;
    struct muster_machine *machine;
    struct muster_visible visible;
    struct muster_err err;
    static FILE *out;
    if (!out)
        out = fopen("/dev/null", "w");
    if (nvml->gpus < 0 || nvml->gpus > MUSTER_MACHINE_GPUS || muster_machine_new(&machine, &err))
        abort();
    muster_nvml_annotate(machine, nvml);
    muster_faults_find(machine, &faults);
    muster_visible_gpus(machine, "0,1", NULL, &visible);
    muster_topo_text(machine, &faults, &visible, out);
    muster_topo_json(machine, &faults, &visible, out);
    muster_machine_free(machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct muster_nvml_api api = {.driver_version = driver_text,
                                               .cuda_version = version,
                                               .count = count,
                                               .handle = handle,
                                               .name = text,
                                               .uuid = text,
                                               .pci = pci,
                                               .capability = capability,
                                               .generation = number,
                                               .width = number,
                                               .replays = number,
                                               .virtualization = number,
                                               .link_state = link_state,
                                               .link_version = link_number,
                                               .link_remote = link_remote,
                                               .link_remote_type = link_state,
                                               .link_errors = link_errors,
                                               .fields = fields,
                                               .clock = of_kind,
                                               .power = unsigned_number,
                                               .ecc = ecc,
                                               .processes = processes,
                                               .p2p = between,
                                               .ancestor = ancestor};
    static struct muster_nvml nvml;
    struct muster_err err = {""};
    input.at = data;
    input.left = size;
    memset(&nvml, 0, sizeof nvml);
    if (muster_nvml_read_all(&api, &nvml, &err) == 0)
        look(&nvml);
    else if (!strstr(err.text, "NVML"))
        abort();
    return 0;
}
