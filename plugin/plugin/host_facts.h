/* What the topology room knows of a machine, in the words of the segment (segment/facts.h). */
#ifndef MUSTER_PLUGIN_HOST_FACTS_H
#define MUSTER_PLUGIN_HOST_FACTS_H

#include "segment/facts.h"
#include "topology/machine.h"
#include "topology/nvml/gpu_watch.h"

/* Reads the environment: with the first communicator, on NCCL's thread. */
void muster_facts_variables(struct muster_fact_head *head);

/* The interface that NCCL's sockets take, and its rate. `family`: NCCL_SOCKET_FAMILY or NULL. */
void muster_facts_interface(struct muster_fact_head *head, const char *family);

/* Of the machine as a whole; head->nic_verbs becomes the RDMA device where data take one. */
void muster_facts_machine(struct muster_fact_head *head, const struct muster_machine *machine);

/* The GPU at gpu->pci: its links, its paths to the other GPUs and to the NIC that `head` names. */
void muster_facts_gpu(struct muster_fact_gpu *gpu, const struct muster_fact_head *head,
                      const struct muster_machine *machine, const struct muster_nvml *nvml);

/* Adds one look. */
void muster_facts_poll(struct muster_fact_use *use, const struct muster_gpu_reading *look,
                       unsigned xid, uint64_t now_ns);

#endif
