/* Which GPUs of a machine CUDA_VISIBLE_DEVICES leaves to a process. Pure. */
#ifndef MUSTER_DOCTOR_VISIBLE_H
#define MUSTER_DOCTOR_VISIBLE_H

#include <stdbool.h>

#include "topology/machine.h"

struct muster_visible {
    bool known;                    /* false: numbers of GPUs of several models, MIG */
    bool gpu[MUSTER_MACHINE_GPUS]; /* by the machine's numbers */
    int n;
    char stopped_at[64]; /* the first entry that is no GPU here: CUDA ends the list there; "" */
};

/* `list`: CUDA_VISIBLE_DEVICES, NULL where not set. `order`: CUDA_DEVICE_ORDER. CUDA numbers the
 * fastest GPU first unless set to PCI_BUS_ID, so numbers are known for GPUs of one model, or with
 * that. */
void muster_visible_gpus(const struct muster_machine *machine, const char *list, const char *order,
                         struct muster_visible *visible);

#endif
