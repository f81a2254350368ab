/* What keys do. */
#include "top_made.h"

#include <stdlib.h>

static bool press(struct muster_top_view *view, struct muster_top *top, int key)
{
    bool known = muster_top_press(view, key, top, 10);
    muster_top_sort(top, view);
    return known;
}

static void pages_have_a_key_each(void **state)
{
    static const struct {
        int key;
        enum muster_top_page page;
    } keys[] = {{'c', MUSTER_TOP_PAGE_COMMS},
                {'o', MUSTER_TOP_PAGE_CLASSES},
                {'f', MUSTER_TOP_PAGE_FINDINGS},
                {'r', MUSTER_TOP_PAGE_RANKS},
                {'?', MUSTER_TOP_PAGE_HELP}};
    struct muster_top top;
    struct muster_top_view view = {0};
    (void)state;
    made_job(&top, 8);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_true(press(&view, &top, keys[i].key));
        assert_int_equal(view.page, keys[i].page);
    }
    assert_true(press(&view, &top, MUSTER_TOP_BACK)); /* where help was called from */
    assert_int_equal(view.page, MUSTER_TOP_PAGE_RANKS);
    assert_false(press(&view, &top, MUSTER_TOP_BACK));
    assert_false(press(&view, &top, 'z'));
    assert_false(view.quit);
    assert_true(press(&view, &top, 'q'));
    assert_true(view.quit);
    made_free(&top);
}

static void the_mark_stays_inside(void **state)
{
    static const struct {
        int key;
        size_t at;
    } keys[] = {{MUSTER_TOP_UP, 0},
                {MUSTER_TOP_DOWN, 1},
                {'j', 2},
                {'k', 1},
                {MUSTER_TOP_PAGE_DOWN, 10},
                {MUSTER_TOP_PAGE_DOWN, 19},
                {MUSTER_TOP_PAGE_DOWN, 19},
                {MUSTER_TOP_PAGE_UP, 10},
                {MUSTER_TOP_HOME, 0},
                {MUSTER_TOP_END, 19},
                {MUSTER_TOP_DOWN, 19},
                {'g', 0},
                {'G', 19}};
    struct muster_top top;
    struct muster_top_view view = {.order = MUSTER_TOP_BY_RANK};
    (void)state;
    made_job(&top, 20);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_true(press(&view, &top, keys[i].key));
        assert_int_equal(view.at, keys[i].at);
    }
    made_free(&top);
}

static void the_mark_goes_along_with_its_rank(void **state)
{
    struct muster_top top;
    struct muster_top_view view = {0};
    (void)state;
    made_job(&top, 8);
    muster_top_sort(&top, &view);
    press(&view, &top, MUSTER_TOP_DOWN);
    int32_t chosen = top.rank[view.at].rank;
    for (int i = 0; i < MUSTER_TOP_ORDERS; i++) {
        press(&view, &top, 's');
        assert_int_equal(top.rank[view.at].rank, chosen);
    }
    assert_true(press(&view, &top, MUSTER_TOP_ENTER));
    assert_int_equal(view.page, MUSTER_TOP_PAGE_RANK);
    assert_int_equal(view.pid, 1000 + chosen);
    made_free(&top);
}

static void orders(void **state)
{
    struct muster_top top;
    struct muster_top_view view = {0};
    (void)state;
    made_job(&top, 8);
    top.rank[5].since_s = 30;
    muster_top_sort(&top, &view);
    assert_int_equal(top.rank[0].rank, MADE_LATE);
    view.order = MUSTER_TOP_BY_RANK;
    muster_top_sort(&top, &view);
    assert_int_equal(top.rank[0].rank, 0);
    view.order = MUSTER_TOP_BY_WAITED;
    muster_top_sort(&top, &view);
    assert_int_equal(top.rank[0].rank, 7);
    view.order = MUSTER_TOP_BY_CALL;
    muster_top_sort(&top, &view);
    assert_int_equal(top.rank[0].rank, 5);
    made_free(&top);
}

static void jobs_come_by_turns(void **state)
{
    struct muster_top top = {.jobs = 3};
    struct muster_top_view view = {0};
    (void)state;
    for (size_t i = 1; i < 5; i++) {
        assert_true(press(&view, &top, 'n'));
        assert_int_equal(view.job, i % 3);
    }
    assert_true(press(&view, &top, ' '));
    assert_true(view.paused);
    assert_true(press(&view, &top, 'p'));
    assert_false(view.paused);
    assert_false(press(&view, &top, MUSTER_TOP_ENTER)); /* there is no rank */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_have_a_key_each),
        cmocka_unit_test(the_mark_stays_inside),
        cmocka_unit_test(the_mark_goes_along_with_its_rank),
        cmocka_unit_test(orders),
        cmocka_unit_test(jobs_come_by_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
