/* How evidence is read. Between evidence*.c only. */
#ifndef MUSTER_DIAGNOSE_EVIDENCE_READ_H
#define MUSTER_DIAGNOSE_EVIDENCE_READ_H

#include "diagnose/evidence.h"

enum { MUSTER_EVIDENCE_TEXT = 4096, MUSTER_EVIDENCE_PATH = 1024 };

/* The beginning of a small file, terminated; false: not readable. */
__attribute__((format(printf, 2, 3))) bool muster_evidence_slurp(char text[MUSTER_EVIDENCE_TEXT],
                                                                 const char *fmt, ...);

/* The number behind `key` at the beginning of a line; MUSTER_EVIDENCE_NONE: there is no such line.
 */
uint64_t muster_evidence_number(const char *text, const char *key);

/* CPU quota and throttling, processes killed for memory: of the process's cgroup. */
void muster_evidence_cgroup(const struct muster_evidence_roots *roots, uint32_t pid,
                            struct muster_evidence *evidence);

#endif
