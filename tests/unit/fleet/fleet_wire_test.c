/* What is told arrives, and what is no message is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire_made.h"

static int64_t apart(uint64_t a, uint64_t b)
{
    return a > b ? (int64_t)(a - b) : (int64_t)(b - a);
}

static void test_times_to_a_thousandth(void **state)
{
    (void)state;
    static const int64_t times[] = {0,     1,         -1,         1023,          -1024,
                                    1025,  999999,    -123456789, 3600000000000, -2000000000000,
                                    65536, 2147483647};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        uint16_t code;
        if (!muster_wire_time_code(times[i], &code)) {
            assert_true(llabs(times[i]) > 2000000000000);
            continue;
        }
        int64_t back = muster_wire_time_of(code);
        assert_true(llabs(back - times[i]) * 1000 <= llabs(times[i]));
        assert_true(llabs(times[i]) >= 1024 || back == times[i]);
    }
    uint16_t code;
    assert_false(muster_wire_time_code(INT64_MIN, &code));
    assert_false(muster_wire_time_code(INT64_MAX, &code));
}

static void read_made(const struct made *made, struct muster_arena *arena,
                      struct muster_wire_message *message)
{
    struct muster_err err;
    size_t bytes;
    unsigned char *data = made_bytes(made, &bytes);
    if (muster_wire_read("test", data, bytes, arena, message, &err) != 0)
        fail_msg("%s", err.text);
    free(data);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct made *made = made_new(1, 2);
    struct muster_arena arena = {0};
    struct muster_wire_message back;
    made_step(made, 5);
    made->comm[2].still = true;
    made->comm[2].seg.call_hash = 0x123456789abcdef0;
    made->comm[2].seg.call[3].count = 42;
    made->comm[2].seg.call[3].number = 48 + 3 - 16;
    struct muster_wire_slot slot = {.number = 50,
                                    .enqueue_ns = made->message.mono_ns - 5000,
                                    .count = 9,
                                    .comm = 1,
                                    .peer = -1,
                                    .func = MUSTER_FUNC_ALL_REDUCE,
                                    .state = MUSTER_SLOT_LAUNCHED,
                                    .started = 8,
                                    .ended = 3};
    made->process[2].still = true;
    made->process[2].slot = &slot;
    made->process[2].slots = 1;
    read_made(made, &arena, &back);
    assert_int_equal(back.instance, made->message.instance);
    assert_string_equal(back.run_dir, MADE_RUN);
    assert_int_equal(back.processes, MADE_RANKS);
    assert_int_equal(back.process[3].identity.rank, 7);
    assert_int_equal(back.process[3].identity.begin_mono_ns,
                     made->process[3].identity.begin_mono_ns);
    assert_string_equal(back.process[0].comm[0].seg.name, "world");
    assert_int_equal(back.process[2].comm[0].seg.call_hash, 0x123456789abcdef0);
    assert_int_equal(back.process[2].comm[0].seg.call[3].count, 42);
    assert_memory_equal(&back.process[2].slot[0], &slot, sizeof slot);
    assert_memory_equal(&back.process[1].class[0], &made -> class[1], sizeof made->class[1]);
    for (unsigned k = 0; k < 50; k++) {
        const struct muster_wire_op *was = &made->op[1][k], *is = &back.process[1].op[k];
        assert_int_equal(is->number, was->number);
        assert_true(apart(is->end_ns - is->begin_ns, was->end_ns - was->begin_ns) < 10000);
        assert_true(apart(is->begin_ns, was->begin_ns) < 20000); /* it never adds up */
        assert_true(apart(is->enqueue_ns, was->enqueue_ns) < 20000);
    }
    muster_arena_free(&arena);
    free(made);
}

static void test_findings_arrive_and_no_others(void **state)
{
    (void)state;
    struct made *made = made_new(1, 2);
    struct muster_arena arena = {0};
    struct muster_wire_message back;
    struct muster_finding finding = {
        .kind = MUSTER_FINDING_LATE_RANK,
        .comm = MADE_COMM,
        .rank = {5, 4},
        .ranks = 2,
        .victim = {6},
        .victims = 1,
        .gpu = 1,
        .has_op = true,
        .op = {.func = MUSTER_FUNC_ALL_REDUCE, .index = 77, .root = -1},
        .cause = MUSTER_CAUSE_HOST,
        .mode = MUSTER_MODE_PERSISTENT,
        .cost_s = 1.25,
        .cost_share = 0.125,
        .confidence = 0.5,
        .where = "before each AllReduce",
        .advice = "look there"};
    muster_finding_line(&finding.evidence, "rank 5 took longer\x1b[2J");
    made->message.finds = true;
    made->message.finding = &finding;
    made->message.findings = 1;
    read_made(made, &arena, &back);
    assert_true(back.finds);
    assert_int_equal(back.findings, 1);
    const struct muster_finding *is = back.finding;
    assert_int_equal(is->rank[1], 4);
    assert_int_equal(is->victim[0], 6);
    assert_int_equal(is->op.index, 77);
    assert_int_equal(is->cause, MUSTER_CAUSE_HOST);
    assert_true(is->cost_s == 1.25 && is->cost_share == 0.125 && is->confidence == 0.5);
    assert_string_equal(is->where, "before each AllReduce");
    assert_string_equal(is->evidence.line[0], "rank 5 took longer?[2J");
    assert_string_equal(is->advice, "look there");
    muster_arena_free(&arena);
    finding.kind = MUSTER_FINDING_HANG_DEAD;
    size_t bytes;
    struct muster_err err;
    unsigned char *data = made_bytes(made, &bytes);
    assert_int_equal(muster_wire_read("job", data, bytes, &arena, &back, &err), -1);
    assert_non_null(strstr(err.text, "a finding that no agent makes"));
    muster_arena_free(&arena);
    free(data);
    free(made);
}

/* A GPU's clock may begin with the process: its age is no distance that could be rounded. */
static void test_a_young_clock_is_told_exactly(void **state)
{
    (void)state;
    struct made *made = made_new(1, 2);
    struct muster_arena arena = {0};
    struct muster_wire_message back;
    made_step(made, 5);
    uint64_t from = made->op[1][0].begin_ns - 60 * MADE_SECOND;
    for (unsigned k = 0; k < 50; k++) {
        made->op[1][k].begin_ns -= from;
        made->op[1][k].end_ns -= from;
    }
    read_made(made, &arena, &back);
    for (unsigned k = 0; k < 50; k++)
        assert_true(apart(back.process[1].op[k].begin_ns, made->op[1][k].begin_ns) < 20000);
    muster_arena_free(&arena);
    free(made);
}

/* Of what was sent seconds before nothing is left but a distance, whose thousandth is long. */
static void test_what_comes_long_after_is_told_exactly(void **state)
{
    (void)state;
    struct made *made = made_new(1, 2);
    struct muster_arena arena = {0};
    struct muster_wire_message back;
    made_step(made, 5);
    for (unsigned k = 20; k < 50; k++) {
        made->op[1][k].begin_ns += 7 * MADE_SECOND + 12345;
        made->op[1][k].end_ns += 7 * MADE_SECOND + 12345;
    }
    for (unsigned k = 0; k < 20; k++)
        made->op[1][k].enqueue_ns -= 7 * MADE_SECOND;
    read_made(made, &arena, &back);
    const struct muster_wire_op *is = &back.process[1].op[20], *was = &made->op[1][20];
    assert_true(apart(is->begin_ns, was->begin_ns) < 2000);
    assert_true(apart(is->end_ns, was->end_ns) < 2000);
    assert_true(apart(is->enqueue_ns, was->enqueue_ns) < 2000);
    muster_arena_free(&arena);
    free(made);
}

/* Rounding does not turn a send and the receive beside it round. */
static void test_calls_stay_in_their_order(void **state)
{
    (void)state;
    struct made *made = made_new(1, 2);
    struct muster_arena arena = {0};
    struct muster_wire_message back;
    made_step(made, 5);
    uint64_t at = made->op[1][0].enqueue_ns;
    for (unsigned k = 0; k < 50; k++) {
        made->op[1][k].enqueue_ns = at;
        at += k % 2 ? 1234567 : 300;
    }
    made->message.mono_ns = at + MADE_SECOND;
    read_made(made, &arena, &back);
    for (unsigned k = 1; k < 50; k++)
        assert_true(back.process[1].op[k].enqueue_ns > back.process[1].op[k - 1].enqueue_ns);
    muster_arena_free(&arena);
    free(made);
}

/* A class that is left out for every second operation, one kernel of a group, and untimed ones. */
static void test_odd_rows(void **state)
{
    (void)state;
    struct made *made = made_new(0, 1);
    struct muster_arena arena = {0};
    struct muster_wire_message back;
    made_step(made, -1);
    struct muster_wire_op *op = made->op[0];
    op[1].begin_ns = op[0].begin_ns;
    op[1].end_ns = op[0].end_ns;
    op[2].begin_ns = op[2].end_ns = 0;
    op[3].class = 6;
    op[3].number = 1ull << 40;
    op[4].begin_ns = op[3].begin_ns - 700; /* they overlap, on another stream */
    read_made(made, &arena, &back);
    const struct muster_wire_op *is = back.process[0].op;
    assert_int_equal(is[1].begin_ns, is[0].begin_ns);
    assert_int_equal(is[1].end_ns, is[0].end_ns);
    assert_int_equal(is[2].end_ns, 0);
    assert_int_equal(is[3].class, 6);
    assert_int_equal(is[3].number, 1ull << 40);
    assert_int_equal(is[4].number, 4);
    assert_true(is[4].begin_ns < is[3].end_ns);
    muster_arena_free(&arena);
    free(made);
}

static void test_links_come_back_as_they_were(void **state)
{
    (void)state;
    struct made *made = made_new(0, 1);
    struct muster_arena arena = {0};
    struct muster_wire_message back;
    struct muster_err err;
    size_t bytes;
    struct muster_seg_net net[] = {{.comm = 1,
                                    .peer = 3,
                                    .send = 1,
                                    .count = 7,
                                    .bytes = 1ull << 40,
                                    .steps = 9,
                                    .gpu_wait_ns = 1,
                                    .credit_wait_ns = 2,
                                    .net_wait_ns = 3,
                                    .flush_ns = 4},
                                   {.comm = 2, .peer = 0, .count = 1}};
    made_step(made, -1);
    made->process[1].net = net;
    made->process[1].nets = 2;
    unsigned char *data = made_bytes(made, &bytes);
    assert_int_equal(muster_wire_read("node0", data, bytes, &arena, &back, &err), 0);
    assert_int_equal(back.process[0].nets, 0);
    assert_int_equal(back.process[1].nets, 2);
    assert_memory_equal(back.process[1].net, net, sizeof net);
    muster_arena_free(&arena);
    free(data);
    net[1].comm = 0;
    data = made_bytes(made, &bytes);
    assert_int_equal(muster_wire_read("node0", data, bytes, &arena, &back, &err), -1);
    assert_non_null(strstr(err.text, "a link of no communicator"));
    muster_arena_free(&arena);
    free(data);
    free(made);
}

static void test_another_version_is_refused_by_number(void **state)
{
    (void)state;
    struct made *made = made_new(0, 1);
    struct muster_arena arena = {0};
    struct muster_wire_message back;
    struct muster_err err;
    size_t bytes;
    made_step(made, -1);
    unsigned char *data = made_bytes(made, &bytes);
    data[4] = MUSTER_WIRE_VERSION + 1;
    assert_int_equal(muster_wire_read("job", data, bytes, &arena, &back, &err), -1);
    assert_string_equal(err.text, "job: host node0 tells in wire version 5, this muster reads 4: "
                                  "update this one, as that host is newer");
    assert_int_equal(back.version, MUSTER_WIRE_VERSION + 1);
    data[4] = MUSTER_WIRE_VERSION - 1;
    assert_int_equal(muster_wire_read("job", data, bytes, &arena, &back, &err), -1);
    assert_non_null(strstr(err.text, "host node0 tells in wire version 3, this muster reads 4: "
                                     "update muster on that host"));
    assert_int_equal(muster_wire_read("job", data, 7, &arena, &back, &err), -1);
    assert_non_null(strstr(err.text, "job: a host tells in wire version 3"));
    assert_int_equal(muster_wire_read("node0", "hello world", 11, &arena, &back, &err), -1);
    assert_non_null(strstr(err.text, "not a message of muster's agents"));
    muster_arena_free(&arena);
    free(data);
    free(made);
}

/* Every message that is cut somewhere is refused, and says where; so is one with more behind. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    struct made *made = made_new(0, 1);
    struct muster_wire_message back;
    struct muster_err err;
    size_t bytes;
    made_step(made, -1);
    unsigned char *data = made_bytes(made, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        struct muster_arena arena = {0};
        unsigned char *part = malloc(cut + 1); /* so that reading beyond is seen */
        memcpy(part, data, cut);
        assert_int_equal(muster_wire_read("cut", part, cut, &arena, &back, &err), -1);
        assert_int_equal(strncmp(err.text, "cut: ", 5), 0);
        muster_arena_free(&arena);
        free(part);
    }
    struct muster_arena arena = {0};
    unsigned char *more = calloc(1, bytes + 1);
    memcpy(more, data, bytes);
    assert_int_equal(muster_wire_read("more", more, bytes + 1, &arena, &back, &err), -1);
    assert_non_null(strstr(err.text, "more behind its end"));
    muster_arena_free(&arena);
    free(more);
    free(data);
    free(made);
}

/* One wrong byte anywhere: refused or read, and what is read is inside all bounds. */
static void test_wrong_bytes(void **state)
{
    (void)state;
    struct made *made = made_new(0, 1);
    struct muster_wire_message back;
    size_t bytes;
    made_step(made, -1);
    unsigned char *data = made_bytes(made, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct muster_arena arena = {0};
            data[i] ^= (unsigned char)(1u << bit);
            if (muster_wire_read("wrong", data, bytes, &arena, &back, NULL) == 0)
                for (size_t p = 0; p < back.processes; p++)
                    for (size_t k = 0; k < back.process[p].ops; k++)
                        assert_true(back.process[p].op[k].begin_ns <= back.process[p].op[k].end_ns);
            data[i] ^= (unsigned char)(1u << bit);
            muster_arena_free(&arena);
        }
    }
    free(data);
    free(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_to_a_thousandth),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_findings_arrive_and_no_others),
        cmocka_unit_test(test_a_young_clock_is_told_exactly),
        cmocka_unit_test(test_what_comes_long_after_is_told_exactly),
        cmocka_unit_test(test_calls_stay_in_their_order),
        cmocka_unit_test(test_odd_rows),
        cmocka_unit_test(test_links_come_back_as_they_were),
        cmocka_unit_test(test_another_version_is_refused_by_number),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_wrong_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
