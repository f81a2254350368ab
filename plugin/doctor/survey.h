/* Looking at one machine from all sides that are there, for `muster topo` and `muster doctor`. */
#ifndef MUSTER_DOCTOR_SURVEY_H
#define MUSTER_DOCTOR_SURVEY_H

#include <stdbool.h>

#include "topology/machine.h"
#include "topology/nvml/nvml.h"

struct muster_survey {
    struct muster_machine *machine;
    struct muster_nvml *nvml; /* NULL: none */
    struct muster_err no_nvml;
    bool refused; /* it is there, and not loaded by root */
};

/* Where /sys, /proc and /dev are: MUSTER_SYSFS, MUSTER_PROCFS, MUSTER_DEVFS. */
const char *muster_sysfs_root(void);
const char *muster_procfs_root(void);
const char *muster_devfs_root(void);
/* Before /etc and /run: MUSTER_ROOT, "". */
const char *muster_file_root(void);

/* The live machine: hwloc where it can be loaded (not for a foreign MUSTER_SYSFS), else sysfs;
 * links from sysfs; GPUs from NVML. Each is given a few seconds, and none is loaded that root
 * should not (launch/library_trust.h). err: not even a PCI tree or a GPU.
 */
int muster_survey_live(struct muster_survey *survey, struct muster_err *err);
/* From hwloc's XML alone. */
int muster_survey_xml(struct muster_survey *survey, const char *path, struct muster_err *err);
void muster_survey_free(struct muster_survey *survey);

/* CPUs of a NUMA node that this process may run on; -1: unknown. */
int muster_survey_cpus(uint64_t numa);

#endif
