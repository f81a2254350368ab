/* Several ranks whose operations are made by hand, as diagnosis sees them. */
#ifndef MUSTER_TESTS_UNIT_DIAGNOSE_MADE_RANKS_H
#define MUSTER_TESTS_UNIT_DIAGNOSE_MADE_RANKS_H

#include "diagnose/straggler/straggler.h"
#include "diagnose/transfer/transfer.h"

#define US 1000ull
#define MS 1000000ull

enum { RANKS_MOST = 16, COMMS_MOST = 8 };

/* A job under way: every rank has a clock of its own, which nothing may compare with another's. */
struct ranks {
    struct muster_view view;
    unsigned n;
    uint32_t member[COMMS_MOST][RANKS_MOST]; /* handles */
    uint64_t number[COMMS_MOST];
    uint64_t arrived_ns[RANKS_MOST]; /* ideal time: end of its last operation, plus its work */
    uint64_t skew_ns[RANKS_MOST];
    uint64_t call_ns[RANKS_MOST];
};

void ranks_begin(struct ranks *ranks, unsigned n);
/* Communicator `comm` of the ranks from `first` on in steps of `stride`; `nranks` of it there are,
 * of which `seen` are fed. */
void ranks_comm(struct ranks *ranks, unsigned comm, unsigned first, unsigned stride, unsigned seen,
                unsigned nranks);
/* The rank is busy for so long before its next operation. */
void ranks_work(struct ranks *ranks, unsigned rank, uint64_t ns);
/* All ranks that take part in `comm` do an operation of `transfer_ns` together: they begin when
 * they are there and end together. flags: of enum muster_op_flags, 0 for an ordinary one; timed
 * false: without GPU times. */
void ranks_do(struct ranks *ranks, unsigned comm, uint64_t count, uint64_t transfer_ns, bool timed,
              uint16_t flags);
/* Finishes the view, asserting success. */
const struct muster_view *ranks_view(struct ranks *ranks);
/* Late ranks, then slow transfers. */
struct muster_findings ranks_diagnose(struct ranks *ranks);
void ranks_end(struct ranks *ranks);
/* An all-reduce by itself, for a view that is fed by hand; end_us 0: without GPU times. */
struct muster_op made_op(uint64_t number, uint64_t begin_us, uint64_t end_us);
/* Whether any line holds the text. */
bool ranks_has_line(const struct muster_finding_lines *lines, const char *text);

#endif
