/*
 * joint_share: how many operations `auto` times, and how many of them on all their ranks, in jobs
 * whose ranks are in several communicators. The mask is one per process: what one communicator's
 * block times of a neighbour counts only if the neighbour's other ranks time it, too.
 *
 * A job has 64 ranks. Its n-th kind of communicator cuts them into groups of one size: the first
 * three as a grid of data, tensor and pipeline parallelism does, further ones at random. In
 * "same program" all groups of a kind make the same number of calls a layer, in "groups differ"
 * each has its own. What the job's first turn of blocks times is left out.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "record/blocks.h"

static const char usage[] = "usage: joint_share [--steps N]\n"
                            "--steps N  training steps of 8 layers (default 2000)\n";

enum { RANKS = 64, KINDS = 64, LAYERS = 8, CALLS_A_LAYER = 4, JOBS = 8, STEPS_MAX = 1000000 };
enum { RESTING = 0, TIMING = 1, FIRST_TURN = MUSTER_BLOCK * MUSTER_BLOCKS_A_TURN };

/* All ranks of a group make its calls together. */
struct group {
    uint64_t id;
    uint64_t calls; /* made so far */
    unsigned calls_a_layer;
    const unsigned char *rank; /* [ranks] */
    unsigned ranks;
};

struct kind {
    unsigned char order[RANKS]; /* the ranks, group after group */
    unsigned groups;
    struct group group[RANKS / 2];
};

struct rank {
    struct muster_arming arming;
    struct muster_block_state state[KINDS]; /* of its communicator of each kind */
    int mask;
};

struct job {
    unsigned kinds;
    struct kind kind[KINDS];
    struct rank rank[RANKS];
    uint32_t random;
};

struct share {
    uint64_t operations, timed, jointly; /* an operation of n ranks counts n times */
};

static uint32_t draw(struct job *job, uint32_t below)
{
    job->random = job->random * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)job->random * below >> 32);
}

static void order_ranks(struct job *job, unsigned k)
{
    unsigned char *order = job->kind[k].order;
    static const unsigned stride[3] = {1, 4, 16}; /* tensor, pipeline, data */
    for (unsigned i = 0; i < RANKS; i++)
        order[i] = (unsigned char)(k < 3 ? i * stride[k] % RANKS + i * stride[k] / RANKS : i);
    for (unsigned i = RANKS - 1; k >= 3 && i > 0; i--) {
        unsigned other = draw(job, i + 1);
        unsigned char was = order[i];
        order[i] = order[other];
        order[other] = was;
    }
}

static void make_kind(struct job *job, unsigned k, bool differ)
{
    static const unsigned sizes[] = {4, 4, 4, 64, 8, 16, 2, 32};
    struct kind *kind = &job->kind[k];
    const unsigned size = sizes[k % (sizeof sizes / sizeof *sizes)];
    unsigned calls = 1 + draw(job, CALLS_A_LAYER);
    order_ranks(job, k);
    kind->groups = RANKS / size;
    for (unsigned g = 0; g < kind->groups; g++) {
        if (differ)
            calls = 1 + draw(job, CALLS_A_LAYER);
        kind->group[g] = (struct group){
            .id = (uint64_t)draw(job, UINT32_MAX) << 32 | draw(job, UINT32_MAX),
            .calls_a_layer = calls,
            .rank = &kind->order[g * size],
            .ranks = size,
        };
    }
}

/* Before operation `next` of a group, on one of its ranks; as the recorder does it. */
static void turn(struct job *job, unsigned k, const struct group *group, unsigned r, uint64_t next,
                 uint32_t alive)
{
    struct rank *rank = &job->rank[r];
    if (next % MUSTER_BLOCK == 0 && k < MUSTER_ARMING_COMMS)
        muster_arming_turn(&rank->arming, &rank->state[k], group->id, next, alive);
}

static void make_job(struct job *job, unsigned kinds, bool differ, uint32_t seed)
{
    memset(job, 0, sizeof *job);
    job->kinds = kinds;
    job->random = seed;
    for (unsigned r = 0; r < RANKS; r++)
        job->rank[r].arming = (struct muster_arming){
            .mask = &job->rank[r].mask, .resting = RESTING, .timing = TIMING, .possible = true};
    for (unsigned k = 0; k < kinds; k++) {
        make_kind(job, k, differ);
        for (unsigned g = 0; g < job->kind[k].groups; g++)
            for (unsigned i = 0; i < job->kind[k].group[g].ranks; i++)
                turn(job, k, &job->kind[k].group[g], job->kind[k].group[g].rank[i], 0, k + 1);
    }
}

static void operate(struct job *job, unsigned k, struct group *group, struct share *share)
{
    const uint64_t number = group->calls++;
    unsigned timed = 0;
    for (unsigned i = 0; i < group->ranks; i++) {
        struct rank *rank = &job->rank[group->rank[i]];
        if (rank->mask == TIMING) {
            timed++;
            muster_arming_spend(&rank->arming);
        }
        turn(job, k, group, group->rank[i], number + 1, job->kinds);
    }
    if (number < FIRST_TURN)
        return;
    share->operations += group->ranks;
    share->timed += timed;
    share->jointly += timed == group->ranks ? timed : 0;
}

static void run_layer(struct job *job, struct share *share)
{
    for (unsigned k = 0; k < job->kinds; k++)
        for (unsigned g = 0; g < job->kind[k].groups; g++) {
            struct group *group = &job->kind[k].group[g];
            for (unsigned call = 0; call < group->calls_a_layer; call++)
                operate(job, k, group, share);
        }
}

static struct share run_jobs(struct job *job, unsigned kinds, bool differ, unsigned steps)
{
    struct share share = {0};
    for (uint32_t seed = 1; seed <= JOBS; seed++) {
        make_job(job, kinds, differ, seed);
        for (unsigned layer = 0; layer < steps * LAYERS; layer++)
            run_layer(job, &share);
    }
    return share;
}

static double percent(uint64_t part, uint64_t all)
{
    return all ? 100 * (double)part / (double)all : 0;
}

static void print_share(const struct share *share)
{
    printf(" | %7.2f %9.2f", percent(share->timed, share->operations),
           percent(share->jointly, share->operations));
    if (share->timed)
        printf(" %9.1f", percent(share->jointly, share->timed));
    else
        printf(" %9s", "-");
}

static int parse(int argc, char **argv, uint64_t *steps)
{
    static const struct option known[] = {{"steps", 1, NULL, 's'}, {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
        if (option != 's' || !muster_text_u64(optarg, steps) || *steps < 1 || *steps > STEPS_MAX)
            return -1;
    return optind == argc ? 0 : -1;
}

int main(int argc, char **argv)
{
    static const unsigned kinds[] = {1, 2, 3, 4, 6, 8, 9, 16, 32, 64};
    static struct job job;
    uint64_t steps = 2000;
    if (parse(argc, argv, &steps)) {
        fputs(usage, stderr);
        return 2;
    }
    printf("# %d ranks, %d jobs of %llu steps; percent of operations\n"
           "# of timed: jointly timed ones among the timed ones\n"
           "%-13s | %-27s | %s\n%-13s | %7s %9s %9s | %7s %9s %9s\n",
           RANKS, JOBS, (unsigned long long)steps, "communicators", "same program", "groups differ",
           "of a rank", "timed", "jointly", "of timed", "timed", "jointly", "of timed");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        printf("%-13u", kinds[i]);
        for (int differ = 0; differ <= 1; differ++) {
            /* The same number of calls whatever the number of kinds. */
            unsigned n = (unsigned)(steps * 4 / (kinds[i] < 4 ? kinds[i] : 4));
            struct share share = run_jobs(&job, kinds[i], differ != 0, n);
            print_share(&share);
            fflush(stdout);
        }
        putchar('\n');
    }
    return 0;
}
