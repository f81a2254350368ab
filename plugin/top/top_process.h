/* One process of a job as `muster top` follows it from look to look. Between top_host.c and
 * top_process.c only. */
#ifndef MUSTER_TOP_TOP_PROCESS_H
#define MUSTER_TOP_TOP_PROCESS_H

#include "agent/agent_job.h"
#include "top/top.h"

/* The newest send or receive of a communicator. */
struct muster_top_send {
    uint64_t number, count;
    int32_t peer; /* in the communicator */
    uint8_t func; /* MUSTER_FUNC_UNKNOWN: too short to have been seen */
    uint8_t dtype;
};

/* A communicator of the process. */
struct muster_top_part {
    uint64_t id;
    uint32_t uid;
    char name[MUSTER_TOP_NAME];
    int32_t rank; /* in it */
    uint32_t nranks;
    uint64_t calls, called_ns, moved_ns; /* moved: the newest call, end or begin */
    struct muster_seg_call call;         /* the newest collective */
    bool sends;                          /* the newest call is a send or receive, `send` */
    bool asks;                           /* which one has to be looked for */
    struct muster_top_send send;
    double ops_s; /* calls */
};

struct muster_top_process {
    char path[MUSTER_SEG_PATH + 300];
    struct muster_seg_identity who;
    bool alive;
    uint64_t look; /* of top_host.c: the last one that saw it */
    uint64_t next; /* what has been seen of its ring */
    int32_t gpu;
    uint64_t seen_ns; /* the last look that found it living; monotonic */
    uint64_t retired; /* operations, over all communicators */
    double ops_s;
    struct muster_top_part *part;
    size_t parts;
    struct muster_top_class *class;
    size_t classes;
    struct muster_rank_cost compared;
    double trend[MUSTER_TOP_TREND];
    unsigned trends;
};

/* Takes the first `entries` of a table of calls that was read at `now_ns`. False: no memory. */
bool muster_top_process_take(struct muster_top_process *process,
                             const struct muster_segment *segment, unsigned entries,
                             uint64_t now_ns);
/* Whether a newest call is a send that has to be looked for: a table of calls does not name it. */
bool muster_top_process_asks(const struct muster_top_process *process);
/* Looks for it in what is in flight, and in what retired since. */
void muster_top_process_take_sends(struct muster_top_process *process,
                                   const struct muster_segment *flight, const struct muster_op *op,
                                   size_t ops);
/* Takes the sums of operations of a segment. False: no memory. */
bool muster_top_process_take_rows(struct muster_top_process *process,
                                  const struct muster_segment *segment);
/* Takes what the process lost, and made others lose, since it is watched. */
void muster_top_process_compare(struct muster_top_process *process,
                                const struct muster_rank_cost *compared);
/* Its newest part; NULL: it is in no communicator. */
const struct muster_top_part *muster_top_process_newest(const struct muster_top_process *process);
void muster_top_process_free(struct muster_top_process *process);

#endif
