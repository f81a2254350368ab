/* Who this process is: from the environment, the host and the kernel; later also from its
 * communicators. */
#ifndef MUSTER_SEGMENT_IDENTITY_H
#define MUSTER_SEGMENT_IDENTITY_H

#include <stdbool.h>

#include "segment/layout.h"
#include "segment/run_dir.h"

/* Fills everything that is known before the first communicator; run_dir stays empty (segment/
 * run_dir.h). Rank and world of a launcher count only together: without either, rank and world are
 * -1 and the source is `comm`. Reads the environment; at set-up only. */
void muster_identity_read(struct muster_seg_identity *identity);

/* The launcher's rank alone, for `muster run` as one of several; -1: none. */
int32_t muster_identity_launcher_rank(void);

enum muster_rank_news {
    MUSTER_RANK_KNOWN,        /* nothing new */
    MUSTER_RANK_LEARNED,      /* this is the largest communicator so far */
    MUSTER_RANK_CONTRADICTED, /* and the environment had another: at most once a process */
};

/* A communicator of `nranks` in which this process is `rank`. Where no launcher does, the largest
 * communicator does; it also overrules a launcher whose world is smaller, or who gave this process
 * another rank in a world of the same size, because that is how two processes come to have one
 * rank. `settled`: the process's, false at first; a communicator of the whole world had the same.
 */
enum muster_rank_news muster_identity_learn(struct muster_seg_identity *identity, bool *settled,
                                            int32_t nranks, int32_t rank);

/* Where in the run directory a file of the process lies or will: ".seg" or ".log". */
void muster_identity_file(const struct muster_seg_identity *who, const char *suffix, char *to,
                          size_t size);

/* The host for people: the hostname, where the identity only adds to it. */
const char *muster_identity_host_text(const struct muster_seg_identity *who);

#endif
