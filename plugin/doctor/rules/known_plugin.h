/*
 * Known bugs of aws-ofi-nccl, NCCL's network plugin for EFA and libfabric: which versions, beside
 * which NCCL, what happens, what helps. A table, and the question which row holds. Pure.
 */
#ifndef MUSTER_DOCTOR_RULES_KNOWN_PLUGIN_H
#define MUSTER_DOCTOR_RULES_KNOWN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

/* What has to be there besides, one bit each. */
enum {
    MUSTER_PLUGIN_ALGO_SET = 1 << 0, /* NCCL_ALGO or NCCL_PROTO */
    MUSTER_PLUGIN_DMABUF = 1 << 1,   /* not refused by OFI_NCCL_DISABLE_DMABUF=1 */
    MUSTER_PLUGIN_OVER_1000 = 1 << 2 /* ranks */
};

struct muster_known_plugin {
    int first, last;           /* versions, 11702: 1.17.2 */
    int nccl_first, nccl_last; /* the NCCL beside it, 22809; 0: any */
    unsigned needs;
    bool sure;         /* a warning; else it depends on the program */
    const char *shows; /* symptoms of causes.h, separated by blanks */
    const char *what, *fix;
};

extern const struct muster_known_plugin muster_known_plugin[];
extern const size_t muster_known_plugin_n;

/* Behind "aws-ofi-nccl " in a text that need not end: "1.9.1-aws" is 10901. 0: none there. */
int muster_known_plugin_version(const char *text, size_t size);
bool muster_known_plugin_holds(const struct muster_known_plugin *bug, int version, int nccl,
                               unsigned has);
/* The row to be named: of those that are sure (`sure`) or not, and hold, and bring about one of the
 * symptoms (words separated by commas; NULL: any), the one of the fewest versions. NULL: none. */
const struct muster_known_plugin *muster_known_plugin_pick(int version, int nccl, unsigned has,
                                                           const char *symptoms, bool sure);

#endif
