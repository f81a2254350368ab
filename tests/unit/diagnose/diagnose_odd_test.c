/* Late ranks in jobs that are not as they should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "made_ranks.h"

enum { STEPS = 60, LATE = 2, NOBODY = 99 };

static void steps(struct ranks *ranks, unsigned n, unsigned late)
{
    for (unsigned i = 0; i < n; i++) {
        for (unsigned r = 0; r < ranks->n; r++)
            ranks_work(ranks, r, 900 * US + (i * 7 + r * 5) % 11 * US + (r == late ? 2 * MS : 0));
        ranks_do(ranks, 0, 1000, 200 * US, true, 0);
        for (unsigned r = 0; r < ranks->n; r++)
            ranks_work(ranks, r, 100 * US + (i * 3 + r * 2) % 7 * US);
        ranks_do(ranks, 0, 50, 20 * US, true, 0);
    }
}

static void begin(struct ranks *ranks)
{
    ranks_begin(ranks, 4);
    ranks_comm(ranks, 0, 0, 1, 4, 4);
}

/* An elastic job: the process that took over has the rank and the communicator of the other. */
static void a_rank_recorded_twice_is_not_compared_and_that_is_said(void **state)
{
    (void)state;
    struct ranks ranks;
    begin(&ranks);
    steps(&ranks, STEPS, LATE);
    uint32_t gpu = muster_view_add_gpu(
        &ranks.view, &(struct muster_view_gpu){.rank = 1, .gpu_index = 1, .host = "node0"});
    muster_view_add_member(&ranks.view, gpu, 0x100, 1, 4, 1, ""); /* the id of ranks_comm's first */
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(ranks.view.comms, 1);
    assert_int_equal(findings.n, 0);
    assert_true(ranks_has_line(&findings.not_observable, "a rank was recorded twice"));
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* Of one GPU forwards, of another one back: durations within an operation stay true, the self time
 * over the step does not. */
static void step_clocks(struct ranks *ranks, unsigned late)
{
    begin(ranks);
    for (unsigned r = 0; r < ranks->n; r++)
        ranks->skew_ns[r] += 3600ull * 1000 * MS;
    for (int i = 0; i < 6; i++) {
        steps(ranks, STEPS / 3, late);
        ranks->skew_ns[1] += 5000 * MS;
        ranks->skew_ns[3] -= 2000 * MS;
    }
}

static void gpu_clocks_that_step_make_nobody_late(void **state)
{
    (void)state;
    struct ranks ranks;
    step_clocks(&ranks, NOBODY);
    struct muster_findings findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
    ranks_end(&ranks);

    step_clocks(&ranks, LATE);
    findings = ranks_diagnose(&ranks);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], LATE);
    muster_findings_free(&findings);
    ranks_end(&ranks);
}

/* Communicators in turn, each with few operations of its own. */
static struct muster_findings thousand(unsigned late)
{
    enum { RANKS = 4, COMMS = 1024, OPS = 40 };
    static uint32_t member[COMMS][RANKS];
    struct muster_view view = {0};
    struct muster_findings findings = {0};
    for (unsigned r = 0; r < RANKS; r++) {
        uint32_t gpu = muster_view_add_gpu(&view, &(struct muster_view_gpu){.rank = (int32_t)r,
                                                                            .gpu_index = (int32_t)r,
                                                                            .host = "node0",
                                                                            .process = r,
                                                                            .host_times = true,
                                                                            .one_pace = true});
        for (unsigned c = 0; c < COMMS; c++)
            member[c][r] = muster_view_add_member(&view, gpu, c + 1, (int32_t)r, RANKS, 1, "");
    }
    uint64_t end_us = 1000000;
    for (uint64_t n = 0; n < (uint64_t)COMMS * OPS; n++) {
        uint64_t wait_us = late < RANKS && n % COMMS < 8 ? 40000 : 0;
        end_us += 500 + wait_us;
        for (unsigned r = 0; r < RANKS; r++) {
            uint64_t own_us = 100 + (n * 7 + r * 3) % 5 + (r == late ? 0 : wait_us);
            struct muster_op op = {.number = n / COMMS,
                                   .enqueue_ns = (end_us - own_us - 50) * US,
                                   .begin_ns = (end_us - own_us + r * 777) * US,
                                   .end_ns = (end_us + r * 777) * US,
                                   .count = 4096,
                                   .peer = -1,
                                   .func = MUSTER_FUNC_ALL_REDUCE,
                                   .dtype = MUSTER_DTYPE_FLOAT32,
                                   .source = MUSTER_SOURCE_GPU};
            muster_view_add_op(&view, member[n % COMMS][r], &op);
        }
    }
    assert_int_equal(muster_view_finish(&view, NULL), 0);
    assert_int_equal(muster_straggler_find(&view, &findings, NULL), 0);
    assert_int_equal(muster_diagnose_transfer(&view, &findings, NULL), 0);
    muster_view_free(&view);
    return findings;
}

static void of_1024_communicators_who_is_late_is_named_once(void **state)
{
    (void)state;
    struct muster_findings findings = thousand(NOBODY);
    assert_int_equal(findings.n, 0);
    assert_true(ranks_has_line(&findings.not_observable, "more communicators without a late rank"));
    muster_findings_free(&findings);
    findings = thousand(3);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.finding[0].ranks, 1);
    assert_int_equal(findings.finding[0].rank[0], 3);
    muster_findings_free(&findings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_recorded_twice_is_not_compared_and_that_is_said),
        cmocka_unit_test(gpu_clocks_that_step_make_nobody_late),
        cmocka_unit_test(of_1024_communicators_who_is_late_is_named_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
