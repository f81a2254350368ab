/* What the files that evaluate hosts share: what was seen, and the folding of failing pairs. */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_EVALUATION_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_EVALUATION_H

#include "doctor/hosts/hosts.h"
#include "doctor/hosts/hosts_fold.h"

struct muster_evaluation {
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
muster_evaluation_member(const struct muster_evaluation *evaluation, unsigned i)
{
    return &evaluation->result->seen[i].member;
}

static inline char *muster_evaluation_bad(struct muster_evaluation *evaluation, unsigned from,
                                          unsigned to)
{
    return &evaluation->bad[(size_t)from * evaluation->n + to];
}

/* What a letter of a member's answer is for folding. */
char muster_evaluation_pair(char end);
/* Marks every pair as unknown. */
void muster_evaluation_forget(struct muster_evaluation *evaluation);
/* Folds what is marked into evidence and, if nothing stands there, into what was found; returns the
 * pairs. */
size_t muster_evaluation_fold(struct muster_evaluation *evaluation, struct muster_check *check,
                              const char *(*why)(const struct muster_evaluation *, unsigned from,
                                                 unsigned to));

void muster_hosts_evaluate_bandwidth(struct muster_evaluation *evaluation);
void muster_hosts_evaluate_loss(struct muster_evaluation *evaluation);
void muster_hosts_evaluate_rdma(struct muster_evaluation *evaluation);

#endif
