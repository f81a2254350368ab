/* What the PCIe capability of GPUs and NICs is set to. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor.h"

enum {
    HEADER = 64, /* all that is readable without rights */
    CAPABILITIES = 0x34,
    EXPRESS = 0x10,
    CONTROL = 8,         /* device control, in the capability */
    SMALL_REQUEST = 512, /* bytes */
    FAST_MBPS = 200000,
};

struct express {
    bool known;
    unsigned payload, request; /* bytes */
    bool relaxed;              /* ordering */
};

static struct express read_express(const struct muster_doctor *doctor, struct muster_pci pci)
{
    char path[PATH_MAX], name[24];
    unsigned char config[256] = {0};
    struct express express = {.known = false};
    muster_pci_print(pci, name, sizeof name);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/config", doctor->sysfs, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, config, sizeof config) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= HEADER)
        return express;
    for (unsigned at = config[CAPABILITIES], steps = 0;
         at >= HEADER && at + CONTROL + 2 <= (unsigned)n && steps < 48;
         at = config[at + 1], steps++)
        if (config[at] == EXPRESS) {
            unsigned control = config[at + CONTROL] | (unsigned)config[at + CONTROL + 1] << 8;
            return (struct express){true, 128u << (control >> 5 & 7), 128u << (control >> 12 & 7),
                                    control & 0x10};
        }
    return express;
}

static void evaluate(struct muster_check *check, const struct muster_nic *nic,
                     const struct express *express)
{
    muster_check_evidence(check, "%s: payload %u, read requests %u bytes%s",
                          nic->verbs[0] ? nic->verbs : nic->name, express->payload,
                          express->request, express->relaxed ? ", relaxed ordering allowed" : "");
    if (express->request > SMALL_REQUEST || nic->mbps < FAST_MBPS)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check, "read requests that are small for so fast a NIC");
    muster_check_advice(check, "mlxconfig or the BIOS: a maximum read request of 4096 bytes "
                               "lets a NIC of 200 Gb/s and more read at its speed");
}

void muster_doctor_pcie(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.requests", "F54,F60");
    const struct muster_machine *machine = doctor->survey->machine;
    int seen = 0, fabric = 0;
    muster_check_expected(check, "read requests of 1024 bytes and more on NICs of 200 Gb/s");
    for (int i = 0; i < machine->nics; i++) {
        if (!machine->nic[i].fabric || machine->nic[i].node < 0)
            continue;
        struct express express = read_express(doctor, machine->node[machine->nic[i].node].pci);
        fabric++;
        if (express.known) {
            seen++;
            if (!check->found[0])
                muster_check_found(check, "as they should be");
            evaluate(check, &machine->nic[i], &express);
        }
    }
    if (fabric == 0)
        muster_check_found(check, "no fabric NIC in the PCI tree");
    else if (seen == 0)
        muster_check_unchecked(check, "only root can read the PCIe settings of %d NICs", fabric);
}
