/* What the files that judge hosts share: what was seen, and the folding of failing pairs. */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_JUDGING_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_JUDGING_H

#include "doctor/hosts/hosts.h"
#include "doctor/hosts/hosts_fold.h"

struct muster_judging {
    struct muster_hosts_result *result;
    struct muster_checks *checks;
    struct muster_arena *arena;
    unsigned n; /* hosts with a report and a network */
    const char **name, **subnet;
    size_t *first;      /* of each host, where its targets begin in everybody's ends */
    size_t *first_rdma; /* the same of its RDMA ports */
    char *bad;          /* n x n, for folding */
};

static inline const struct muster_hosts_member *
muster_judging_member(const struct muster_judging *judging, unsigned i)
{
    return &judging->result->seen[i].member;
}

static inline char *muster_judging_bad(struct muster_judging *judging, unsigned from, unsigned to)
{
    return &judging->bad[(size_t)from * judging->n + to];
}

/* What a letter of a member's answer is for folding. */
char muster_judging_pair(char end);
/* Marks every pair as unknown. */
void muster_judging_forget(struct muster_judging *judging);
/* Folds what is marked into evidence and, if nothing stands there, into what was found; returns the
 * pairs. */
size_t muster_judging_fold(struct muster_judging *judging, struct muster_check *check,
                           const char *(*why)(const struct muster_judging *, unsigned from,
                                              unsigned to));

void muster_hosts_judge_bandwidth(struct muster_judging *judging);
void muster_hosts_judge_loss(struct muster_judging *judging);
void muster_hosts_judge_rdma(struct muster_judging *judging);

#endif
