/* Messages made by hand, as agents would tell them. */
#ifndef MUSTER_TESTS_UNIT_FLEET_WIRE_MADE_H
#define MUSTER_TESTS_UNIT_FLEET_WIRE_MADE_H

#include "fleet/wire.h"

enum { MADE_RANKS = 4, MADE_OPS = 64 };
#define MADE_COMM   0xfeedull
#define MADE_RUN    "/scratch/muster-4711.0"
#define MADE_SECOND 1000000000ull

/* Host `host` of several with MADE_RANKS ranks each; one communicator of all, one all-reduce each
 * 10 ms; ranks begin at host * MADE_RANKS. All on clocks of their own. */
struct made {
    struct muster_wire_message message;
    struct muster_wire_process process[MADE_RANKS];
    struct muster_wire_comm comm[MADE_RANKS];
    struct muster_wire_class class[MADE_RANKS];
    struct muster_wire_op op[MADE_RANKS][MADE_OPS];
};

struct made *made_new(unsigned host, unsigned hosts);
/* The next half second: `late` is the global rank that comes 4 ms late to each operation, -1: none.
 * The others wait for it. */
void made_step(struct made *made, int late);
/* The same with nobody calling anything, as told once where nothing moves. */
void made_rest(struct made *made);
/* As bytes; the caller frees. */
unsigned char *made_bytes(const struct made *made, size_t *bytes);

#endif
