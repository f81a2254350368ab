#include "lab.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void three_percent_of_the_operations_are_timed_in_whole_blocks(void **state)
{
    (void)state;
    for (uint64_t id = 1; id < 200; id++) {
        unsigned timed = 0;
        const unsigned all = MUSTER_BLOCK * MUSTER_BLOCKS_A_TURN * 50;
        for (uint64_t n = 0; n < all; n++) {
            bool is = muster_block_timed(id * 0x123456789ull, n);
            assert_true(n % MUSTER_BLOCK == 0 ||
                        is == muster_block_timed(id * 0x123456789ull, n - 1));
            timed += is;
        }
        assert_int_equal(timed, all / MUSTER_BLOCKS_A_TURN);
    }
}

/* No step length may meet the blocks always or never. */
static void blocks_have_no_period(void **state)
{
    (void)state;
    for (unsigned period = 2; period <= 64; period++) {
        unsigned hits[64] = {0};
        for (uint64_t block = 0; block < 64 * 34 * 40; block++)
            if (muster_block_timed(0xfeed, block * MUSTER_BLOCK))
                hits[block % period]++;
        unsigned total = 64 * 40;
        for (unsigned phase = 0; phase < period; phase++)
            assert_true(hits[phase] > total / period / 4 && hits[phase] < total / period * 3);
    }
}

struct world {
    struct lab lab;
    int mask;
};

enum { RESTING = 2, TIMING = 2 | 64 };

static void world_open(struct world *world)
{
    lab_open(&world->lab, false, true);
    muster_recorder_comm_close(world->lab.rec, world->lab.ctx);
    world->lab.rec->arming = (struct muster_arming){
        .mask = &world->mask, .resting = RESTING, .timing = TIMING, .possible = true};
    world->mask = RESTING;
}

/* One collective as NCCL calls it: the mask is read first. Returns whether it was timed. */
static bool collective(struct world *world, void *ctx)
{
    bool timed = world->mask == TIMING;
    void *op = lab_collective(&world->lab, ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    for (unsigned c = 0; timed && op && c < 8; c++)
        lab_kernel_stop(&world->lab, lab_kernel(&world->lab, op, c, 1), 2);
    return timed;
}

static void the_mask_stands_one_operation_ahead(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    void *ctx = lab_comm(&world.lab, 0xabcdef, 4, 1, 5);
    for (uint64_t n = 0; n < 20000; n++) {
        assert_int_equal(collective(&world, ctx), muster_block_timed(0xabcdef, n));
        if (n % 512 == 0)
            lab_drain(&world.lab, 0);
    }
    lab_close(&world.lab);
}

/* Any two ranks that see the same sequence of operations time the same ones, whatever it is. */
static void two_ranks_with_the_same_sequence_time_the_same(void **state)
{
    (void)state;
    enum { COMMS = 6, STEPS = 30000 };
    for (unsigned seed = 1; seed <= 5; seed++) {
        struct world a, b;
        world_open(&a);
        world_open(&b);
        void *ctx_a[COMMS], *ctx_b[COMMS];
        for (unsigned c = 0; c < COMMS; c++) {
            ctx_a[c] = lab_comm(&a.lab, 1000 * seed + c, 4, 1, 5);
            ctx_b[c] = lab_comm(&b.lab, 1000 * seed + c, 4, 1, 5);
        }
        srand(seed);
        unsigned timed = 0;
        for (unsigned n = 0; n < STEPS; n++) {
            unsigned c = (unsigned)rand() % (1 + (unsigned)rand() % COMMS);
            bool is = collective(&a, ctx_a[c]);
            assert_int_equal(is, collective(&b, ctx_b[c]));
            timed += is;
            if (n % 512 == 0) {
                lab_drain(&a.lab, 0);
                lab_drain(&b.lab, 0);
            }
        }
        assert_true(timed > 0 && timed < STEPS / 10);
        lab_close(&a.lab);
        lab_close(&b.lab);
    }
}

static void an_idle_communicator_does_not_keep_the_mask_up(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    lab_comm(&world.lab, 0x1d1e, 4, 1, 5);
    void *busy = lab_comm(&world.lab, 0xb057, 4, 1, 5);
    unsigned timed = 0;
    for (unsigned n = 0; n < 2000; n++)
        timed += collective(&world, busy);
    assert_true(timed >= MUSTER_BLOCK && timed <= 4 * MUSTER_BLOCK);
    lab_close(&world.lab);
}

static void many_communicators_start_no_blocks(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    void *ctx[MUSTER_ARMING_COMMS + 1];
    for (unsigned c = 0; c <= MUSTER_ARMING_COMMS; c++)
        ctx[c] = lab_comm(&world.lab, c + 1, 4, 1, 5);
    for (unsigned n = 0; n < 4 * MUSTER_BLOCK * MUSTER_ARMING_COMMS; n++)
        collective(&world, ctx[0]);
    lab_drain(&world.lab, 0);
    for (unsigned n = 0; n < 3000; n++) {
        assert_false(collective(&world, ctx[0]));
        if (n % 512 == 0)
            lab_drain(&world.lab, 0);
    }
    lab_close(&world.lab);
}

/* Each first arming costs NCCL connections, also when those of the earlier ones are gone. */
static void only_the_first_eight_communicators_start_blocks(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    for (unsigned c = 0; c < MUSTER_ARMING_COMMS; c++) {
        void *ctx = lab_comm(&world.lab, c + 1, 4, 1, 5);
        assert_true(collective(&world, ctx));
        muster_recorder_comm_close(world.lab.rec, ctx);
    }
    void *ninth = lab_comm(&world.lab, MUSTER_ARMING_COMMS + 1, 4, 1, 5);
    for (unsigned n = 0; n < 10000; n++) {
        assert_false(collective(&world, ninth));
        if (n % 512 == 0)
            lab_drain(&world.lab, 0);
    }
    lab_close(&world.lab);
}

/* The ninth starts no block, but the mask is the process's. */
static void a_neighbour_that_a_block_arms_late_is_marked_once(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    for (unsigned c = 0; c + 1 < MUSTER_ARMING_COMMS; c++)
        muster_recorder_comm_close(world.lab.rec, lab_comm(&world.lab, c + 1, 4, 1, 5));
    void *eighth = lab_comm(&world.lab, MUSTER_ARMING_COMMS, 4, 1, 5);
    while (collective(&world, eighth))
        continue;
    void *ninth = lab_comm(&world.lab, MUSTER_ARMING_COMMS + 1, 4, 1, 5);
    for (unsigned n = 0; n < 500; n++)
        assert_false(collective(&world, ninth));
    for (unsigned n = 0; world.mask != TIMING; n++) {
        assert_true(n < 100 * MUSTER_BLOCK * MUSTER_BLOCKS_A_TURN);
        collective(&world, eighth);
        lab_drain(&world.lab, 0);
    }
    for (unsigned n = 0; n < 4; n++) {
        assert_true(collective(&world, ninth));
        lab_drain(&world.lab, 0);
        assert_int_equal(lab_last(&world.lab)->number, 500 + n);
        assert_int_equal((lab_last(&world.lab)->flags & MUSTER_OP_ARMING) != 0, n == 0);
    }
    lab_close(&world.lab);
}

static void a_captured_graph_ends_all_blocks(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    void *ctx = lab_comm(&world.lab, 0xabc, 4, 1, 5);
    assert_true(collective(&world, ctx));
    muster_track_stop(world.lab.rec, lab_group(&world.lab, ctx, true));
    for (unsigned n = 0; n < 1000; n++)
        assert_false(collective(&world, ctx));
    lab_close(&world.lab);
}

static void a_closed_communicator_gives_the_mask_back(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    void *ctx = lab_comm(&world.lab, 0xabc, 4, 1, 5);
    assert_int_equal(world.mask, TIMING);
    muster_recorder_comm_close(world.lab.rec, ctx);
    assert_int_equal(world.mask, RESTING);
    lab_close(&world.lab);
}

static void the_first_arming_is_not_judged(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    collective(&world, lab_comm(&world.lab, 0xabc, 4, 1, 5));
    lab_drain(&world.lab, 0);
    assert_true(lab_last(&world.lab)->flags & MUSTER_OP_UNSCORED);
    lab_close(&world.lab);
}

static void what_follows_the_first_arming_is_judged(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    void *ctx = lab_comm(&world.lab, 0xabc, 4, 1, 5);
    for (unsigned n = 0; n < 6; n++)
        collective(&world, ctx);
    lab_drain(&world.lab, 0);
    assert_int_equal(lab_last(&world.lab)->number, 5);
    assert_false(lab_last(&world.lab)->flags & MUSTER_OP_UNSCORED);
    lab_close(&world.lab);
}

/* As its stop shows: copy engines run no kernel, so there is nothing to wait for. */
static void a_copy_engine_collective_inside_a_block_is_retired(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    void *ctx = lab_comm(&world.lab, 0xabc, 4, 1, 6);
    struct muster_event_op op = lab_op(MUSTER_FUNC_ALL_GATHER, 1 << 24);
    struct muster_event ce = {
        .kind = MUSTER_EVENT_CE_COLL, .parent = lab_call(&world.lab, ctx, &op), .op = op};
    muster_track_stop(world.lab.rec, muster_track_start(world.lab.rec, ctx, &ce));
    lab_drain(&world.lab, 0);
    assert_int_equal(lab_count(&world.lab, MUSTER_FUNC_ALL_GATHER), 1);
    assert_int_equal(lab_last(&world.lab)->source, MUSTER_SOURCE_HOST);
    lab_close(&world.lab);
}

/* All sends of a group are called, and the mask read for them, before the first is launched. */
static void a_group_of_sends_is_timed_as_it_was_called(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    void *ctx = lab_comm(&world.lab, 0xabc, 8, 1, 5);
    for (unsigned n = 0; n < 200; n++) {
        void *call[7];
        bool timed = world.mask == TIMING;
        struct muster_event api = {.kind = MUSTER_EVENT_P2P_API, .op = lab_op(MUSTER_FUNC_SEND, 1)};
        for (int peer = 0; peer < 7; peer++)
            call[peer] = muster_track_start(world.lab.rec, ctx, &api);
        for (int peer = 0; peer < 7; peer++) {
            struct muster_event p2p = {
                .kind = MUSTER_EVENT_P2P, .parent = call[peer], .op = lab_op(MUSTER_FUNC_SEND, 1)};
            p2p.op.root_or_peer = peer;
            void *op = muster_track_start(world.lab.rec, ctx, &p2p);
            if (timed)
                lab_kernel_stop(&world.lab, lab_kernel(&world.lab, op, 0, 1), 2);
        }
        lab_drain(&world.lab, MUSTER_NS_PER_S);
    }
    assert_int_equal(lab_count(&world.lab, MUSTER_FUNC_SEND), 200 * 7);
    assert_int_equal(lab_drops(&world.lab, MUSTER_DROP_INCOMPLETE), 0);
    assert_int_equal(lab_drops(&world.lab, MUSTER_DROP_STALE), 0);
    lab_close(&world.lab);
}

/* ---- Two threads at a block's edges ---- */

enum { EDGES = 200000 };

struct edge {
    struct muster_arming arming;
    int mask;
    _Atomic unsigned met; /* by both, as often as both came; a barrier would wake one too late */
};

struct edge_thread {
    struct edge *edge;
    struct muster_block_state state;
    uint64_t ahead; /* of the other: one's block begins where the other's ends */
};

static void meet(struct edge *edge, unsigned *mine)
{
    *mine += 2;
    atomic_fetch_add(&edge->met, 1);
    for (unsigned spin = 0; (int)(atomic_load(&edge->met) - *mine) < 0; spin++)
        if (spin % 1000 == 999)
            sched_yield(); /* one processor, or a busy one */
}

static void *cross_edges(void *arg)
{
    struct edge_thread *thread = arg;
    struct edge *edge = thread->edge;
    void *wrong = NULL;
    unsigned met = 0;
    for (uint64_t i = thread->ahead; i < EDGES + thread->ahead; i++) {
        meet(edge, &met);
        /* Block 0 is timed, block 1 is not. */
        muster_arming_turn(&edge->arming, &thread->state, 1, i % 2 * MUSTER_BLOCK, 1);
        meet(edge, &met);
        if (__atomic_load_n(&edge->mask, __ATOMIC_RELAXED) != muster_arming_mask(&edge->arming))
            wrong = edge;
    }
    return wrong;
}

static void the_mask_follows_what_two_threads_decide(void **state)
{
    (void)state;
    struct edge edge = {.mask = RESTING,
                        .arming = {.resting = RESTING, .timing = TIMING, .possible = true}};
    edge.arming.mask = &edge.mask;
    struct edge_thread thread[2] = {{.edge = &edge}, {.edge = &edge, .ahead = 1}};
    pthread_t id;
    void *other;
    assert_int_equal(pthread_create(&id, NULL, cross_edges, &thread[1]), 0);
    void *wrong = cross_edges(&thread[0]);
    pthread_join(id, &other);
    assert_null(wrong);
    assert_null(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_percent_of_the_operations_are_timed_in_whole_blocks),
        cmocka_unit_test(blocks_have_no_period),
        cmocka_unit_test(the_mask_stands_one_operation_ahead),
        cmocka_unit_test(two_ranks_with_the_same_sequence_time_the_same),
        cmocka_unit_test(an_idle_communicator_does_not_keep_the_mask_up),
        cmocka_unit_test(many_communicators_start_no_blocks),
        cmocka_unit_test(only_the_first_eight_communicators_start_blocks),
        cmocka_unit_test(a_neighbour_that_a_block_arms_late_is_marked_once),
        cmocka_unit_test(a_captured_graph_ends_all_blocks),
        cmocka_unit_test(a_closed_communicator_gives_the_mask_back),
        cmocka_unit_test(the_first_arming_is_not_judged),
        cmocka_unit_test(what_follows_the_first_arming_is_judged),
        cmocka_unit_test(a_copy_engine_collective_inside_a_block_is_retired),
        cmocka_unit_test(a_group_of_sends_is_timed_as_it_was_called),
        cmocka_unit_test(the_mask_follows_what_two_threads_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
