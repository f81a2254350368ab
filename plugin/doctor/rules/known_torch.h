/*
 * Known bugs of PyTorch that stop jobs of several ranks, whatever NCCL it brings: a table, and the
 * question which of its rows holds on a host. Pure.
 */
#ifndef MUSTER_DOCTOR_RULES_KNOWN_TORCH_H
#define MUSTER_DOCTOR_RULES_KNOWN_TORCH_H

#include <stdbool.h>
#include <stddef.h>

struct muster_known_torch {
    int first, last;      /* versions, 21000: 2.10.0 */
    bool arm, hosts;      /* what it needs: CPUs of ARM, several hosts */
    bool likely;          /* a warning; else it depends on what the program calls */
    const char *symptoms; /* words of causes.h, separated by blanks */
    const char *what, *fix, *source;
};

extern const struct muster_known_torch muster_known_torch[];
extern const size_t muster_known_torch_n;

/* "2.10.0+cu130": 21000; 0: no version. A text behind the number, as of a nightly ("2.8.0.dev",
 * "2.1.0a0"), is none either: it may have the bug or not. */
int muster_torch_version(const char *text);
/* NULL: none. */
const struct muster_known_torch *muster_known_torch_find(int version, bool arm, bool hosts);

#endif
