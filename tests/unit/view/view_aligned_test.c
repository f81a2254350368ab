/* What of two ranks stands beside each other: collectives, a send and its receive. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "view/aligned.h"

/* Ranks 0 to 2 of one communicator. */
struct three {
    struct muster_view view;
    uint32_t member[3];
};

static struct three three_ranks(void)
{
    struct three three = {.view = {0}};
    for (int32_t rank = 0; rank < 3; rank++) {
        uint32_t gpu =
            muster_view_add_gpu(&three.view, &(struct muster_view_gpu){.host = "h", .rank = rank});
        three.member[rank] = muster_view_add_member(&three.view, gpu, 1, rank, 3, 1, "a");
    }
    return three;
}

static void call(struct three *three, unsigned rank, uint64_t number, uint64_t count,
                 uint16_t flags)
{
    struct muster_op op = made_op(number, 100 * (number + 1), 100 * (number + 1) + 50);
    op.count = count;
    op.flags |= flags;
    muster_view_add_op(&three->view, three->member[rank], &op);
}

/* The next operation of two, as it stands with the first and the last rank. */
static void expect_two(struct muster_joint *joint, uint64_t number, bool graph)
{
    assert_true(muster_joint_next(joint));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(joint->op[i]->number, number);
        assert_int_equal((joint->op[i]->flags & MUSTER_OP_GRAPH) != 0, graph);
        assert_int_equal(joint->view->member[joint->op[i]->member].rank, i ? 2 : 0);
    }
}

static void test_two_members_are_aligned_without_the_third(void **state)
{
    (void)state;
    struct three three = three_ranks();
    for (uint64_t number = 0; number < 6; number++) {
        if (number != 1)
            call(&three, 0, number, number == 4 ? 7 : 1024, 0);
        if (number != 2)
            call(&three, 2, number, 1024, 0);
    }
    call(&three, 0, 0, 1024, MUSTER_OP_GRAPH);
    call(&three, 2, 0, 1024, MUSTER_OP_GRAPH);
    call(&three, 1, 1, 1024, 0);
    struct muster_err err;
    assert_int_equal(muster_view_finish(&three.view, &err), 0);
    for (unsigned turned = 0; turned < 2; turned++) {
        struct muster_arena memory = {0};
        struct muster_joint joint;
        const struct muster_joint_rule rule = {.least = 2};
        muster_joint_begin_two(&joint, &three.view, turned ? 2 : 0, turned ? 0 : 2, &rule, &memory);
        expect_two(&joint, 0, false);
        expect_two(&joint, 3, false); /* of 1 and 2 one of them has none, 4 is unlike */
        expect_two(&joint, 5, false);
        expect_two(&joint, 0, true);
        assert_false(muster_joint_next(&joint));
        muster_arena_free(&memory);
    }
    muster_view_free(&three.view);
}

static void send(struct three *three, unsigned from, unsigned to, uint64_t number, bool receives)
{
    struct muster_op op = made_op(number, 100 * (number + 1), 100 * (number + 1) + 50);
    op.func = receives ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND;
    op.peer = (int32_t)(receives ? from : to);
    muster_view_add_op(&three->view, three->member[receives ? to : from], &op);
}

static void test_a_send_stands_with_its_receive(void **state)
{
    (void)state;
    struct three three = three_ranks();
    for (uint64_t number = 0; number < 4; number++) {
        if (number != 1)
            send(&three, 0, 2, number, false);
        if (number != 2)
            send(&three, 0, 2, number, true);
        send(&three, 0, 1, number, false);
        send(&three, 1, 2, number, true);
    }
    struct muster_err err;
    assert_int_equal(muster_view_finish(&three.view, &err), 0);
    struct muster_sends sends = muster_sends_of(&three.view, 0, 2);
    for (uint64_t number = 0; number < 4; number += 3) {
        assert_true(muster_sends_next(&sends));
        assert_int_equal(sends.send->number, number);
        assert_int_equal(sends.receive->number, number);
        assert_int_equal(sends.send->peer, 2);
        assert_int_equal(sends.receive->peer, 0);
    }
    assert_false(muster_sends_next(&sends));
    muster_view_free(&three.view);
}

static void test_a_collective_is_found_by_its_number(void **state)
{
    (void)state;
    struct three three = three_ranks();
    call(&three, 0, 1, 1024, MUSTER_OP_GRAPH);
    call(&three, 0, 2, 1024, 0);
    call(&three, 0, 5, 1024, 0);
    send(&three, 0, 1, 3, false);
    struct muster_err err;
    assert_int_equal(muster_view_finish(&three.view, &err), 0);
    const struct muster_view_member *member = &three.view.member[0];
    assert_int_equal(muster_view_collective(&three.view, member, 2)->number, 2);
    assert_int_equal(muster_view_collective(&three.view, member, 5)->number, 5);
    for (int64_t number = -1; number < 7; number++)
        if (number != 2 && number != 5)
            assert_null(muster_view_collective(&three.view, member, number));
    assert_null(muster_view_collective(&three.view, &three.view.member[1], 2));
    muster_view_free(&three.view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_members_are_aligned_without_the_third),
        cmocka_unit_test(test_a_send_stands_with_its_receive),
        cmocka_unit_test(test_a_collective_is_found_by_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
