/* Who this host and a process on it are, so that files of several hosts can lie in one directory
 * and a pid that was used twice is not mistaken. */
#ifndef MUSTER_BASE_HOST_H
#define MUSTER_BASE_HOST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct muster_host {
    char id[128];       /* equal where processes see each other live: the given identity, else
                           hostname, boot id and the device of /dev/shm */
    char name[64];      /* hostname, for people */
    char stem[64];      /* given identity or hostname, fit for a file name: [A-Za-z0-9._-], never
                           empty, not beginning with '.' or '-' */
    uint64_t boot_hash; /* muster_hash of the boot id; 0: not readable */
};

/* `given`: NCCL_HOSTID's value; NULL or empty: not set. Cannot fail: what is not readable is
 * "unknown". */
void muster_host_read(struct muster_host *host, const char *given);

/* Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat), 0 if there is
 * no such process or it is not visible. pid 0: this process. */
uint64_t muster_process_start_ticks(pid_t pid);

/* The same from the file's text. A command name may hold spaces and parentheses. */
uint64_t muster_stat_start_ticks(const char *stat);

#endif
