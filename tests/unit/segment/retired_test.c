#include "fixture.h"

#include <stdlib.h>

#include "segment/retired.h"

enum { NEAR = 8192, STATES = 300, LISTED = 64, OPS = 200000 };

static struct muster_op op_of(uint32_t comm, uint64_t number)
{
    return (struct muster_op){.comm = comm,
                              .number = number,
                              .enqueue_ns = 1000 * number,
                              .peer = -1,
                              .func = MUSTER_FUNC_ALL_REDUCE};
}

/* A log of `n` operations of communicator 1, numbered from 0, and what its states list. */
static struct muster_log log_of(size_t n, struct muster_log_seen *seen, size_t seens)
{
    struct muster_log log = {.op = calloc(n, sizeof(*log.op)), .ops = n, .seen = seen};
    assert_non_null(log.op);
    log.seens = seens;
    for (size_t i = 0; i < n; i++)
        log.op[i] = op_of(1, i);
    return log;
}

static void what_the_log_has_by_now_is_retired(void **state)
{
    (void)state;
    struct muster_log_pending pending[] = {
        {.op = op_of(1, 40)}, {.op = op_of(1, 60)}, {.op = op_of(1, 100)}, {.op = op_of(2, 60)}};
    struct muster_log_seen seen = {.state = {.listed = 4, .pending = pending}, .ops_before = 50};
    struct muster_log log = log_of(100, &seen, 1);
    struct muster_retired retired;
    assert_true(muster_retired_find(&retired, &log));
    assert_true(muster_retired_later(&retired, &seen, &pending[0].op)); /* on its way then */
    assert_true(muster_retired_later(&retired, &seen, &pending[1].op));
    assert_false(muster_retired_later(&retired, &seen, &pending[2].op)); /* not in the log */
    assert_false(muster_retired_later(&retired, &seen, &pending[3].op)); /* another's */
    muster_retired_free(&retired);
    free(log.op);
}

static void what_was_retired_long_before_is_another_operation(void **state)
{
    (void)state;
    struct muster_log_pending pending[] = {{.op = op_of(1, 9)}, {.op = op_of(1, 10)}};
    struct muster_log_seen seen = {.state = {.listed = 2, .pending = pending},
                                   .ops_before = NEAR + 10};
    struct muster_log log = log_of(NEAR + 20, &seen, 1);
    struct muster_retired retired;
    assert_true(muster_retired_find(&retired, &log));
    assert_false(muster_retired_later(&retired, &seen, &pending[0].op));
    assert_true(muster_retired_later(&retired, &seen, &pending[1].op));
    muster_retired_free(&retired);
    free(log.op);
}

static void a_log_that_lists_nothing_needs_nothing(void **state)
{
    (void)state;
    struct muster_log_seen seen = {.ops_before = 3};
    struct muster_log log = log_of(5, &seen, 1);
    struct muster_retired retired;
    struct muster_op op = op_of(1, 4);
    assert_true(muster_retired_find(&retired, &log));
    assert_false(muster_retired_later(&retired, &seen, &op));
    muster_retired_free(&retired);
    free(log.op);
}

/* Whoever writes a log by hand can list much; comparing all of it with all operations would take
 * minutes. */
static void a_log_that_lists_much_is_read_once(void **state)
{
    (void)state;
    struct muster_log_pending *pending = calloc(STATES * LISTED, sizeof(*pending));
    struct muster_log_seen *seen = calloc(STATES, sizeof(*seen));
    assert_true(pending && seen);
    for (uint32_t i = 0; i < STATES * LISTED; i++)
        pending[i].op = op_of(2 + i % 7, i / 3);
    for (uint32_t i = 0; i < STATES; i++)
        seen[i].state =
            (struct muster_log_comm_state){.listed = LISTED, .pending = &pending[i * LISTED]};
    struct muster_log log = log_of(OPS, seen, STATES);
    struct muster_retired retired;
    assert_true(muster_retired_find(&retired, &log));
    for (uint32_t i = 0; i < STATES * LISTED; i++)
        assert_false(muster_retired_later(&retired, &seen[i / LISTED], &pending[i].op));
    muster_retired_free(&retired);
    free(log.op);
    free(pending);
    free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_log_has_by_now_is_retired),
        cmocka_unit_test(what_was_retired_long_before_is_another_operation),
        cmocka_unit_test(a_log_that_lists_nothing_needs_nothing),
        cmocka_unit_test(a_log_that_lists_much_is_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
