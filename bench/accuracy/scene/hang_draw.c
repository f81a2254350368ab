/* Which case a seed is. */
#include <inttypes.h>
#include <string.h>

#include "hang_scene_job.h"

enum layout { PLAIN, SHARDED, GROUPS, TWO, CHAIN, LAYOUTS };

static const char *const fault_word[HANG_FAULTS] = {
    "running",     "pause",        "short pause", "arrived",  "finished",
    "interrupted", "harmless",     "absent",      "dead",     "differs",
    "extra call",  "skipped call", "stuck",       "gpu busy", "order",
};
static const char *const proof_word[HANG_PROOFS] = {"none", "marks", "blocks", "kernels"};

const char *hang_fault_name(enum hang_fault fault)
{
    return fault_word[fault];
}

const char *hang_proof_name(enum hang_proof proof)
{
    return proof_word[proof];
}

static struct hang_position draw_position(struct draw *draw, unsigned stream)
{
    static const uint8_t funcs[] = {MUSTER_FUNC_ALL_REDUCE, MUSTER_FUNC_ALL_REDUCE,
                                    MUSTER_FUNC_ALL_GATHER, MUSTER_FUNC_REDUCE_SCATTER,
                                    MUSTER_FUNC_BROADCAST};
    static const uint8_t types[] = {MUSTER_DTYPE_FLOAT32, MUSTER_DTYPE_BFLOAT16};
    struct hang_position position = {
        .stream = (uint8_t)stream,
        .func = funcs[draw_below(draw, 5)],
        .dtype = types[draw_below(draw, 2)],
        .count = draw_chance(draw, 0.2) ? 1 : (uint64_t)draw_log(draw, 100, 1e8),
        .work_ns = draw_log(draw, 5e3, 2e6),
        .transfer_ns = draw_log(draw, 1e4, 1e6),
    };
    return position;
}

static void draw_positions(struct draw *draw, enum layout layout, struct hang_case *to)
{
    static const unsigned streams[LAYOUTS][4] = {
        [PLAIN] = {HANG_WORLD, HANG_WORLD, HANG_WORLD, HANG_WORLD},
        [SHARDED] = {HANG_WORLD, HANG_WORLD, HANG_WORLD, HANG_WORLD},
        [GROUPS] = {HANG_TP, HANG_TP, HANG_DP, HANG_TP},
        [TWO] = {HANG_WORLD, HANG_SECOND, HANG_WORLD, HANG_SECOND},
    };
    to->positions = 2 + draw_below(draw, 8);
    for (unsigned p = 0; p < to->positions; p++)
        to->position[p] = draw_position(draw, streams[layout][p % 4]);
    if (layout == CHAIN) {
        static const uint8_t chain[] = {HANG_RECV_ON, HANG_SEND_ON, HANG_RECV_BACK, HANG_SEND_BACK};
        to->positions = 4 * (1 + draw_below(draw, 3));
        for (unsigned p = 0; p < to->positions; p++) {
            to->position[p] = draw_position(draw, chain[p / (to->positions / 4)]);
            to->position[p].count = 1 << 20;
            to->position[p].dtype = MUSTER_DTYPE_BFLOAT16;
            to->position[p].func =
                p / (to->positions / 4) % 2 ? MUSTER_FUNC_SEND : MUSTER_FUNC_RECV;
        }
    }
    if ((layout == GROUPS || layout == CHAIN) && draw_chance(draw, 0.7))
        to->position[to->positions++] = draw_position(draw, HANG_WORLD);
    for (unsigned p = 0; p + 1 < to->positions; p++) {
        to->position[p].sync = draw_chance(draw, 0.1);
        to->position[p].grouped = to->position[p].stream == to->position[p + 1].stream &&
                                  to->position[p].stream < HANG_COMMS && draw_chance(draw, 0.1);
    }
    to->position[0].sync |= draw_chance(draw, 0.7);
}

static void draw_job(struct draw *draw, bool large, enum layout layout, struct hang_case *to)
{
    static const unsigned few[] = {2, 3, 4, 4, 6, 8, 8, 12, 16};
    static const unsigned many[] = {32, 64, 128, 256, 512, 1024};
    to->ranks = large ? many[draw_below(draw, 6)] : few[draw_below(draw, 9)];
    to->tp = 2;
    if (layout == GROUPS) {
        to->ranks = to->ranks < 4 ? 4 : to->ranks / 2 * 2;
        to->tp = to->ranks % 4 == 0 && to->ranks > 4 && draw_chance(draw, 0.5) ? 4 : 2;
    }
    to->hosts = large ? to->ranks / 8 : to->ranks % 2 == 0 && draw_chance(draw, 0.3) ? 2 : 1;
    draw_positions(draw, layout, to);
    unsigned calls = large ? 20 + draw_below(draw, 60) : (unsigned)draw_log(draw, 8, 1200);
    to->steps = calls / to->positions + 2;
    to->serial = draw_chance(draw, 0.5);
    to->ahead = (unsigned)draw_log(draw, 1, 200);
}

static enum hang_fault draw_fault(struct draw *draw)
{
    static const uint8_t faults[] = {
        HANG_NOTHING,   HANG_PAUSE,       HANG_SHORT_PAUSE, HANG_ARRIVED, HANG_FINISHED,
        HANG_FINISHED,  HANG_INTERRUPTED, HANG_HARMLESS,    HANG_ABSENT,  HANG_ABSENT,
        HANG_ABSENT,    HANG_DEAD,        HANG_DEAD,        HANG_DEAD,    HANG_DIFFERENT,
        HANG_DIFFERENT, HANG_EXTRA,       HANG_SKIPPED,     HANG_STUCK,   HANG_STUCK,
        HANG_STUCK,     HANG_GPU_BUSY,    HANG_ORDER,       HANG_ORDER,
    };
    return (enum hang_fault)faults[draw_below(draw, sizeof faults)];
}

/* One, or now and then several that take the same wrong turn; always fewer than all. */
static void draw_culprit(struct draw *draw, struct hang_case *to)
{
    bool several = to->ranks >= 3 && draw_chance(draw, 0.2);
    unsigned most = to->ranks - 1 < HANG_CULPRIT_MAX ? to->ranks - 1 : HANG_CULPRIT_MAX;
    unsigned wanted = several ? 1 + draw_below(draw, most) : 1;
    /* In a chain, who stops behind another that stopped waits for it. */
    bool one_only = hang_is_p2p(to->position[0].stream) || to->fault == HANG_STUCK ||
                    to->fault == HANG_SHORT_PAUSE || to->fault == HANG_ARRIVED ||
                    to->fault == HANG_GPU_BUSY;
    wanted = one_only ? 1 : wanted;
    while (to->n_culprits < wanted) {
        unsigned rank = draw_below(draw, to->ranks);
        if (!hang_is_culprit(to, rank))
            to->culprit[to->n_culprits++] = rank;
    }
}

/* A place where the fault can be: a collective to differ in, two neighbours to swap. */
static void draw_place(struct draw *draw, struct hang_case *to)
{
    unsigned step = draw_below(draw, (to->steps * 3 + 3) / 4);
    unsigned position = draw_below(draw, to->positions);
    bool collective = to->fault == HANG_DIFFERENT || to->fault == HANG_EXTRA ||
                      to->fault == HANG_SKIPPED || to->fault == HANG_HARMLESS;
    if (to->fault == HANG_PAUSE) {
        position = 0;
        to->position[0].sync = true;
    }
    if (to->fault == HANG_ORDER) {
        position = position + 1 < to->positions ? position : 0;
        to->position[position + 1].sync = false;
        to->position[position].grouped = to->position[position + 1].grouped = false;
        to->serial = true;
        to->ahead += 2;
    }
    /* A kernel that several calls share waits for all of them: kept simple. */
    for (unsigned p = 0; p < to->positions && to->fault > HANG_HARMLESS; p++)
        to->position[p].grouped = false;
    while (collective && hang_is_p2p(to->position[position].stream))
        position = position + 1 == to->positions ? 0 : position + 1;
    bool part =
        to->position[position].stream == HANG_TP || to->position[position].stream == HANG_DP;
    to->n_culprits = collective && part ? 1 : to->n_culprits;
    to->place = step * to->positions + position;
    to->changed = draw_below(draw, 4);
    if (to->fault == HANG_DIFFERENT && to->changed == 3)
        to->position[position].func = MUSTER_FUNC_BROADCAST;
    if (to->fault == HANG_HARMLESS)
        to->position[position].dtype = MUSTER_DTYPE_FLOAT32;
}

static void draw_sight(struct draw *draw, struct hang_case *to)
{
    double proof = draw_unit(draw);
    to->proof = proof < 0.2    ? HANG_BY_NONE
                : proof < 0.55 ? HANG_BY_MARKS
                : proof < 0.7  ? HANG_BY_BLOCKS
                               : HANG_BY_KERNELS;
    bool paused = to->fault == HANG_SHORT_PAUSE;
    to->pause_s = paused ? 1 + 8.5 * draw_unit(draw) : draw_log(draw, 12, 600);
    to->look_s = HANG_THRESHOLD_S + 3 + draw_log(draw, 0.5, 300);
    to->exits = draw_chance(draw, 0.3);
    to->all_go = to->fault >= HANG_ABSENT && draw_chance(draw, 0.2);
    /* Killed later, it would look as if it had gone first. */
    to->stopped = to->hosts == 1 && !to->all_go && draw_chance(draw, 0.15);
    if (to->ranks > 2 && draw_chance(draw, 0.2)) {
        to->hidden = 1 + draw_below(draw, to->ranks / 2);
        to->culprit_hidden = draw_chance(draw, 0.3);
    }
}

void hang_draw(uint64_t seed, bool large, struct hang_case *to)
{
    struct draw draw = {.state = seed * 2 + large};
    memset(to, 0, sizeof *to);
    to->seed = seed;
    to->fault = draw_fault(&draw);
    enum layout layout = (enum layout)draw_below(&draw, LAYOUTS);
    layout = to->fault == HANG_ORDER ? TWO : layout;
    draw_job(&draw, large, layout, to);
    bool collective = to->fault == HANG_DIFFERENT || to->fault == HANG_EXTRA ||
                      to->fault == HANG_SKIPPED || to->fault == HANG_HARMLESS;
    if (collective && layout == CHAIN && to->position[to->positions - 1].stream >= HANG_COMMS)
        to->position[to->positions++] = draw_position(&draw, HANG_WORLD);
    if (to->fault >= HANG_HARMLESS || to->fault == HANG_SHORT_PAUSE || to->fault == HANG_ARRIVED)
        draw_culprit(&draw, to);
    draw_place(&draw, to);
    draw_sight(&draw, to);
}

void hang_print(const struct hang_case *hang, FILE *out)
{
    fprintf(out, "seed %" PRIu64 ": %s, by %s, %u ranks on %u hosts, place %u of %u x %u",
            hang->seed, fault_word[hang->fault], proof_word[hang->proof], hang->ranks, hang->hosts,
            hang->place, hang->positions, hang->steps);
    for (unsigned g = 0; g < hang->n_culprits; g++)
        fprintf(out, "%s%u", g ? "+" : ", guilty ", hang->culprit[g]);
    if (hang->hidden)
        fprintf(out, ", %u hidden%s", hang->hidden, hang->culprit_hidden ? " and the guilty" : "");
    fprintf(out, "%s%s, ahead %u, first %s", hang->all_go ? ", killed" : "",
            hang->serial ? ", serial" : "", hang->ahead,
            hang_is_p2p(hang->position[0].stream)        ? "chain"
            : hang->position[0].stream == HANG_TP        ? "tp"
            : hang->position[hang->positions - 1].stream ? "two"
                                                         : "world");
}
