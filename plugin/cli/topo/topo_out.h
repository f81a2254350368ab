/* A machine as text or JSON. */
#ifndef MUSTER_CLI_TOPO_TOPO_OUT_H
#define MUSTER_CLI_TOPO_TOPO_OUT_H

#include <stdio.h>

#include "doctor/visible.h"
#include "topology/faults.h"
#include "topology/machine.h"

void muster_topo_text(const struct muster_machine *machine, const struct muster_faults *faults,
                      const struct muster_visible *visible, FILE *out);
void muster_topo_json(const struct muster_machine *machine, const struct muster_faults *faults,
                      const struct muster_visible *visible, FILE *out);

/* "mlx5_0", else "eth0", else the address. */
void muster_topo_nic_name(const struct muster_machine *machine, int nic, char *name, size_t size);

#endif
