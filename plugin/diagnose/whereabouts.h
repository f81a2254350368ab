/* Where every rank of a job is at this moment: what it called last, and for whom it waits there. */
#ifndef MUSTER_DIAGNOSE_WHEREABOUTS_H
#define MUSTER_DIAGNOSE_WHEREABOUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/terminal.h"
#include "run/run.h"
#include "view/view.h"

enum muster_where {
    MUSTER_WHERE_WAITS,   /* in its last call, or in one before it, which has not ended */
    MUSTER_WHERE_CALLS,   /* inside the call itself: NCCL has not returned, or launched nothing */
    MUSTER_WHERE_OUTSIDE, /* all that it called has ended */
    MUSTER_WHERE_CALLED,  /* whether its last call has ended cannot be seen */
    MUSTER_WHERE_NOT_YET, /* has called nothing */
    MUSTER_WHERE_GONE,    /* its process is over */
};

struct muster_whereabout {
    int32_t rank; /* global; -1: not known */
    uint32_t pid;
    const char *host; /* in the run's memory */
    int32_t gpu;      /* -1: not known */
    enum muster_process_state state;
    enum muster_where where;
    uint64_t comm;   /* of the last call; 0: none */
    char call[64];   /* "AllReduce #76 (4 MiB)"; "" none */
    char in[64];     /* the call before it that it waits in; "": its last one, or not known */
    double since_s;  /* since its last call; NAN: not known */
    char waits[96];  /* ranks that have not come to it: "1", "1, 5 and 3 more"; "": all are there */
    uint32_t unseen; /* ranks that it waits for, too, unless they came: nobody sees them */
};

struct muster_whereabouts {
    struct muster_whereabout *rank; /* by rank, those that are gone last */
    size_t n;
};

/* Of all ranks of the view's run. The view has to outlive it. Free it in any case. */
int muster_whereabouts_of(const struct muster_view *view, struct muster_whereabouts *all,
                          struct muster_err *err);
void muster_whereabouts_free(struct muster_whereabouts *all);

/* "AllReduce #76 (4 MiB)", in which it is if it is in one. */
const char *muster_whereabout_in(const struct muster_whereabout *one);
/* For whom it waits there: "rank 1", "ranks 1, 5 and 3 more", "rank 1 or one of 2 not seen"; "":
 * for nobody. */
void muster_whereabout_for(const struct muster_whereabout *one, char *to, size_t size);
/* "in it for 3.2 s, waiting for rank 1" */
void muster_whereabout_text(const struct muster_whereabout *one, char *to, size_t size);
/* Each of the first `top` ranks; 0: of all. Where lines would be too long, without the column of
 * last calls and in several lines: what a rank does is never cut. */
void muster_whereabouts_print(const struct muster_whereabouts *all, size_t top,
                              const struct muster_terminal *terminal, FILE *out);
/* An object each, into an open array. `job`, unless NULL, is named in each of them. */
void muster_whereabouts_json(const struct muster_whereabouts *all, const char *job,
                             struct muster_json *json);

#endif
