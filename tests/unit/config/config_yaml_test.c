#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/yaml.h"

static void expect_refused(const char *yaml, size_t bytes, const char *expected)
{
    struct muster_err err;
    struct muster_yaml_node *root = NULL;
    struct muster_arena memory = {0};
    assert_int_equal(muster_yaml_parse(&root, &memory, "f", yaml, bytes, &err), -1);
    assert_null(root);
    if (!strstr(err.text, expected))
        fail_msg("expected '%s' in '%s'", expected, err.text);
    muster_arena_free(&memory);
}

static void nodes_know_their_place(void **state)
{
    (void)state;
    static const char yaml[] = "a: 1\nlist:\n  - 'x y'\n  - {k: }\n";
    struct muster_yaml_node *root;
    struct muster_arena memory = {0};
    assert_int_equal(muster_yaml_parse(&root, &memory, "f", yaml, sizeof(yaml) - 1, NULL), 0);
    assert_int_equal(root->kind, MUSTER_YAML_MAP);
    const struct muster_yaml_node *a = root->first, *list = a->next;
    assert_string_equal(a->key, "a");
    assert_string_equal(a->text, "1");
    assert_true(a->plain);
    assert_int_equal(a->place.line, 1);
    assert_int_equal(a->place.column, 4);
    assert_int_equal(list->kind, MUSTER_YAML_LIST);
    assert_int_equal(list->key_place.line, 2);
    assert_null(list->next);
    assert_string_equal(list->first->text, "x y");
    assert_false(list->first->plain);
    assert_int_equal(list->first->place.column, 5);
    const struct muster_yaml_node *k = list->first->next->first;
    assert_string_equal(k->key, "k");
    assert_true(muster_yaml_is_null(k));
    assert_null(list->first->next->next);
    muster_arena_free(&memory);
}

static void an_empty_document_is_an_empty_value(void **state)
{
    (void)state;
    const char *const empty[] = {"", "# nothing\n", "---\n"};
    for (size_t i = 0; i < 3; i++) {
        struct muster_yaml_node *root;
        struct muster_arena memory = {0};
        assert_int_equal(muster_yaml_parse(&root, &memory, "f", empty[i], strlen(empty[i]), NULL),
                         0);
        assert_true(muster_yaml_is_null(root));
        muster_arena_free(&memory);
    }
}

static void what_can_mean_two_things_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        const char *expected;
    } bad[] = {
        {"a: &x 1\n", "f:1:4: anchors are not allowed"},
        {"a: &x [1]\n", "f:1:4: anchors"},
        {"a: &x {b: 1}\n", "f:1:4: anchors"},
        {"a: *x\n", "f:1:4: aliases are not allowed"},
        {"*x : 1\n", "f:1:1: aliases are not allowed"},
        {"&k a: 1\n", "f:1:1: anchors"},
        {"a: !!str 1\n", "f:1:4: tags are not allowed"},
        {"a: !x [1]\n", "f:1:4: tags"},
        {"# %TAG\n%TAG !a! x\n---\na: 1\n", "f:2:1: tags"},
        {"a: 1\nb: 2\n\"a\": 3\n", "f:3:1: duplicate key 'a', first at line 1"},
        {"a: 1\n---\nb: 2\n", "f:2:1: only one document is allowed"},
        {"? [1]\n: 2\n", "f:1:3: a key must be text"},
        {"? {a: 1}\n: 2\n", "f:1:3: a key must be text"},
        {"a: \"x\\0y\"\n", "f:1:4: a NUL character"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refused(bad[i].yaml, strlen(bad[i].yaml), bad[i].expected);
}

static void what_is_no_yaml_is_refused_at_its_place(void **state)
{
    (void)state;
    expect_refused("a: [1, 2\nb: 3\n", 14, "f:2:");
    expect_refused("a:\n\t- 1\n", 8, "f:2:1: ");
    expect_refused("a: 'x\n", 6, "f:2:1: found unexpected end of stream");
    expect_refused("a: 1\nb: \xc3\xa4 \xff\n", 14, "f:2:6: invalid leading UTF-8 octet");
    expect_refused("\xff\xfe"
                   "a\0",
                   4, "f:1:1: invalid leading UTF-8");
    expect_refused("a: \x01\n", 5, "f:1:4: control characters are not allowed");
    expect_refused("a: \0\n", 5, "f:1:4: control characters are not allowed");
}

static char *repeat(const char *piece, size_t times, size_t *bytes)
{
    size_t length = strlen(piece);
    *bytes = length * times;
    char *text = malloc(*bytes + 1);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * length, piece, length + 1);
    return text;
}

static void what_grows_is_refused(void **state)
{
    (void)state;
    size_t bytes;
    char *text = repeat("[", 5000, &bytes);
    expect_refused(text, bytes, "f:1:33: nested too deeply");
    free(text);
    text = repeat("- ", 5000, &bytes);
    expect_refused(text, bytes, "nested too deeply");
    free(text);
    text = repeat("- x\n", MUSTER_YAML_NODES + 1, &bytes);
    expect_refused(text, bytes, "too many values in one file");
    free(text);
    text = repeat("#", MUSTER_YAML_BYTES + 1, &bytes);
    expect_refused(text, bytes, "f: larger than 1 MiB");
    free(text);
}

static void a_mapping_with_too_many_keys_is_refused(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (int i = 0; i <= MUSTER_YAML_MEMBERS; i++)
        fprintf(out, "k%d: 1\n", i);
    fclose(out);
    expect_refused(text, bytes, "f:1025:1: too many keys in one mapping");
    free(text);
}

static void a_hostile_key_or_file_name_cannot_hide_the_message(void **state)
{
    (void)state;
    struct muster_err err;
    struct muster_yaml_node *root = NULL;
    struct muster_arena memory = {0};
    char name[2000];
    static const char yaml[] = "\"\\e[31m\": 1\n\"\\e[31m\": 2\n";
    memset(name, 'd', sizeof(name) - 1);
    memcpy(name + sizeof(name) - 8, "/x.yaml", 8);
    assert_int_equal(muster_yaml_parse(&root, &memory, name, yaml, sizeof(yaml) - 1, &err), -1);
    assert_non_null(strstr(err.text, "d/x.yaml:2:1: duplicate key '?[31m', first at line 1"));
    muster_arena_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_know_their_place),
        cmocka_unit_test(an_empty_document_is_an_empty_value),
        cmocka_unit_test(what_can_mean_two_things_is_refused),
        cmocka_unit_test(what_is_no_yaml_is_refused_at_its_place),
        cmocka_unit_test(what_grows_is_refused),
        cmocka_unit_test(a_mapping_with_too_many_keys_is_refused),
        cmocka_unit_test(a_hostile_key_or_file_name_cannot_hide_the_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
