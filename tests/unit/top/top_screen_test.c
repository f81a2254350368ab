/* What stands on the screen, whatever its size. */
#include "top_made.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"

static struct muster_screen *draw(struct muster_top *top, struct muster_top_view *view,
                                  unsigned width, unsigned height)
{
    struct muster_screen *screen = calloc(1, sizeof *screen);
    screen->width = width;
    screen->height = height;
    muster_top_draw(top, view, screen);
    return screen;
}

static void the_culprit_stands_first_and_is_marked(void **state)
{
    struct muster_top top;
    struct muster_top_view view = {.utf8 = true};
    (void)state;
    made_job(&top, 64);
    struct muster_screen *screen = draw(&top, &view, 100, 30);
    assert_non_null(made_find(screen, "Rank 2 (node0, GPU 2) holds this job back"));
    assert_non_null(made_find(screen, "64 of 64 ranks, progress 0.1 s ago, 640 operations/s"));
    assert_non_null(made_find(screen, "50 % timed, 100 compared"));
    assert_int_equal(top.rank[0].rank, MADE_LATE);
    const struct muster_screen_line *line = made_find(screen, "    5000  ");
    assert_non_null(line);
    assert_memory_equal(line->text, ">     2", 7);
    assert_non_null(strstr(line->text, "\u2581\u2588")); /* low, then the highest of all */
    assert_non_null(strstr(line->text, "AllReduce #76 (4 MiB), 0.2 s ago"));
    free(screen);
    made_free(&top);
}

static void every_page_fits_every_size(void **state)
{
    static const struct {
        unsigned width, height;
    } sizes[] = {{1, 1}, {20, 3}, {40, 8}, {60, 20}, {80, 24}, {100, 30}, {200, 60}, {100, 9999}};
    struct muster_top top;
    (void)state;
    made_job(&top, 64);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int page = 0; page < MUSTER_TOP_PAGES; page++) {
            struct muster_top_view view = {
                .utf8 = true, .page = (enum muster_top_page)page, .pid = 1000 + MADE_LATE};
            struct muster_screen *screen = draw(&top, &view, sizes[i].width, sizes[i].height);
            assert_true(screen->used <= sizes[i].height);
            assert_true(screen->used <= MUSTER_SCREEN_LINES);
            for (unsigned l = 0; l < screen->used; l++) {
                assert_true(muster_terminal_cells(screen->line[l].text) <= sizes[i].width);
                assert_null(strchr(screen->line[l].text, '\n'));
            }
            free(screen);
        }
    }
    made_free(&top);
}

static void a_small_screen_still_says_who_and_how_to_leave(void **state)
{
    struct muster_top top;
    struct muster_top_view view = {.utf8 = true};
    (void)state;
    made_job(&top, 64);
    struct muster_screen *screen = draw(&top, &view, 60, 20);
    assert_non_null(made_find(screen, "Rank 2 (node0, GPU 2) holds this job back"));
    assert_non_null(made_find(screen, "q quit"));
    assert_non_null(made_find(screen, ">     2"));
    free(screen);
    made_free(&top);
}

static void text_pages_have_the_finding_and_its_advice(void **state)
{
    static const enum muster_top_page pages[] = {MUSTER_TOP_PAGE_FINDINGS, MUSTER_TOP_PAGE_RANK};
    struct muster_top top;
    (void)state;
    made_job(&top, 4);
    for (size_t i = 0; i < 2; i++) {
        struct muster_top_view view = {.page = pages[i], .pid = 1000 + MADE_LATE, .at = 9999};
        struct muster_screen *screen = draw(&top, &view, 80, 24);
        assert_int_equal(view.at, 0); /* all of it fits */
        assert_non_null(made_find(screen, "38 of 38"));
        assert_non_null(made_find(screen, "next: look at its GPU"));
        free(screen);
    }
    struct muster_top_view other = {.page = MUSTER_TOP_PAGE_RANK, .pid = 1001};
    struct muster_screen *screen = draw(&top, &other, 80, 24);
    assert_non_null(made_find(screen, "rank 1 on node0, GPU 1, pid 1001"));
    assert_null(made_find(screen, "38 of 38"));
    free(screen);
    made_free(&top);
}

static void lists_of_communicators_and_operations(void **state)
{
    struct muster_top top;
    struct muster_top_view view = {.page = MUSTER_TOP_PAGE_COMMS};
    (void)state;
    made_job(&top, 4);
    struct muster_screen *screen = draw(&top, &view, 80, 24);
    assert_non_null(made_find(screen, "0000000000000abc dp"));
    assert_non_null(made_find(screen, "rank 2 by 3"));
    free(screen);
    view.page = MUSTER_TOP_PAGE_CLASSES;
    screen = draw(&top, &view, 80, 24);
    const struct muster_screen_line *line = made_find(screen, "4 MiB");
    assert_non_null(line);
    assert_non_null(strstr(line->text, "ring/simple"));
    assert_non_null(strstr(line->text, "1000.0")); /* mean us */
    free(screen);
    made_free(&top);
}

static void who_waits_says_for_whom(void **state)
{
    struct muster_top top;
    struct muster_top_view view = {0};
    (void)state;
    made_job(&top, 4);
    top.rank[0].waits = 3;
    top.rank[0].waits_more = 2;
    top.rank[0].since_s = 12.5;
    struct muster_screen *screen = draw(&top, &view, 120, 24);
    assert_non_null(made_find(screen, "waits 12.5 s for 3 and 2 more, last AllReduce"));
    free(screen);
    made_free(&top);
}

static void who_waits_long_is_said_before_it_is_called_a_hang(void **state)
{
    struct muster_top top;
    struct muster_top_view view = {0};
    (void)state;
    made_job(&top, 4);
    top.findings = 0;
    top.rank[0].waits = 3;
    top.rank[0].since_s = 4;
    struct muster_screen *screen = draw(&top, &view, 80, 24);
    assert_non_null(made_find(screen, "Rank 0 has waited 4 s for rank 3; not yet called a hang."));
    assert_null(made_find(screen, "Nobody is found"));
    free(screen);
    made_free(&top);
    made_job(&top, 4);
    top.findings = 0;
    top.rank[0].waits = 3;
    top.rank[0].since_s = 1;
    screen = draw(&top, &view, 80, 24);
    assert_non_null(made_find(screen, "Nobody is found to hold this job back so far."));
    free(screen);
    made_free(&top);
}

static void a_fact_about_the_machine_is_no_verdict(void **state)
{
    struct muster_top top;
    struct muster_top_view view = {0};
    (void)state;
    made_job(&top, 4);
    top.finding[0].kind = MUSTER_FINDING_PATH_DEGRADED;
    struct muster_screen *screen = draw(&top, &view, 80, 24);
    assert_non_null(made_find(screen, "Nobody is found to hold this job back so far."));
    assert_non_null(made_find(screen, "findings 1"));
    free(screen);
    made_free(&top);
}

static void an_end_is_said(void **state)
{
    struct muster_top top;
    struct muster_top_view view = {0};
    (void)state;
    made_job(&top, 4);
    top.state = MUSTER_TOP_ENDED;
    top.findings = 0;
    struct muster_screen *screen = draw(&top, &view, 80, 24);
    assert_non_null(made_find(screen, "The job has ended. How it went: muster report /jobs/"));
    assert_null(made_find(screen, "Nobody is found"));
    free(screen);
    snprintf(top.run, sizeof top.run, "/jobs/of/somebody/muster-4711");
    screen = draw(&top, &view, 60, 24);
    assert_non_null(made_find(screen, "The job has ended. How it went:"));
    assert_non_null(made_find(screen, "muster report /jobs/of/somebody/muster-4711"));
    free(screen);
    made_free(&top);
}

static void nothing_is_known_yet(void **state)
{
    struct muster_top top = {
        .run = "/jobs/x", .ranks_expected = -1, .timed_share = NAN, .progress_s = NAN};
    (void)state;
    for (int page = 0; page < MUSTER_TOP_PAGES; page++) {
        struct muster_top_view view = {.page = (enum muster_top_page)page, .at = 7};
        struct muster_screen *screen = draw(&top, &view, 80, 24);
        assert_non_null(made_find(screen, "no operation was compared"));
        assert_null(made_find(screen, "nan"));
        free(screen);
    }
}

static void bars_are_as_high_as_the_values(void **state)
{
    const double value[] = {0, 50, 100, NAN};
    char text[64];
    (void)state;
    muster_top_bars(text, sizeof text, value, 4, 6, 100, true);
    assert_string_equal(text, "  \u2581\u2585\u2588\u2581");
    muster_top_bars(text, sizeof text, value, 4, 3, 100, false);
    assert_string_equal(text, "590");
    muster_top_bars(text, sizeof text, value, 4, 4, 0, false);
    assert_string_equal(text, "0000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_culprit_stands_first_and_is_marked),
        cmocka_unit_test(every_page_fits_every_size),
        cmocka_unit_test(a_small_screen_still_says_who_and_how_to_leave),
        cmocka_unit_test(text_pages_have_the_finding_and_its_advice),
        cmocka_unit_test(lists_of_communicators_and_operations),
        cmocka_unit_test(who_waits_says_for_whom),
        cmocka_unit_test(who_waits_long_is_said_before_it_is_called_a_hang),
        cmocka_unit_test(a_fact_about_the_machine_is_no_verdict),
        cmocka_unit_test(an_end_is_said),
        cmocka_unit_test(nothing_is_known_yet),
        cmocka_unit_test(bars_are_as_high_as_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
