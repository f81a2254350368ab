/*
 * What a policy would have done to a recorded run: which rule would have decided each class of
 * operations, whether that changes what ran, and what the change was worth where both were
 * measured.
 */
#ifndef MUSTER_POLICY_OFFLINE_SIMULATE_H
#define MUSTER_POLICY_OFFLINE_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hashmap.h"
#include "policy/policy.h"
#include "report/samples.h"
#include "run/run.h"
#include "view/measure.h"

enum {
    MUSTER_SIM_EFFECTS = 4, /* measured variants reported of a class */
};

/* What ran: enum muster_algo, muster_proto; 0 where NCCL did not show it. */
struct muster_variant {
    uint8_t algo, proto, channels;
};

/* Operations of one size, shape and variant in all runs. */
struct muster_sim_cell {
    struct muster_query query; /* as NCCL asked */
    unsigned func;             /* as it was called */
    struct muster_variant ran;
    uint64_t ops;  /* of the run that is simulated, all ranks together */
    int rule;      /* that decides; MUSTER_POLICY_NO_RULE: none */
    uint64_t size; /* lower bound of the size class */
    /* By each measure, of its operations that every rank timed; 0: fewer than MUSTER_MEASURE_OPS.
     */
    uint64_t median_ns[MUSTER_MEASURES];
};

enum muster_change {
    MUSTER_CHANGE_NONE,    /* no rule, or what ran is what the rule keeps */
    MUSTER_CHANGE_WOULD,   /* what ran is not among what the rule keeps, or has too many channels */
    MUSTER_CHANGE_MAY,     /* only the channels: fewer ran than the rule allows */
    MUSTER_CHANGE_UNKNOWN, /* NCCL did not show what ran */
    MUSTER_CHANGES
};
const char *muster_change_name(enum muster_change change);

/* A measured variant that the rule keeps, against what ran. */
struct muster_sim_effect {
    struct muster_variant variant;
    enum muster_measure by; /* that the ratio is of; MUSTER_MEASURE_NONE: the effect is unknown */
    double ratio;           /* its time / that of what ran, sizes weighted by their operations */
    double clock_ratio; /* likewise by the clock, which proves nothing by itself; 0: not known */
    uint64_t covered;   /* operations of the class whose size was measured both ways */
};

/* Cells that differ in nothing but their exact size. */
struct muster_sim_class {
    const struct muster_sim_cell *cell; /* `cells` of them, by size */
    size_t cells;
    uint64_t ops; /* 0: measured in another run only */
    enum muster_change change;
    uint32_t keeps; /* combinations that NCCL has and the rule keeps */
    struct muster_sim_effect effect[MUSTER_SIM_EFFECTS]; /* known first, then most covered */
    unsigned effects;
};

struct muster_simulation {
    struct muster_arena memory; /* of all that follows */
    const struct muster_policy *policy;
    uint64_t nvlink_domains;
    struct muster_sim_cell *cell;
    size_t cells;
    struct muster_hashmap cell_at;       /* index */
    struct muster_samples clocks, beats; /* by cell */
    struct muster_sim_class *class;      /* by collective, shape, size and rule, then by what ran */
    size_t classes;
    uint64_t asked, never, unknown; /* operations of the simulated run: enum muster_asked */
    uint64_t missing;               /* known by class only */
};

/* Adds the view of a run: the first is the one to simulate, the others only measured. */
void muster_simulation_add(struct muster_simulation *simulation, const struct muster_view *view,
                           bool simulate);
/* Only counts what processes with the policy of that hash recorded. */
void muster_simulation_count(struct muster_simulation *simulation, const struct muster_view *view,
                             const uint8_t *sha256);
/* Makes the classes. -1: no memory, for them or for what was added. */
int muster_simulation_finish(struct muster_simulation *simulation);
void muster_simulation_free(struct muster_simulation *simulation);

#endif
