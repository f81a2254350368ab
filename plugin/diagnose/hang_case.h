/* A hang in one communicator before it is known what it comes from. Between hang*.c only. */
#ifndef MUSTER_DIAGNOSE_HANG_CASE_H
#define MUSTER_DIAGNOSE_HANG_CASE_H

#include "diagnose/hang.h"

enum muster_hang_role {
    MUSTER_HANG_BYSTANDER,
    MUSTER_HANG_GUILTY,
    MUSTER_HANG_VICTIM,
    MUSTER_HANG_BOTH, /* the odd one of a mismatch waits like the others */
};

struct muster_hang_case {
    struct muster_finding finding;
    struct muster_hang_comm *comm;
    uint8_t *role;     /* per member; owned */
    size_t because_of; /* another case; SIZE_MAX: none */
    bool dropped;
};

struct muster_hang_cases {
    struct muster_hang_case *at;
    size_t n;
    uint64_t threshold_ns;
    struct muster_finding_lines *not_observable; /* of the whole view */
};

/* A new case without roles; NULL: no memory. */
struct muster_hang_case *muster_hang_case_add(struct muster_hang_cases *cases,
                                              struct muster_hang_comm *comm,
                                              enum muster_finding_kind kind);
/* Fills ranks, victims, host, cost and since from the roles. */
void muster_hang_case_close(struct muster_hang_case *hang);
void muster_hang_case_op(struct muster_hang_case *hang, uint64_t number,
                         const struct muster_hang_call *call);

/* How long ago, by its own clock, a rank called something last. */
uint64_t muster_hang_waited_ns(const struct muster_hang_member *member);
uint64_t muster_hang_unix_ns(const struct muster_hang_member *member, uint64_t own_ns);
/* The newest moment that any rank of the communicator was seen. */
uint64_t muster_hang_latest_unix_ns(const struct muster_hang_comm *comm);
bool muster_hang_gone(const struct muster_hang_member *member);
/* It went before anybody could have called this a hang, and others lived on. */
bool muster_hang_died_first(const struct muster_hang_comm *comm,
                            const struct muster_hang_member *member, uint64_t waiting_since,
                            uint64_t threshold_ns);

/* False: no memory. */
bool muster_hang_judge_pairs(struct muster_hang_cases *cases, struct muster_hang_comm *comm);
/* Lays cases to those that they come from. */
void muster_hang_causes(struct muster_hang_cases *cases);

/* Evidence lines. */
void muster_hang_say_calls(struct muster_hang_case *hang, const struct muster_hang_member *member,
                           uint64_t number);
void muster_hang_say_absent(struct muster_hang_case *hang, const struct muster_hang_member *member);
void muster_hang_say_limits(struct muster_hang_case *hang);

#endif
