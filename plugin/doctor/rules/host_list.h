/* Slurm's lists of hosts ("node[01-16,20],head"). Pure. */
#ifndef MUSTER_DOCTOR_RULES_HOST_LIST_H
#define MUSTER_DOCTOR_RULES_HOST_LIST_H

#include <stdbool.h>

/* Whether the list has the name. */
bool muster_host_list_has(const char *list, const char *name);

#endif
