/* By what a finding is known to workers, who may tell it and its end in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fleet/nats/board.h"

static bool same_key(const struct muster_finding *a, const struct muster_finding *b)
{
    char one[MUSTER_BOARD_KEY], two[MUSTER_BOARD_KEY];
    muster_board_key(one, "1000.job-1", a);
    muster_board_key(two, "1000.job-1", b);
    return strcmp(one, two) == 0;
}

/* First nobody waits for it, then some do in another communicator: its end is the end of both. */
static void a_death_keeps_its_key_whatever_others_wait_in(void **state)
{
    (void)state;
    struct muster_finding gone = {
        .kind = MUSTER_FINDING_HANG_DEAD, .comm = 7, .rank = {3}, .ranks = 1};
    struct muster_finding waited_for = gone, other = gone;
    waited_for.comm = 8;
    waited_for.has_op = true;
    waited_for.op.index = 12;
    other.rank[0] = 4;
    assert_true(same_key(&gone, &waited_for));
    assert_false(same_key(&gone, &other));
}

static void an_absent_rank_is_another_finding_in_another_operation(void **state)
{
    (void)state;
    struct muster_finding one = {
        .kind = MUSTER_FINDING_HANG_ABSENT, .comm = 7, .rank = {3}, .ranks = 1, .op.index = 5};
    struct muster_finding two = one;
    assert_true(same_key(&one, &two));
    two.op.index = 6;
    assert_false(same_key(&one, &two));
}

/* A rank that went with those that were told. */
static void more_ranks_than_stand_there_are_claimed_again(void **state)
{
    (void)state;
    struct muster_finding gone = {.kind = MUSTER_FINDING_HANG_DEAD, .rank = {5, 3}, .ranks = 2};
    assert_true(muster_board_names_more("{\"ranks\":[5],\"victims\":[1,2,3]}", &gone));
    assert_true(muster_board_names_more("{\"ranks\":[],\"victims\":[]}", &gone));
    assert_false(muster_board_names_more("{\"ranks\":[5,3],\"victims\":[]}", &gone));
    assert_false(muster_board_names_more("{\"ranks\":[5,3,4],\"victims\":[]}", &gone));
    assert_false(muster_board_names_more("{}", &gone));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_keeps_its_key_whatever_others_wait_in),
        cmocka_unit_test(more_ranks_than_stand_there_are_claimed_again),
        cmocka_unit_test(an_absent_rank_is_another_finding_in_another_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
