/* Rounds of pairs, failing pairs in few words, names of hosts, messages and their lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/hosts/hosts.h"
#include "doctor/hosts/hosts_fold.h"
#include "doctor/hosts/hosts_lines.h"
#include "doctor/hosts/hosts_rounds.h"

enum { MANY = 1024 };

/* ---- rounds ---- */

static void no_host_measures_twice_in_a_round_and_no_pair_twice(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 40; n++) {
        char met[40][40] = {{0}};
        for (unsigned round = 0; round < muster_hosts_rounds(n); round++)
            for (unsigned i = 0; i < n; i++) {
                int with = muster_hosts_partner(n, round, i);
                if (with < 0)
                    continue;
                assert_in_range(with, 0, n - 1);
                assert_int_not_equal(with, i);
                assert_int_equal(muster_hosts_partner(n, round, (unsigned)with), i);
                assert_int_equal(met[i][with]++, 0);
            }
    }
}

static void few_hosts_all_meet(void **state)
{
    (void)state;
    for (unsigned n = 2; n <= 16; n++) {
        unsigned pairs = 0;
        for (unsigned round = 0; round < muster_hosts_rounds(n); round++)
            for (unsigned i = 0; i < n; i++)
                pairs += muster_hosts_partner(n, round, i) > (int)i;
        assert_int_equal(pairs, n * (n - 1) / 2);
    }
    assert_int_equal(muster_hosts_rounds(MANY), MUSTER_HOSTS_ROUNDS);
    assert_int_equal(muster_hosts_rounds(1), 0);
}

/* ---- folding ---- */

struct scene {
    unsigned n;
    char name[MANY][16], subnet[MANY][24];
    const char *names[MANY], *subnets[MANY];
    char *bad;
};

/* Hosts h0, h1..., `size` of them in each subnet. */
static struct scene *scene_new(unsigned n, unsigned size)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->n = n;
    scene->bad = calloc(n, n);
    assert_non_null(scene->bad);
    for (unsigned i = 0; i < n; i++) {
        snprintf(scene->name[i], sizeof scene->name[i], "h%u", i);
        snprintf(scene->subnet[i], sizeof scene->subnet[i], "10.0.%u.0/24", i / size);
        scene->names[i] = scene->name[i];
        scene->subnets[i] = scene->subnet[i];
    }
    return scene;
}

static void mark(struct scene *scene, unsigned from, unsigned to)
{
    if (from != to)
        scene->bad[(size_t)from * scene->n + to] = 1;
}

/* What is told, joined by "; "; frees the scene. */
static void expect_folds(struct scene *scene, const char *expected)
{
    struct muster_arena arena = {0};
    char text[1024] = "";
    size_t pairs = 0, bad = 0;
    const struct muster_fold *fold;
    const struct muster_fold_input input = {scene->n, scene->names, scene->subnets, scene->bad};
    size_t n = muster_hosts_fold(&input, &arena, &fold);
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i ? "; " : "", fold[i].text);
        pairs += fold[i].pairs;
        assert_int_equal(scene->bad[(size_t)fold[i].from * scene->n + fold[i].to], MUSTER_FOLD_BAD);
    }
    for (size_t i = 0; i < (size_t)scene->n * scene->n; i++)
        bad += scene->bad[i] == MUSTER_FOLD_BAD;
    assert_string_equal(text, expected);
    assert_int_equal(pairs, bad); /* each pair in one of them */
    muster_arena_free(&arena);
    free(scene->bad);
    free(scene);
}

static void a_host_is_told_once(void **state)
{
    (void)state;
    struct scene *scene = scene_new(MANY, 64);
    for (unsigned i = 0; i < MANY; i++) {
        mark(scene, 77, i);
        mark(scene, i, 77);
    }
    expect_folds(scene, "host h77, both ways");
    scene = scene_new(16, 16);
    for (unsigned i = 0; i < 16; i++) {
        mark(scene, i, 3);
        mark(scene, 5, i);
    }
    expect_folds(scene, "from all others to host h3; from host h5 to all others");
}

static void a_subnet_is_told_once(void **state)
{
    (void)state;
    struct scene *scene = scene_new(MANY, 64);
    for (unsigned i = 0; i < MANY; i++)
        for (unsigned j = 0; j < MANY; j++)
            if ((i / 64 == 2) != (j / 64 == 2))
                mark(scene, i, j);
    expect_folds(scene, "subnet 10.0.2.0/24, both ways");
    scene = scene_new(12, 4);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned j = 8; j < 12; j++)
            mark(scene, i, j);
    expect_folds(scene, "from subnet 10.0.0.0/24 to subnet 10.0.2.0/24");
    scene = scene_new(8, 4);
    for (unsigned i = 4; i < 8; i++)
        mark(scene, 1, i);
    expect_folds(scene, "from host h1 to subnet 10.0.1.0/24");
}

static void what_is_unknown_contradicts_nothing(void **state)
{
    (void)state;
    struct scene *scene = scene_new(8, 8);
    memset(scene->bad, MUSTER_FOLD_UNKNOWN, 64);
    expect_folds(scene, "");
    scene = scene_new(8, 8);
    memset(scene->bad, MUSTER_FOLD_UNKNOWN, 64);
    mark(scene, 0, 3);
    mark(scene, 0, 4);
    mark(scene, 2, 1); /* one alone is no sentence about a host */
    expect_folds(scene, "from host h0 to all others; from host h2 to host h1");
}

static void single_pairs_are_told_as_they_are(void **state)
{
    (void)state;
    struct scene *scene = scene_new(5, 5);
    expect_folds(scene, "");
    scene = scene_new(5, 5);
    mark(scene, 0, 3);
    mark(scene, 3, 0);
    mark(scene, 1, 2);
    expect_folds(scene, "between host h0 and host h3, both ways; from host h1 to host h2");
}

/* ---- names ---- */

static void expect_names(const char *list, const char *expected)
{
    struct muster_arena arena = {0};
    const char *const *names;
    struct muster_err err;
    char text[512] = "";
    size_t n = muster_hosts_names(list, &arena, &names, &err);
    assert_int_not_equal(n, SIZE_MAX);
    for (size_t i = 0; i < n; i++) {
        strcat(text, i ? " " : "");
        strcat(text, names[i]);
    }
    assert_string_equal(text, expected);
    muster_arena_free(&arena);
}

static void lists_of_names(void **state)
{
    (void)state;
    expect_names("", "");
    expect_names("a b,c", "a b c");
    expect_names("node[08-11,7]", "node08 node09 node10 node11 node7");
    expect_names("gpu[1,3].rack2.example x", "gpu1.rack2.example gpu3.rack2.example x");
    static const char *const wrong[] = {
        "a[", "a[]", "a[x]", "a[3-1]", "a[1-]", "-oProxyCommand=x", "a[0-99999]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct muster_arena arena = {0};
        const char *const *names;
        struct muster_err err;
        assert_int_equal(muster_hosts_names(wrong[i], &arena, &names, &err), SIZE_MAX);
        assert_true(err.text[0]);
        muster_arena_free(&arena);
    }
}

/* ---- lines ---- */

static void a_long_message_survives_a_stream_that_others_write_to(void **state)
{
    (void)state;
    char message[5000];
    size_t size;
    struct muster_hosts_stream stream = {.n = 0};
    struct muster_hosts_text text[4] = {{0}};
    memset(message, 'x', sizeof message - 1);
    message[sizeof message - 1] = '\0';
    char *lines = muster_hosts_lines(3, message, &size);
    assert_non_null(lines);
    for (int time = 0; time < 2; time++) {
        assert_true(muster_hosts_stream_add(&stream, "Welcome to node3\n2: ", 20));
        for (size_t at = 0; at < size; at += 100) {
            size_t n = size - at < 100 ? size - at : 100;
            assert_true(muster_hosts_stream_add(&stream, lines + at, n));
            int member = muster_hosts_stream_take(&stream, text, 4);
            assert_int_equal(member, at + n == size ? 3 : -1);
        }
        assert_int_equal(text[3].n, sizeof message); /* and the line's end */
        assert_memory_equal(text[3].bytes, message, sizeof message - 1);
        assert_string_equal(stream.other, "Welcome to node3");
    }
    free(lines);
    free(text[3].bytes);
    muster_hosts_stream_free(&stream);
}

static void lines_of_nobody_are_left_out(void **state)
{
    (void)state;
    static const char in[] = "@muster 9 . {}\n@muster x . {}\n@muster 1 ? {}\n@muster\n\n";
    struct muster_hosts_stream stream = {.n = 0};
    struct muster_hosts_text text[2] = {{0}};
    assert_true(muster_hosts_stream_add(&stream, in, sizeof in - 1));
    assert_int_equal(muster_hosts_stream_take(&stream, text, 2), -1);
    assert_null(text[0].bytes);
    assert_null(text[1].bytes);
    muster_hosts_stream_free(&stream);
}

/* ---- messages ---- */

static void a_member_says_where_it_can_be_reached(void **state)
{
    (void)state;
    struct muster_arena arena = {0};
    struct muster_err err;
    struct muster_hosts_message in = {.kind = MUSTER_HOSTS_HELLO, .report = "{\"version\":1}"}, out;
    in.member = (struct muster_hosts_member){.name = "n1",
                                             .id = "n1 x",
                                             .rank = 3,
                                             .addresses = 1,
                                             .port = {1, 2, 3, 65535},
                                             .frames = 9,
                                             .low = 1,
                                             .high = 8,
                                             .token = 1ull << 61};
    in.member.address[0] =
        (struct muster_interface){.name = "eth0", .family = AF_INET, .prefix = 24, .mtu = 9000};
    in.member.address[0].address.s6_addr[0] = 10;
    const char *text = muster_hosts_write(&in, &arena);
    assert_null(strchr(text, '\n'));
    assert_int_equal(muster_hosts_read(text, strlen(text), &arena, &out, &err), 0);
    assert_int_equal(out.kind, MUSTER_HOSTS_HELLO);
    assert_memory_equal(&out.member, &in.member, sizeof in.member);
    assert_string_equal(out.report, "{\"version\":1}");
    struct sockaddr_storage to;
    socklen_t size;
    muster_hosts_target(&out.member, 3, &to, &size);
    assert_int_equal(((struct sockaddr_in *)(void *)&to)->sin_port, 65535);
    muster_arena_free(&arena);
}

static void what_is_no_message_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"kind\":\"other\"}",
        "{\"kind\":\"hello\"}",
        "{\"kind\":\"hello\",\"member\":{\"host\":\"a\",\"addresses\":[[\"e\",\"10.0\",1,1]]}}",
        "{\"kind\":\"reach\",\"members\":[{}]}",
        "{\"kind\":\"reached\",\"ends\":\"\",\"frame_ends\":\"..\",\"frame_bytes\":[1]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct muster_arena arena = {0};
        struct muster_hosts_message message;
        struct muster_err err = {""};
        assert_int_equal(muster_hosts_read(wrong[i], strlen(wrong[i]), &arena, &message, &err), -1);
        assert_true(err.text[0]);
        muster_arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_host_measures_twice_in_a_round_and_no_pair_twice),
        cmocka_unit_test(few_hosts_all_meet),
        cmocka_unit_test(a_host_is_told_once),
        cmocka_unit_test(a_subnet_is_told_once),
        cmocka_unit_test(what_is_unknown_contradicts_nothing),
        cmocka_unit_test(single_pairs_are_told_as_they_are),
        cmocka_unit_test(lists_of_names),
        cmocka_unit_test(a_long_message_survives_a_stream_that_others_write_to),
        cmocka_unit_test(lines_of_nobody_are_left_out),
        cmocka_unit_test(a_member_says_where_it_can_be_reached),
        cmocka_unit_test(what_is_no_message_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
