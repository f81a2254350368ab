/*
 * Messages that wait for the server's word that it has them: in order, a minute and 64 MiB at most.
 * What is refused or not answered is sent again, after everything in flight has been answered. No
 * thread of its own; the caller locks.
 */
#ifndef MUSTER_FLEET_NATS_OUTBOX_H
#define MUSTER_FLEET_NATS_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUSTER_OUTBOX_KEPT_NS   60000000000ull
#define MUSTER_OUTBOX_ANSWER_NS 2000000000ull /* who has not answered by then does not */
enum { MUSTER_OUTBOX_BYTES = 64 << 20, MUSTER_OUTBOX_FLYING = 128 };

struct muster_letter {
    uint64_t id; /* ever growing */
    uint64_t made_ns, sent_ns;
    char *subject;
    void *data; /* owned */
    size_t bytes;
    enum { MUSTER_LETTER_WAITS, MUSTER_LETTER_FLIES, MUSTER_LETTER_THERE } state;
};

struct muster_outbox {
    struct muster_letter *letter; /* by id */
    size_t n, room, bytes, flying;
    uint64_t next_id;
    uint64_t there, lost; /* ever */
    bool again;           /* something failed: what flies is waited for first */
};

/* Takes `data` over. False: no memory, it is counted as lost. */
bool muster_outbox_add(struct muster_outbox *outbox, const char *subject, void *data, size_t bytes,
                       uint64_t now_ns);
/* Forgets what is too old or too much. */
void muster_outbox_trim(struct muster_outbox *outbox, uint64_t now_ns);
/* The next one to send, which flies from now on; NULL: none for now. Good until the next call. */
struct muster_letter *muster_outbox_next(struct muster_outbox *outbox, uint64_t now_ns);
/* The server's word on one; an unknown id passes. */
void muster_outbox_answer(struct muster_outbox *outbox, uint64_t id, bool taken);
/* Whether one has flown for too long. */
bool muster_outbox_overdue(const struct muster_outbox *outbox, uint64_t now_ns);
/* Nothing flies any more: the connection began anew, or nobody answers. */
void muster_outbox_recall(struct muster_outbox *outbox);
size_t muster_outbox_waiting(const struct muster_outbox *outbox);
void muster_outbox_free(struct muster_outbox *outbox);

#endif
