/* The text of a cost table that `muster policy explain --table` reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/offline/cost_file.h"

#define MIB (1ull << 20)

static float cost[MUSTER_COST_ENTRIES];
static struct muster_err err;

static float at(unsigned algo, unsigned proto)
{
    return cost[__builtin_ctz(muster_policy_combination(algo, proto))];
}

static int parse(const char *text)
{
    return muster_cost_file_parse(cost, "table", text, strlen(text), MIB, &err);
}

static void refused(const char *text, const char *why)
{
    float before[MUSTER_COST_ENTRIES];
    memset(cost, 7, sizeof cost);
    memcpy(before, cost, sizeof cost);
    assert_int_equal(parse(text), -1);
    assert_string_equal(err.text, why);
    assert_memory_equal(cost, before, sizeof cost);
}

static void entries_stand_at_their_place(void **state)
{
    (void)state;
    assert_int_equal(
        parse("# costs\r\n\n  Tree LL 8.5 # first\r\nRING\tsimple 28.25\nnvls-tree Simple 3e2"), 0);
    assert_true(at(MUSTER_ALGO_TREE, MUSTER_PROTO_LL) == 8.5f);
    assert_true(at(MUSTER_ALGO_RING, MUSTER_PROTO_SIMPLE) == 28.25f);
    assert_true(at(MUSTER_ALGO_NVLS_TREE, MUSTER_PROTO_SIMPLE) == 300.0f);
    assert_true(at(MUSTER_ALGO_RING, MUSTER_PROTO_LL) == -1.0f);
}

static void latency_and_bandwidth_become_a_time(void **state)
{
    (void)state;
    assert_int_equal(parse("ring ll 10/   1\nring ll128     0.0/  0.0 \nring simple 2.5/104.8576"),
                     0);
    assert_float_equal(at(MUSTER_ALGO_RING, MUSTER_PROTO_LL), 1058.576f, 0.01f);
    assert_true(at(MUSTER_ALGO_RING, MUSTER_PROTO_LL128) == -1.0f);
    assert_float_equal(at(MUSTER_ALGO_RING, MUSTER_PROTO_SIMPLE), 12.5f, 0.01f);
}

static void what_is_no_cost_is_not_offered(void **state)
{
    (void)state;
    assert_int_equal(parse("ring ll -1\nring ll128 nan\ntree ll -inf\ntree simple nan/nan\n"
                           "tree ll128 3/-1\nring simple inf"),
                     0);
    for (unsigned i = 0; i < MUSTER_COST_ENTRIES; i++)
        if (cost[i] >= 0)
            assert_ptr_equal(&cost[i], &cost[__builtin_ctz(muster_policy_combination(
                                           MUSTER_ALGO_RING, MUSTER_PROTO_SIMPLE))]);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    refused("ring simple 1\n tre ll 3\n",
            "table:2:2: unknown algorithm \"tre\", did you mean tree?");
    refused("ring fast 3", "table:1:6: unknown protocol \"fast\", expected ll, ll128 or simple");
    refused("ring ll 3us", "table:1:9: \"3us\": expected microseconds, or latency/bandwidth in "
                           "microseconds and GB/s");
    refused("ring ll 0x10", "table:1:9: \"0x10\": expected microseconds, or latency/bandwidth in "
                            "microseconds and GB/s");
    refused("ring ll 3/", "table:1:9: \"3/\": expected microseconds, or latency/bandwidth in "
                          "microseconds and GB/s");
    refused("ring ll", "table:1:1: expected algorithm, protocol and cost");
    refused("ring ll 3 4", "table:1:11: \"4\": nothing is expected behind the cost");
    refused("ring ll 3\nRing LL 4", "table:2:1: Ring LL is there twice");
    refused("", "table: no entry: expected lines such as \"ring simple 28.5\"");
    refused("# nothing\n", "table: no entry: expected lines such as \"ring simple 28.5\"");
    refused("ring \x1b[2J 3", "table:1:6: unknown protocol \"?[2J\", expected ll, ll128 or simple");
}

static void what_is_no_text_is_refused(void **state)
{
    char big[MUSTER_COST_FILE_BYTES + 1];
    (void)state;
    assert_int_equal(muster_cost_file_parse(cost, "t", "ring\0ll 3", 9, MIB, &err), -1);
    assert_string_equal(err.text, "t:1:1: a NUL character: not a text");
    memset(big, ' ', sizeof big);
    assert_int_equal(muster_cost_file_parse(cost, "t", big, 300, MIB, &err), -1);
    assert_string_equal(err.text, "t:1:1: a line of more than 255 bytes");
    assert_int_equal(muster_cost_file_parse(cost, "t", big, sizeof big, MIB, &err), -1);
    assert_string_equal(err.text, "t: larger than 64 KiB");
    assert_int_equal(muster_cost_file_read(cost, "/", MIB, &err), -1);
    assert_int_equal(muster_cost_file_read(cost, "/no/such/table", MIB, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_stand_at_their_place),
        cmocka_unit_test(latency_and_bandwidth_become_a_time),
        cmocka_unit_test(what_is_no_cost_is_not_offered),
        cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(what_is_no_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
