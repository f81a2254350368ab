/* Messages that wait for the server's word: in order, and again where it does not come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "fleet/nats/outbox.h"

static void add(struct muster_outbox *outbox, uint64_t now_ns)
{
    assert_true(muster_outbox_add(outbox, "a.job", calloc(1, 10), 10, now_ns));
}

static uint64_t next_id(struct muster_outbox *outbox, uint64_t now_ns)
{
    const struct muster_letter *letter = muster_outbox_next(outbox, now_ns);
    assert_non_null(letter);
    return letter->id;
}

static void test_who_does_not_answer_is_sent_it_again(void **state)
{
    struct muster_outbox outbox = {0};
    (void)state;
    add(&outbox, 1);
    add(&outbox, 1);
    assert_false(muster_outbox_overdue(&outbox, 1 + MUSTER_OUTBOX_KEPT_NS)); /* nothing was sent */
    assert_int_equal(next_id(&outbox, 10), 0);
    assert_int_equal(next_id(&outbox, 20), 1);
    muster_outbox_answer(&outbox, 0, true);
    assert_false(muster_outbox_overdue(&outbox, 20 + MUSTER_OUTBOX_ANSWER_NS));
    assert_true(muster_outbox_overdue(&outbox, 21 + MUSTER_OUTBOX_ANSWER_NS));
    muster_outbox_recall(&outbox);
    assert_int_equal(next_id(&outbox, 30 + MUSTER_OUTBOX_ANSWER_NS), 1);
    assert_null(muster_outbox_next(&outbox, 30 + MUSTER_OUTBOX_ANSWER_NS));
    assert_false(muster_outbox_overdue(&outbox, 31 + MUSTER_OUTBOX_ANSWER_NS));
    muster_outbox_answer(&outbox, 1, true);
    assert_int_equal(muster_outbox_waiting(&outbox), 0);
    assert_int_equal(outbox.there, 2);
    assert_int_equal(outbox.lost, 0);
    muster_outbox_free(&outbox);
}

/* What is refused is sent again once everything that flies was answered. */
static void test_what_is_refused_waits_for_the_others(void **state)
{
    struct muster_outbox outbox = {0};
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        add(&outbox, 1);
    assert_int_equal(next_id(&outbox, 1), 0);
    assert_int_equal(next_id(&outbox, 1), 1);
    muster_outbox_answer(&outbox, 0, false);
    assert_null(muster_outbox_next(&outbox, 2));
    muster_outbox_answer(&outbox, 1, true);
    assert_int_equal(next_id(&outbox, 2), 0);
    assert_int_equal(next_id(&outbox, 2), 2);
    muster_outbox_free(&outbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_does_not_answer_is_sent_it_again),
        cmocka_unit_test(test_what_is_refused_waits_for_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
