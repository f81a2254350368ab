/* A fleet's job on the screen, from what its worker says. */
#include "top_made.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "top/top_fleet.h"

#define STATE(at, calls)                                                                           \
    "{\"run_dir\":\"/scratch/muster-7\",\"ranks\":16,\"expected\":16,\"hosts\":2,\"running\":15,"  \
    "\"at_ns\":" at ",\"up_s\":60.5,\"progress_s\":0.2,\"nccl\":22809,\"compared\":100,"           \
    "\"calls\":" calls ",\"ranks_shown\":[{\"rank\":9,\"host\":\"nodeB\",\"gpu\":1,\"pid\":77,"    \
    "\"alive\":true,\"calls\":" calls ",\"compared\":100,\"made_wait_ns\":5000000,"                \
    "\"waited_ns\":10,\"call\":\"AllReduce #76 (4 MiB)\",\"since_s\":0.25}],\"communicators\":["   \
    "{\"id\":\"00000000000000ab\",\"name\":\"world\",\"nranks\":16,\"heard\":16,\"calls\":76,"     \
    "\"behind\":3,\"behind_by\":2,\"since_s\":0.2}]}"
#define FINDING(rank, resolved)                                                                    \
    "{\"kind\":\"late_rank\",\"ranks\":[" rank                                                     \
    "],\"host\":\"nodeB\",\"gpu\":1,\"resolved\":" resolved                                        \
    ",\"retracted\":false,\"cost_s\":2.5,\"cost_share\":0.2}"

static void a_job_of_two_hosts_is_shown(void **state)
{
    struct muster_top_fleet *fleet = muster_top_fleet_new();
    struct muster_top top;
    struct muster_err err;
    char held[] = FINDING("9", "false"), over[] = FINDING("4", "true");
    const char *line[] = {over, held};
    (void)state;
    assert_non_null(fleet);
    assert_int_equal(muster_top_fleet_take(fleet, "7", STATE("1000000000", "100"), line, 2, &err),
                     0);
    assert_int_equal(muster_top_fleet_take(fleet, "7", STATE("3000000000", "180"), line, 2, &err),
                     0);
    muster_top_fleet_fill(fleet, &top);
    assert_string_equal(top.run, "/scratch/muster-7");
    assert_int_equal(top.ranks_alive, 15);
    assert_int_equal(top.ranks_expected, 16);
    assert_float_equal(top.ops_s, 40, 1e-9);
    assert_int_equal(top.findings, 1); /* what is over holds nobody back */
    assert_int_equal(top.finding[0].rank[0], 9);
    assert_int_equal(top.ranks, 1);
    assert_true(top.rank[0].culprit && top.rank[0].alive);
    assert_float_equal(top.rank[0].ops_s, 40, 1e-9);
    assert_int_equal(top.rank[0].trends, 2);
    assert_float_equal(top.rank[0].trend[1], 50, 1e-9); /* us an operation */
    assert_int_equal(top.comm[0].id, 0xab);
    assert_int_equal(top.comm[0].behind, 3);
    struct muster_screen *screen = calloc(1, sizeof *screen);
    struct muster_top_view view = {.utf8 = true};
    screen->width = 120;
    screen->height = 30;
    muster_top_draw(&top, &view, screen);
    assert_non_null(made_find(screen, "Rank 9 (nodeB, GPU 1) holds this job back"));
    assert_non_null(made_find(screen, "15 of 16 ranks"));
    free(screen);
    muster_top_fleet_free(fleet);
}

static void without_a_worker_the_job_has_ended(void **state)
{
    struct muster_top_fleet *fleet = muster_top_fleet_new();
    struct muster_top top;
    struct muster_err err;
    (void)state;
    assert_int_equal(muster_top_fleet_take(fleet, "7", STATE("1", "1"), NULL, 0, &err), 0);
    assert_int_equal(muster_top_fleet_take(fleet, "7", NULL, NULL, 0, &err), 0);
    muster_top_fleet_fill(fleet, &top);
    assert_int_equal(top.state, MUSTER_TOP_ENDED);
    assert_int_equal(top.ranks, 1); /* as it was last */
    muster_top_fleet_free(fleet);
}

static void senseless_members_are_not_known(void **state)
{
    static const char odd[] =
        "{\"run_dir\":7,\"running\":-3,\"expected\":\"many\",\"at_ns\":-1,\"up_s\":-1,"
        "\"progress_s\":\"x\",\"ranks_shown\":[7,{\"rank\":1e99,\"gpu\":99999999999,\"host\":null}]"
        ","
        "\"communicators\":{\"id\":1}}";
    struct muster_top_fleet *fleet = muster_top_fleet_new();
    struct muster_top top;
    struct muster_err err;
    char none[] = "no finding";
    const char *line[] = {none};
    (void)state;
    assert_int_equal(muster_top_fleet_take(fleet, "7", odd, line, 1, &err), 0);
    muster_top_fleet_fill(fleet, &top);
    assert_string_equal(top.run, "7");
    assert_int_equal(top.ranks_expected, -1);
    assert_true(isnan(top.progress_s));
    assert_int_equal(top.ranks, 1);
    assert_int_equal(top.rank[0].rank, -1);
    assert_int_equal(top.rank[0].gpu, -1);
    assert_int_equal(top.comms + top.findings, 0);
    assert_int_equal(muster_top_fleet_take(fleet, "7", "[1]", NULL, 0, &err), -1);
    assert_non_null(strstr(err.text, "job 7: what its worker says of it is no JSON object"));
    muster_top_fleet_free(fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_of_two_hosts_is_shown),
        cmocka_unit_test(without_a_worker_the_job_has_ended),
        cmocka_unit_test(senseless_members_are_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
