/* What segments hold, as numbers over several scrapes. */
#include "segment_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_metrics.h"
#include "segment/image.h"

/* A segment in a file, by its number. */
struct rank {
    struct muster_segment *segment;
    char path[128];
};

static struct rank make_rank(const struct fixture *fixture, unsigned n, const char *run_dir)
{
    struct muster_seg_identity who;
    struct rank rank;
    fixture_identity(fixture, &who);
    snprintf(who.run_dir, sizeof who.run_dir, "%s", run_dir);
    who.rank = (int32_t)n;
    who.pid = 1000 + n;
    who.world = 4;
    rank.segment = muster_segment_new(&who);
    assert_non_null(rank.segment);
    fixture_comm(rank.segment);
    snprintf(rank.path, sizeof rank.path, "%s/%u.seg", fixture->shm, n);
    return rank;
}

static void put(const struct rank *rank)
{
    int fd = open(rank->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, rank->segment, sizeof *rank->segment), sizeof *rank->segment);
    close(fd);
}

static void drop(struct rank *rank)
{
    unlink(rank->path);
    free(rank->segment);
}

static void take(struct muster_agent_sample *sample, const struct rank *rank, size_t n)
{
    struct muster_found found[8] = {{0}};
    for (size_t i = 0; i < n; i++) {
        char path[sizeof rank->path];
        snprintf(path, sizeof path, "%s", rank[i].path);
        found[i] = (struct muster_found){.path = strdup(path), .alive = true, .uid = 1000};
    }
    assert_true(muster_agent_sample_take(sample, found, n));
    for (size_t i = 0; i < n; i++)
        free(found[i].path);
}

static void row(struct rank *rank, uint64_t count, uint64_t ns)
{
    struct muster_seg_row *to = &rank->segment->row[MUSTER_FUNCS];
    to->comm = 1;
    to->peer = -1;
    to->func = MUSTER_FUNC_ALL_REDUCE;
    to->count = count;
    to->bytes = 100 * count;
    to->event_timed = count;
    to->sum_ns = ns * count;
    memset(&to->hist, 0, sizeof to->hist);
    to->hist.n[muster_hist_bucket(ns)] = (uint32_t)count;
}

static void totals_are_those_of_the_rows(void **state)
{
    struct rank rank[] = {make_rank(*state, 0, "/jobs/muster-7"),
                          make_rank(*state, 1, "/jobs/muster-7")};
    struct muster_agent_sample sample = {0};
    struct muster_agent_totals totals;
    row(&rank[0], 10, 20000);
    row(&rank[1], 20, 64ull << 27);
    put(&rank[0]);
    put(&rank[1]);
    take(&sample, rank, 2);
    assert_int_equal(sample.processes, 2);
    assert_int_equal(sample.runs, 1);
    assert_string_equal(sample.run[0].name, "muster-7");
    assert_int_equal(sample.run[0].alive, 2);
    assert_int_equal(sample.run[0].expected, 4);
    assert_int_equal(sample.run[0].comms, 1);
    assert_int_equal(sample.run[0].comm[0].seen, 2);
    muster_agent_totals_of(&sample, 0, &totals);
    assert_int_equal(muster_agent_all(&totals).operations, 30);
    assert_int_equal(muster_agent_all(&totals).bytes, 3000);
    assert_int_equal(muster_agent_all(&totals).timed, 30);
    assert_int_equal(totals.bucket[1], 10);                   /* 20 us: up to 32.8 us */
    assert_int_equal(totals.bucket[MUSTER_AGENT_BOUNDS], 20); /* beyond the last bound */
    muster_agent_sample_free(&sample);
    drop(&rank[0]);
    drop(&rank[1]);
}

static void a_bound_is_an_edge_of_the_histogram(void **state)
{
    (void)state;
    for (unsigned b = 0; b < MUSTER_AGENT_BOUNDS; b++) {
        unsigned at = muster_hist_bucket(muster_agent_bound_ns[b]);
        assert_int_equal(muster_hist_lower(at), muster_agent_bound_ns[b]);
    }
}

static void who_ends_leaves_but_counts_on(void **state)
{
    struct rank rank[] = {make_rank(*state, 0, "/jobs/muster-7"),
                          make_rank(*state, 1, "/jobs/muster-7")};
    struct muster_agent_sample sample = {0};
    struct muster_agent_totals totals;
    for (unsigned i = 0; i < 2; i++) {
        row(&rank[i], 10, 20000);
        put(&rank[i]);
    }
    take(&sample, rank, 2);
    take(&sample, rank, 1);
    assert_int_equal(sample.processes, 1);
    muster_agent_totals_of(&sample, 0, &totals);
    assert_int_equal(muster_agent_all(&totals).operations, 20);
    take(&sample, rank, 0);
    assert_int_equal(sample.processes, 0);
    assert_int_equal(sample.runs, 0);
    muster_agent_sample_free(&sample);
    drop(&rank[0]);
    drop(&rank[1]);
}

static void a_counter_does_not_fall(void **state)
{
    struct rank rank = make_rank(*state, 0, "/jobs/muster-7");
    struct muster_agent_sample sample = {0};
    row(&rank, 10, 20000);
    put(&rank);
    take(&sample, &rank, 1);
    row(&rank, 9, 20000); /* as of a row that was read half */
    put(&rank);
    take(&sample, &rank, 1);
    assert_int_equal(muster_agent_all(&sample.process[0].totals).operations, 10);
    muster_agent_sample_free(&sample);
    drop(&rank);
}

static void one_of_two_with_one_rank_is_left_out(void **state)
{
    struct rank rank[] = {make_rank(*state, 0, "/jobs/muster-7"),
                          make_rank(*state, 1, "/jobs/muster-7")};
    struct muster_agent_sample sample = {0};
    rank[1].segment->identity.rank = 0;
    rank[1].segment->identity.begin_unix_ns = rank[0].segment->identity.begin_unix_ns + 1;
    put(&rank[0]);
    put(&rank[1]);
    take(&sample, rank, 2);
    assert_true(sample.process[0].twin);
    assert_false(sample.process[1].twin);
    assert_int_equal(sample.process[1].identity.pid, 1001);
    muster_agent_sample_free(&sample);
    drop(&rank[0]);
    drop(&rank[1]);
}

static void one_segment_says_nothing_of_another(void **state)
{
    struct rank rank[] = {make_rank(*state, 0, "/jobs/muster-7"),
                          make_rank(*state, 1, "/jobs/muster-8")};
    struct muster_agent_sample sample = {0};
    row(&rank[0], 10, 20000);
    put(&rank[0]);
    put(&rank[1]);
    take(&sample, rank, 2);
    assert_int_equal(sample.runs, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(muster_agent_all(&sample.process[i].totals).operations,
                         sample.process[i].identity.rank == 0 ? 10 : 0);
    muster_agent_sample_free(&sample);
    drop(&rank[0]);
    drop(&rank[1]);
}

/* Cut short, of another version, made of noise: counted, and the others are read. */
static void what_is_damaged_is_counted(void **state)
{
    struct rank rank[] = {make_rank(*state, 0, "/jobs/muster-7"),
                          make_rank(*state, 1, "/jobs/muster-7"),
                          make_rank(*state, 2, "/jobs/muster-7")};
    struct muster_agent_sample sample = {0};
    rank[1].segment->version++;
    for (unsigned i = 0; i < 3; i++)
        put(&rank[i]);
    assert_int_equal(truncate(rank[2].path, 1000), 0);
    take(&sample, rank, 3);
    assert_int_equal(sample.unreadable, 2);
    assert_int_equal(sample.processes, 1);
    unlink(rank[2].path); /* it has just ended: nothing is wrong */
    take(&sample, rank, 3);
    assert_int_equal(sample.unreadable, 1);
    muster_agent_sample_free(&sample);
    for (unsigned i = 0; i < 3; i++)
        drop(&rank[i]);
}

static void hostile_bytes_print_as_text(void **state)
{
    struct rank rank = make_rank(*state, 0, "/jobs/\"},evil{x=\"\n1");
    struct muster_agent_sample sample = {0};
    static const struct muster_agent_news news;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    memset(rank.segment->row, 0xa5, sizeof rank.segment->row);
    memset(rank.segment->net, 0xa5, sizeof rank.segment->net);
    memset(rank.segment->slot_state, 0xa5, sizeof rank.segment->slot_state);
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        rank.segment->row[i].seq = 2;
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++)
        rank.segment->net[i].seq = 2;
    put(&rank);
    take(&sample, &rank, 1);
    muster_agent_metrics(NULL, &sample, &news, 1, true, out);
    fclose(out);
    assert_non_null(strstr(text, "run=\"\\\"},evil{x=\\\"?1\""));
    assert_null(strstr(text, "\nevil"));
    free(text);
    muster_agent_sample_free(&sample);
    drop(&rank);
}

static void of_many_findings_64_are_told(void **state)
{
    static struct muster_agent_news news;
    struct rank lives = make_rank(*state, 0, "/jobs/muster-1");
    struct muster_agent_sample sample = {0};
    struct muster_finding finding = {.kind = MUSTER_FINDING_LATE_RANK, .ranks = 1};
    char *text;
    size_t size, told = 0;
    FILE *out = open_memstream(&text, &size);
    put(&lives);
    take(&sample, &lives, 1);
    for (int32_t rank = 0; rank < 100; rank++) {
        finding.rank[0] = rank;
        muster_finding_metrics_add(&news.findings, MUSTER_AGENT_FINDINGS, "muster-1",
                                   sample.run[0].uid, &finding);
    }
    muster_agent_metrics(NULL, &sample, &news, 1, false, out);
    fclose(out);
    for (const char *at = text; (at = strstr(at, "\nmuster_finding_active{")); at++)
        told++;
    assert_int_equal(told, 64);
    assert_non_null(strstr(text, "\nmuster_agent_findings_omitted 36\n"));
    free(text);
    muster_agent_sample_free(&sample);
    drop(&lives);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        TEST(totals_are_those_of_the_rows),         TEST(a_bound_is_an_edge_of_the_histogram),
        TEST(who_ends_leaves_but_counts_on),        TEST(a_counter_does_not_fall),
        TEST(one_of_two_with_one_rank_is_left_out), TEST(one_segment_says_nothing_of_another),
        TEST(what_is_damaged_is_counted),           TEST(hostile_bytes_print_as_text),
        TEST(of_many_findings_64_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
