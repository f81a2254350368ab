#include "diagnose/divergence/divergence_sides.h"

#include <string.h>

/* ---- policies ---- */

static bool steers(const struct muster_seg_policy *policy)
{
    return atomic_load_explicit(&policy->state, memory_order_relaxed) == MUSTER_POLICY_ACTIVE;
}

static bool is_settled(const struct muster_view_gpu *gpu, bool waited)
{
    return gpu->policy &&
           (waited || gpu->called || gpu->policy->tuner_api ||
            atomic_load_explicit(&gpu->policy->state, memory_order_relaxed) != MUSTER_POLICY_NONE);
}

/* Tuners that are off are alike, whatever the reason. */
static bool same_policy(const struct muster_seg_policy *a, const struct muster_seg_policy *b)
{
    if (!steers(a) || !steers(b))
        return steers(a) == steers(b);
    return memcmp(a->sha256, b->sha256, sizeof(a->sha256)) == 0;
}

static void find_alike(struct muster_policy_sides *policies, bool waited)
{
    const struct muster_view *view = policies->view;
    for (uint32_t g = 0; g < view->gpus; g++) {
        const struct muster_view_gpu *gpu = &view->gpu[g];
        policies->like[g] = is_settled(gpu, waited) ? g : MUSTER_VIEW_NONE;
        for (uint32_t i = 0; i < g && policies->like[g] == g; i++)
            if (policies->like[i] == i && same_policy(gpu->policy, view->gpu[i].policy))
                policies->like[g] = i;
    }
}

static uint32_t job_of(struct muster_policy_sides *policies, uint32_t gpu)
{
    while (policies->job[gpu] != gpu)
        gpu = policies->job[gpu] = policies->job[policies->job[gpu]];
    return gpu;
}

static uint32_t gpu_of(const struct muster_view *view, const struct muster_view_comm *comm,
                       uint32_t i)
{
    return view->member[comm->first_member + i].gpu;
}

static void join_jobs(struct muster_policy_sides *policies)
{
    const struct muster_view *view = policies->view;
    for (uint32_t g = 0; g < view->gpus; g++)
        policies->job[g] = g;
    for (uint32_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        for (uint32_t i = 1; i < comm->members; i++)
            policies->job[job_of(policies, gpu_of(view, comm, i))] =
                job_of(policies, gpu_of(view, comm, 0));
    }
    for (uint32_t g = 0; g < view->gpus; g++)
        policies->job[g] = job_of(policies, g);
}

/* What all communicators of a job lack. A rank that several of them lack counts more than once:
 * better too unsure than too sure. */
static void count_unseen(struct muster_policy_sides *policies)
{
    const struct muster_view *view = policies->view;
    for (uint32_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        uint32_t seen = 0;
        if (!comm->members)
            continue;
        for (uint32_t i = 0; i < comm->members; i++)
            seen += policies->like[gpu_of(view, comm, i)] != MUSTER_VIEW_NONE;
        uint32_t all = comm->nranks > comm->members ? comm->nranks : comm->members;
        policies->unseen[policies->job[gpu_of(view, comm, 0)]] += all - seen;
    }
}

void muster_policy_sides_begin(struct muster_policy_sides *policies, const struct muster_view *view,
                               bool waited, struct muster_arena *arena)
{
    *policies = (struct muster_policy_sides){
        .view = view,
        .like = muster_arena_array(arena, view->gpus + 1, sizeof(*policies->like)),
        .job = muster_arena_array(arena, view->gpus + 1, sizeof(*policies->job)),
        .unseen = muster_arena_array(arena, view->gpus + 1, sizeof(*policies->unseen)),
        .count = muster_arena_array(arena, view->gpus + 1, sizeof(*policies->count)),
    };
    if (arena->failed)
        return;
    find_alike(policies, waited);
    join_jobs(policies);
    count_unseen(policies);
}

/* The largest of n counts; MUSTER_VIEW_NONE: several are. `open`: others that are counted nowhere,
 * `unseen` of them, could make it another. */
static uint32_t largest(const uint32_t *count, size_t n, uint32_t unseen, bool *open)
{
    uint32_t most = MUSTER_VIEW_NONE, first = 0, second = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (count[i] > first) {
            second = first;
            first = count[i];
            most = i;
        } else if (count[i] > second) {
            second = count[i];
        }
    }
    *open = first - second <= unseen;
    return first > second ? most : MUSTER_VIEW_NONE;
}

void muster_policy_sides(const struct muster_policy_sides *policies,
                         const struct muster_view_comm *comm, struct muster_partition *sides)
{
    const struct muster_view *view = policies->view;
    uint32_t job = policies->job[gpu_of(view, comm, 0)];
    sides->n = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        uint32_t like = policies->like[gpu_of(view, comm, i)];
        sides->side[i] = like == MUSTER_VIEW_NONE ? MUSTER_VIEW_NONE : i;
        for (uint32_t j = 0; j < i && sides->side[i] == i; j++)
            if (policies->like[gpu_of(view, comm, j)] == like)
                sides->side[i] = j;
        sides->n += sides->side[i] == i;
    }
    if (sides->n < 2)
        return;
    memset(policies->count, 0, view->gpus * sizeof(*policies->count));
    for (uint32_t g = 0; g < view->gpus; g++)
        if (policies->job[g] == job && policies->like[g] != MUSTER_VIEW_NONE)
            policies->count[policies->like[g]]++;
    uint32_t most = largest(policies->count, view->gpus, policies->unseen[job], &sides->open);
    sides->most = most == MUSTER_VIEW_NONE ? MUSTER_VIEW_NONE : comm->members;
    for (uint32_t i = 0; i < comm->members; i++)
        if (sides->side[i] == i && policies->like[gpu_of(view, comm, i)] == most)
            sides->most = i;
}

/* ---- operations ---- */

bool muster_same_choice(const struct muster_view *view, const struct muster_view_op *a,
                        const struct muster_view_op *b)
{
    const struct muster_view_class *one = &view->class[a->class], *two = &view->class[b->class];
    return one->algo == two->algo && one->proto == two->proto && a->channels == b->channels;
}

/* GPUs of the communicator's job, in it or not. */
static uint32_t job_size(const struct muster_policy_sides *policies,
                         const struct muster_view_comm *comm)
{
    uint32_t job = policies->job[gpu_of(policies->view, comm, 0)], n = 0;
    for (uint32_t g = 0; g < policies->view->gpus; g++)
        n += policies->job[g] == job;
    return n;
}

void muster_choice_sides(const struct muster_policy_sides *policies,
                         const struct muster_view_comm *comm,
                         const struct muster_view_op *const *op, struct muster_partition *sides)
{
    const struct muster_view *view = policies->view;
    uint32_t all = job_size(policies, comm), seen = 0;
    sides->n = 0;
    memset(sides->count, 0, comm->members * sizeof(*sides->count));
    for (uint32_t i = 0; i < comm->members; i++) {
        sides->side[i] = op[i] ? i : MUSTER_VIEW_NONE;
        for (uint32_t j = 0; op[i] && j < i && sides->side[i] == i; j++)
            if (sides->side[j] == j && muster_same_choice(view, op[i], op[j]))
                sides->side[i] = j;
        sides->n += sides->side[i] == i;
        seen += op[i] != NULL;
        if (op[i])
            sides->count[sides->side[i]]++;
    }
    all = all > comm->nranks ? all : comm->nranks;
    uint32_t unseen = all > seen ? all - seen : 0;
    sides->most = largest(sides->count, comm->members, unseen, &sides->open);
}
