/* Whichever allocation of a diagnosis is the first to fail: it says so, and nothing is left over.
 */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose/diagnose.h"
#include "failing_memory.h"

enum { RANKS = 4, STEPS = 30 };

/* To the next rank, and from the one before, as one kernel. */
static void pass_on(struct ranks *ranks, unsigned own, unsigned step)
{
    uint64_t begin_ns = ranks->arrived_ns[own] + ranks->skew_ns[own];
    for (unsigned receives = 0; receives < 2; receives++) {
        struct muster_op op = {.number = step,
                               .enqueue_ns = ranks->call_ns[own],
                               .begin_ns = begin_ns,
                               .end_ns = begin_ns + 20 * US,
                               .count = 1000,
                               .peer = (int32_t)(own + (receives ? RANKS - 1 : 1)) % RANKS,
                               .func = receives ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND,
                               .dtype = MUSTER_DTYPE_FLOAT32,
                               .channels = 2,
                               .source = MUSTER_SOURCE_GPU};
        muster_view_add_op(&ranks->view, ranks->member[1][own], &op);
    }
    ranks->arrived_ns[own] += 20 * US;
}

/* A late rank, sends from rank to rank, a second communicator. */
static const struct muster_view *job(struct ranks *ranks)
{
    ranks_begin(ranks, RANKS);
    ranks_comm(ranks, 0, 0, 1, RANKS, RANKS);
    ranks_comm(ranks, 1, 0, 1, RANKS, RANKS);
    for (unsigned s = 0; s < STEPS; s++) {
        for (unsigned r = 0; r < RANKS; r++)
            ranks_work(ranks, r, 1 * MS);
        ranks_work(ranks, 2, 500 * US);
        ranks_do(ranks, 0, 1 << 20, 100 * US, true, 0);
        for (unsigned r = 0; r < RANKS; r++)
            pass_on(ranks, r, s);
    }
    return ranks_view(ranks);
}

static void want_of_memory_is_said_and_nothing_is_left_over(void **state)
{
    struct ranks ranks;
    const struct muster_view *view = job(&ranks);
    long allocations = 0;
    bool failed = true;
    (void)state;
    for (; failed; allocations++) {
        struct muster_findings findings = {0};
        struct muster_err err = {""};
        long before = failing_memory_live();
        failing_memory_begin(allocations);
        int result = muster_diagnose_view(view, 1000 * MS, &findings, &err);
        failed = failing_memory_end();
        assert_int_equal(result, failed ? -1 : 0);
        assert_int_equal(strstr(err.text, "out of memory") != NULL, failed);
        assert_true(failed || findings.n > 0);
        muster_findings_free(&findings);
        assert_int_equal(failing_memory_live(), before);
    }
    assert_true(allocations > 20);
    ranks_end(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(want_of_memory_is_said_and_nothing_is_left_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
