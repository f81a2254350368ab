#include "hosts_cost.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "doctor/hosts/hosts_member.h"
#include "doctor/hosts/hosts_patience.h"

/* Places of which each is free again at a time; the first that is free is the heap's root. */
struct queue {
    double free_ms[MUSTER_HOSTS_CONNECTS];
    unsigned places;
    double last_ms;
};

static void sink(struct queue *queue)
{
    unsigned at = 0;
    for (;;) {
        unsigned least = at;
        for (unsigned below = 2 * at + 1; below <= 2 * at + 2 && below < queue->places; below++)
            if (queue->free_ms[below] < queue->free_ms[least])
                least = below;
        if (least == at)
            return;
        double kept = queue->free_ms[at];
        queue->free_ms[at] = queue->free_ms[least];
        queue->free_ms[least] = kept;
        at = least;
    }
}

/* Takes the next place for so long. When it is free again. */
static double take_place(struct queue *queue, double ms)
{
    double end_ms = queue->free_ms[0] + ms;
    queue->free_ms[0] = end_ms;
    sink(queue);
    queue->last_ms = end_ms > queue->last_ms ? end_ms : queue->last_ms;
    return end_ms;
}

double hosts_cost_connect_ms(const struct hosts_cost_ends *ends, unsigned timeout_ms)
{
    struct queue queue = {.places = MUSTER_HOSTS_CONNECTS};
    double *silent_ms = calloc(ends->n, sizeof *silent_ms); /* since when its first port is known */
    for (unsigned target = 0; silent_ms && target < ends->targets; target++)
        for (unsigned k = 1; k < ends->n; k++) {
            unsigned peer = (ends->member + k) % ends->n;
            bool silent = ends->end(ends->self, peer, target) == MUSTER_HOSTS_SILENT;
            bool known = target && silent_ms[peer] > 0 && silent_ms[peer] <= queue.free_ms[0];
            double wait_ms = (double)timeout_ms / (known ? MUSTER_HOSTS_IMPATIENCE : 1);
            double end_ms = take_place(&queue, silent ? wait_ms : HOSTS_COST_ANSWER_MS);
            if (target == 0 && silent)
                silent_ms[peer] = end_ms;
        }
    free(silent_ms);
    return queue.last_ms;
}

static double datagram_ms(char end)
{
    enum { LOST_MS = MUSTER_HOSTS_TRIES * MUSTER_HOSTS_TRY_MS };
    switch (end) {
    case MUSTER_HOSTS_REACHED:
        return HOSTS_COST_ANSWER_MS;
    case MUSTER_HOSTS_SMALLER: /* the full ones are lost, a small one is not */
        return LOST_MS + HOSTS_COST_ANSWER_MS;
    case MUSTER_HOSTS_SILENT:
        return LOST_MS * 2;
    default:
        return 0;
    }
}

double hosts_cost_datagrams_ms(const struct hosts_cost_ends *ends)
{
    struct queue queue = {.places = MUSTER_HOSTS_DATAGRAMS};
    for (unsigned k = 1; k < ends->n; k++)
        for (unsigned target = 0; target < ends->targets; target++)
            take_place(&queue,
                       datagram_ms(ends->end(ends->self, (ends->member + k) % ends->n, target)));
    return queue.last_ms;
}

double hosts_cost_rounds_ms(const int *partner, unsigned rounds, unsigned n, unsigned ms)
{
    double *free_ms = calloc(n, sizeof *free_ms), last_ms = 0;
    for (unsigned i = 0; free_ms && i < rounds * n; i++) {
        unsigned self = i % n, peer = (unsigned)partner[i];
        if (partner[i] < 0 || peer < self)
            continue;
        double begin_ms = free_ms[self] > free_ms[peer] ? free_ms[self] : free_ms[peer];
        double end_ms = begin_ms + HOSTS_COST_ANSWER_MS + 2.0 * ms + MUSTER_HOSTS_TAIL_MS;
        free_ms[self] = free_ms[peer] = end_ms;
        last_ms = end_ms > last_ms ? end_ms : last_ms;
    }
    free(free_ms);
    return last_ms;
}
