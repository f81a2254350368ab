/* What is kept of a process's operations, and that no hole reaches into what was timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/nccl_types.h"
#include "run/op_window.h"

static struct muster_op op_of(uint32_t comm, uint64_t number, bool timed)
{
    return (struct muster_op){.comm = comm,
                              .number = number,
                              .peer = -1,
                              .func = MUSTER_FUNC_ALL_REDUCE,
                              .source = timed ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE};
}

static void take(struct muster_window *window, const struct muster_op *op, size_t most)
{
    bool halved = false;
    assert_true(muster_window_take(window, op, 1, most, &halved));
    assert_true(window->n <= most);
}

static bool has(const struct muster_window *window, uint32_t comm, uint64_t number)
{
    for (size_t i = 0; i < window->n; i++)
        if (window->op[i].comm == comm && window->op[i].number == number)
            return true;
    return false;
}

/* Blocks of 10 in 100 of communicator 1; communicator 2 is called now and then, mostly outside. */
static void what_was_timed_is_kept_with_the_ends_of_what_lies_between(void **state)
{
    (void)state;
    struct muster_window window = {0};
    uint64_t rare = 0;
    for (uint64_t n = 0; n < 1000; n++) {
        struct muster_op own = op_of(1, n, n % 100 < 10);
        take(&window, &own, 4096);
        if (n % 7 == 0) {
            struct muster_op other = op_of(2, rare++, n % 100 < 10);
            take(&window, &other, 4096);
        }
    }
    for (uint64_t n = 0; n < 910; n++) {
        bool block = n % 100 < 10, end = n % 100 == 10 || n % 100 == 99;
        assert_int_equal(has(&window, 1, n), block || end);
    }
    /* From one block to the next nothing of communicator 2 is missing but what lies between. */
    unsigned held = 0;
    for (uint64_t n = 0; n < rare; n++)
        held += has(&window, 2, n);
    assert_in_range(held, 2 * 10, 4 * 10);
    assert_true(window.n < 200);
    muster_window_free(&window);
}

static void sends_to_each_peer_are_a_stream(void **state)
{
    (void)state;
    struct muster_window window = {0};
    for (uint64_t n = 0; n < 20; n++) {
        for (int32_t peer = 0; peer < 3; peer++) {
            struct muster_op op = op_of(1, n, n >= 10);
            op.func = MUSTER_FUNC_SEND;
            op.peer = peer;
            take(&window, &op, 4096);
        }
    }
    assert_int_equal(window.n, 3 * (2 + 10));
    assert_int_equal(window.timed, 30);
    muster_window_free(&window);
}

static struct muster_op called(uint32_t comm, uint64_t number, uint64_t call_ns, bool timed)
{
    struct muster_op op = op_of(comm, number, timed);
    op.enqueue_ns = call_ns;
    return op;
}

/* Three of communicator 1 and one of communicator 2 by turns, of which the latter are over later;
 * blocks of 12 are timed. So of one rank; of another all are over in their order. */
static void what_is_over_first_does_not_matter(void **state)
{
    (void)state;
    enum { TURNS = 200, MINE = 3, LATER = 2, OPS = TURNS * (MINE + 1) };
    struct muster_window window[2] = {0};
    struct muster_op op[2][OPS];
    for (unsigned i = 0; i < OPS; i++) {
        unsigned turn = i / (MINE + 1), place = i % (MINE + 1);
        bool other = place == MINE;
        op[0][i] =
            called(1 + other, other ? turn : turn * MINE + place, 1 + i, turn % 12 < 4 && !other);
    }
    memcpy(op[1], op[0], sizeof op[1]);
    for (unsigned i = MINE; i + LATER < OPS; i += MINE + 1) {
        struct muster_op late = op[1][i];
        memmove(&op[1][i], &op[1][i + 1], LATER * sizeof late);
        op[1][i + LATER] = late;
    }
    bool halved = false;
    for (unsigned w = 0; w < 2; w++)
        assert_true(muster_window_take(&window[w], op[w], OPS, 4096, &halved));
    assert_int_equal(window[0].n, window[1].n);
    assert_memory_equal(window[0].op, window[1].op, window[0].n * sizeof *window[0].op);
    for (unsigned w = 0; w < 2; w++)
        muster_window_free(&window[w]);
}

/* So that the step's calls are known around what was timed. */
static void a_short_gap_is_kept_whole(void **state)
{
    (void)state;
    struct muster_window window = {0};
    for (uint64_t n = 0; n < 1000; n++) {
        struct muster_op op = op_of(1, n, n % (MUSTER_WINDOW_GAP + 1) == 0);
        take(&window, &op, 4096);
    }
    for (uint64_t n = 0; n < 1000 - MUSTER_WINDOW_GAP; n++)
        assert_true(has(&window, 1, n));
    muster_window_free(&window);
}

static void what_may_have_one_before_it_waits(void **state)
{
    (void)state;
    struct muster_window window = {.until_ns = 100};
    struct muster_op second = called(1, 1, 101, true), first = called(2, 0, 99, true);
    take(&window, &second, 4096);
    assert_int_equal(window.n, 0);
    window.until_ns = 200;
    take(&window, &first, 4096);
    assert_int_equal(window.n, 2);
    assert_int_equal(window.op[0].comm, 2);
    assert_int_equal(window.op[1].comm, 1);
    muster_window_free(&window);
}

/* Some of what comes in order waits, and what was called before it goes before it. */
static void what_comes_in_order_waits_from_there_on(void **state)
{
    (void)state;
    struct muster_window window = {.until_ns = 100};
    const struct muster_op first[] = {called(1, 0, 90, true), called(1, 1, 99, true),
                                      called(1, 3, 101, true), called(1, 4, 102, true)};
    const struct muster_op later[] = {called(1, 2, 100, true), called(1, 5, 103, true)};
    bool halved = false;
    assert_true(muster_window_take(&window, first, 4, 4096, &halved));
    assert_int_equal(window.n, 2);
    window.until_ns = 102;
    assert_true(muster_window_take(&window, later, 2, 4096, &halved));
    assert_int_equal(window.n, 5);
    for (size_t i = 0; i < window.n; i++)
        assert_int_equal(window.op[i].number, i);
    window.until_ns = UINT64_MAX;
    assert_true(muster_window_take(&window, NULL, 0, 4096, &halved));
    assert_int_equal(window.n, 6);
    assert_int_equal(window.op[5].number, 5);
    muster_window_free(&window);
}

/* Every second timed one is to be one no longer; nothing else is lost, what waits included. */
static void its_times_may_be_taken_afterwards(void **state)
{
    (void)state;
    struct muster_window window = {0};
    bool halved = false;
    for (uint64_t n = 0; n < 100; n++) {
        struct muster_op op = op_of(1, n, n < 90);
        take(&window, &op, 4096);
    }
    for (size_t i = 0; i < window.n; i += 2)
        window.op[i].source = MUSTER_SOURCE_NONE;
    assert_true(muster_window_again(&window, 4096, &halved));
    struct muster_op last = op_of(1, 100, true);
    take(&window, &last, 4096);
    for (uint64_t n = 0; n <= 100; n++)
        assert_true(has(&window, 1, n));
    muster_window_free(&window);
}

static void the_latest_are_kept_without_a_gap_if_asked_for(void **state)
{
    (void)state;
    struct muster_window window = {.latest = 128};
    for (uint64_t n = 0; n < 10000; n++) {
        struct muster_op op = op_of(1, n, n % 100 < 10);
        take(&window, &op, 4096);
        for (uint64_t k = 0; k < 128 && k < n; k++)
            assert_int_equal(window.op[window.n - 1 - k].number, n - k);
        for (size_t i = 1; i < window.n; i++)
            assert_true(window.op[i].number > window.op[i - 1].number);
    }
    assert_true(window.thinned > 0 && window.n < 2200);
    for (uint64_t n = 0; n < 9700; n++) {
        bool block = n % 100 < 10, end = n % 100 == 10 || n % 100 == 99;
        assert_true(has(&window, 1, n) || !(block || end));
    }
    muster_window_free(&window);
}

static void it_is_bounded_and_holds_the_newest(void **state)
{
    (void)state;
    struct muster_window window = {0};
    for (uint64_t n = 0; n < 100000; n++) {
        struct muster_op op = op_of(1, n, true);
        take(&window, &op, 256);
    }
    assert_true(has(&window, 1, 99999) && has(&window, 1, 99999 - 127));
    assert_false(has(&window, 1, 99999 - 256));
    assert_int_equal(window.timed, 100000);
    muster_window_free(&window);
}

/* 10,000 communicators, none timed: streams come and go. */
static void any_number_of_streams_is_survived(void **state)
{
    (void)state;
    struct muster_window window = {0};
    for (uint32_t n = 0; n < 30000; n++) {
        struct muster_op op = op_of(1 + n % 10000, n / 10000, n % 997 == 0);
        take(&window, &op, 256);
    }
    assert_true(window.streams <= MUSTER_WINDOW_STREAMS);
    muster_window_free(&window);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_timed_is_kept_with_the_ends_of_what_lies_between),
        cmocka_unit_test(sends_to_each_peer_are_a_stream),
        cmocka_unit_test(what_is_over_first_does_not_matter),
        cmocka_unit_test(a_short_gap_is_kept_whole),
        cmocka_unit_test(what_comes_in_order_waits_from_there_on),
        cmocka_unit_test(what_may_have_one_before_it_waits),
        cmocka_unit_test(its_times_may_be_taken_afterwards),
        cmocka_unit_test(the_latest_are_kept_without_a_gap_if_asked_for),
        cmocka_unit_test(it_is_bounded_and_holds_the_newest),
        cmocka_unit_test(any_number_of_streams_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
