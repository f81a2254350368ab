/* A finding inside of a message: of late ranks what a sentence and its evidence need. Between
 * wire_write.c, wire_read.c and wire_finding.c. */
#ifndef MUSTER_FLEET_WIRE_FINDING_H
#define MUSTER_FLEET_WIRE_FINDING_H

#include "diagnose/finding.h"
#include "fleet/wire_bytes.h"

enum { MUSTER_WIRE_LEAST_FINDING = 30 }; /* bytes that the shortest takes */

void muster_wire_put_finding(struct muster_wire_out *out, const struct muster_finding *finding);
/* `finding`: zeroed. A kind that no agent reports is wrong. */
void muster_wire_get_finding(struct muster_wire_in *in, struct muster_finding *finding);

#endif
