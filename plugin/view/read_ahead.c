#include "view/read_ahead.h"

#include <stdlib.h>
#include <string.h>

#include "run/beside_work.h"

enum { PIECES = 4, PIECE_OPS = 8192 };

struct piece {
    struct muster_op *op;
    size_t n;
    bool last; /* of its process; then: */
    int result;
    struct muster_err err;
};

struct muster_read_ahead {
    const struct muster_run *run;
    struct muster_beside reader;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct piece piece[PIECES]; /* the n-th in n % PIECES: who has not given it on owns it */
    size_t read, taken;         /* how many were given on; under `lock` */
    bool stopped;               /* the same: no more are wanted */
};

/* The next that may be filled; NULL: none is wanted. */
static struct piece *wait_for_room(struct muster_read_ahead *ahead)
{
    pthread_mutex_lock(&ahead->lock);
    while (ahead->read - ahead->taken == PIECES && !ahead->stopped)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    struct piece *piece = ahead->stopped ? NULL : &ahead->piece[ahead->read % PIECES];
    pthread_mutex_unlock(&ahead->lock);
    return piece;
}

static struct piece *wait_for_piece(struct muster_read_ahead *ahead)
{
    pthread_mutex_lock(&ahead->lock);
    while (ahead->read == ahead->taken)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    pthread_mutex_unlock(&ahead->lock);
    return &ahead->piece[ahead->taken % PIECES];
}

static void give_on(struct muster_read_ahead *ahead, size_t *pieces)
{
    pthread_mutex_lock(&ahead->lock);
    ++*pieces;
    pthread_cond_signal(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
}

static bool put(void *to, const struct muster_op *op, size_t n)
{
    struct muster_read_ahead *ahead = to;
    struct piece *piece = NULL;
    for (size_t at = 0; at < n && (piece = wait_for_room(ahead)); at += piece->n) {
        piece->n = n - at < PIECE_OPS ? n - at : PIECE_OPS;
        piece->last = false;
        memcpy(piece->op, op + at, piece->n * sizeof *op);
        give_on(ahead, &ahead->read);
    }
    return n == 0 || piece;
}

static void read_all(void *arg)
{
    struct muster_read_ahead *ahead = arg;
    struct piece *piece = NULL;
    size_t p = 0;
    do {
        struct muster_err err;
        int result = muster_process_read_ops(&ahead->run->process[p], put, ahead, &err);
        piece = wait_for_room(ahead);
        if (piece) {
            piece->n = 0;
            piece->last = true;
            piece->result = result;
            if (result != 0)
                piece->err = err;
            give_on(ahead, &ahead->read);
        }
    } while (piece && ++p < ahead->run->processes);
}

static void free_all(struct muster_read_ahead *ahead)
{
    for (size_t i = 0; i < PIECES; i++)
        free(ahead->piece[i].op);
    pthread_mutex_destroy(&ahead->lock);
    pthread_cond_destroy(&ahead->changed);
    free(ahead);
}

struct muster_read_ahead *muster_read_ahead_begin(const struct muster_run *run)
{
    bool wanted = muster_beside_is_permitted() && run->processes > 1;
    struct muster_read_ahead *ahead = wanted ? calloc(1, sizeof *ahead) : NULL;
    if (!ahead)
        return NULL;
    bool whole = true;
    ahead->run = run;
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->changed, NULL);
    for (size_t i = 0; i < PIECES; i++) {
        ahead->piece[i].op = malloc(PIECE_OPS * sizeof *ahead->piece[i].op);
        whole = whole && ahead->piece[i].op;
    }
    if (whole)
        muster_beside_begin(&ahead->reader, read_all, ahead);
    if (ahead->reader.started)
        return ahead;
    free_all(ahead);
    return NULL;
}

int muster_read_ahead_next(struct muster_read_ahead *ahead, muster_op_taker take, void *to,
                           struct muster_err *err)
{
    bool wanted = true, last = false;
    int result = 0;
    while (!last) {
        const struct piece *piece = wait_for_piece(ahead);
        wanted = wanted && (piece->n == 0 || take(to, piece->op, piece->n));
        last = piece->last;
        if (last && piece->result != 0) {
            result = piece->result;
            *err = piece->err;
        }
        give_on(ahead, &ahead->taken);
    }
    return result;
}

void muster_read_ahead_end(struct muster_read_ahead *ahead)
{
    if (!ahead)
        return;
    pthread_mutex_lock(&ahead->lock);
    ahead->stopped = true;
    pthread_cond_signal(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    muster_beside_end(&ahead->reader);
    free_all(ahead);
}
