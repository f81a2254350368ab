/*
 * What lies between two devices: the class of the path in the terms of `nvidia-smi topo -m`, its
 * links, the narrowest of them and what that allows.
 */
#ifndef MUSTER_TOPOLOGY_PATHS_H
#define MUSTER_TOPOLOGY_PATHS_H

#include "topology/machine.h"

enum { MUSTER_PATH_LINKS = 32 };

/* A PCIe link, named by the node at its lower end. */
struct muster_link {
    int node;
    double gts, can_gts;       /* negotiated; what both ends can. 0: unknown */
    unsigned width, can_width; /* lanes */
    double gbs, can_gbs;       /* of payload-free bits, one direction; 0: unknown */
};

struct muster_path {
    enum muster_path_class class;
    unsigned nvlinks;
    int link[MUSTER_PATH_LINKS]; /* lower ends of the PCIe links on the way */
    int links;
    int narrowest;    /* index into link; -1: NVLink or unknown */
    double limit_gbs; /* 0: unknown */
};

/* The link above a node; false if there is none (host bridges, ports within a switch, devices on
 * a host bridge). */
bool muster_link_above(const struct muster_machine *machine, int node, struct muster_link *link);

/* GB/s of a PCIe link after line coding: 8b/10b up to 5 GT/s, 128b/130b up to 32, 242/256 above
 * (PCIe base specification). 0 if either is 0. */
double muster_pcie_gbs(double gts, unsigned width);

/* By PCI alone. */
void muster_path_between(const struct muster_machine *machine, int a, int b,
                         struct muster_path *path);
/* With NVLink, which hides the rest. */
void muster_path_gpus(const struct muster_machine *machine, int a, int b, struct muster_path *path);
void muster_path_gpu_nic(const struct muster_machine *machine, int gpu, int nic,
                         struct muster_path *path);

/* "NV18", "PIX", "X" for a GPU itself, "?" */
void muster_path_name(const struct muster_path *path, char *text, size_t size);
/* "gen4 x16": >= 16 bytes */
void muster_link_name(double gts, unsigned width, char *text, size_t size);

/* NICs at the least distance from a GPU: a bit each; only fabric NICs if there are any. */
void muster_path_nearest(const struct muster_machine *machine, int gpu,
                         bool nearest[MUSTER_MACHINE_NICS], enum muster_path_class *class);

#endif
