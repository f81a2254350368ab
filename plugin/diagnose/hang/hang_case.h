/* A hang in one communicator before it is known what it comes from. Between hang*.c only. */
#ifndef MUSTER_DIAGNOSE_HANG_HANG_CASE_H
#define MUSTER_DIAGNOSE_HANG_HANG_CASE_H

#include "diagnose/confidence.h"
#include "diagnose/finding.h"
#include "diagnose/hang/hang.h"
#include "diagnose/hang/hang_state.h"

#define MUSTER_HANG_NOWHERE SIZE_MAX /* no case, no place */

enum muster_hang_role {
    MUSTER_HANG_BYSTANDER,
    MUSTER_HANG_CULPRIT,
    MUSTER_HANG_VICTIM,
    MUSTER_HANG_BOTH, /* the odd one of a mismatch waits like the others */
};

struct muster_hang_case {
    struct muster_finding finding;
    struct muster_hang_comm *comm;
    uint8_t *role;       /* per member */
    bool tentative;      /* those that are missing wait themselves */
    bool proven;         /* what ended before is known */
    size_t because_of;   /* another case, or MUSTER_HANG_NOWHERE */
    uint32_t round_plus; /* scratch: of the walk along causes that came here last */
    bool dropped;
};

/* A communicator as a whole. */
struct muster_hang_facts {
    uint64_t least, most; /* calls */
    uint64_t done;        /* collectives below ended: on one rank, so all ranks entered them */
    uint64_t differs;     /* first place where calls differ and nobody is past; UINT64_MAX: none */
    bool all_seen;
    bool stuck; /* an operation that all entered is known not to have ended */
    uint32_t open, idle, over;
};

/* One rank over all its communicators. */
struct muster_hang_who {
    bool busy;       /* in an operation that has not ended, as far as calls and proofs show */
    bool unsure;     /* in one that a rank out of sight may be missing in, or behind one */
    bool proven;     /* all that it called is known to have ended */
    bool dead;       /* named as gone */
    uint32_t comms;  /* that it is a member of */
    size_t waits_in; /* case whose missing or odd rank it waits for */
    size_t stuck_in; /* case that it is stuck in */
};

struct muster_hang_cases {
    struct muster_arena *arena;
    struct muster_hang_case *at; /* owned: too large for the arena to add */
    size_t n;
    uint64_t threshold_ns;
    struct muster_hang_facts *facts; /* of each communicator of the view */
    struct muster_hang_who *who;     /* by muster_hang_member.who */
    uint32_t whos;
    struct muster_finding_lines *not_observable; /* of the whole view */
};

/* A new case without roles; NULL: no memory. */
struct muster_hang_case *muster_hang_case_add(struct muster_hang_cases *cases,
                                              struct muster_hang_comm *comm,
                                              enum muster_finding_kind kind);
/* Takes the newest case back. */
void muster_hang_case_undo(struct muster_hang_cases *cases);
/* Fills ranks, victims, host, cost and since from the roles. */
void muster_hang_case_close(struct muster_hang_case *hang);
void muster_hang_case_op(struct muster_hang_case *hang, uint64_t number,
                         const struct muster_hang_call *call);

/* How long ago, by its own clock, a rank called something last. */
uint64_t muster_hang_waited_ns(const struct muster_hang_member *member);
/* When that was. */
uint64_t muster_hang_called_unix_ns(const struct muster_hang_member *member);
uint64_t muster_hang_unix_ns(const struct muster_hang_member *member, uint64_t own_ns);
/* Its last sign of life: its heartbeat, or a call behind that. */
uint64_t muster_hang_last_unix_ns(const struct muster_hang_member *member);
/* The newest moment that any rank of the communicator was seen. */
uint64_t muster_hang_latest_unix_ns(const struct muster_hang_comm *comm);
bool muster_hang_gone(const struct muster_hang_member *member);
/* It went before anybody could have called this a hang, and others lived on. */
bool muster_hang_died_first(const struct muster_hang_comm *comm,
                            const struct muster_hang_member *member, uint64_t waiting_since,
                            uint64_t threshold_ns);
/* The call as the first rank that remembers it made it; NULL: nobody does. */
const struct muster_hang_call *muster_hang_call_of_any(const struct muster_hang_comm *comm,
                                                       uint64_t number);
bool muster_hang_same_call(const struct muster_hang_call *a, const struct muster_hang_call *b);

/* hang_who.c: fills facts and who. False: no memory. */
bool muster_hang_scan(struct muster_hang_cases *cases, struct muster_hang_state *view);
/* Of a member that waits for its peer in this pair: the peer posted less. A small send can end
 * before its receive, so for it there has to be proof. */
bool muster_hang_waits_for_peer(const struct muster_hang_comm *comm,
                                const struct muster_hang_member *member,
                                const struct muster_hang_pair *pair, uint64_t *posted_there);
/* The member of that rank; NULL: it is not seen. */
struct muster_hang_member *muster_hang_by_rank(const struct muster_hang_comm *comm, int32_t rank);

/* Each adds the cases of one communicator. False: no memory. */
bool muster_hang_evaluate_dead(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                               const struct muster_hang_facts *facts);
bool muster_hang_evaluate_missing(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                                  const struct muster_hang_facts *facts);
bool muster_hang_evaluate_mismatch(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                                   const struct muster_hang_facts *facts);
bool muster_hang_evaluate_stuck(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                                const struct muster_hang_facts *facts);
bool muster_hang_evaluate_pairs(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                                bool dead);
bool muster_hang_evaluate_stuck_pairs(struct muster_hang_cases *cases,
                                      struct muster_hang_comm *comm,
                                      const struct muster_hang_facts *facts);

/* Nobody who entered the place goes on, for as long as the threshold. */
bool muster_hang_stands_still(const struct muster_hang_comm *comm, uint64_t number,
                              uint64_t threshold_ns);
/* Marks who waits for operation `number`; false if nobody waits for as long as the threshold, or
 * somebody only since a moment ago. *since: when the first began. */
bool muster_hang_find_waiting(const struct muster_hang_cases *cases, struct muster_hang_case *hang,
                              uint64_t number, uint64_t *since);

/* Lays cases to those that they come from. False: no memory. */
bool muster_hang_causes(struct muster_hang_cases *cases, struct muster_hang_state *view);

/* After the causes are known: adds processes that are gone and that no case names or explains.
 * False: no memory. */
bool muster_hang_evaluate_gone(struct muster_hang_cases *cases, struct muster_hang_state *view);

/* Where that adds nothing: who was killed, after which the others gave up. False: no memory. */
bool muster_hang_evaluate_given_up(struct muster_hang_cases *cases, struct muster_hang_state *view);

/* Where that adds nothing: who was killed before all others of a job that is over. False: no
 * memory. */
bool muster_hang_evaluate_first(struct muster_hang_cases *cases, struct muster_hang_state *view);

/* Evidence lines. */
void muster_hang_describe_calls(struct muster_hang_case *hang,
                                const struct muster_hang_member *member, uint64_t number);
/* `stop`: where it stopped, as " finished #75"; "" nothing. `finished`: its collectives are known
 * to have ended, whatever its own kernels show. */
void muster_hang_describe_absent(struct muster_hang_case *hang,
                                 const struct muster_hang_member *member, const char *stop,
                                 bool finished);
void muster_hang_describe_ended(struct muster_hang_case *hang, unsigned most);
void muster_hang_describe_limits(struct muster_hang_case *hang);

#endif
