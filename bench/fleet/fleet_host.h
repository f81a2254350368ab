/*
 * A host of a job as its agent meets it: segments in a directory of their own that say what each
 * rank has done by now, and the agent's own code (fleet/gather.h) that reads them, four times a
 * second, and makes a message each half second.
 */
#ifndef MUSTER_BENCH_FLEET_FLEET_HOST_H
#define MUSTER_BENCH_FLEET_FLEET_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "segment/layout.h"

struct fleet_op {
    struct muster_op op;
    uint64_t over_ns; /* its host's clock */
};

struct fleet_rank {
    struct muster_seg_identity who;
    struct muster_seg_comm comm[MUSTER_SEG_COMMS]; /* before anything is called */
    unsigned comms;
    struct fleet_op *op; /* by over_ns */
    size_t n, room;
};

struct fleet_host;

/* Exits where /dev/shm has no room or memory ends. For one host after the other. */
struct fleet_host *fleet_host_new(unsigned ranks_most);
void fleet_host_free(struct fleet_host *host);

/* Other ranks, of which nothing was told yet. */
void fleet_host_begin(struct fleet_host *host, struct fleet_rank *const *rank, unsigned ranks);
/* Its agent is started anew. */
void fleet_host_restart(struct fleet_host *host);
/* Takes what was over by then. */
void fleet_host_go(struct fleet_host *host, uint64_t now_ns);

/* A message without its head: its body, how many processes that tells of, and whether the head is
 * to name the host. */
struct fleet_body {
    unsigned char *byte; /* to be freed */
    size_t bytes, processes;
    bool described;
};
struct fleet_body fleet_host_publish(struct fleet_host *host, uint64_t now_ns);

#endif
