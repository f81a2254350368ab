/* A made-up job: what each rank called and what is known to have ended, as segments hold it. */
#ifndef MUSTER_TESTS_UNIT_DIAGNOSE_HANG_JOB_H
#define MUSTER_TESTS_UNIT_DIAGNOSE_HANG_JOB_H

#include "diagnose/hang/hang.h"
#include "diagnose/whereabouts.h"
#include "run/run.h"

enum { JOB_RANKS = 16, SECOND = 1000000000 };
#define JOB_BEGIN (100ull * SECOND)
#define JOB_COMM  0xabcull

struct job {
    unsigned ranks;
    struct muster_segment *rank[JOB_RANKS];
    enum muster_process_state state[JOB_RANKS];
    uint64_t seen_ns[JOB_RANKS];
    bool hidden[JOB_RANKS]; /* no segment and no log of it */
};

/* All ranks of one host, alive, seen until `seen_s` seconds after the begin; one communicator. */
struct job *job_new(unsigned ranks, unsigned seen_s);
void job_free(struct job *job);

/* One more communicator: `rank[i]` becomes rank i in it. */
void job_comm(struct job *job, uint64_t id, const unsigned *rank, unsigned n);
struct muster_seg_comm *job_entry(const struct job *job, unsigned rank, uint64_t id);

/* n collectives, one each 10 ms from `at_s` on; all-reduces of 1 MiB float32. */
void job_call(struct job *job, unsigned rank, uint64_t id, unsigned n, double at_s);
void job_call_as(struct job *job, unsigned rank, uint64_t id, double at_s, uint8_t func,
                 uint64_t count, uint8_t dtype, int32_t root);
/* The newest call is in flight with `ended` of `started` kernel channels. */
void job_open(struct job *job, unsigned rank, uint64_t id, unsigned started, unsigned ended);
/* Everything launched, and all of it ended. */
void job_idle(struct job *job, unsigned rank, uint64_t id);
/* The n-th send to or receive from a peer. */
void job_p2p(struct job *job, unsigned rank, uint64_t id, bool send, int32_t peer, uint64_t n,
             double at_s, bool open);
/* It went `at_s` after the begin. */
void job_gone(struct job *job, unsigned rank, double at_s, enum muster_process_state how);

/* Hands a view of it to `take`, which goes when that returns. */
void job_with_view(const struct job *job, void (*take)(void *arg, const struct muster_view *view),
                   void *arg);
/* Where everybody is. The caller frees. */
struct muster_whereabouts job_whereabouts(const struct job *job);
/* Threshold of 10 s. The caller frees. */
struct muster_findings job_findings(const struct job *job);
/* The same of a job that is over, and who went first. */
struct muster_findings job_first(const struct job *job);
/* Exactly one finding, of this kind, which names exactly this rank (-1: none). */
void job_expect(const struct job *job, enum muster_finding_kind kind, int32_t rank);
void job_expect_none(const struct job *job);

#endif
