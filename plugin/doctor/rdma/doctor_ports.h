/* What the checks of RDMA ports share. */
#ifndef MUSTER_DOCTOR_RDMA_DOCTOR_PORTS_H
#define MUSTER_DOCTOR_RDMA_DOCTOR_PORTS_H

#include "doctor/doctor.h"

enum {
    MUSTER_DOCTOR_PORTS = 64,
    MUSTER_DOCTOR_FLAPS = 3, /* times that a link went down since its counters were reset */
};

struct muster_doctor_port {
    char device[32], number[8], layer[32];
};

/* Into MUSTER_DOCTOR_PORTS places; how many there are. */
int muster_doctor_list_ports(const struct muster_doctor *doctor, struct muster_doctor_port *port);
/* The MTU of the port's network interface, whose name goes to net[32]; 0: it has none. */
long long muster_doctor_port_mtu(const struct muster_doctor *doctor,
                                 const struct muster_doctor_port *port, char *net);
/* How often the port's link went down; 0 where that is not known. */
long long muster_doctor_downs(const struct muster_doctor *doctor,
                              const struct muster_doctor_port *port);
bool muster_doctor_is_efa(const struct muster_doctor *doctor, const char *device);
/* A new check of ports; unchecked where there are none. */
struct muster_check *muster_doctor_begin_ports(struct muster_doctor *doctor, int ports,
                                               const char *id, const char *class_id,
                                               const char *expected);
/* Whether NCCL takes the port, by NCCL_IB_HCA where it is set; false without RDMA, too. */
bool muster_doctor_takes_port(const struct muster_doctor *doctor,
                              const struct muster_doctor_port *port);
/* ib.netns */
void muster_doctor_netns(struct muster_doctor *doctor, const struct muster_doctor_port *port,
                         int n);
/* ib.loss, which shows what those below found: after them. */
void muster_doctor_loss(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n);
/* ib.ecn, ib.trust and ib.pfc. */
void muster_doctor_roce(struct muster_doctor *doctor, const struct muster_doctor_port *port, int n);

#endif
