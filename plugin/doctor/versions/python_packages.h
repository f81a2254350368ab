/*
 * Where a job's Python finds its packages: folders of environments that are active, that hold an
 * NCCL, or that distributions and images use.
 */
#ifndef MUSTER_DOCTOR_VERSIONS_PYTHON_PACKAGES_H
#define MUSTER_DOCTOR_VERSIONS_PYTHON_PACKAGES_H

#include "doctor/doctor.h"

/* Calls `take` for each folder that is there, the likeliest first, some of them twice; until it
 * returns true. */
void muster_python_packages(const struct muster_doctor *doctor,
                            bool (*take)(void *to, const char *folder), void *to);
/* Whether a folder has an entry of that pattern. */
bool muster_python_has(const char *folder, const char *pattern);

#endif
