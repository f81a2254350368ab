/* What an agent tells of segments: who, how far, operations, and within how many bytes. */
#include "segment_fixture.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fleet/gather.h"
#include "fleet/join.h"
#include "fleet/thinning.h"
#include "segment/image.h"

#define RUN     "/scratch/muster-7"
#define BEGIN   (1000 * MUSTER_NS_PER_S)
#define HALF_NS (MUSTER_NS_PER_S / 2)

struct site {
    struct fixture *fixture;
    struct muster_segment *segment;
    struct muster_seg_identity who;
    char path[128];
    struct muster_found found;
    struct muster_publisher_parts *parts;
    struct muster_gather *gather;
    struct muster_join *join;
    uint64_t now_ns, number;
    size_t bytes; /* of the last message */
    struct sums {
        size_t ops, rest; /* bytes of all messages: of operations; of all else but heads */
    } sums;
};

static void put(const struct site *site)
{
    int fd = open(site->path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, site->segment, sizeof *site->segment), sizeof *site->segment);
    close(fd);
}

static struct site *begin(void **state)
{
    struct site *site = calloc(1, sizeof *site);
    char name[MUSTER_FLEET_NAME];
    site->fixture = *state;
    fixture_identity(site->fixture, &site->who);
    snprintf(site->who.run_dir, sizeof site->who.run_dir, RUN);
    site->who.rank = 2;
    site->segment = muster_segment_new(&site->who);
    fixture_comm(site->segment);
    site->segment->comm[0].id = 0xabc;
    snprintf(site->path, sizeof site->path, "%s/1.seg", site->fixture->shm);
    put(site);
    site->found = (struct muster_found){.path = site->path, .alive = true, .uid = 1000};
    site->parts = muster_gather_parts_new();
    site->gather = muster_gather_new(&site->who, 1000, 42, site->parts);
    muster_fleet_name(name, 1000, RUN);
    site->join = muster_join_new(name);
    site->now_ns = BEGIN;
    return site;
}

static void finish(struct site *site)
{
    unlink(site->path);
    muster_gather_free(site->gather);
    free(site->parts);
    muster_join_free(site->join);
    free(site->segment);
    free(site);
}

/* `n` operations into the ring, evenly over half a second. */
static void work(struct site *site, unsigned n)
{
    for (unsigned i = 0; i < n; i++, site->number++) {
        uint64_t at = site->now_ns + i * HALF_NS / n;
        site->segment->ring[site->segment->ring_head % MUSTER_SEG_RING] =
            (struct muster_op){.number = site->number,
                               .enqueue_ns = at,
                               .begin_ns = at + 1000000,
                               .end_ns = at + 1100000 + site->number % 97,
                               .count = 4096,
                               .comm = 1,
                               .peer = -1,
                               .func = MUSTER_FUNC_ALL_REDUCE,
                               .dtype = MUSTER_DTYPE_FLOAT32,
                               .source = MUSTER_SOURCE_EVENT};
        site->segment->ring_head++;
        site->segment->comm[0].calls++;
        site->segment->comm[0].called_ns = at;
    }
}

static void add_sums(struct site *site, const struct muster_wire_out *out)
{
    struct muster_arena arena = {0};
    struct muster_wire_message message;
    struct muster_wire_out again = {0};
    struct muster_err err;
    if (muster_wire_read("test", out->byte, out->used, &arena, &message, &err) != 0)
        fail_msg("%s", err.text);
    muster_wire_write_head(&message, &again);
    size_t head = again.used, ops = 0;
    for (size_t i = 0; i < message.processes; i++)
        ops += muster_wire_write_process(&message, &message.process[i], &again);
    muster_wire_write_findings(&message, &again);
    assert_int_equal(again.used, out->used);
    site->sums.ops += ops;
    site->sums.rest += out->used - head - ops;
    free(again.byte);
    muster_arena_free(&arena);
}

/* Half a second: what was done is told, and heard. */
static void half(struct site *site, unsigned ops)
{
    struct muster_wire_out out = {0};
    struct muster_err err;
    work(site, ops);
    put(site);
    site->now_ns += HALF_NS;
    muster_gather_look(site->gather, &site->found, 1, site->now_ns);
    muster_gather_take(site->gather, site->now_ns);
    muster_gather_publish(site->gather, site->now_ns, site->now_ns, NULL, 0, &out);
    assert_false(out.failed);
    site->bytes = out.used;
    add_sums(site, &out);
    if (muster_join_take(site->join, out.byte, out.used, site->now_ns, site->now_ns, &err) != 0)
        fail_msg("%s", err.text);
    free(out.byte);
}

static void test_slow_job_tells_everything(void **state)
{
    struct site *site = begin(state);
    for (unsigned i = 0; i < 40; i++)
        half(site, 5);
    half(site, 0);
    assert_int_equal(site->join->processes, 1);
    const struct muster_join_process *process = &site->join->process[0];
    assert_int_equal(process->segment->identity.rank, 2);
    assert_string_equal(process->segment->comm[0].name, "dp");
    assert_int_equal(process->segment->comm[0].calls, site->segment->comm[0].calls);
    assert_int_equal(process->ops, site->number);
    for (size_t i = 0; i < process->ops; i++)
        assert_int_equal(process->op[i].number, i);
    assert_int_equal(site->join->unknown, 0);
    finish(site);
}

/* A thousand operations a second: whole blocks of a sparse level, within the bytes. */
static void test_quick_job_fits_its_bytes(void **state)
{
    struct site *site = begin(state);
    enum { HALVES = 240 };
    for (unsigned i = 0; i < HALVES; i++)
        half(site, 500);
    assert_in_range(site->sums.ops, 1, HALVES / 2 * MUSTER_GATHER_BYTES);
    assert_in_range(site->sums.rest, 1, HALVES / 2 * MUSTER_GATHER_BYTES);
    const struct muster_join_process *process = &site->join->process[0];
    unsigned timed = 0, together = 0;
    for (size_t i = 1; i < process->ops; i++) {
        timed += process->op[i].end_ns != 0;
        together += process->op[i].end_ns && process->op[i - 1].end_ns &&
                    process->op[i].number == process->op[i - 1].number + 1;
    }
    assert_true(timed >= 64);
    assert_true(together * 10 > timed * 9);
    finish(site);
}

/* Of five communicators, all of which move, and operations of many kinds both parts want more than
 * they may have: operations are told, and where communicators are more seldom. */
static void test_steps_of_many_communicators_fit_their_bytes(void **state)
{
    enum { COMMS = 5, OPS = 7, HALVES = 240 };
    struct site *site = begin(state);
    for (unsigned c = 1; c < COMMS; c++) {
        site->segment->comm[c] = site->segment->comm[0];
        site->segment->comm[c].uid = c + 1;
        site->segment->comm[c].id += c;
    }
    for (unsigned i = 0; i < HALVES; i++) {
        uint64_t had = site->segment->ring_head;
        for (unsigned k = 0; k < OPS; k++, had++) {
            struct muster_seg_comm *comm = &site->segment->comm[had % COMMS];
            uint64_t at = site->now_ns + k * HALF_NS / OPS;
            site->segment->ring[site->segment->ring_head++ % MUSTER_SEG_RING] =
                (struct muster_op){.number = comm->calls++,
                                   .enqueue_ns = at,
                                   .begin_ns = at + 1000000,
                                   .end_ns = at + 1100000,
                                   .count = 4096 + had % 4,
                                   .comm = comm->uid,
                                   .peer = -1,
                                   .func = MUSTER_FUNC_ALL_REDUCE,
                                   .dtype = MUSTER_DTYPE_FLOAT32,
                                   .source = MUSTER_SOURCE_EVENT};
            comm->called_ns = at;
        }
        half(site, 0);
        for (unsigned c = 0; c < COMMS && i > 20; c++)
            assert_true(
                site->segment->comm[c].calls - site->join->process[0].segment->comm[c].calls < 16);
    }
    half(site, 0);
    /* A message may run ahead by what the next ones pay. */
    assert_in_range(site->sums.ops + site->sums.rest, 1,
                    (HALVES + 2) / 2.0 * MUSTER_GATHER_BYTES_ALL);
    assert_int_equal(site->join->process[0].ops, OPS * HALVES);
    finish(site);
}

/* What is told is of now: it does not queue up behind all that came before a level was found. */
static void test_quick_job_is_told_soon(void **state)
{
    static const unsigned rates[] = {40, 85, 200, 500}; /* operations each half second */
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct site *site = begin(state);
        uint64_t oldest_ns = 0;
        for (unsigned i = 0; i < 120; i++) {
            size_t before = site->join->processes ? site->join->process[0].ops : 0;
            half(site, rates[r]);
            const struct muster_join_process *process = &site->join->process[0];
            for (size_t k = before; i > 20 && k < process->ops; k++) {
                uint64_t age_ns = site->now_ns - process->op[k].enqueue_ns;
                oldest_ns = age_ns > oldest_ns ? age_ns : oldest_ns;
            }
        }
        assert_true(oldest_ns < 7 * MUSTER_NS_PER_S);
        finish(site);
    }
}

/* Two ranks that have bytes for different shares have what the sparser one says in common; and each
 * level is an even share of what one that times all does. */
static void test_levels_nest(void **state)
{
    enum { OPS = 1 << 16 };
    (void)state;
    for (unsigned level = 0; level < 24; level++) {
        unsigned n = 0;
        for (uint64_t number = 0; number < OPS; number++) {
            bool has = muster_thinning_has(0xabc, number, level);
            n += has;
            assert_true(has || !muster_thinning_has(0xabc, number, level + 1));
            assert_true(!has || level < 2 * MUSTER_THINNING_STEPS ||
                        muster_sampling_takes(0xabc, number / MUSTER_SAMPLING_WINDOW,
                                              level / MUSTER_THINNING_STEPS - 2));
        }
        double share = pow(0.5, level / (double)MUSTER_THINNING_STEPS);
        assert_true(n > 0.9 * OPS * share && n < 1.1 * OPS * share);
    }
}

/* Ranks that call as often agree on a level, and keep it: whatever blocks a period happens to have.
 */
static void test_a_steady_rate_keeps_its_level(void **state)
{
    enum { RANKS = 4, HALVES = 240, SETTLED = 60, OPS = 130, SPARSE = 3 };
    unsigned level = 0;
    (void)state;
    for (unsigned rank = 0; rank < 2 * RANKS; rank++) {
        struct muster_thinning thinning = {0};
        uint64_t number = 1000 * rank;
        unsigned timed = rank < RANKS ? 0 : SPARSE; /* by `auto`, one window in eight */
        for (unsigned i = 1; i <= HALVES; i++) {
            for (unsigned k = 0; k < OPS; k++, number++)
                if (muster_sampling_takes(4, number / MUSTER_SAMPLING_WINDOW, timed))
                    muster_thinning_takes(&thinning, 4, number, timed);
            muster_thinning_turn(&thinning, i * MUSTER_NS_PER_S / 2, MUSTER_GATHER_BYTES);
            level = i == SETTLED && rank == 0 ? thinning.level : level;
            if (i >= SETTLED && rank < RANKS)
                assert_int_equal(thinning.level, level);
        }
        assert_in_range(thinning.level, level - 1, level + MUSTER_THINNING_STEPS / 2);
    }
}

static void test_what_stands_still_is_told_in_full(void **state)
{
    struct site *site = begin(state);
    half(site, 5);
    fixture_slot(site->segment, 7, 5, MUSTER_SLOT_LAUNCHED);
    site->segment->slot[7].started = 4;
    site->segment->comm[0].calls++;
    for (unsigned i = 0; i < 8; i++)
        half(site, 0);
    const struct muster_join_process *process = &site->join->process[0];
    assert_int_equal(process->segment->slot_state[0] & 0xff, MUSTER_SLOT_LAUNCHED);
    assert_int_equal(process->segment->slot[0].number, 5);
    assert_int_equal(process->segment->slot[0].started, 4);
    assert_int_equal(process->overs, 1);
    assert_int_equal(process->over[0].number, 4);
    half(site, 5); /* it goes on */
    assert_int_not_equal(process->segment->slot_state[0] & 0xff, MUSTER_SLOT_LAUNCHED);
    finish(site);
}

/* Whether the next message says what is found. */
static bool says(struct site *site, struct muster_finding *finding, size_t n)
{
    struct muster_arena arena = {0};
    struct muster_wire_message message;
    struct muster_wire_out out = {0};
    struct muster_err err;
    site->now_ns += HALF_NS;
    muster_gather_publish(site->gather, site->now_ns, site->now_ns, finding, n, &out);
    if (muster_wire_read("test", out.byte, out.used, &arena, &message, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(!message.finds || message.findings == n);
    bool finds = message.finds;
    muster_arena_free(&arena);
    free(out.byte);
    return finds;
}

/* What is found is sent once, and again so that who listens later knows it; that nothing is any
 * more, once. */
static void test_findings_are_sent_when_they_are_news(void **state)
{
    struct site *site = begin(state);
    struct muster_finding finding = {
        .kind = MUSTER_FINDING_LATE_RANK, .rank = {3}, .ranks = 1, .cost_s = 1};
    half(site, 5);
    assert_false(says(site, NULL, 0));
    assert_true(says(site, &finding, 1));
    unsigned again = 0;
    for (unsigned i = 0; i < 60; i++)
        again += says(site, &finding, 1);
    assert_in_range(again, 1, 2);
    finding.cost_s = 10;
    assert_true(says(site, &finding, 1));
    assert_true(says(site, NULL, 0));
    assert_false(says(site, NULL, 0));
    finish(site);
}

static void test_killed(void **state)
{
    struct site *site = begin(state);
    half(site, 5);
    site->found.alive = false;
    half(site, 0);
    assert_int_equal(site->join->process[0].state, MUSTER_PROCESS_KILLED);
    finish(site);
}

/* Who listens from later on knows everything within the kept minute. */
static void test_said_again(void **state)
{
    struct site *site = begin(state);
    half(site, 5);
    struct muster_join *first = site->join;
    site->join = muster_join_new(first->name);
    muster_join_free(first);
    for (unsigned i = 0; i < 90; i++)
        half(site, 5);
    assert_int_equal(site->join->processes, 1);
    assert_string_equal(site->join->process[0].segment->comm[0].name, "dp");
    assert_true(site->join->process[0].ops > 100);
    finish(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_slow_job_tells_everything, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test(test_levels_nest),
        cmocka_unit_test(test_a_steady_rate_keeps_its_level),
        cmocka_unit_test_setup_teardown(test_quick_job_is_told_soon, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_quick_job_fits_its_bytes, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_steps_of_many_communicators_fit_their_bytes,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_stands_still_is_told_in_full, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_findings_are_sent_when_they_are_news, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_killed, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_said_again, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
