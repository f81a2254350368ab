/*
 * What the kernel shows of a process and its host, to explain why a rank is late or absent:
 * docs/evidence.md. Reads /proc and /sys only, of this host; never stops or traces a process. Not
 * for NCCL's threads: reading may take a while.
 */
#ifndef MUSTER_DIAGNOSE_EVIDENCE_H
#define MUSTER_DIAGNOSE_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "diagnose/finding.h"

#define MUSTER_EVIDENCE_NONE UINT64_MAX /* not readable here */

struct muster_evidence_roots {
    const char *proc, *sys; /* "/proc", "/sys"; tests have their own */
};

/* Counters grow; a value that could not be read is MUSTER_EVIDENCE_NONE. */
struct muster_evidence {
    uint64_t at_ns;           /* monotonic; the caller's */
    uint64_t quota_percent;   /* of its cgroup, in percent of one CPU; NONE: no limit */
    uint64_t throttled_us;    /* of its cgroup */
    uint64_t throttled;       /* periods */
    uint64_t oom_kills;       /* in its cgroup */
    uint64_t memory_limited;  /* times that its cgroup met its memory limit */
    uint64_t run_ns, wait_ns; /* schedstat of all its threads: on a CPU, and ready without one */
    uint64_t main_run_ns;     /* of run_ns, its main thread */
    uint64_t read_bytes, written_bytes; /* of storage, by all its threads */
    uint64_t cpus;                      /* that it may use */
    char state;                         /* of its main thread: R, S, D, T, Z; 0: not readable */
    char wchan[64];
    /* The host's. */
    uint64_t stall_us[3]; /* PSI `some`: cpu, memory, io */
    uint64_t swapped_in;  /* pages */
    uint64_t net_drops;
};

void muster_evidence_read(const struct muster_evidence_roots *roots, uint32_t pid,
                          struct muster_evidence *evidence);

/* Adds what grew between two readings of the culprit's process and did not grow likewise for the
 * others (n pairs; n may be 0). */
void muster_evidence_compare(const struct muster_evidence culprit[2],
                             const struct muster_evidence (*others)[2], unsigned n,
                             struct muster_finding_lines *lines);

/* Of a process that lives and is missed: its state, where it waits, its system call and what that
 * waits for where that is readable (evidence_wait.h), and the command that shows its stack. */
void muster_evidence_absent(const struct muster_evidence_roots *roots, uint32_t pid, int32_t rank,
                            struct muster_finding_lines *lines);

/* Of a process that is gone: what the OOM killer did in the cgroup of a rank that lives, since
 * `before`; NULL: since that cgroup is there. */
void muster_evidence_gone(const struct muster_evidence *before, const struct muster_evidence *now,
                          int32_t living, struct muster_finding_lines *lines);

#endif
