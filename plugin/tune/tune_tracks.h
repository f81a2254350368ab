/*
 * What `muster tune` knows of each class of operations: NCCL's own choice, the two best others that
 * one run each showed, and how these did in pairs of runs. The screening only chooses; its runs are
 * in no interval. Pure: samples go in, rules come out.
 *
 * Everything is evaluated by the beat: what the operation costs the job, however its ranks end.
 * Where it is not known, the quickest rank's clock stands in from ring to ring, whose ranks end
 * together; with any other algorithm on either side there is nothing to compare.
 */
#ifndef MUSTER_TUNE_TUNE_TRACKS_H
#define MUSTER_TUNE_TUNE_TRACKS_H

#include "tune/tune_measure.h"
#include "tune/tune_write.h"

enum {
    MUSTER_TUNE_LANES = 2,   /* options a class that are looked at closely */
    MUSTER_TUNE_ROUNDS = 12, /* at most */
    MUSTER_TUNE_PAIRS = 3,   /* at least, for a verdict */
    MUSTER_TUNE_BASES = 64,  /* runs without a policy that are kept */
};
/* The upper end of a rule's interval is below that. */
#define MUSTER_TUNE_WORTH 0.97

struct muster_tune_lane {
    struct muster_tune_choice choice; /* of the rule; all 0: none */
    struct muster_tune_choice ran;    /* what it became */
    enum muster_measure by;
    double screened_us; /* by it, in the one run that chose it */
    double log_ratio[MUSTER_TUNE_ROUNDS], with_us[MUSTER_TUNE_ROUNDS];
    unsigned n;
    bool out;
};

struct muster_tune_track {
    struct muster_tune_class class;
    struct muster_tune_choice base; /* NCCL's own */
    uint32_t ops;
    double base_us[MUSTER_TUNE_BASES];
    unsigned bases;
    double base_beat_us[MUSTER_TUNE_BASES];
    unsigned base_beats;
    struct muster_tune_lane lane[MUSTER_TUNE_LANES]; /* the best first */
    bool harms;       /* others pay for what it gains: it gets no rule */
    bool unevaluated; /* something ran without a comparable time */
};

struct muster_tune_tracks {
    struct muster_tune_track *track;
    size_t n;
};

/* From the first run without a policy. -1: no memory. */
int muster_tune_tracks_begin(struct muster_tune_tracks *tracks,
                             const struct muster_tune_sample *base);
void muster_tune_tracks_free(struct muster_tune_tracks *tracks);
/* Another run without a policy. */
void muster_tune_add_base(struct muster_tune_tracks *tracks, const struct muster_tune_sample *base);

/* What a run under a candidate showed. */
struct muster_tune_screened {
    size_t ran;       /* classes that ran as the candidate wants, and not as without it */
    size_t evaluated; /* of them, those with a comparable time */
    size_t quicker;   /* of these, those with a ratio below 1 to the runs without a policy so far */
    double best;      /* ratio */
    struct muster_tune_class best_class;
};
/* `rule`: what the candidate wants of each class, in the order of the tracks. */
struct muster_tune_screened muster_tune_screen(struct muster_tune_tracks *tracks,
                                               const struct muster_tune_sample *sample,
                                               const struct muster_tune_rule *rule, size_t rules);

/* After the last candidate: leaves only what is quicker than all the runs without a policy were
 * in the middle, which the first of them, that others may have disturbed, does not decide. */
void muster_tune_settle(struct muster_tune_tracks *tracks);
/* Classes in which something ran without a comparable time. */
size_t muster_tune_unevaluated(const struct muster_tune_tracks *tracks);
/* Whether any class ran as one of the combinations. */
bool muster_tune_any_ran(const struct muster_tune_sample *sample, uint32_t combinations);

/* Rules into rule[tracks->n]; each returns how many. */
/* The combination for every class that has it and for which NCCL does not choose it anyway. */
size_t muster_tune_rules_forced(const struct muster_tune_tracks *tracks,
                                const struct muster_tune_choice *choice,
                                struct muster_tune_rule *rule);
/* Half the channels that the rules' classes had in the sample; `own`: with NCCL's own choice. */
size_t muster_tune_rules_halved(const struct muster_tune_tracks *tracks,
                                const struct muster_tune_sample *sample, bool own,
                                struct muster_tune_rule *rule);
/* Each class's option of a lane, where there is one that is not out. */
size_t muster_tune_rules_lane(const struct muster_tune_tracks *tracks, unsigned lane,
                              struct muster_tune_rule *rule);
/* What is proven, the best option a class, with its evidence. */
size_t muster_tune_rules_proven(const struct muster_tune_tracks *tracks,
                                struct muster_tune_rule *rule);

/* One round of pairs: a run without, a run with the rules of a lane. */
void muster_tune_pair(struct muster_tune_tracks *tracks, unsigned lane,
                      const struct muster_tune_sample *without,
                      const struct muster_tune_sample *with);
/* The lane's candidates failed. */
void muster_tune_drop(struct muster_tune_tracks *tracks, unsigned lane);
/* This class gets no rule any more. */
void muster_tune_forbid(struct muster_tune_tracks *tracks, const struct muster_tune_class *class);
/* Options of a lane that pairs could still decide. */
size_t muster_tune_open(const struct muster_tune_tracks *tracks, unsigned lane);

#endif
