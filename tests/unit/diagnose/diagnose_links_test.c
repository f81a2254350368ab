/* Links between hosts that are slow from the beginning, as the sends of a pipeline show them. */
#include "made_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HOSTS = 6, BATCHES = 120 };

/* Ranks as many as hosts, one on each but where a test says otherwise; each receives from the one
 * before, works, and sends to the next. */
struct line {
    struct ranks ranks;
    uint64_t transfer_ns[HOSTS]; /* from each host to the next */
    bool meanwhile;              /* it works while it sends and receives */
    bool buffered;               /* a send is over once it has left */
    unsigned ranks_a_host;
    uint64_t clock_ns[HOSTS];
};

static struct line *line_new(void)
{
    struct line *line = calloc(1, sizeof *line);
    assert_non_null(line);
    line->ranks_a_host = 1;
    for (unsigned r = 0; r < HOSTS; r++)
        line->transfer_ns[r] = 200 * US;
    return line;
}

static void add(struct line *line, unsigned rank, bool sends, uint64_t number, uint64_t end_ns)
{
    const uint64_t skew_ns = line->ranks.skew_ns[rank];
    const struct muster_op op = {.number = number,
                                 .enqueue_ns = 1000 * MS + line->clock_ns[rank] - 20 * MS,
                                 .begin_ns = line->clock_ns[rank] + skew_ns,
                                 .end_ns = end_ns + skew_ns,
                                 .count = 1 << 20,
                                 .peer = (int32_t)rank + (sends ? 1 : -1),
                                 .func = sends ? MUSTER_FUNC_SEND : MUSTER_FUNC_RECV,
                                 .dtype = MUSTER_DTYPE_FLOAT32,
                                 .source = MUSTER_SOURCE_GPU};
    muster_view_add_op(&line->ranks.view, line->ranks.member[0][rank], &op);
}

/* As a rule the receiver waits, at times it comes when all is there. */
static void exchange_buffered(struct line *line, unsigned from, uint64_t number)
{
    uint64_t *out = &line->clock_ns[from], *in = &line->clock_ns[from + 1];
    uint64_t end_ns = *out + line->transfer_ns[from] + number % 7 * US;
    add(line, from, true, number, end_ns);
    *out = end_ns;
    *in = number % 9 == 0 && *in < end_ns ? end_ns + 20 * US : *in;
    end_ns = (end_ns > *in ? end_ns : *in) + 10 * US;
    add(line, from + 1, false, number, end_ns);
    *in = end_ns + 1000 * US + number % 5 * 3 * US;
}

static void exchange(struct line *line, unsigned from, uint64_t number)
{
    if (line->buffered) {
        exchange_buffered(line, from, number);
        return;
    }
    uint64_t *out = &line->clock_ns[from], *in = &line->clock_ns[from + 1];
    uint64_t end_ns = (*out > *in ? *out : *in) + line->transfer_ns[from] + number % 7 * US;
    add(line, from, true, number, end_ns);
    add(line, from + 1, false, number, end_ns);
    *out = line->meanwhile ? *out + 2 * MS : end_ns;
    *in = line->meanwhile ? *in + 2 * MS : end_ns + 1000 * US + number % 5 * 3 * US;
}

/* How long it took; frees. */
static uint64_t play(struct line *line, struct muster_findings *findings)
{
    static const char *const hosts[HOSTS] = {"node0", "node1", "node2", "node3", "node4", "node5"};
    ranks_begin(&line->ranks, HOSTS);
    ranks_comm(&line->ranks, 0, 0, 1, HOSTS, HOSTS);
    for (unsigned r = 0; r < HOSTS; r++) {
        line->ranks.view.gpu[r].host = hosts[r / line->ranks_a_host];
        line->clock_ns[r] = 100 * MS + (line->meanwhile ? 2 * r * MS : 0);
    }
    for (uint64_t b = 0; b < BATCHES; b++) {
        for (unsigned r = 0; r + 1 < HOSTS; r++)
            exchange(line, r, b);
        line->clock_ns[0] += line->meanwhile || line->buffered ? 2 * MS : 1000 * US;
        line->clock_ns[HOSTS - 1] += line->meanwhile ? 2 * MS : 0;
    }
    *findings = ranks_diagnose(&line->ranks);
    uint64_t ns = line->clock_ns[HOSTS - 1];
    ranks_end(&line->ranks);
    free(line);
    return ns;
}

static void says_nothing(struct line *line)
{
    struct muster_findings findings;
    play(line, &findings);
    assert_int_equal(findings.n, 0);
    muster_findings_free(&findings);
}

static void test_a_link_that_was_always_slow(void **state)
{
    (void)state;
    struct muster_findings findings;
    struct line *line = line_new();
    uint64_t sound_ns = play(line_new(), &findings);
    assert_int_equal(findings.n, 0);
    line->transfer_ns[2] = 800 * US;
    double lost_s = (double)(play(line, &findings) - sound_ns) / 1e9;
    assert_int_equal(findings.n, 1);
    const struct muster_finding *finding = &findings.finding[0];
    assert_int_equal(finding->kind, MUSTER_FINDING_SLOW_TRANSFER);
    assert_string_equal(finding->host, "node2");
    assert_string_equal(finding->to_host, "node3");
    assert_int_equal(finding->rank[0], 2);
    assert_int_equal(finding->rank[1], 3);
    assert_true(ranks_has_line(&finding->evidence, "over the 4 other ways"));
    assert_non_null(strstr(finding->advice, "on the way from node2 to node3"));
    assert_true(finding->cost_run_s > 0.8 * lost_s && finding->cost_run_s < 1.2 * lost_s);
    muster_findings_free(&findings);
}

static void test_all_ways_of_a_host(void **state)
{
    (void)state;
    struct muster_findings findings;
    struct line *line = line_new();
    line->transfer_ns[2] = line->transfer_ns[3] = 800 * US;
    play(line, &findings);
    assert_int_equal(findings.n, 1);
    assert_true(ranks_has_line(&findings.finding[0].evidence,
                               "on 2 ways, all of them to or from host node3"));
    assert_non_null(strstr(findings.finding[0].advice, "ports of node3"));
    muster_findings_free(&findings);
}

/* So may the network be built. */
static void test_ways_without_a_common_host_are_not_named(void **state)
{
    (void)state;
    struct line *line = line_new();
    line->transfer_ns[0] = line->transfer_ns[4] = 800 * US;
    says_nothing(line);
}

static void test_twice_as_slow_may_be_the_network(void **state)
{
    (void)state;
    struct line *line = line_new();
    line->transfer_ns[2] = 400 * US;
    says_nothing(line);
}

static void test_ways_that_differ_tell_of_none(void **state)
{
    (void)state;
    struct line *line = line_new();
    line->transfer_ns[0] = 330 * US;
    line->transfer_ns[2] = 1100 * US;
    says_nothing(line);
}

static void test_what_computing_hides_costs_nothing(void **state)
{
    (void)state;
    struct line *line = line_new();
    line->meanwhile = true;
    line->transfer_ns[2] = 800 * US;
    says_nothing(line);
}

static void test_of_what_is_buffered_the_sender_tells(void **state)
{
    (void)state;
    struct muster_findings findings;
    struct line *line = line_new();
    line->buffered = true;
    line->transfer_ns[2] = 800 * US;
    play(line, &findings);
    assert_int_equal(findings.n, 1);
    assert_string_equal(findings.finding[0].host, "node2");
    assert_string_equal(findings.finding[0].to_host, "node3");
    muster_findings_free(&findings);
}

static void test_a_host_is_quicker_inside_than_to_others(void **state)
{
    (void)state;
    struct line *line = line_new();
    line->ranks_a_host = 2;
    for (unsigned r = 0; r < HOSTS; r += 2)
        line->transfer_ns[r] = 50 * US;
    says_nothing(line);
}

/* Each sends to the next and receives from the one before at once, and all wait for whoever of
 * ranks 0 and 2 comes last: the last hosts exchange nothing of which one knows how long it took. */
static void test_who_waits_for_others_tells_nothing_of_the_way(void **state)
{
    (void)state;
    struct line *line = line_new();
    ranks_begin(&line->ranks, HOSTS);
    ranks_comm(&line->ranks, 0, 0, 1, HOSTS, HOSTS);
    static const char *const hosts[HOSTS] = {"node0", "node1", "node2", "node3", "node4", "node5"};
    for (uint64_t b = 0; b < BATCHES; b++) {
        uint64_t end_ns = 100 * MS + b * 4 * MS;
        for (unsigned r = 0; r < HOSTS; r++) {
            line->ranks.view.gpu[r].host = hosts[r];
            bool last = r == (b % 2 ? 0 : 2);
            line->clock_ns[r] = end_ns - (last ? 200 * US : 1000 * US);
            if (r + 1 < HOSTS)
                add(line, r, true, b, end_ns);
            if (r > 0)
                add(line, r, false, b, end_ns);
        }
    }
    struct muster_findings findings = ranks_diagnose(&line->ranks);
    for (size_t i = 0; i < findings.n; i++)
        assert_int_not_equal(findings.finding[i].kind, MUSTER_FINDING_SLOW_TRANSFER);
    muster_findings_free(&findings);
    ranks_end(&line->ranks);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_that_was_always_slow),
        cmocka_unit_test(test_all_ways_of_a_host),
        cmocka_unit_test(test_ways_without_a_common_host_are_not_named),
        cmocka_unit_test(test_twice_as_slow_may_be_the_network),
        cmocka_unit_test(test_ways_that_differ_tell_of_none),
        cmocka_unit_test(test_what_computing_hides_costs_nothing),
        cmocka_unit_test(test_of_what_is_buffered_the_sender_tells),
        cmocka_unit_test(test_a_host_is_quicker_inside_than_to_others),
        cmocka_unit_test(test_who_waits_for_others_tells_nothing_of_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
