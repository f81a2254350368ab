/* The kernel's text files that doctor reads, parsed. Pure. */
#ifndef MUSTER_DOCTOR_RULES_PROC_TEXT_H
#define MUSTER_DOCTOR_RULES_PROC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "full avg10=1.23 avg60=..." of /proc/pressure/X: the value of avg60; -1: not there. */
double muster_proc_pressure(const char *text);

struct muster_swap {
    char file[128];
    uint64_t kib, used_kib;
};
/* Lines of /proc/swaps after the heading. Returns how many, at most `room`. */
int muster_proc_swaps(const char *text, struct muster_swap *swap, int room);

/* The file system that holds an absolute path, from /proc/mounts: its type; false: unknown. */
bool muster_proc_mount_type(const char *mounts, const char *path, char *type, size_t size);
/* Types whose pages come over a network. */
bool muster_proc_is_network(const char *type);

/* "Key:   123 kB" of meminfo and status; -1: not there. */
long long muster_proc_field(const char *text, const char *key, int base);
/* "key 123" of memory.events and cpu.stat, a line each; -1: not there. */
long long muster_proc_name(const char *text, const char *key);
/* The soft limit of a line of /proc/PID/limits ("Max open files"); UINT64_MAX: unlimited. false:
 * not there. */
bool muster_proc_limit(const char *text, const char *name, uint64_t *soft);
/* The first range of a list such as "0-3,8": its ends, and where the next one begins (the end of a
 * text where there is none); NULL: that is no number. */
const char *muster_proc_range(const char *list, unsigned long *first, unsigned long *last);

/* "0-3,8,10-11" into bits of `set`; returns how many CPUs. */
int muster_proc_cpus(const char *list, uint64_t *set, size_t words);

/* Whether a line of /proc/net/tcp or tcp6 is a socket that listens on the port. */
bool muster_proc_listens(const char *sockets, unsigned port);

/* The file of a line of /proc/PID/maps, where its name begins so. */
bool muster_proc_mapped(const char *line, const char *name, char *path, size_t size);

#endif
