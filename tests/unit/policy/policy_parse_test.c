#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"

#define HEAD "muster: 1\npolicy:\n"

struct described {
    unsigned n;
    char text[8][700];
};

static void note(void *to, const struct muster_policy_message *message)
{
    struct described *described = to;
    if (described->n < 8)
        muster_policy_message_print(described->text[described->n], sizeof(described->text[0]),
                                    message);
    described->n++;
}

static struct muster_policy *parse(const char *text, struct described *described)
{
    struct muster_policy *policy = NULL;
    memset(described, 0, sizeof(*described));
    int rc = muster_policy_parse(&policy, "p.yaml", text, strlen(text), note, described);
    assert_int_equal(rc, policy ? 0 : -1);
    return policy;
}

static struct muster_policy *parse_good(const char *text)
{
    struct described described;
    struct muster_policy *policy = parse(text, &described);
    if (!policy || described.n)
        fail_msg("%s", described.text[0]);
    return policy;
}

static void expect_error(const char *text, const char *expected)
{
    struct described described;
    struct muster_policy *policy = parse(text, &described);
    assert_null(policy);
    assert_int_equal(described.n, 1);
    assert_string_equal(described.text[0], expected);
}

static void expect_warning(const char *text, const char *expected)
{
    struct described described;
    struct muster_policy *policy = parse(text, &described);
    assert_non_null(policy);
    assert_int_equal(described.n, 1);
    assert_string_equal(described.text[0], expected);
    muster_policy_free(policy);
}

/* ---- What is accepted ---- */

static void a_rule_with_everything(void **state)
{
    (void)state;
    struct muster_policy *policy = parse_good(
        HEAD "  - name: wan-simple\n"
             "    match: {collective: [all_reduce, reduce_scatter], bytes: 64KiB..1GiB,\n"
             "            bytes_per_rank: \"<=1GB\", ranks: [2, 4, 8..16], nodes: \">=2\",\n"
             "            ranks_per_node: 8, nvlink_domains: 2, pipe_ops: 1..4}\n"
             "    prefer: {proto: simple, algo: [ring, collnet_direct], channels: 8}\n"
             "    avoid: {algo: ring, proto: [ll, ll128]}\n");
    char text[300];
    assert_int_equal(policy->rules, 1);
    muster_rule_describe_match(policy, &policy->rule[0], text, sizeof(text));
    assert_string_equal(text, "all_reduce, reduce_scatter; bytes 64 KiB..1 GiB; bytes_per_rank <= "
                              "1 GB; ranks 2 or 4 or 8..16; nodes >= 2; ranks_per_node 8; "
                              "nvlink_domains 2; pipe_ops 1..4");
    muster_rule_describe_action(&policy->rule[0], text, sizeof(text));
    assert_string_equal(text, "prefer ring/simple, collnet_direct/simple; avoid ring/ll, "
                              "ring/ll128; 8 channels");
    assert_true(policy->matches_pipe_ops && policy->matches_nvlink_domains);
    muster_policy_free(policy);
}

static void documents_without_rules(void **state)
{
    (void)state;
    static const char *const text[] = {
        "muster: 1\n", "muster: 1\npolicy:\n", "muster: 1\npolicy: []\n",
        "muster: 1\npolicy: ~\ncapture: {timing: full}\n", "muster: 1\r\npolicy: []\r\n"};
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        struct muster_policy *policy = parse_good(text[i]);
        assert_int_equal(policy->rules, 0);
        muster_policy_free(policy);
    }
}

static void nccls_spellings_are_words_too(void **state)
{
    (void)state;
    static const char *const spelling[][2] = {{"AllReduce", "CollnetDirect"},
                                              {"allreduce", "collnet-direct"},
                                              {"ALL_REDUCE", "COLLNET_DIRECT"},
                                              {"All_Reduce", "collNetDirect"}};
    for (size_t i = 0; i < 4; i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 HEAD "- {name: a, match: {collective: %s}, prefer: {algo: %s, proto: SIMPLE}}\n",
                 spelling[i][0], spelling[i][1]);
        struct muster_policy *policy = parse_good(text);
        assert_int_equal(policy->rule[0].collectives, 1u << MUSTER_FUNC_ALL_REDUCE);
        assert_int_equal(
            policy->rule[0].prefer,
            muster_policy_combination(MUSTER_ALGO_COLLNET_DIRECT, MUSTER_PROTO_SIMPLE));
        muster_policy_free(policy);
    }
}

static void channels_alone_and_leave_are_actions(void **state)
{
    (void)state;
    struct muster_policy *policy =
        parse_good(HEAD "- {name: a, match: {bytes: 1}, channels: 64}\n- {name: b, leave: true}\n");
    char text[100];
    assert_int_equal(policy->rule[0].channels, 64);
    muster_rule_describe_action(&policy->rule[0], text, sizeof(text));
    assert_string_equal(text, "64 channels");
    muster_rule_describe_action(&policy->rule[1], text, sizeof(text));
    assert_string_equal(text, "leave");
    muster_rule_describe_match(policy, &policy->rule[1], text, sizeof(text));
    assert_string_equal(text, "everything");
    muster_policy_free(policy);
}

static void the_hash_is_of_the_bytes(void **state)
{
    (void)state;
    struct muster_policy *policy = parse_good("muster: 1\n");
    char hex[MUSTER_POLICY_HEX];
    muster_policy_hex(hex, policy->sha256);
    assert_string_equal(hex, "7831f451ae8f6031f937d2120a05e3a14f4c0cc63a7ecee40b239d269dde6e01");
    muster_policy_free(policy);
}

/* ---- Errors ---- */

static void unknown_keys(void **state)
{
    (void)state;
    expect_error(HEAD "- {nam: a, leave: true}\n",
                 "p.yaml:3:4: error: unknown key 'nam' in a rule, did you mean 'name'?");
    expect_error(HEAD "- {name: a, matsch: {bytes: 1}, leave: true}\n",
                 "p.yaml:3:13: error: unknown key 'matsch' in a rule, did you mean 'match'?");
    expect_error(HEAD "- {name: a, match: {byte: 1}, leave: true}\n",
                 "p.yaml:3:21: error: unknown key 'byte' in match, did you mean 'bytes'?");
    expect_error(HEAD "- {name: a, prefer: {protocol: ll}}\n",
                 "p.yaml:3:22: error: unknown key 'protocol' in prefer, expected channels, algo or "
                 "proto");
    expect_error(HEAD "- {name: a, avoid: {channels: 3}}\n",
                 "p.yaml:3:21: error: unknown key 'channels' in avoid, expected algo or proto");
    expect_error("muster: 1\npolcy: []\n",
                 "p.yaml:2:1: error: unknown key 'polcy', did you mean 'policy'?");
}

static void unknown_words(void **state)
{
    (void)state;
    expect_error(HEAD "- {name: a, match: {collective: all_redcue}, leave: true}\n",
                 "p.yaml:3:33: error: collective: expected all_reduce, all_gather, reduce_scatter, "
                 "broadcast or reduce, found 'all_redcue', did you mean 'all_reduce'?");
    expect_error(HEAD "- {name: a, prefer: {algo: [ring, rng]}}\n",
                 "p.yaml:3:35: error: algo: expected tree, ring, collnet_direct, collnet_chain, "
                 "nvls, nvls_tree or pat, found 'rng', did you mean 'ring'?");
    expect_error(HEAD "- {name: a, avoid: {proto: fast}}\n",
                 "p.yaml:3:28: error: proto: expected ll, ll128 or simple, found 'fast'");
    expect_error(HEAD "- {name: a, avoid: {proto: [ll, LL]}}\n",
                 "p.yaml:3:33: error: proto: 'LL' is named twice");
    expect_error(HEAD "- {name: a, avoid: {proto: []}}\n",
                 "p.yaml:3:28: error: proto: the list is empty");
    expect_error(HEAD "- {name: a, avoid: {proto: {a: b}}}\n",
                 "p.yaml:3:28: error: proto: expected ll, ll128 or simple, found a mapping");
}

static void units(void **state)
{
    (void)state;
    expect_error(HEAD "- {name: a, match: {bytes: 64KB}, leave: true}\n",
                 "p.yaml:3:28: error: bytes: unknown unit 'KB', did you mean 'kB'?");
    expect_error(HEAD "- {name: a, match: {bytes: 1..4Gib}, leave: true}\n",
                 "p.yaml:3:28: error: bytes: unknown unit 'Gib', did you mean 'GiB'?");
    expect_error(HEAD "- {name: a, match: {bytes: 3m}, leave: true}\n",
                 "p.yaml:3:28: error: bytes: unknown unit 'm', expected B, KiB, MiB, GiB, TiB, kB, "
                 "MB, GB or TB");
}

static void versions(void **state)
{
    (void)state;
    expect_error("muster: 2\npolicy: []\n", "p.yaml:1:9: error: muster: expected 1, found '2'");
    expect_error("policy: []\n",
                 "p.yaml:1:1: error: expected 'muster: 1', the version of this format");
}

static void numbers(void **state)
{
    (void)state;
    expect_error(HEAD "- {name: a, match: {nodes: 2x}, leave: true}\n",
                 "p.yaml:3:28: error: nodes: the number '2x' has a tail, 'x'");
    expect_error(HEAD "- {name: a, match: {bytes: 1.5MiB}, leave: true}\n",
                 "p.yaml:3:28: error: bytes: the number '1.5MiB' has a tail, '.5MiB'");
    expect_error(HEAD "- {name: a, match: {ranks: many}, leave: true}\n",
                 "p.yaml:3:28: error: ranks: expected a number, a..b, >=a or <=a, found 'many'");
    expect_error(HEAD "- {name: a, match: {bytes: -1}, leave: true}\n",
                 "p.yaml:3:28: error: bytes: expected a number with or without a unit, a..b, >=a "
                 "or <=a, found '-1'");
    expect_error(HEAD "- {name: a, match: {bytes: 99999999999999999999}, leave: true}\n",
                 "p.yaml:3:28: error: bytes: the number '99999999999999999999' is too large");
    expect_error(HEAD "- {name: a, match: {bytes: 99999999TiB}, leave: true}\n",
                 "p.yaml:3:28: error: bytes: the number '99999999TiB' is too large");
    expect_error(HEAD "- {name: a, match: {ranks: 0}, leave: true}\n",
                 "p.yaml:3:28: error: ranks: at least 1, found '0'");
    expect_error(HEAD "- {name: a, match: {ranks: [1, ]}, leave: tru}\n",
                 "p.yaml:3:43: error: leave: expected true, found 'tru'");
    expect_error(HEAD "- {name: a, match: {ranks: }, leave: true}\n",
                 "p.yaml:3:28: error: ranks: expected a number, a..b, >=a or <=a, found no value");
}

static void ranges(void **state)
{
    (void)state;
    expect_error(HEAD "- {name: a, match: {bytes: 1GiB..64KiB}, leave: true}\n",
                 "p.yaml:3:28: error: bytes: the range '1GiB..64KiB' is reversed, did you mean "
                 "'64KiB..1GiB'?");
    expect_error(HEAD "- {name: a, match: {nodes: \">2\"}, leave: true}\n",
                 "p.yaml:3:28: error: nodes: expected '>=', found '>2'");
    expect_error(HEAD "- {name: a, match: {nodes: 2..}, leave: true}\n",
                 "p.yaml:3:28: error: nodes: expected a..b with both ends, found '2..'; no upper "
                 "end is written '>=a'");
    expect_error(HEAD "- {name: a, match: {nodes: ..2}, leave: true}\n",
                 "p.yaml:3:28: error: nodes: expected a..b with both ends, found '..2'; no lower "
                 "end is written '<=a'");
    expect_error(HEAD
                 "- {name: a, match: {nodes: [1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33]}, "
                 "leave: true}\n",
                 "p.yaml:3:72: error: nodes: more than 16 ranges");
}

static void a_bare_comparison_gets_a_hint(void **state)
{
    (void)state;
    expect_error(HEAD "- name: a\n  match:\n    nodes: >=2\n  leave: true\n",
                 "p.yaml:5:13: error: put '>=...' in quotes: YAML gives a bare > a meaning");
    expect_error(HEAD "- {name: a, match: {nodes: >=2}, leave: true}\n",
                 "p.yaml:3:28: error: put '>=...' in quotes: YAML gives a bare > a meaning");
    muster_policy_free(parse_good(HEAD "- {name: a, match: {nodes: <=2}, leave: true}\n"));
}

static void duplicates(void **state)
{
    (void)state;
    expect_error(HEAD "- {name: a, leave: true, name: b}\n",
                 "p.yaml:3:26: error: duplicate key 'name', first at line 3");
    expect_error(HEAD "- {name: a, match: {bytes: 1}, leave: true}\n- {name: a, leave: true}\n",
                 "p.yaml:4:3: error: duplicate rule name 'a', first at line 3");
    expect_error(HEAD "- {name: a, channels: 2, prefer: {channels: 3}}\n",
                 "p.yaml:3:35: error: channels: named twice, in prefer and beside it");
}

static void aliases_and_anchors(void **state)
{
    (void)state;
    expect_error(HEAD "- &x {name: a, leave: true}\n",
                 "p.yaml:3:3: error: anchors are not allowed, write the value out");
    expect_error(HEAD "- *x\n", "p.yaml:3:3: error: aliases are not allowed, write the value out");
}

static void combinations_that_nccl_does_not_have(void **state)
{
    (void)state;
    expect_error(HEAD "- {name: a, match: {collective: broadcast}, prefer: {algo: tree}}\n",
                 "p.yaml:3:60: error: NCCL has no tree for broadcast");
    expect_error(HEAD "- {name: a, match: {collective: all_reduce}, prefer: {algo: [ring, pat]}}\n",
                 "p.yaml:3:61: error: NCCL has no pat for all_reduce");
    expect_error(HEAD "- {name: a, prefer: {algo: nvls, proto: ll}}\n",
                 "p.yaml:3:28: error: NCCL has no nvls with ll for any collective");
    expect_error(HEAD "- {name: a, prefer: {algo: [nvls, pat], proto: [simple, ll]}}\n",
                 "p.yaml:3:48: error: NCCL has no ll with nvls or pat for any collective");
    expect_error(HEAD
                 "- {name: a, match: {collective: [all_reduce, reduce]}, prefer: {algo: tree}}\n",
                 "p.yaml:3:64: error: NCCL has none of these for reduce");
    expect_error(HEAD "- {name: a, match: {collective: reduce}, avoid: {algo: ring}}\n",
                 "p.yaml:3:49: error: nothing that NCCL has for reduce would remain");
    expect_error(HEAD "- {name: a, avoid: {proto: [ll, ll128, simple]}}\n",
                 "p.yaml:3:20: error: nothing that NCCL has for any collective would remain");
    expect_error(HEAD "- {name: a, prefer: {proto: ll}, avoid: {proto: ll}}\n",
                 "p.yaml:3:21: error: nothing that NCCL has for any collective would remain");
}

static void channels_out_of_range(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "65", "-1", "eight", "8.0", "4294967297"};
    for (size_t i = 0; i < 6; i++) {
        char text[128], expected[128];
        snprintf(text, sizeof(text), HEAD "- {name: a, channels: %s}\n", bad[i]);
        snprintf(expected, sizeof(expected),
                 "p.yaml:3:23: error: channels: expected a number from 1 to 64, found '%s'",
                 bad[i]);
        expect_error(text, expected);
    }
}

static void what_is_not_supported_says_why(void **state)
{
    (void)state;
    expect_error(HEAD "- {name: a, prefer: {chunk_size: 4}}\n",
                 "p.yaml:3:22: error: 'chunk_size' is not supported: NCCL asks for the chunk of a "
                 "channel's share, not of the operation");
    expect_error(
        HEAD "- {name: a, match: {health: bad}, leave: true}\n",
        "p.yaml:3:21: error: 'health' is not supported: it is not known to be equal on all "
        "ranks, and unequal choices hang");
    expect_error(HEAD "- {name: a, share: 0.5, leave: true}\n",
                 "p.yaml:3:13: error: 'share' is not supported: counts of calls may differ between "
                 "ranks, and unequal choices hang");
    expect_error(
        HEAD "- {name: a, match: {latency: 3}, leave: true}\n",
        "p.yaml:3:21: error: 'latency' is not supported: a measurement of one rank differs "
        "on another, and unequal choices hang");
}

static void shapes(void **state)
{
    (void)state;
    expect_error("muster: 1\npolicy: {name: a}\n",
                 "p.yaml:2:9: error: policy: expected a list of rules, found a mapping");
    expect_error(HEAD "- ring\n", "p.yaml:3:3: error: a rule: expected name, match, prefer, avoid, "
                                  "channels or leave, found 'ring'");
    expect_error(HEAD "- {leave: true}\n", "p.yaml:3:3: error: expected a name for this rule");
    expect_error(HEAD "- {name: a b, leave: true}\n",
                 "p.yaml:3:10: error: name: expected 1 to 63 letters, digits, '.', '_' or '-', "
                 "found 'a b'");
    expect_error(HEAD "- {name: a}\n",
                 "p.yaml:3:3: error: expected prefer, avoid, channels or leave in this rule");
    expect_error(HEAD "- {name: a, leave: true, channels: 2}\n",
                 "p.yaml:3:3: error: leave and prefer, avoid or channels in one rule contradict");
    expect_error(HEAD "- {name: a, leave: true, match: {}}\n",
                 "p.yaml:3:33: error: match: expected collective, bytes, bytes_per_rank, ranks, "
                 "nodes, ranks_per_node, nvlink_domains or pipe_ops, found an empty mapping");
}

static void hostile_bytes(void **state)
{
    (void)state;
    struct described described;
    static const char *const bad[] = {HEAD "\t- a\n", HEAD "- {name: \"\xff\"}\n",
                                      HEAD "- {name: a",
                                      HEAD "- [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};
    for (size_t i = 0; i < 4; i++) {
        assert_null(parse(bad[i], &described));
        assert_true(described.n >= 1);
        assert_memory_equal(described.text[0], "p.yaml:", 7);
        assert_non_null(strstr(described.text[0], ": error: "));
    }
}

static void all_errors_are_listed(void **state)
{
    (void)state;
    struct described described;
    struct muster_policy *policy =
        parse(HEAD "- {name: a, channels: 0}\n- {name: b, prefer: {algo: rng}}\n- {name: c}\n",
              &described);
    assert_null(policy);
    assert_int_equal(described.n, 3);
    assert_memory_equal(described.text[0], "p.yaml:3:", 9);
    assert_memory_equal(described.text[1], "p.yaml:4:", 9);
    assert_memory_equal(described.text[2], "p.yaml:5:", 9);
}

/* ---- Limits ---- */

static char *many_rules(unsigned n)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, HEAD);
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "- {name: r%u, match: {bytes: %u}, channels: 2}\n", i, i);
    fclose(out);
    return text;
}

static void too_many_rules(void **state)
{
    (void)state;
    char *text = many_rules(4096);
    struct muster_policy *policy = parse_good(text);
    assert_int_equal(policy->rules, 4096);
    muster_policy_free(policy);
    free(text);
    text = many_rules(4097);
    expect_error(text, "p.yaml:4099:3: error: more than 4096 rules");
    free(text);
}

static void too_large(void **state)
{
    (void)state;
    char *text = malloc((1 << 20) + 2);
    memset(text, '#', (1 << 20) + 1);
    text[(1 << 20) + 1] = '\0';
    expect_error(text, "p.yaml: error: larger than 1 MiB");
    free(text);
}

static void too_many_bounds_of_pipe_ops(void **state)
{
    (void)state;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, HEAD);
    for (unsigned i = 0; i < 9; i++)
        fprintf(out, "- {name: r%u, match: {pipe_ops: %u}, channels: 2}\n", i, 3 + 2 * i);
    fclose(out);
    expect_error(text, "p.yaml:11:32: error: pipe_ops: more than 16 different bounds");
    free(text);
}

/* ---- Warnings ---- */

static void a_covered_rule_is_warned_of(void **state)
{
    (void)state;
    expect_warning(HEAD "- {name: wide, match: {bytes: 1..100}, leave: true}\n"
                        "- {name: narrow, match: {bytes: [3..4, 50], nodes: 2}, leave: true}\n",
                   "p.yaml:4:3: warning: rule 'narrow' never decides: rule 'wide' of line 3 covers "
                   "it");
    expect_warning(HEAD "- {name: all, leave: true}\n- {name: b, channels: 3}\n",
                   "p.yaml:4:3: warning: rule 'b' never decides: rule 'all' of line 3 covers it");
    muster_policy_free(parse_good(HEAD
                                  "- {name: a, match: {bytes: [1..10, 20..30]}, leave: true}\n"
                                  "- {name: b, match: {bytes: 5..25}, leave: true}\n"
                                  "- {name: c, match: {collective: reduce}, leave: true}\n"
                                  "- {name: d, match: {ranks_per_node: \">=1\"}, leave: true}\n"
                                  "- {name: e, leave: true}\n"));
}

static void long_names_of_files_keep_the_place(void **state)
{
    (void)state;
    char file[300];
    struct described described = {0};
    struct muster_policy *policy = NULL;
    memset(file, 'f', sizeof(file) - 1);
    file[sizeof(file) - 1] = '\0';
    assert_int_equal(muster_policy_parse(&policy, file, "policy: [\n", 10, note, &described), -1);
    assert_non_null(strstr(described.text[0], "f:2:1: error: "));
}

static void the_schema_names_every_key(void **state)
{
    (void)state;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    muster_policy_schema(out);
    fclose(out);
    static const char *const words[] = {
        "\"collective\"", "\"bytes\"",    "\"bytes_per_rank\"", "\"ranks\"",
        "\"nodes\"",      "\"pipe_ops\"", "\"ranks_per_node\"", "\"nvlink_domains\"",
        "\"prefer\"",     "\"avoid\"",    "\"channels\"",       "\"leave\"",
        "\"nvls_tree\"",  "\"ll128\"",    "\"reduce_scatter\""};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_non_null(strstr(text, words[i]));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_with_everything),
        cmocka_unit_test(documents_without_rules),
        cmocka_unit_test(nccls_spellings_are_words_too),
        cmocka_unit_test(channels_alone_and_leave_are_actions),
        cmocka_unit_test(the_hash_is_of_the_bytes),
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(unknown_words),
        cmocka_unit_test(units),
        cmocka_unit_test(versions),
        cmocka_unit_test(numbers),
        cmocka_unit_test(ranges),
        cmocka_unit_test(a_bare_comparison_gets_a_hint),
        cmocka_unit_test(duplicates),
        cmocka_unit_test(aliases_and_anchors),
        cmocka_unit_test(combinations_that_nccl_does_not_have),
        cmocka_unit_test(channels_out_of_range),
        cmocka_unit_test(what_is_not_supported_says_why),
        cmocka_unit_test(shapes),
        cmocka_unit_test(hostile_bytes),
        cmocka_unit_test(all_errors_are_listed),
        cmocka_unit_test(too_many_rules),
        cmocka_unit_test(too_large),
        cmocka_unit_test(too_many_bounds_of_pipe_ops),
        cmocka_unit_test(a_covered_rule_is_warned_of),
        cmocka_unit_test(long_names_of_files_keep_the_place),
        cmocka_unit_test(the_schema_names_every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
