/*
 * Several hosts at once: one member a host looks at itself and at its ways to all others; a leader
 * asks them and evaluates what they found.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_H

#include "doctor/hosts/hosts_channel.h"
#include "doctor/hosts/hosts_member.h"
#include "doctor/rules/checks.h"

/* ---- who is who ---- */

/* What a launcher (srun, mpirun, torchrun, an indexed job of Kubernetes) gives its processes. */
struct muster_hosts_place {
    int rank, local_rank; /* -1: not given */
    unsigned world;       /* 0: not given */
    char job[96];         /* what processes of one job have in common, fit for a file name */
};
void muster_hosts_place_read(struct muster_hosts_place *place);

/* "node[001-128,200],gpu7" in single names, into the arena. SIZE_MAX: with err. */
size_t muster_hosts_names(const char *list, struct muster_arena *arena, const char *const **names,
                          struct muster_err *err);

/* ---- a member ---- */

struct muster_hosts_self {
    struct muster_hosts_channel channel;
    unsigned member;
    /* The JSON of `muster doctor` here; free it. NULL: err. */
    char *(*examine)(void *arg, bool active, struct muster_err *err);
    void *arg;
    const char *name, *id; /* of this host */
    const char *sysfs;     /* what stands for /sys */
    bool launched;         /* by the leader, which so may set any variable here */
};
/* Does what the leader asks for until that ends. 0, or -1 with err, which the leader was sent. */
int muster_hosts_member_run(const struct muster_hosts_self *self, struct muster_err *err);

/* ---- the leader ---- */

struct muster_hosts_lead {
    struct muster_hosts_channel channel;
    unsigned n;              /* members */
    const char *const *host; /* what the user calls them; NULL: as they call themselves */
    const char *const *name; /* variables for the members */
    const char *const *value;
    size_t variables;
    bool active;
    unsigned patience_ms; /* for reports */
    unsigned ms;          /* of each measurement; 0: none */
    bool quiet;           /* no progress on standard error */
};

/* What came of a member. */
struct muster_hosts_seen {
    struct muster_hosts_member member;
    const char *report; /* NULL: none, and `missing` has why */
    const char *missing;
    const char *ends, *frame_ends, *rdma_ends;
    const unsigned *frame_bytes;
    const struct muster_hosts_flow *flow;
    size_t flows;
};

struct muster_hosts_result {
    struct muster_arena arena;
    struct muster_hosts_seen *seen; /* those with a report first */
    unsigned n, here;               /* here: with a report */
    double report_s, reach_s, measure_s;
    bool quick; /* nobody was asked to measure */
};

/* -1: nothing came at all, with err. */
int muster_hosts_lead_run(const struct muster_hosts_lead *lead, struct muster_hosts_result *result,
                          struct muster_err *err);
void muster_hosts_result_free(struct muster_hosts_result *result);

/* The checks hosts.*, of what was seen. Pure. */
int muster_hosts_evaluate(struct muster_hosts_result *result, struct muster_checks *checks,
                          struct muster_err *err);

#endif
