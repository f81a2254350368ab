/* Which case a seed is. */
#include <inttypes.h>
#include <string.h>

#include "draw.h"
#include "generate.h"

enum { GPUS_A_HOST = 8 };

static unsigned draw_ranks(struct draw *draw, const struct model *model, bool large)
{
    static const unsigned few[] = {2, 3, 4, 4, 5, 6, 8, 8, 12, 16};
    static const unsigned many[] = {32, 64, 128, 256, 512, 1024};
    unsigned ranks = large ? many[draw_below(draw, 6)] : few[draw_below(draw, 10)];
    if (model->position[0].group != GROUP_WORLD || model->sockets)
        ranks = ranks < 4 ? 4 : ranks / 2 * 2;
    return ranks;
}

/* Two at most: fewer than half of those that are seen, and not both of a pair, where nobody is left
 * to compare them with. */
static void draw_culprit(struct draw *draw, struct scenario *to)
{
    bool pairs = to->model->position[0].group != GROUP_WORLD;
    unsigned least = pairs ? 8 : 5;
    to->n_culprits = to->ranks - to->hidden >= least && draw_chance(draw, 0.2) ? 2 : 1;
    to->culprit[0] = draw_below(draw, to->ranks);
    do {
        to->culprit[1] = draw_below(draw, to->ranks);
    } while (to->culprit[1] / (pairs ? 2 : 1) == to->culprit[0] / (pairs ? 2 : 1));
}

/* The ring goes from the last rank of a node to the first of the next. */
static void draw_link(struct draw *draw, struct scenario *to)
{
    unsigned half = to->ranks / 2;
    bool back = draw_chance(draw, 0.5);
    to->n_culprits = 2;
    to->culprit[0] = back ? to->ranks - 1 : half - 1;
    to->culprit[1] = back ? 0 : half;
    to->factor = draw_log(draw, 4, 40);
}

static void draw_late(struct draw *draw, struct scenario *to)
{
    static const double shares[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 1, 1, 1};
    draw_culprit(draw, to);
    to->delay_ns = (uint64_t)draw_log(draw, 50e3, 100e6);
    to->share = shares[draw_below(draw, 10)];
    to->everywhere = draw_chance(draw, 0.4);
    to->position = draw_below(draw, to->model->positions);
    to->host = draw_chance(draw, 0.4);
    to->culprit_hidden = to->hidden && to->n_culprits == 1 && draw_chance(draw, 0.2);
}

void scenario_draw(const struct models *models, uint64_t seed, bool large, struct scenario *to)
{
    struct draw draw = {.state = seed * 2 + large};
    memset(to, 0, sizeof *to);
    draw_u64(&draw);
    to->seed = seed;
    to->model = &models->model[draw_below(&draw, models->n)];
    to->ranks = draw_ranks(&draw, to->model, large);
    to->blocks = !large && draw_chance(&draw, 0.2);
    unsigned ops = to->blocks ? 20000 + draw_below(&draw, 20000)
                   : large    ? 250 + draw_below(&draw, 250)
                              : 100 + draw_below(&draw, 900);
    to->steps = ops / to->model->positions + 2;
    to->dropped = draw_chance(&draw, 0.25) ? draw_log(&draw, 0.0005, 0.05) : 0;
    to->hidden =
        to->ranks > 3 && draw_chance(&draw, 0.2) ? 1 + draw_below(&draw, to->ranks / 2 - 1) : 0;
    to->pause_every = draw_chance(&draw, 0.2) ? 10 + draw_below(&draw, 100) : 0;
    double kind = draw_unit(&draw);
    if (to->model->sockets && !large && kind < 0.4) {
        to->fault = FAULT_SLOW;
        to->hidden = 0;
        draw_link(&draw, to);
    } else if (kind < 0.7) {
        to->fault = FAULT_LATE;
        draw_late(&draw, to);
    } else if (kind < 0.82) {
        to->jitter = true;
        to->delay_ns = (uint64_t)draw_log(&draw, 50e3, 100e6);
        to->position = draw_below(&draw, to->model->positions);
    }
    to->burst = 1;
    if (to->jitter && draw_chance(&draw, 0.5))
        to->burst = 1 + draw_below(&draw, to->steps / 20 + 1);
    /* As trainings do: gradients of data-parallel groups overlap, hosts are slow to feed small
     * operations. */
    bool world = to->model->position[0].group == GROUP_WORLD && !to->model->sockets;
    /* What overlapped in a recording shows the rest of its computing only. */
    to->overlap = world && strncmp(to->model->name, "fsdp", 4) != 0 && draw_chance(&draw, 0.3);
    to->host_bound = world && to->fault == FAULT_NONE && !to->jitter && draw_chance(&draw, 0.4);
}

void scenario_print(const struct scenario *s, FILE *out)
{
    fprintf(out, "seed %" PRIu64 ": %s, %u ranks (%u hidden), %u steps", s->seed, s->model->name,
            s->ranks, s->hidden, s->steps);
    if (s->fault == FAULT_LATE) {
        fprintf(out, ", late %u", s->culprit[0]);
        if (s->n_culprits > 1)
            fprintf(out, "+%u", s->culprit[1]);
        fprintf(out, " by %.0f us in %.0f %% of %s%s%s", (double)s->delay_ns / 1e3, 100 * s->share,
                s->everywhere ? "all operations" : "one position", s->host ? ", host" : "",
                s->culprit_hidden ? ", not seen" : "");
    } else if (s->fault == FAULT_SLOW) {
        fprintf(out, ", slow %u to %u by %.1f", s->culprit[0], s->culprit[1], s->factor);
    } else if (s->jitter) {
        fprintf(out, ", jitter %.0f us for %u steps", (double)s->delay_ns / 1e3, s->burst);
    }
    fprintf(out, "%s%s%s%s", s->blocks ? ", blocks" : "", s->pause_every ? ", checkpoints" : "",
            s->overlap ? ", overlap" : "", s->host_bound ? ", host-bound" : "");
    if (s->dropped > 0)
        fprintf(out, ", %.2f %% dropped", 100 * s->dropped);
}
