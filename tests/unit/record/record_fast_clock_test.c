#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "record/fast_clock.h"

/* What a reading may be off: a tie's two readings are apart, and so are they at the next tie. */
#define OFF_NS (5 * MUSTER_NS_PER_US)

static void assert_agrees(const struct muster_fast_clock *clock)
{
    uint64_t before = muster_now_ns();
    uint64_t fast = muster_fast_now_ns(clock);
    uint64_t after = muster_now_ns();
    assert_in_range(fast, before - OFF_NS, after + OFF_NS);
}

static bool tied(const struct muster_fast_clock *clock)
{
    return atomic_load(&clock->good_for) != 0;
}

/* False on machines whose kernel does not take the time from the counter. */
static bool tie(struct muster_fast_clock *clock)
{
    *clock = (struct muster_fast_clock){0};
    muster_fast_clock_init(clock, NULL);
    for (int i = 0; i < 1000 && clock->possible && !tied(clock); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        muster_fast_clock_tie(clock);
    }
    assert_int_equal(tied(clock), clock->possible);
    return clock->possible;
}

static void test_agrees_with_the_clock(void **state)
{
    (void)state;
    struct muster_fast_clock clock;
    if (!tie(&clock))
        skip();
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 1000; k++)
            assert_agrees(&clock);
        muster_fast_clock_tie(&clock);
    }
}

static void test_without_a_tie_it_is_the_clock(void **state)
{
    (void)state;
    struct muster_fast_clock clock = {0};
    assert_agrees(&clock);
    muster_fast_clock_tie(&clock); /* not possible: no tie */
    assert_false(tied(&clock));
    assert_agrees(&clock);
}

static void test_a_tie_that_cannot_be_trusted_is_not_used(void **state)
{
    (void)state;
    struct muster_fast_clock clock;
    if (!tie(&clock))
        skip();
    atomic_store(&clock.ns, 1); /* whoever used the tie now would be wrong by hours */
    uint64_t ticks = atomic_load(&clock.ticks), seq = atomic_load(&clock.seq);

    atomic_store(&clock.seq, (uint32_t)seq + 1); /* half written */
    assert_agrees(&clock);
    atomic_store(&clock.seq, (uint32_t)seq);
    atomic_store(&clock.ticks, ticks - atomic_load(&clock.good_for)); /* too old */
    assert_agrees(&clock);
    atomic_store(&clock.ticks, UINT64_MAX / 2); /* of another counter, ahead of this one */
    assert_agrees(&clock);
}

static uint64_t played_ns;

static uint64_t played(void)
{
    return played_ns;
}

static void test_a_replay_tells_the_time(void **state)
{
    (void)state;
    struct muster_fast_clock clock = {0};
    muster_fast_clock_init(&clock, played);
    played_ns = 12345;
    assert_int_equal(muster_fast_now_ns(&clock), 12345);
    assert_int_equal(muster_exact_now_ns(&clock), 12345);
    played_ns = 0; /* the call comes now */
    assert_agrees(&clock);
    muster_fast_clock_tie(&clock);
    assert_false(tied(&clock));
}

static void test_in_a_replay_what_arrives_arrives_now(void **state)
{
    (void)state;
    struct muster_fast_clock clock = {0};
    muster_fast_clock_init(&clock, played);
    played_ns = 12345;
    uint64_t before = muster_now_ns(), now = muster_arrival_ns(&clock);
    assert_true(before <= now && now <= muster_now_ns());
}

static int lowest_free_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

/* A process that makes recorders by the thousand would run out of them. */
static void test_asking_the_kernel_leaves_no_descriptor(void **state)
{
    (void)state;
    struct muster_fast_clock clock = {0};
    int before = lowest_free_descriptor();
    muster_fast_clock_init(&clock, NULL);
    assert_int_equal(lowest_free_descriptor(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_the_clock),
        cmocka_unit_test(test_without_a_tie_it_is_the_clock),
        cmocka_unit_test(test_a_tie_that_cannot_be_trusted_is_not_used),
        cmocka_unit_test(test_a_replay_tells_the_time),
        cmocka_unit_test(test_in_a_replay_what_arrives_arrives_now),
        cmocka_unit_test(test_asking_the_kernel_leaves_no_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
