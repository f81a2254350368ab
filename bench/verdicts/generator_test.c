/* That the generator's truth is one: jobs whose costs can be told by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "maxplus.h"
#include "truth.h"

enum { STEPS = 40 };
static const double DELAY_NS = 3e6;

/* A job without noise whose faults are still to be added. */
static void quiet(enum job_family family, bool sync, struct job *job)
{
    job_draw(7, CASE_CLEAN, family, 16, job);
    job->noise = (struct job_noise){0};
    job->steps = STEPS;
    job->sync = sync;
    job->ahead_ns = 1e9;
    job->level = 0;
}

static struct fault *delay(struct job *job, enum fault_how how, unsigned rank)
{
    struct fault *fault = &job->fault[job->faults++];
    *fault = (struct fault){.how = how,
                            .first = rank,
                            .ranks = 1,
                            .ns = DELAY_NS,
                            .share = 1,
                            .until = STEPS,
                            .owed = true};
    const struct program *program = &job->program[job_stage(job, rank)];
    while (program->action[fault->at].kind != (how == HOW_HOST ? ACT_HOST : ACT_KERNEL))
        fault->at++;
    return fault;
}

static void ignore_rank(void *arg, unsigned rank, const char *host, enum job_timing timing,
                        int64_t unix_ns)
{
    (void)arg, (void)rank, (void)host, (void)timing, (void)unix_ns;
}

static void ignore_member(void *arg, unsigned rank, enum job_group group, uint64_t comm,
                          unsigned local, unsigned n, unsigned hosts)
{
    (void)arg, (void)rank, (void)group, (void)comm, (void)local, (void)n, (void)hosts;
}

static void ignore_net(void *arg, unsigned rank, enum job_group group,
                       const struct muster_seg_net *net)
{
    (void)arg, (void)rank, (void)group, (void)net;
}

/* Which operations of rank 0 are timed, a bit each. */
struct timed {
    uint8_t bit[1 << 16];
    size_t n;
};

static void note_timed(void *arg, unsigned rank, enum job_group group, const struct muster_op *op,
                       double over_ns)
{
    struct timed *timed = arg;
    (void)group, (void)over_ns;
    assert_true((op->end_ns > op->begin_ns) == (op->source == MUSTER_SOURCE_GPU));
    if (timed && rank == 0 && timed->n < sizeof timed->bit)
        timed->bit[timed->n++] = op->source == MUSTER_SOURCE_GPU;
}

static void find(const struct job *job, struct timed *timed, struct recorded *recorded,
                 struct truth *truth)
{
    const struct recording_sink sink = {timed, ignore_rank, ignore_member, note_timed, ignore_net};
    recording_make(job, &sink, recorded);
    truth_find(job, recorded, truth);
}

static void assert_near(double value, double expected)
{
    assert_true(value > 0.9 * expected && value < 1.1 * expected);
}

/* Tensor parallel: everybody waits for everybody in each layer. */
static void a_delay_of_each_step_costs_each_step(void **state)
{
    (void)state;
    struct job job;
    struct recorded recorded;
    struct truth truth;
    for (int host = 0; host < 2; host++) {
        quiet(FAMILY_TP, true, &job);
        delay(&job, host ? HOW_HOST : HOW_GPU, 3);
        find(&job, NULL, &recorded, &truth);
        assert_near(truth.cost_s[0], STEPS * DELAY_NS / 1e9);
        assert_in_range(recorded.hits[0], STEPS - 5, STEPS);
        assert_true(truth.due[0] == (truth_share(&truth, 0) >= TRUTH_DUE_SHARE));
        job_free(&job);
    }
}

static void a_host_ahead_of_its_gpu_may_be_late(void **state)
{
    (void)state;
    struct job job;
    struct recorded recorded;
    struct truth truth;
    quiet(FAMILY_DDP, false, &job);
    delay(&job, HOW_HOST, 3)->ns = 0.1 * job.work_ns;
    find(&job, NULL, &recorded, &truth);
    assert_true(truth.cost_s[0] < 2 * 0.1 * job.work_ns / 1e9); /* of the first step */
    assert_false(truth.due[0]);
    job_free(&job);
}

/* Left out one by one, neither of the two costs anything. */
static void two_that_hide_each_other_are_both_charged(void **state)
{
    (void)state;
    struct job job;
    struct recorded recorded;
    struct truth truth;
    quiet(FAMILY_DDP, true, &job);
    delay(&job, HOW_GPU, 3);
    delay(&job, HOW_GPU, 9);
    find(&job, NULL, &recorded, &truth);
    assert_near(truth.cost_s[0], STEPS * DELAY_NS / 2e9);
    assert_near(truth.cost_s[1], STEPS * DELAY_NS / 2e9);
    assert_near(recorded.run_ns / 1e9 - simulate(&job, 1, STEPS, NULL, NULL) / 1e9 + 1, 1);
    job_free(&job);
}

/* Launches of sends on each of four hosts, and those that took longer than they do by themselves.
 */
struct by_host {
    unsigned launches[4], slow[4];
};

static void note_by_host(void *arg, const struct launch *launch)
{
    struct by_host *seen = arg;
    if (launch->action->kind == ACT_LEGS) {
        seen->launches[job_host(launch->rank)]++;
        seen->slow[job_host(launch->rank)] += launch->transfer_ns > 2 * launch->action->ns;
    }
}

static void a_slow_link_slows_what_is_sent_over_it(void **state)
{
    (void)state;
    struct job job;
    struct by_host seen = {{0}, {0}};
    uint64_t seed = 0;
    do {
        job_draw(++seed, CASE_CLEAN, FAMILY_PIPELINE, 32, &job);
        if (job.stages != 4)
            job_free(&job);
    } while (job.stages != 4);
    job.noise = (struct job_noise){0};
    job.fault[job.faults++] =
        (struct fault){.how = HOW_LINK, .first = 1, .to = 2, .factor = 4, .until = STEPS};
    simulate(&job, 1, STEPS, note_by_host, &seen);
    for (unsigned host = 0; host < 4; host++) {
        assert_true(seen.launches[host] > 0);
        assert_true(seen.slow[host] < seen.launches[host]); /* what goes back is as quick */
        assert_true((seen.slow[host] > 0) == (host == 1 || host == 2));
    }
    job_free(&job);
}

static void who_is_not_recorded_is_not_due(void **state)
{
    (void)state;
    struct job job;
    struct recorded recorded;
    struct truth truth;
    quiet(FAMILY_TP, true, &job);
    delay(&job, HOW_GPU, 3)->ns = job.work_ns;
    job.seen[3] = false;
    find(&job, NULL, &recorded, &truth);
    assert_true(truth_share(&truth, 0) > 0.3);
    assert_false(truth.due[0]);
    job_free(&job);
}

/* begins of the operation that is going on, by rank */
struct meetings {
    double latest[GROUPS];
    unsigned come[GROUPS];
};

static void check_end(void *arg, const struct launch *launch)
{
    struct meetings *meetings = arg;
    enum job_group group = launch->action->group;
    assert_true(launch->begin_ns > launch->call_ns);
    assert_true(launch->end_ns >= launch->begin_ns + launch->transfer_ns);
    if (launch->begin_ns > meetings->latest[group])
        meetings->latest[group] = launch->begin_ns;
    assert_true(group != GROUP_ALL || launch->end_ns >= meetings->latest[group]);
    meetings->come[group]++;
}

static void nobody_leaves_a_collective_before_the_last_has_come(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FAMILIES; f++) {
        struct job job;
        struct meetings meetings = {0};
        job_draw(11, CASE_CLEAN, f, 32, &job);
        assert_int_equal(job.family, f);
        double once = simulate(&job, 0, STEPS, check_end, &meetings);
        assert_true(once == simulate(&job, 0, STEPS, NULL, NULL));
        assert_true(once > STEPS * job.work_ns);
        job_free(&job);
    }
}

static void blocks_of_a_level_are_among_those_of_the_level_below(void **state)
{
    (void)state;
    struct timed *at[4];
    for (unsigned level = 0; level < 4; level++) {
        struct job job;
        struct recorded recorded;
        struct truth truth;
        at[level] = calloc(1, sizeof *at[level]);
        job_draw(7, CASE_CLEAN, FAMILY_TP, 8, &job);
        memset(job.timing, TIMED_AUTO, sizeof job.timing);
        job.level = (uint8_t)level;
        job.lost = 0;
        find(&job, at[level], &recorded, &truth);
        job_free(&job);
    }
    for (unsigned level = 1; level < 4; level++) {
        size_t n = 0, fewer = 0;
        assert_int_equal(at[level]->n, at[0]->n);
        for (size_t i = 0; i < at[level]->n; i++) {
            assert_true(at[level]->bit[i] <= at[level - 1]->bit[i]);
            n += at[level]->bit[i];
            fewer += at[level]->bit[i] < at[level - 1]->bit[i];
        }
        assert_true(n >= 64 && fewer > 0);
    }
    for (unsigned level = 0; level < 4; level++)
        free(at[level]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delay_of_each_step_costs_each_step),
        cmocka_unit_test(a_host_ahead_of_its_gpu_may_be_late),
        cmocka_unit_test(two_that_hide_each_other_are_both_charged),
        cmocka_unit_test(a_slow_link_slows_what_is_sent_over_it),
        cmocka_unit_test(who_is_not_recorded_is_not_due),
        cmocka_unit_test(nobody_leaves_a_collective_before_the_last_has_come),
        cmocka_unit_test(blocks_of_a_level_are_among_those_of_the_level_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
