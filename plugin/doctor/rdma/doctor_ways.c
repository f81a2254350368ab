/* The ways between ranks that a job's log shows, against those that this host has. */
#include <string.h>

#include "doctor/doctor.h"
#include "doctor/rdma/doctor_ports.h"
#include "doctor/rules/job_log.h"
#include "topology/sysfs.h"

static int active_ports(const struct muster_doctor *doctor)
{
    struct muster_doctor_port port[MUSTER_DOCTOR_PORTS];
    int n = muster_doctor_list_ports(doctor, port), active = 0;
    for (int i = 0; i < n; i++) {
        char state[32] = "";
        muster_sysfs_line(doctor->sysfs, state, sizeof state, "class/infiniband/%s/ports/%s/state",
                          port[i].device, port[i].number);
        active += strstr(state, "ACTIVE") != NULL;
    }
    return active;
}

/* GPUs that all reach each other over NVLink: a switch has links of each of them. */
static bool all_reach_a_switch(const struct muster_nvml *nvml)
{
    for (int i = 0; i < nvml->gpus; i++) {
        const struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        bool reaches = false;
        for (int j = 0; j < MUSTER_NVML_LINKS; j++)
            reaches |= gpu->link[j].state == MUSTER_NVLINK_ACTIVE &&
                       (gpu->link[j].remote == MUSTER_NVLINK_TO_SWITCH || gpu->fabric_state > 0);
        if (!reaches)
            return false;
    }
    return nvml->gpus > 1;
}

static void look_at_shm(const struct muster_doctor *doctor, struct muster_check *check)
{
    const struct muster_nvml *nvml = doctor->survey->nvml;
    if (!nvml || nvml->gpus < 2)
        return;
    if (all_reach_a_switch(nvml)) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "GPUs of one host exchange data by way of the host's memory, "
                                  "though NVLink joins all of them here");
    } else if (muster_doctor_lacks_p2p(nvml)) {
        muster_check_found(check, "GPUs of one host exchange data by way of the host's memory: the "
                                  "driver gives P2P between none of them here");
        muster_check_advice(check, "these boards have no other way, unless a setting of the BIOS, "
                                   "the hypervisor or the driver takes P2P away");
    }
}

static void look_at_sockets(const struct muster_doctor *doctor, struct muster_check *check)
{
    int ports = active_ports(doctor);
    if (ports > 0) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check,
                           "hosts exchange data over TCP (NET/Socket), though %d RDMA port%s "
                           "active here",
                           ports, ports == 1 ? " is" : "s are");
    }
}

void muster_doctor_ways(struct muster_doctor *doctor)
{
    struct muster_check *shm = muster_checks_find(doctor->checks, "log.way_shm");
    struct muster_check *sockets = muster_checks_find(doctor->checks, "log.way_socket");
    if (doctor->log && shm)
        look_at_shm(doctor, shm);
    if (doctor->log && sockets)
        look_at_sockets(doctor, sockets);
}
