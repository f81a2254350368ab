/* MUSTER_CHAIN: another profiler beside muster, and muster beside others. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child_profiler.h"
#include "host_testbed.h"

#include <cmocka.h>

enum { NRANKS = 8, TYPE_KERNEL_CH = 6 };

static const struct standin_comm_config comm_tp = {
    .hash = CHILD_HASH, .name = "tp", .rank = 3, .nranks = NRANKS};

/* --- the child's report ----------------------------------------------------------------------- */

struct beside {
    char report[64];
    struct child_report *reported;
};

static void beside_begin(struct beside *beside, const char *child, const char *mask,
                         const char *mode)
{
    unsetenv("MUSTER_TEST_PLUGIN_PATH");
    strcpy(beside->report, "/tmp/muster-child-XXXXXX");
    int fd = mkstemp(beside->report);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof *beside->reported), 0);
    beside->reported =
        mmap(NULL, sizeof *beside->reported, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(beside->reported != MAP_FAILED);
    close(fd);
    setenv("CHILD_REPORT", beside->report, 1);
    setenv("MUSTER_CHAIN", child, 1);
    setenv("CHILD_MASK", mask, 1);
    setenv("CHILD_MODE", mode, 1);
}

static void beside_end(struct beside *beside)
{
    munmap(beside->reported, sizeof *beside->reported);
    unlink(beside->report);
    unsetenv("MUSTER_CHAIN");
    unsetenv("MUSTER_TEST_PLUGIN_PATH");
}

/* --- ordinary operations ---------------------------------------------------------------------- */

static void all_kinds(struct standin *nccl)
{
    static const struct standin_op ops[] = {
        {.func = "AllReduce", .count = 1000},
        {.func = "AllReduce", .count = 4096, .algo = "NVLS", .channels = 16},
        {.func = "AllGather", .count = 100, .dtype = "ncclBfloat16"},
        {.func = "Broadcast", .count = 77, .dtype = "ncclInt64", .root_or_peer = 5},
        {.func = "Send", .count = 10, .dtype = "ncclInt32", .root_or_peer = 4},
        {.func = "AllReduce",
         .count = 64,
         .net_ops = 2,
         .net_peer = 1,
         .net_steps = 3,
         .net_chunk = 4096,
         .net_send = true},
    };
    standin_keep_stderr();
    struct standin_comm *comm = standin_comm_init(nccl, &comm_tp);
    for (unsigned i = 0; i < sizeof ops / sizeof *ops; i++)
        standin_call_times(comm, &ops[i], 5);
    if (nccl->gen->ce)
        standin_call(comm, &(struct standin_op){.func = "AllGather", .count = 9, .ce = true});
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void all_kinds_where_nobody_writes(struct standin *nccl)
{
    nccl->read_only = true;
    all_kinds(nccl);
}

static void print_reports(const struct child_report *a, const struct child_report *b)
{
    const _Atomic uint64_t *x = &a->api, *y = &b->api;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++)
        if (x[i] != y[i])
            print_error("word %zu: alone %llu, beside muster %llu\n", i, (unsigned long long)x[i],
                        (unsigned long long)y[i]);
}

/* From 2.29 on broadcasts come as calls only. */
static unsigned shown_colls(unsigned api)
{
    return api >= 6 ? 20 : 25;
}

/* What the child is told by NCCL itself is what it is told beside muster. */
static void a_child_of_every_version_is_told_what_nccl_would_tell_it(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        static const char *const masks[] = {"0xffff", "0x2", "0xe", "0x1000"};
        for (unsigned i = 0; i < sizeof masks / sizeof *masks; i++) {
            struct standin_testbed testbed;
            struct beside alone, chained;
            beside_begin(&alone, "", masks[i], "");
            setenv("MUSTER_TEST_PLUGIN_PATH", MUSTER_TEST_CHILD_7, 1);
            standin_testbed_run_nothing(&testbed, api, "light", all_kinds);
            unsetenv("MUSTER_TEST_PLUGIN_PATH");
            standin_testbed_end(&testbed);

            beside_begin(&chained, MUSTER_TEST_CHILD_7, masks[i], "");
            standin_testbed_run(&testbed, api, "light", all_kinds);
            standin_testbed_expect_all(&testbed);
            standin_testbed_end(&testbed);
            assert_int_equal(chained.reported->api, api);
            assert_true(api > 2 || chained.reported->starts[1] > 0 || i == 3);
            assert_int_equal(chained.reported->again, 0);
            if (memcmp(alone.reported, chained.reported, offsetof(struct child_report, again)) !=
                0) {
                print_error("v%u, mask %s: told differently\n", api, masks[i]);
                print_reports(alone.reported, chained.reported);
                fail();
            }
            beside_end(&alone);
            beside_end(&chained);
        }
    }
}

static void nobody_writes_into_a_descriptor(void **state)
{
    static const struct {
        const char *child, *mode;
    } ways[] = {
        {MUSTER_TEST_CHILD_7, ""}, {MUSTER_TEST_CHILD_7, "null"}, {MUSTER_TEST_CHILD_4, ""}};
    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++)
        for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
            struct standin_testbed testbed;
            struct beside beside;
            beside_begin(&beside, ways[i].child, "0xffff", ways[i].mode);
            standin_testbed_run(&testbed, api, "light", all_kinds_where_nobody_writes);
            standin_testbed_expect_all(&testbed);
            standin_testbed_end(&testbed);
            assert_true(beside.reported->starts[0] > 0);
            beside_end(&beside);
        }
}

static void an_older_child_is_told_in_its_own_interface(void **state)
{
    static const struct {
        const char *path;
        unsigned newest;
    } children[] = {{MUSTER_TEST_CHILD_1, 1}, {MUSTER_TEST_CHILD_3, 3}, {MUSTER_TEST_CHILD_4, 4}};
    (void)state;
    for (unsigned api = 2; api <= standin_generations_n; api++)
        for (unsigned i = 0; i < sizeof children / sizeof *children; i++) {
            struct standin_testbed testbed;
            struct beside beside;
            beside_begin(&beside, children[i].path, "0xffff", "");
            standin_testbed_run(&testbed, api, "light", all_kinds);
            standin_testbed_expect_all(&testbed);
            standin_testbed_end(&testbed);
            unsigned newest = children[i].newest < api ? children[i].newest : api;
            assert_int_equal(beside.reported->api, newest);
            assert_int_equal(beside.reported->inits, 1);
            assert_int_equal(beside.reported->finalizes, 1);
            assert_int_equal(beside.reported->starts[1], shown_colls(api));
            assert_int_equal(beside.reported->starts[2], 5);
            assert_int_equal(beside.reported->starts[3], 10);
            for (unsigned kind = 0; kind < CHILD_KINDS; kind++)
                assert_int_equal(beside.reported->starts[kind], beside.reported->stops[kind]);
            assert_int_equal(beside.reported->named, newest <= 3 ? shown_colls(api) + 5 : 0);
            assert_true(beside.reported->parents >=
                        shown_colls(api) + 5 + 10); /* groups, and operations of the net */
            beside_end(&beside);
        }
}

/* --- a child that fails, or is none ------------------------------------------------------------
 */

static void muster_goes_on_without_a_child_that_fails(void **state)
{
    static const struct {
        const char *chain, *mode, *expected;
    } cases[] = {{MUSTER_TEST_CHILD_7, "fail", "child failed in init (3)"},
                 {"/nowhere/libother.so", "", "/nowhere/libother.so"},
                 {"nobody-has-this", "", "nobody-has-this"},
                 {"libm.so.6", "", "has no ncclProfiler_v1"},
                 {MUSTER_TEST_PLUGIN, "", "is muster itself"}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct standin_testbed testbed;
        struct beside beside;
        beside_begin(&beside, cases[i].chain, "0xffff", cases[i].mode);
        standin_testbed_run(&testbed, 6, "light", all_kinds);
        standin_testbed_expect_all(&testbed);
        if (standin_testbed_lines(&testbed, cases[i].expected) != 1 ||
            standin_testbed_lines(&testbed, "MUSTER_CHAIN") != 1 ||
            standin_testbed_lines(&testbed, "muster goes on without it") != 1)
            fail_msg("%s: not said in one line", cases[i].expected);
        standin_testbed_end(&testbed);
        beside_end(&beside);
    }
}

static void a_child_without_handles_is_told_the_starts(void **state)
{
    struct standin_testbed testbed;
    struct beside beside;
    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        beside_begin(&beside, MUSTER_TEST_CHILD_7, "0xffff", "null");
        standin_testbed_run(&testbed, api, "light", all_kinds);
        standin_testbed_expect_all(&testbed);
        standin_testbed_end(&testbed);
        assert_int_equal(beside.reported->starts[1], shown_colls(api));
        assert_int_equal(beside.reported->stops[1], 0);
        beside_end(&beside);
    }
}

static void a_second_muster_says_that_the_first_records(void **state)
{
    struct standin_testbed testbed;
    struct beside beside;
    (void)state;
    beside_begin(&beside, MUSTER_TEST_COPY, "0", "");
    standin_testbed_run(&testbed, 6, "light", all_kinds);
    standin_testbed_expect_all(&testbed);
    assert_int_equal(standin_testbed_lines(&testbed, "another copy of muster records this process"),
                     1);
    standin_testbed_end(&testbed);
    beside_end(&beside);
}

/* --- kernels --------------------------------------------------------------------------------- */

static void kernels_that_the_child_asks_for_are_its_own(void **state)
{
    struct standin_testbed testbed;
    struct beside beside;
    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        beside_begin(&beside, MUSTER_TEST_CHILD_7, "0x42", "");
        standin_testbed_run(&testbed, api, "light", all_kinds);
        assert_true(beside.reported->starts[TYPE_KERNEL_CH] > 0);
        assert_int_equal(beside.reported->starts[TYPE_KERNEL_CH],
                         beside.reported->stops[TYPE_KERNEL_CH]);
        assert_int_equal(standin_testbed_timed(&testbed, MUSTER_FUNCS), 0);
        standin_testbed_expect_all(&testbed);
        assert_int_equal(standin_testbed_lines(&testbed, "has NCCL stamp its kernels"), 1);
        standin_testbed_end(&testbed);
        beside_end(&beside);
    }
}

static void without_kernels_of_the_child_nothing_is_said(void **state)
{
    struct standin_testbed testbed;
    struct beside beside;
    (void)state;
    beside_begin(&beside, MUSTER_TEST_CHILD_7, "0xe", "");
    standin_testbed_run(&testbed, 6, "light", all_kinds);
    assert_int_equal(standin_testbed_lines(&testbed, "MUSTER_CHAIN"), 0);
    standin_testbed_end(&testbed);
    beside_end(&beside);
}

/* --- the network of other processes ------------------------------------------------------------
 */

static void work_for_others(struct standin *nccl)
{
    void *handle = NULL, *step = NULL;
    struct standin_comm *comm = standin_comm_init(nccl, &comm_tp);
    struct standin_event event = {.type = STANDIN_PROXY_OP,
                                  .parent = (void *)0x7f0123456780,
                                  .pid = getpid() + 1,
                                  .root_or_peer = 1,
                                  .steps = 1};
    for (int i = 0; i < 100; i++) {
        event.type = STANDIN_PROXY_OP;
        event.parent = (void *)0x7f0123456780;
        standin_start(nccl, (void *)0x7f0123450000, &handle, &event);
        if (!handle)
            continue;
        event.type = STANDIN_PROXY_STEP;
        event.parent = handle;
        standin_start(nccl, (void *)0x7f0123450000, &step, &event);
        if (step)
            standin_stop(nccl, step);
        standin_stop(nccl, handle);
    }
    standin_comm_destroy(comm);
}

static void parents_in_other_processes_are_left_as_they_are(void **state)
{
    struct standin_testbed testbed;
    struct beside beside;
    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        beside_begin(&beside, MUSTER_TEST_CHILD_7, "0xffff", "");
        standin_testbed_run_nothing(&testbed, api, "light", work_for_others);
        standin_testbed_end(&testbed);
        assert_int_equal(beside.reported->foreign, 100);
        assert_int_equal(beside.reported->starts[3], 100);
        assert_int_equal(beside.reported->stops[3], 100);
        assert_int_equal(beside.reported->starts[4], 100);
        beside_end(&beside);
    }
}

/* --- any order ------------------------------------------------------------------------------- */

enum { THREADS = 4, EVENTS = 250000, HELD = 64 };

struct disorder {
    struct standin *nccl;
    struct standin_comm *comm; /* its own: NCCL calls for one from one thread at a time */
    uint64_t seed;
};

static unsigned draw(struct disorder *d, unsigned n)
{
    d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(d->seed >> 33) % n;
}

/* Starts below any parent, stopped or not; stops in any order, and handles that are kept for ever.
 */
static void *disorder(void *argument)
{
    struct disorder *d = argument;
    void *held[HELD] = {0}, *stopped[HELD] = {0};
    static const unsigned types[] = {0x1, 0x2, 0x4, 0x8, 0x10, 0x40, 0x100, 0x200, 0x400, 0x800};
    for (unsigned i = 0; i < EVENTS; i++) {
        unsigned at = draw(d, HELD);
        void **parents = draw(d, 2) ? held : stopped;
        struct standin_event event = {.type = types[draw(d, 10)],
                                      .parent = draw(d, 8) ? parents[draw(d, HELD)] : NULL,
                                      .func = "AllReduce",
                                      .dtype = "ncclFloat32",
                                      .algo = "RING",
                                      .proto = "SIMPLE",
                                      .count = draw(d, 1000),
                                      .pid = getpid()};
        if (draw(d, 50) == 0) { /* never stopped */
            held[at] = NULL;
        } else if (held[at]) {
            if (draw(d, 2))
                standin_record(d->nccl, held[at], 23, NULL);
            standin_stop(d->nccl, held[at]);
            if (draw(d, 10) == 0) /* NCCL does that to calls */
                standin_stop(d->nccl, held[at]);
            stopped[at] = held[at];
        }
        standin_start(d->nccl, d->comm->context, &held[at], &event);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i])
            standin_stop(d->nccl, held[i]);
    return NULL;
}

static void a_million_events(struct standin *nccl)
{
    struct disorder d[THREADS];
    pthread_t thread[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        struct standin_comm_config config = comm_tp;
        config.hash += i;
        d[i] = (struct disorder){
            .nccl = nccl, .comm = standin_comm_init(nccl, &config), .seed = i + 1};
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, disorder, &d[i]);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        standin_comm_destroy(d[i].comm);
}

static void a_million_events_in_any_order_reach_the_child_as_its_own(void **state)
{
    struct standin_testbed testbed;
    struct beside beside;
    uint64_t starts = 0, stops = 0;
    (void)state;
    beside_begin(&beside, MUSTER_TEST_CHILD_7, "0xffff", "");
    standin_testbed_run_nothing(&testbed, 6, "light", a_million_events);
    standin_testbed_end(&testbed);
    for (unsigned kind = 0; kind < CHILD_KINDS; kind++) {
        starts += beside.reported->starts[kind];
        stops += beside.reported->stops[kind];
        assert_true(beside.reported->stops[kind] <= beside.reported->starts[kind]);
    }
    assert_int_equal(starts, THREADS * EVENTS);
    assert_true(stops > starts * 9 / 10 && stops < starts);
    assert_int_equal(beside.reported->again, 0);
    assert_int_equal(beside.reported->finalizes, 4);
    beside_end(&beside);
}

/* --- communicators -----------------------------------------------------------------------------
 */

static void communicators_that_come_and_go(struct standin *nccl)
{
    struct standin_op op = {.func = "AllReduce", .count = 8};
    for (unsigned i = 0; i < 1500; i++) { /* more than there are places for contexts */
        struct standin_comm_config config = comm_tp;
        config.hash += i;
        struct standin_comm *comm = standin_comm_init(nccl, &config);
        standin_call(comm, &op);
        standin_comm_destroy(comm);
    }
}

static void the_child_sees_every_communicator_begin_and_end(void **state)
{
    struct standin_testbed testbed;
    struct beside beside;
    (void)state;
    beside_begin(&beside, MUSTER_TEST_CHILD_7, "0x2", "");
    standin_testbed_run_nothing(&testbed, 6, "light", communicators_that_come_and_go);
    standin_testbed_end(&testbed);
    assert_int_equal(beside.reported->inits, 1500);
    assert_int_equal(beside.reported->finalizes, 1500);
    assert_int_equal(beside.reported->starts[1], 1500);
    beside_end(&beside);
}

static void muster_is_whole_as_somebodys_child(void **state)
{
    struct standin_testbed testbed;
    (void)state;
    setenv("MUSTER_TEST_PLUGIN_PATH", MUSTER_TEST_PARENT, 1);
    setenv("PARENT_LOADS", MUSTER_TEST_PLUGIN, 1);
    standin_testbed_run(&testbed, 5, "light", all_kinds);
    unsetenv("MUSTER_TEST_PLUGIN_PATH");
    standin_testbed_expect_all(&testbed);
    assert_int_equal(standin_testbed_process(&testbed)->state, MUSTER_PROCESS_FINALIZED);
    standin_testbed_end(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_of_every_version_is_told_what_nccl_would_tell_it),
        cmocka_unit_test(nobody_writes_into_a_descriptor),
        cmocka_unit_test(an_older_child_is_told_in_its_own_interface),
        cmocka_unit_test(muster_goes_on_without_a_child_that_fails),
        cmocka_unit_test(a_child_without_handles_is_told_the_starts),
        cmocka_unit_test(a_second_muster_says_that_the_first_records),
        cmocka_unit_test(kernels_that_the_child_asks_for_are_its_own),
        cmocka_unit_test(without_kernels_of_the_child_nothing_is_said),
        cmocka_unit_test(parents_in_other_processes_are_left_as_they_are),
        cmocka_unit_test(a_million_events_in_any_order_reach_the_child_as_its_own),
        cmocka_unit_test(the_child_sees_every_communicator_begin_and_end),
        cmocka_unit_test(muster_is_whole_as_somebodys_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
