/* What the view makes of operations: order, self times, and where there are none. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "view/call_order.h"

struct one_gpu {
    struct muster_view view;
    uint32_t member[2];
};

static struct one_gpu one_gpu(void)
{
    struct one_gpu one = {.view = {0}};
    uint32_t gpu = muster_view_add_gpu(&one.view, &(struct muster_view_gpu){.host = "h"});
    one.member[0] = muster_view_add_member(&one.view, gpu, 1, 0, 2, 1, "a");
    one.member[1] = muster_view_add_member(&one.view, gpu, 2, 0, 2, 1, "b");
    return one;
}

static void finish(struct muster_view *view)
{
    struct muster_err err = {""};
    assert_int_equal(muster_view_finish(view, &err), 0);
}

static void assert_self_time(const struct muster_view *view, uint32_t op, uint64_t expected_ns)
{
    uint32_t *ended_before = muster_view_ended_before(view);
    assert_non_null(ended_before);
    assert_int_equal(muster_view_self_ns(view, ended_before, &view->op[op]), expected_ns);
    assert_int_equal(view->op[op].self_known, expected_ns != MUSTER_SELF_UNKNOWN);
    free(ended_before);
}

static void test_self_time_is_from_the_last_end_in_any_communicator(void **state)
{
    (void)state;
    struct one_gpu one = one_gpu();
    struct muster_op a = made_op(0, 100, 200);
    struct muster_op b = made_op(0, 250, 300);
    struct muster_op c = made_op(1, 310, 400);
    b.enqueue_ns += 1;
    muster_view_add_op(&one.view, one.member[0], &a);
    muster_view_add_op(&one.view, one.member[1], &b);
    muster_view_add_op(&one.view, one.member[0], &c);
    finish(&one.view);
    assert_self_time(&one.view, 0, MUSTER_SELF_UNKNOWN);
    assert_int_equal(one.view.op[1].number, 1);
    assert_self_time(&one.view, 1, 10 * US);
    assert_self_time(&one.view, 2, 50 * US);
    muster_view_free(&one.view);
}

static void test_overlapping_operations_are_one_unit(void **state)
{
    (void)state;
    struct one_gpu one = one_gpu();
    struct muster_op a = made_op(0, 100, 500);
    struct muster_op b = made_op(0, 200, 300);
    struct muster_op c = made_op(1, 510, 600);
    b.enqueue_ns += 1;
    muster_view_add_op(&one.view, one.member[0], &a);
    muster_view_add_op(&one.view, one.member[1], &b);
    muster_view_add_op(&one.view, one.member[0], &c);
    finish(&one.view);
    assert_self_time(&one.view, 2, 0);
    assert_self_time(&one.view, 1, 10 * US);
    muster_view_free(&one.view);
}

/* Four calls, in their order: in step they are where all are timed, as they were called. */
static void test_calls_are_in_step_where_they_began_as_they_were_called(void **state)
{
    (void)state;
    static const struct {
        uint64_t begin_us[4]; /* 0: not timed */
        uint64_t last_number;
        bool in_step;
    } cases[] = {
        {{100, 200, 300, 400}, 3, true},  {{100, 300, 200, 400}, 3, false},
        {{400, 300, 200, 100}, 3, false}, {{100, 200, 0, 400}, 3, false},
        {{100, 200, 300, 400}, 4, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct one_gpu one = one_gpu();
        for (uint64_t n = 0; n < 4; n++) {
            uint64_t begin_us = cases[i].begin_us[n];
            struct muster_op op =
                made_op(n < 3 ? n : cases[i].last_number, begin_us, begin_us ? begin_us + 50 : 0);
            muster_view_add_op(&one.view, one.member[0], &op);
        }
        finish(&one.view);
        assert_int_equal(one.view.gpu[0].in_step, cases[i].in_step);
        muster_view_free(&one.view);
    }
}

/* By begin, in step where that is by call, too: of what was called at once that of the first one
 * first, and also where a row does not come in the order of its calls. */
static void test_calls_of_two_communicators_stand_in_their_order(void **state)
{
    (void)state;
    static const struct {
        uint64_t called_us[2][3];
        uint32_t order[6]; /* 0 to 2: the first one's */
        bool in_step;
    } cases[] = {
        {{{10, 20, 30}, {15, 25, 35}}, {0, 3, 1, 4, 2, 5}, true},
        {{{10, 20, 30}, {20, 20, 30}}, {0, 1, 3, 4, 2, 5}, true},
        {{{40, 50, 60}, {10, 20, 40}}, {3, 4, 0, 5, 1, 2}, true},
        {{{10, 30, 20}, {15, 25, 35}}, {0, 3, 2, 4, 1, 5}, true},
        {{{10, 30, 20}, {40, 50, 60}}, {0, 1, 2, 3, 4, 5}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct one_gpu one = one_gpu();
        for (uint64_t m = 0; m < 2; m++) {
            for (uint64_t n = 0; n < 3; n++) {
                uint64_t place = 0; /* begins as it stands in the order */
                while (cases[i].order[place] != 3 * m + n)
                    place++;
                struct muster_op op = made_op(n, 100 + 100 * place, 150 + 100 * place);
                op.enqueue_ns = cases[i].called_us[m][n] * US;
                muster_view_add_op(&one.view, one.member[m], &op);
            }
        }
        finish(&one.view);
        const struct muster_view_gpu *gpu = &one.view.gpu[0];
        assert_int_equal(gpu->in_step, cases[i].in_step);
        assert_int_equal(gpu->ordered, 6);
        assert_memory_equal(gpu->order, cases[i].order, sizeof cases[i].order);
        assert_int_equal(gpu->covered_ns, 550 * US);
        for (uint32_t o = 0; o < 6; o++)
            assert_int_equal(one.view.op[gpu->order[o]].self_known, o > 0);
        muster_view_free(&one.view);
    }
}

static void test_first_of_a_timed_block_has_no_self_time(void **state)
{
    (void)state;
    struct one_gpu one = one_gpu();
    struct muster_op ops[] = {made_op(0, 100, 200), made_op(1, 0, 0), made_op(2, 400, 500),
                              made_op(3, 520, 600)};
    for (size_t i = 0; i < 4; i++)
        muster_view_add_op(&one.view, one.member[0], &ops[i]);
    finish(&one.view);
    assert_self_time(&one.view, 2, MUSTER_SELF_UNKNOWN);
    assert_self_time(&one.view, 3, 20 * US);
    muster_view_free(&one.view);
}

static void test_hole_in_the_numbers_leaves_no_self_time_after_it(void **state)
{
    (void)state;
    struct one_gpu one = one_gpu();
    struct muster_op ops[] = {made_op(0, 100, 200), made_op(2, 400, 500), made_op(3, 520, 600)};
    struct muster_op neighbour = made_op(0, 300, 310);
    neighbour.enqueue_ns = 25 * US; /* called within the hole */
    for (size_t i = 0; i < 3; i++)
        muster_view_add_op(&one.view, one.member[0], &ops[i]);
    muster_view_add_op(&one.view, one.member[1], &neighbour);
    finish(&one.view);
    assert_self_time(&one.view, 1, MUSTER_SELF_UNKNOWN);
    assert_self_time(&one.view, 2, 20 * US);
    assert_self_time(&one.view, 3, MUSTER_SELF_UNKNOWN);
    muster_view_free(&one.view);
}

enum { TO_ITSELF, TO_THE_OTHER, COLLECTIVE };

/* One call of the row; the calls of all rows come one after the other. */
struct called {
    unsigned what;
    uint64_t number;
    bool missing, more_missing; /* before it: where one send counts; where four do */
};

/* A group of sends that lacks one is there all the same; what a rank sends to itself hides nothing.
 * Between two calls of a row with missing ones nobody knows where these were. */
static void test_calls_are_missing_where_their_numbers_are(void **state)
{
    (void)state;
    static const struct called called[] = {
        {COLLECTIVE, 0, false, false},  {TO_THE_OTHER, 0, false, false},
        {TO_ITSELF, 0, true, false},    {COLLECTIVE, 1, true, false},
        {TO_THE_OTHER, 2, true, false}, {TO_ITSELF, 9, false, false},
        {COLLECTIVE, 2, false, false},  {TO_THE_OTHER, 3, false, false},
        {TO_ITSELF, 10, true, true},    {TO_THE_OTHER, 8, true, true},
        {COLLECTIVE, 3, false, false},  {COLLECTIVE, 5, true, true},
        {TO_THE_OTHER, 9, false, false}};
    enum { CALLS = sizeof called / sizeof *called };
    struct one_gpu one = one_gpu();
    for (size_t i = 0; i < CALLS; i++) {
        struct muster_op op = made_op(called[i].number, 0, 0);
        op.enqueue_ns = (i + 1) * 10 * US;
        if (called[i].what != COLLECTIVE) {
            op.func = MUSTER_FUNC_SEND;
            op.peer = called[i].what == TO_ITSELF ? 0 : 1;
        }
        muster_view_add_op(&one.view, one.member[0], &op);
    }
    finish(&one.view);
    struct muster_keyed call[CALLS], spare[CALLS];
    struct muster_call_holes any = {.fewest_sends = 1}, more = {.fewest_sends = 4};
    assert_int_equal(muster_calls_collect(&one.view, (const uint32_t[]){0}, 1, call), CALLS);
    const struct muster_keyed *sorted = muster_sort_keyed(call, spare, CALLS);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(muster_calls_missing(&any, &sorted[i]), called[i].missing);
        assert_int_equal(muster_calls_missing(&more, &sorted[i]), called[i].more_missing);
    }
    muster_view_free(&one.view);
}

static void test_operations_come_out_in_order_however_they_were_fed(void **state)
{
    (void)state;
    struct one_gpu one = one_gpu();
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t number = i * 77 % 200;
        struct muster_op op = made_op(number, 100 + number * 10, 105 + number * 10);
        op.flags = number % 3 == 0 ? MUSTER_OP_GRAPH : 0;
        op.func = number % 5 == 1 ? MUSTER_FUNC_SEND : op.func;
        op.peer = number % 5 == 1 ? (int32_t)number % 2 : -1;
        muster_view_add_op(&one.view, one.member[i % 2], &op);
    }
    finish(&one.view);
    for (size_t i = 1; i < one.view.ops; i++) {
        const struct muster_view_op *a = &one.view.op[i - 1];
        const struct muster_view_op *b = &one.view.op[i];
        bool same = a->member == b->member && a->func == b->func && a->peer == b->peer &&
                    ((a->flags ^ b->flags) & MUSTER_OP_GRAPH) == 0;
        assert_true(a->member <= b->member);
        assert_true(!same || a->number < b->number);
    }
    for (uint32_t i = 1; i < one.view.gpu[0].ordered; i++) {
        const uint32_t *order = one.view.gpu[0].order;
        assert_true(one.view.op[order[i - 1]].begin_ns <= one.view.op[order[i]].begin_ns);
    }
    assert_int_equal(one.view.gpu[0].ordered, 200);
    muster_view_free(&one.view);
}

static void test_a_rank_fed_twice_marks_its_communicator(void **state)
{
    (void)state;
    struct muster_view view = {0};
    uint32_t gpu = muster_view_add_gpu(&view, &(struct muster_view_gpu){.host = "h"});
    muster_view_add_member(&view, gpu, 7, 0, 2, 1, "");
    muster_view_add_member(&view, gpu, 7, 0, 2, 1, "");
    muster_view_add_member(&view, gpu, 8, 0, 2, 1, "");
    finish(&view);
    assert_int_equal(view.comms, 2);
    assert_true(view.comm[0].duplicate_rank);
    assert_false(view.comm[1].duplicate_rank);
    muster_view_free(&view);
}

static void test_operations_of_nobody_are_counted(void **state)
{
    (void)state;
    struct one_gpu one = one_gpu();
    struct muster_op op = made_op(0, 1, 2);
    muster_view_add_op(&one.view, 99, &op);
    finish(&one.view);
    assert_int_equal(one.view.unattributed, 1);
    assert_int_equal(one.view.ops, 0);
    muster_view_free(&one.view);
}

static void test_nothing_is_a_view_too(void **state)
{
    (void)state;
    struct muster_view view = {0};
    finish(&view);
    assert_int_equal(view.ops + view.comms + view.gpus, 0);
    muster_view_free(&view);
}

/* One process that drives two GPUs, of which only its log is left. */
static void test_ranks_of_one_process_are_told_apart(void **state)
{
    (void)state;
    struct muster_log_comm comm[] = {
        {.uid = 1, .id = 5, .rank = 0, .nranks = 2, .name = "a"},
        {.uid = 2, .id = 5, .rank = 1, .nranks = 2, .name = "a"},
    };
    struct muster_op op[] = {made_op(0, 100, 200), made_op(0, 150, 200)};
    static struct muster_segment segment; /* whose log alone names the communicators */
    struct muster_process process = {
        .segment = &segment, .comm = comm, .comms = 2, .op = op, .ops = 2};
    struct muster_run run = {.process = &process, .processes = 1};
    struct muster_view view;
    struct muster_err err = {""};
    op[0].comm = 1;
    op[1].comm = 2;
    process.identity.rank = 7; /* of the process: names neither */
    assert_int_equal(muster_view_of_run(&run, &view, &err), 0);
    assert_int_equal(view.gpus, 2);
    assert_int_equal(view.comms, 1);
    assert_false(view.comm[0].duplicate_rank);
    assert_int_equal(view.gpu[view.member[0].gpu].rank, 0);
    assert_int_equal(view.gpu[view.member[1].gpu].rank, 1);
    assert_int_equal(view.member[0].ops + view.member[1].ops, 2);
    muster_view_free(&view);
}

static void test_stream_is_what_was_sent_to_one_peer(void **state)
{
    (void)state;
    static const struct {
        uint8_t func;
        int32_t peer;
        uint16_t flags;
    } called[] = {{MUSTER_FUNC_SEND, 2, 0}, {MUSTER_FUNC_RECV, 1, 0},
                  {MUSTER_FUNC_SEND, 1, 0}, {MUSTER_FUNC_ALL_REDUCE, -1, 0},
                  {MUSTER_FUNC_SEND, 1, 0}, {MUSTER_FUNC_SEND, 1, MUSTER_OP_GRAPH}};
    struct one_gpu one = one_gpu();
    for (unsigned i = 0; i < sizeof called / sizeof *called; i++) {
        struct muster_op op = made_op(i, 100 * (i + 1), 100 * (i + 1) + 50);
        op.func = called[i].func;
        op.peer = called[i].peer;
        op.flags |= called[i].flags;
        muster_view_add_op(&one.view, one.member[0], &op);
    }
    finish(&one.view);
    const struct muster_view_member *member = &one.view.member[one.view.op[0].member];
    struct muster_view_stream to_1 = muster_view_stream(&one.view, member, MUSTER_FUNC_SEND, 1);
    assert_int_equal(to_1.end - to_1.at, 2);
    assert_int_equal(one.view.op[to_1.at].number, 2);
    assert_int_equal(one.view.op[to_1.at + 1].number, 4);
    struct muster_view_stream from_1 = muster_view_stream(&one.view, member, MUSTER_FUNC_RECV, 1);
    assert_int_equal(from_1.end - from_1.at, 1);
    struct muster_view_stream none = muster_view_stream(&one.view, member, MUSTER_FUNC_RECV, 2);
    assert_int_equal(none.end, none.at);
    muster_view_free(&one.view);
}

static void test_first_call_is_the_earliest_of_any_kind(void **state)
{
    (void)state;
    struct one_gpu one = one_gpu();
    struct muster_op first = made_op(0, 100, 150), second = made_op(1, 200, 250);
    first.func = MUSTER_FUNC_SEND; /* stands behind the collective in the view */
    first.peer = 1;
    muster_view_add_op(&one.view, one.member[0], &first);
    muster_view_add_op(&one.view, one.member[0], &second);
    finish(&one.view);
    one.view.gpu[0].unix_ns = 1000;
    one.view.gpu[0].host_times = true;
    const struct muster_view_comm *comm = &one.view.comm[one.view.member[0].comm];
    assert_int_equal(muster_view_first_call_unix_ns(&one.view, comm), first.enqueue_ns + 1000);
    one.view.gpu[0].host_times = false;
    assert_int_equal(muster_view_first_call_unix_ns(&one.view, comm), 0);
    muster_view_free(&one.view);
}

static void test_hosts_are_numbered_by_their_first_gpu(void **state)
{
    (void)state;
    static const char *const host[] = {"b", "a", "b", "c", "a", "b"};
    static const uint32_t expected[] = {0, 1, 0, 2, 1, 0};
    struct muster_view view = {0};
    for (size_t i = 0; i < 6; i++)
        muster_view_add_gpu(&view, &(struct muster_view_gpu){.host = host[i]});
    finish(&view);
    struct muster_arena memory = {0};
    const uint32_t *number = muster_view_hosts(&view, &memory);
    assert_non_null(number);
    assert_memory_equal(number, expected, sizeof expected);
    muster_arena_free(&memory);
    muster_view_free(&view);
}

enum { LONG_RANKS = 4, LONG_OPS = 20000, LONG_MOST = 8000 };

/* One rank of a long run: collectives, and after each a send or receive between ranks 0 and 1. */
static struct muster_process long_process(int32_t rank)
{
    struct muster_process process = {.segment = calloc(1, sizeof(struct muster_segment)),
                                     .op = calloc(LONG_OPS, sizeof(struct muster_op)),
                                     .ops = LONG_OPS};
    assert_true(process.segment && process.op);
    process.identity.rank = rank;
    process.identity.begin_unix_ns = 1000 * US * (unsigned)rank; /* clocks of hosts differ */
    process.segment->comm[0].uid = 1;
    process.segment->comm[0].id = 77;
    process.segment->comm[0].rank = rank;
    process.segment->comm[0].nranks = LONG_RANKS;
    for (uint64_t i = 0; i < LONG_OPS; i++) {
        process.op[i] = made_op(i / 2, 100 * i + 100, 100 * i + 150);
        process.op[i].enqueue_ns = 100 * US * i;
        process.op[i].comm = 1;
        if (i % 2 && rank < 2) {
            process.op[i].func = rank ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND;
            process.op[i].peer = 1 - rank;
        } else if (i % 2) {
            process.op[i].comm = 9; /* nobody's */
        }
    }
    return process;
}

static void assert_same_numbers(const struct muster_view *view, unsigned a, unsigned b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(view->op[view->member[a].first_op + i].number,
                         view->op[view->member[b].first_op + i].number);
}

static void test_of_a_long_run_all_ranks_keep_the_same_stretches(void **state)
{
    (void)state;
    struct muster_process process[LONG_RANKS];
    struct muster_err err = {""};
    struct muster_view view;
    for (int32_t r = 0; r < LONG_RANKS; r++)
        process[r] = long_process(r);
    const struct muster_run run = {.process = process, .processes = LONG_RANKS};
    assert_int_equal(muster_view_of_run_within(&run, LONG_MOST, &view, &err), 0);
    assert_in_range(view.ops, LONG_MOST / 3, LONG_MOST * 5 / 4);
    assert_true(view.every >= 8);
    assert_int_equal(view.members, LONG_RANKS);
    assert_same_numbers(&view, 0, 1, view.member[0].ops); /* sends and receives too */
    assert_int_equal(view.member[0].ops, view.member[1].ops);
    assert_same_numbers(&view, 2, 3, view.member[2].ops);
    assert_same_numbers(&view, 1, 2, view.member[2].ops);
    const struct muster_view_member *last = &view.member[3];
    assert_int_equal(view.op[last->first_op + last->ops - 1].number, LONG_OPS / 2 - 1);
    uint32_t breaks = 0;
    for (uint32_t i = last->first_op + 1; i < last->first_op + last->ops; i++)
        breaks += view.op[i].number != view.op[i - 1].number + 1u;
    assert_in_range(breaks, 8, LONG_OPS / 64 / 2); /* evenly over the run, in whole blocks */
    assert_int_equal(view.left_out + view.ops + view.unattributed, LONG_RANKS * LONG_OPS);
    muster_view_free(&view);
    assert_int_equal(muster_view_of_run_within(&run, LONG_RANKS * LONG_OPS, &view, &err), 0);
    assert_int_equal(view.left_out, 0);
    assert_int_equal(view.ops + view.unattributed, LONG_RANKS * LONG_OPS);
    muster_view_free(&view);
    for (int32_t r = 0; r < LONG_RANKS; r++) {
        free(process[r].segment);
        free(process[r].op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_is_what_was_sent_to_one_peer),
        cmocka_unit_test(test_first_call_is_the_earliest_of_any_kind),
        cmocka_unit_test(test_hosts_are_numbered_by_their_first_gpu),
        cmocka_unit_test(test_self_time_is_from_the_last_end_in_any_communicator),
        cmocka_unit_test(test_overlapping_operations_are_one_unit),
        cmocka_unit_test(test_calls_are_in_step_where_they_began_as_they_were_called),
        cmocka_unit_test(test_calls_of_two_communicators_stand_in_their_order),
        cmocka_unit_test(test_first_of_a_timed_block_has_no_self_time),
        cmocka_unit_test(test_hole_in_the_numbers_leaves_no_self_time_after_it),
        cmocka_unit_test(test_calls_are_missing_where_their_numbers_are),
        cmocka_unit_test(test_operations_come_out_in_order_however_they_were_fed),
        cmocka_unit_test(test_a_rank_fed_twice_marks_its_communicator),
        cmocka_unit_test(test_operations_of_nobody_are_counted),
        cmocka_unit_test(test_nothing_is_a_view_too),
        cmocka_unit_test(test_of_a_long_run_all_ranks_keep_the_same_stretches),
        cmocka_unit_test(test_ranks_of_one_process_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
