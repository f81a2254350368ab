/* What operations are alike in, as they are heard of: the newest 256 by number, in little memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fleet/heard_classes.h"

static void put(struct muster_heard_classes *heard, uint32_t id)
{
    const struct muster_wire_class class = {.id = id, .like = {.count = 1000ull + id}};
    assert_true(muster_heard_classes_put(heard, &class));
}

static void expect(const struct muster_heard_classes *heard, uint32_t id)
{
    const struct muster_op *like = muster_heard_classes_find(heard, id);
    assert_non_null(like);
    assert_int_equal(like->count, 1000ull + id);
}

static void test_the_newest_256_are_known(void **state)
{
    struct muster_heard_classes heard = {0};
    (void)state;
    assert_null(muster_heard_classes_find(&heard, 0));
    for (uint32_t id = 0; id < 300; id++)
        put(&heard, id);
    for (uint32_t id = 0; id < 300; id++)
        if (id + MUSTER_WIRE_CLASSES < 300)
            assert_null(muster_heard_classes_find(&heard, id));
        else
            expect(&heard, id);
    muster_heard_classes_free(&heard);
}

/* Whoever begins to read in the middle hears of high numbers first. */
static void test_a_few_take_little(void **state)
{
    struct muster_heard_classes heard = {0};
    (void)state;
    for (uint32_t id = 1012; id < 1020; id++)
        put(&heard, id);
    put(&heard, 1015);
    for (uint32_t id = 1012; id < 1020; id++)
        expect(&heard, id);
    assert_null(muster_heard_classes_find(&heard, 1011));
    assert_int_equal(heard.places, 8);
    muster_heard_classes_free(&heard);
}

/* Anybody's numbers: those that share the last place of 256 displace each other. */
static void test_numbers_far_apart(void **state)
{
    struct muster_heard_classes heard = {0};
    (void)state;
    put(&heard, 7);
    put(&heard, UINT32_MAX - 1);
    expect(&heard, 7);
    put(&heard, 7 + 128);
    put(&heard, 7 + MUSTER_WIRE_CLASSES);
    expect(&heard, UINT32_MAX - 1);
    expect(&heard, 7 + 128);
    expect(&heard, 7 + MUSTER_WIRE_CLASSES);
    assert_null(muster_heard_classes_find(&heard, 7));
    assert_int_equal(heard.places, MUSTER_WIRE_CLASSES);
    muster_heard_classes_free(&heard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newest_256_are_known),
        cmocka_unit_test(test_a_few_take_little),
        cmocka_unit_test(test_numbers_far_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
