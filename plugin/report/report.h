/*
 * The per-rank timing report of a run as plain rows: pure, from its view. Fields
 * and definitions are those of docs/reference/report.md. The rows are flat, so that one table of
 * columns (report/columns.h) can print them as text, JSON and CSV.
 *
 * Absent values: NAN in doubles, -1 in int64_t, NULL in strings. Strings belong to the run, which
 * has to outlive the report.
 */
#ifndef MUSTER_REPORT_REPORT_H
#define MUSTER_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "view/view.h"

/* What one row of `op` stands for. */
enum muster_report_by {
    MUSTER_BY_OP,        /* communicator, function, size class, algorithm, protocol; of sends and
                            receives also rank and peer */
    MUSTER_BY_COMM,      /* communicator */
    MUSTER_BY_SIZE,      /* function and size class, over all communicators */
    MUSTER_BY_RANK_SIZE, /* global rank, function and size class */
};

struct muster_report_rank {
    int64_t rank;
    const char *rank_source; /* "env" or "comm" */
    const char *host;
    const char *host_text; /* for people: the hostname, where the identity only adds to it */
    uint64_t pid;
    int64_t local_rank;
    int64_t gpu_index;
    const char *gpu_pci;
    const char *gpu_uuid;
    char gpu_uuid_start[16]; /* as much of it as CUDA_VISIBLE_DEVICES needs; "": not known */
    const char *gpu_uuid_text;
    const char *slurm_job, *slurm_step;
    const char *recorded_by; /* "0.2.0 (commit 0123456789ab)" */
    char nccl_text[16];
    const char *nccl; /* "2.28.9" */
    uint64_t ops, bytes;
    uint64_t graph_ops; /* of ops: replayed from CUDA graphs */
    uint64_t captured;  /* calls recorded into graphs, not in ops */
    uint64_t api_only;  /* of ops: seen as a call only */
    double busy_us, wait_us, late_us, p50_us, p99_us;
    /* The same sums as they would be if all operations had been timed: an estimate. */
    double busy_run_us, wait_run_us, late_run_us;
    const char *source;
    uint64_t timed_ops; /* by `source` */
    uint64_t to_itself; /* of ops: sends and receives to itself, which have no times */
    double share;       /* timed_ops / (ops - to_itself) */
    uint64_t joint_ops; /* of ops: compared with the other ranks */
    double cost_s;      /* of timing, by muster's own prices; NAN: a replay, which times nothing */
    double
        cost_share; /* of the time that the process was seen; NAN: also where that is not known */
    uint64_t drops[MUSTER_DROPS];
    uint64_t lost_log;
    char replay_text[16];
    const char *replay; /* speed of a replay: "10", "max"; NULL: a live job */
    uint64_t drops_total;
    const char *exit;

    /* Left to whoever knows findings: verdict/verdict.h. */
    unsigned named;      /* 1: named by the first finding, ...; 0: by none */
    const char *verdict; /* "holds the others back", "waits for rank 2"; NULL: neither */
    char verdict_text[40];

    const struct muster_process *process;
    bool first_of_process; /* counts that NCCL does not tie to a GPU stand here */
};

/* A communicator as all its recorded ranks together show it. */
struct muster_report_comm {
    uint64_t id;      /* 0: `other`, or an old interface that has none */
    const char *name; /* NULL: none */
    uint64_t nranks;  /* 0: not known */
    uint64_t nnodes;
    uint64_t seen;       /* ranks recorded */
    bool duplicate_rank; /* a rank was recorded twice: not compared */
    bool full;           /* every rank is seen */
    uint64_t ops;
};

struct muster_report_op {
    uint64_t comm; /* id; 0: absent */
    const char *comm_name;
    uint64_t nranks, nnodes; /* 0: absent, or not the same in all of the row */
    uint64_t ranks_seen;
    const char *func;
    uint64_t size; /* lower bound of the size class */
    const char *algo, *proto;
    uint64_t channels;
    int64_t rank, peer; /* in the communicator, sends and receives only; MUSTER_BY_RANK_SIZE: the
                           global rank */
    const char *host;   /* MUSTER_BY_RANK_SIZE only */
    uint64_t count, bytes;
    uint64_t graph_ops, api_only;
    const char *source;
    uint64_t timed_ops;
    double total_us; /* sum of the durations of `source` */
    double p50_us, p99_us, algbw_gbs, busbw_gbs, transfer_p50_us;
};

struct muster_report_net {
    uint64_t comm;
    const char *comm_name;
    int64_t rank, peer;
    bool send;
    uint64_t count, bytes;
    double gpu_wait_us, credit_wait_us, net_wait_us, flush_us;
};

/* What ran where a rule of a policy decides: a row for each rule, and more where several things
 * ran. The rows of a rule follow each other; the first holds what the tuner counted. */
struct muster_report_rule {
    const char *sha256; /* of the document with the policy, hex */
    const char *state;
    uint64_t processes;  /* with this policy in this state */
    const char *rule;    /* NULL: the policy is off */
    int64_t line;        /* of the rule; -1: not known */
    int64_t hits;        /* times that it decided when NCCL asked; -1: not in this row */
    int64_t not_offered; /* of them: NCCL offered nothing of what it keeps */
    const char *algo, *proto;
    uint64_t channels; /* 0: not shown, or nothing ran */
    int64_t count;     /* operations; -1: not known */
};

/* What was called under one tag of the job's own (interface v7), all processes together. */
struct muster_report_tag {
    uint64_t tag; /* 0: of all tags for which a process had no room */
    uint64_t processes;
    uint64_t count, bytes;
    uint64_t timed_ops; /* of the operations known one by one: by the GPUs' own clocks */
    double total_us, p50_us, p99_us; /* of those */
};

struct muster_report {
    struct muster_arena memory; /* of all that follows; whoever adds rows checks it */
    const struct muster_run *run;
    enum muster_report_by by;
    struct muster_report_rank *rank; /* in the order of the run's processes, then GPUs */
    size_t ranks;
    struct muster_report_comm *comm; /* the first is `other` */
    size_t comms;
    struct muster_report_op *op; /* longest total time first, then most bytes */
    size_t ops;
    struct muster_report_net *net;
    size_t nets;
    struct muster_report_rule
        *rule; /* left to whoever knows policies: policy/offline/report_rules.h */
    size_t rules;
    struct muster_report_tag *tag; /* by tag */
    size_t tags;
    const char **gap; /* what could not be seen and why: sentences without full stop */
    size_t gaps;
    uint64_t joint;      /* operations timed on all ranks that are seen, each counted once */
    uint64_t mismatched; /* left out of them: ranks called different things */
};

/* Of a view of a run, aligned at least; the run has to outlive the report, the view need not.
 * Fails only when memory runs out. */
int muster_report_build(const struct muster_view *view, enum muster_report_by by,
                        struct muster_report *report, struct muster_err *err);
void muster_report_free(struct muster_report *report);
__attribute__((format(printf, 2, 3))) void muster_report_add_gap(struct muster_report *report,
                                                                 const char *fmt, ...);

#endif
