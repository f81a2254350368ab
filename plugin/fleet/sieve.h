/*
 * Which ranks are worth a closer look: those that of late take longer by themselves, from the end
 * of what their GPU ran before to the begin of an operation of some kind, than the others do before
 * that kind. One pass over what is new, for all ranks of a job; it knows nothing of communicators,
 * of steps, of chance, and so names nobody. One thread.
 */
#ifndef MUSTER_FLEET_SIEVE_H
#define MUSTER_FLEET_SIEVE_H

#include "fleet/join.h"

struct muster_sieve {
    struct muster_sieve_rank *rank; /* of each process of the join */
    size_t ranks;
};

/* Takes what the join heard since the last time, which should be some times in the few seconds that
 * a mean goes back. To begin with: {0}. False: no memory; the sieve is as before. */
bool muster_sieve_take(struct muster_sieve *sieve, const struct muster_join *join);
/* How far a process is beyond the others, in units of what GPUs of a kind differ by (4 % and 16 us,
 * docs/diagnosis.md): more than 1 is worth a look. 0: not known. */
double muster_sieve_score(const struct muster_sieve *sieve, size_t process);
void muster_sieve_free(struct muster_sieve *sieve);

#endif
