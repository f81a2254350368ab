/* What several hosts tell becomes one job: who is late, who is missing, and who is not believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/evaluator.h"
#include "fleet/join.h"
#include "wire_made.h"

enum { HOSTS = 2, HALVES = 24 };
#define HALF_NS (MADE_SECOND / 2)
#define SERVER  (5000 * MADE_SECOND)

struct published {
    struct muster_finding first;
    unsigned n, resolved;
};

static void note(void *arg, const struct muster_finding *finding)
{
    struct published *published = arg;
    if (finding->resolved) {
        published->resolved++;
        return;
    }
    if (published->n++ == 0)
        published->first = *finding;
}

static void count(void *arg, const struct muster_finding *finding)
{
    (void)finding;
    (*(unsigned *)arg)++;
}

struct fleet {
    struct made *host[HOSTS];
    struct muster_join *join;
    struct muster_evaluator *evaluator;
    struct published published;
    uint64_t at_ns;
    int64_t server_off_ns; /* how wrong the server's clock is */
    bool mute[HOSTS];
};

static int begin(void **state)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    char name[MUSTER_FLEET_NAME];
    muster_fleet_name(name, 1000, MADE_RUN);
    fleet->join = muster_join_new(name);
    fleet->evaluator = muster_evaluator_new(10 * MADE_SECOND);
    for (unsigned h = 0; h < HOSTS; h++)
        fleet->host[h] = made_new(h, HOSTS);
    *state = fleet;
    return 0;
}

static int end(void **state)
{
    struct fleet *fleet = *state;
    for (unsigned h = 0; h < HOSTS; h++)
        free(fleet->host[h]);
    muster_join_free(fleet->join);
    muster_evaluator_free(fleet->evaluator);
    free(fleet);
    return 0;
}

static void give(struct fleet *fleet, const struct made *made)
{
    struct muster_err err;
    size_t bytes;
    unsigned char *data = made_bytes(made, &bytes);
    if (muster_join_take(fleet->join, data, bytes,
                         SERVER + fleet->at_ns + (uint64_t)fleet->server_off_ns, fleet->at_ns,
                         &err) != 0)
        fail_msg("%s", err.text);
    free(data);
}

/* Half a second in which ranks work (late >= -1) or rest, those of a stopped host for ever. */
static void half(struct fleet *fleet, int late, unsigned stopped)
{
    fleet->at_ns += HALF_NS;
    for (unsigned h = 0; h < HOSTS; h++) {
        if (late < -1 || h == stopped)
            made_rest(fleet->host[h]);
        else
            made_step(fleet->host[h], late);
        if (!fleet->mute[h])
            give(fleet, fleet->host[h]);
    }
    assert_true(muster_evaluator_look(fleet->evaluator, fleet->join, fleet->at_ns, note,
                                      &fleet->published));
}

static void test_late_rank_of_the_other_host(void **state)
{
    struct fleet *fleet = *state;
    for (unsigned i = 0; i < HALVES; i++)
        half(fleet, 6, HOSTS);
    assert_int_equal(fleet->published.n, 1);
    assert_int_equal(fleet->published.first.kind, MUSTER_FINDING_LATE_RANK);
    assert_int_equal(fleet->published.first.rank[0], 6);
    assert_string_equal(fleet->published.first.host, "node1");
}

/* The same where those who show are looked at closely: both kinds of looks find it, and it is told
 * once, and that it is over once, when neither finds it any more. */
static void test_who_is_looked_at_closely_is_told_once(void **state)
{
    struct fleet *fleet = *state;
    muster_evaluator_near_from(fleet->evaluator, 1);
    for (unsigned i = 0; i < HALVES; i++)
        half(fleet, 6, HOSTS);
    assert_int_equal(fleet->published.n, 1);
    assert_int_equal(fleet->published.first.rank[0], 6);
    assert_int_equal(fleet->published.resolved, 0);
    unsigned known = 0;
    muster_evaluator_findings(fleet->evaluator, count, &known);
    assert_int_equal(known, 1);
    for (unsigned i = 0; i < 6 * HALVES; i++)
        half(fleet, -1, HOSTS);
    assert_int_equal(fleet->published.n + fleet->published.resolved,
                     2); /* retracted, or resolved */
    known = 0;
    muster_evaluator_findings(fleet->evaluator, count, &known);
    assert_int_equal(known, 0);
}

static void test_nobody_is_late(void **state)
{
    struct fleet *fleet = *state;
    for (unsigned i = 0; i < HALVES; i++)
        half(fleet, -1, HOSTS);
    assert_int_equal(fleet->published.n, 0);
    struct muster_join_coverage is = muster_join_coverage(fleet->join, fleet->at_ns);
    assert_int_equal(is.ranks, 8);
    assert_int_equal(is.expected, 8);
}

/* A host that is not heard any more has done nothing: nobody says that it hangs. */
static void test_silent_host_is_not_blamed(void **state)
{
    struct fleet *fleet = *state;
    for (unsigned i = 0; i < 4; i++)
        half(fleet, -1, HOSTS);
    fleet->mute[1] = true;
    for (unsigned i = 0; i < 60; i++)
        half(fleet, -2, HOSTS);
    assert_int_equal(fleet->published.n, 0);
    struct muster_join_coverage is = muster_join_coverage(fleet->join, fleet->at_ns);
    assert_int_equal(is.silent_hosts, 1);
    assert_int_equal(is.ranks, 4);
    assert_int_equal(is.expected, 8);
    fleet->mute[1] = false;
    half(fleet, -2, HOSTS);
    assert_int_equal(muster_join_coverage(fleet->join, fleet->at_ns).ranks, 8);
}

/* Rank 2 never calls what all others wait in. */
static void test_absent_rank(void **state)
{
    struct fleet *fleet = *state;
    half(fleet, -1, HOSTS);
    half(fleet, -1, HOSTS);
    for (unsigned h = 0; h < HOSTS; h++)
        for (unsigned i = 0; i < MADE_RANKS; i++) {
            struct muster_seg_comm *comm = &fleet->host[h]->comm[i].seg;
            if (h == 0 && i == 2)
                continue;
            comm->calls++;
            comm->launches++;
            comm->launches_probed++;
            comm->called_ns = fleet->host[h]->message.mono_ns;
        }
    for (unsigned i = 0; i < 60; i++)
        half(fleet, -2, HOSTS);
    assert_int_equal(fleet->published.n, 1);
    assert_int_equal(fleet->published.first.kind, MUSTER_FINDING_HANG_ABSENT);
    assert_int_equal(fleet->published.first.rank[0], 2);
    assert_int_equal(fleet->published.first.victims, 7);
}

/* Rank 2 is killed, and the others, on both hosts, give up what they wait in before that is a hang.
 */
static void test_who_was_killed_before_the_others_gave_up(void **state)
{
    struct fleet *fleet = *state;
    half(fleet, -1, HOSTS);
    half(fleet, -1, HOSTS);
    fleet->host[0]->process[2].state = MUSTER_PROCESS_KILLED;
    for (unsigned h = 0; h < HOSTS; h++)
        for (unsigned i = 0; i < MADE_RANKS; i++) {
            struct muster_seg_comm *comm = &fleet->host[h]->comm[i].seg;
            if (h == 0 && i == 2)
                continue;
            comm->calls++;
            comm->called_ns = fleet->host[h]->message.mono_ns;
            comm->end_ns = fleet->host[h]->message.mono_ns + 7 * MADE_SECOND / 10;
        }
    for (unsigned i = 0; i < 16; i++)
        half(fleet, -2, HOSTS);
    assert_int_equal(fleet->published.n, 1);
    assert_int_equal(fleet->published.resolved, 0);
    assert_int_equal(fleet->published.first.kind, MUSTER_FINDING_HANG_DEAD);
    assert_int_equal(fleet->published.first.rank[0], 2);
    assert_int_equal(fleet->published.first.victims, 7);
}

/* Rank 2 is killed and the others of its host give up, with remains of the same id, while of the
 * other host nothing is heard: what it knows is not known. */
static void test_remains_of_an_id_stand_for_no_other_host(void **state)
{
    enum { REMAINS = 3 };
    struct fleet *fleet = *state;
    struct made *made = fleet->host[0];
    half(fleet, -1, HOSTS);
    half(fleet, -1, HOSTS);
    fleet->mute[1] = true;
    made->process[2].state = MUSTER_PROCESS_KILLED;
    struct muster_wire_comm all[MADE_RANKS][REMAINS];
    for (unsigned i = 0; i < MADE_RANKS; i++) {
        struct muster_seg_comm *comm = &made->comm[i].seg;
        if (i == 2)
            continue;
        comm->calls++;
        comm->called_ns = made->message.mono_ns;
        for (unsigned k = 0; k < REMAINS; k++) {
            all[i][k] = made->comm[i];
            all[i][k].seg.uid = k + 1;
            all[i][k].seg.end_ns = made->message.mono_ns + 7 * MADE_SECOND / 10;
        }
        made->process[i].comm = all[i];
        made->process[i].comms = REMAINS;
    }
    for (unsigned i = 0; i < 16; i++)
        half(fleet, -2, HOSTS);
    assert_int_equal(fleet->published.n, 0);
}

/* What is looked at begins where it did, look after look, until older operations leave or somebody
 * falls silent: then it is another window, which has a share of false verdicts of its own. */
static void test_looks_at_one_window(void **state)
{
    enum { FULL = 4096 / 50 /* halves, of as many operations as are kept */ };
    struct fleet *fleet = *state;
    uint64_t both, heard;
    for (unsigned i = 0; i < FULL; i++) {
        half(fleet, -1, HOSTS);
        assert_int_equal(muster_join_since_ns(fleet->join, fleet->at_ns, false, &both), 0);
    }
    half(fleet, -1, HOSTS);
    uint64_t since_ns = muster_join_since_ns(fleet->join, fleet->at_ns, false, &heard);
    assert_true(since_ns > SERVER && since_ns < SERVER + fleet->at_ns);
    assert_int_equal(heard, both);
    for (unsigned i = 0; i < FULL / 4; i++) {
        half(fleet, -1, HOSTS);
        assert_int_equal(muster_join_since_ns(fleet->join, fleet->at_ns, false, &heard), since_ns);
    }
    fleet->mute[1] = true;
    for (unsigned i = 0; i < 8; i++)
        half(fleet, -1, HOSTS);
    muster_join_since_ns(fleet->join, fleet->at_ns, false, &heard);
    assert_int_not_equal(heard, both);
    assert_int_equal(fleet->published.n, 0);
}

/* The same message again, as after a reconnection, is nothing new. */
static void test_twice(void **state)
{
    struct fleet *fleet = *state;
    made_step(fleet->host[0], -1);
    give(fleet, fleet->host[0]);
    uint64_t timed = fleet->join->timed;
    give(fleet, fleet->host[0]);
    assert_int_equal(fleet->join->timed, timed);
    assert_int_equal(fleet->join->processes, MADE_RANKS);
}

/* The server's clock is set, back by two hours and on by five: whoever tells meanwhile is heard,
 * and a host that falls silent then is still found to be. */
static void test_the_servers_clock_jumps(void **state)
{
    static const int64_t jumps_s[] = {0, -7200, 10800};
    struct fleet *fleet = *state;
    for (unsigned j = 0; j < 3; j++) {
        fleet->server_off_ns = jumps_s[j] * (int64_t)MADE_SECOND;
        for (unsigned i = 0; i < 8; i++)
            half(fleet, 6, HOSTS);
        assert_int_equal(muster_join_coverage(fleet->join, fleet->at_ns).ranks, 8);
    }
    assert_int_equal(fleet->published.n, 1);
    assert_int_equal(fleet->published.first.rank[0], 6);
    fleet->mute[1] = true;
    for (unsigned i = 0; i < 8; i++)
        half(fleet, -1, HOSTS);
    assert_int_equal(muster_join_coverage(fleet->join, fleet->at_ns).silent_hosts, 1);
}

/* Two hosts that claim the same ranks of one communicator: who is who cannot be known. */
static void test_duplicate_ranks(void **state)
{
    struct fleet *fleet = *state;
    for (unsigned i = 0; i < MADE_RANKS; i++) {
        fleet->host[1]->process[i].identity.rank = (int)i;
        fleet->host[1]->comm[i].seg.rank = (int)i;
    }
    for (unsigned k = 0; k < HALVES; k++)
        half(fleet, 2, HOSTS);
    assert_int_equal(fleet->published.n, 0);
}

/* Two jobs of four ranks in one run directory are one to the fleet. Their communicators keep them
 * apart: that there are two of each rank makes nobody late, and hides nobody. */
static void test_two_jobs_with_one_id(void **state)
{
    struct fleet *fleet = *state;
    for (unsigned h = 0; h < HOSTS; h++)
        for (unsigned i = 0; i < MADE_RANKS; i++) {
            struct made *made = fleet->host[h];
            int rank = (int)(2 * h + i % 2);
            made->process[i].identity.rank = rank;
            made->process[i].identity.world = MADE_RANKS;
            made->comm[i].seg.id = MADE_COMM + i / 2;
            made->comm[i].seg.rank = rank;
            made->comm[i].seg.nranks = MADE_RANKS;
        }
    for (unsigned k = 0; k < HALVES; k++)
        half(fleet, -1, HOSTS);
    assert_int_equal(fleet->published.n, 0);
    struct muster_join_coverage is = muster_join_coverage(fleet->join, fleet->at_ns);
    assert_int_equal(is.ranks, 8);
    assert_int_equal(is.expected, 8);
    struct muster_rank_costs costs = *muster_evaluator_costs(fleet->evaluator);
    for (size_t i = 0; i < costs.n; i++)
        assert_true(costs.cost[i].operations > 0); /* each is compared, inside of his own job */
}

/* A job that makes and ends twelve communicators a second, for a day: each is known while it lives.
 */
static void test_a_million_communicators(void **state)
{
    enum { LIVE = 8, EACH = MUSTER_SEG_COMMS / 2 / LIVE * LIVE, ALL = 1000000 };
    static struct muster_wire_comm comm[2 * EACH];
    struct fleet *fleet = *state;
    struct made *made = fleet->host[0];
    made_step(made, -1);
    give(fleet, made);
    made->message.processes = 1;
    made->process[0].comm = comm;
    made->process[0].ops = made->process[0].classes = 0;
    for (uint32_t uid = 2; uid < ALL; uid += EACH) {
        size_t n = 0;
        for (uint32_t i = 0; i < EACH; i++) { /* the last ones end, as many begin */
            comm[n] = made->comm[0];
            comm[n].described = false;
            comm[n].seg.uid = uid - EACH + i;
            comm[n].seg.end_ns = made->message.mono_ns;
            n += uid > 2;
        }
        for (uint32_t i = 0; i < EACH; i++) {
            comm[n] = made->comm[0];
            comm[n].seg.uid = uid + i;
            comm[n].seg.id = (uint64_t)uid << 32 | i;
            comm[n++].seg.end_ns = 0;
        }
        made->process[0].comms = n;
        made->message.sequence++;
        made->message.mono_ns += MADE_SECOND / 2;
        fleet->at_ns += HALF_NS;
        give(fleet, made);
        assert_int_equal(fleet->join->unknown, 0);
    }
    assert_int_equal(fleet->join->processes, MADE_RANKS);
    unsigned living = 0;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *one = &fleet->join->process[0].segment->comm[i];
        living += one->uid && !one->end_ns;
    }
    assert_int_equal(living, EACH + 1); /* and the one of the first message */
}

static void expect_refused(struct fleet *fleet, const struct made *made, const char *why)
{
    struct muster_err err = {""};
    size_t bytes;
    unsigned char *data = made_bytes(made, &bytes);
    assert_int_equal(
        muster_join_take(fleet->join, data, bytes, SERVER + fleet->at_ns, fleet->at_ns, &err), -1);
    assert_non_null(strstr(err.text, why));
    free(data);
}

static size_t ops_held(const struct muster_join *join)
{
    size_t n = 0;
    for (size_t i = 0; i < join->processes; i++)
        n += join->process[i].ops;
    return n;
}

static void test_another_job_and_a_second_agent(void **state)
{
    struct fleet *fleet = *state;
    made_step(fleet->host[0], -1);
    give(fleet, fleet->host[0]);
    struct made *other = made_new(1, HOSTS);
    other->message.uid = 1001;
    made_step(other, -1);
    expect_refused(fleet, other, "not believed");
    free(other);
    struct made *second = made_new(0, HOSTS);
    second->message.instance = 99;
    made_step(second, -1);
    expect_refused(fleet, second, "two agents speak for host node0");
    fleet->at_ns += 10 * MADE_SECOND; /* the first has fallen silent: it was started anew */
    give(fleet, second);
    assert_int_equal(muster_join_coverage(fleet->join, fleet->at_ns).hosts, 1);
    assert_int_equal(muster_join_coverage(fleet->join, fleet->at_ns).ranks, MADE_RANKS);
    assert_int_equal(ops_held(fleet->join), MADE_RANKS * second->process[0].ops);
    free(second);
}

/* What is said of a message of another version; the caller frees. */
static char *said_of(struct fleet *fleet, const struct made *made, unsigned version)
{
    struct muster_err err;
    size_t bytes;
    unsigned char *data = made_bytes(made, &bytes);
    data[4] = (unsigned char)version;
    assert_int_equal(
        muster_join_take(fleet->join, data, bytes, SERVER + fleet->at_ns, fleet->at_ns, &err), -1);
    free(data);
    return strdup(err.text);
}

static void expect_said(struct fleet *fleet, const struct made *made, unsigned version,
                        const char *what)
{
    char *said = said_of(fleet, made, version);
    if (what)
        assert_non_null(strstr(said, what));
    else
        assert_string_equal(said, "");
    free(said);
}

static void test_each_host_of_another_version_is_named_once(void **state)
{
    struct fleet *fleet = *state;
    for (unsigned h = 0; h < HOSTS; h++)
        made_step(fleet->host[h], -1);
    fleet->host[0]->message.described = false; /* nobody knows yet whose it is */
    expect_said(fleet, fleet->host[0], 1, NULL);
    fleet->host[0]->message.described = true;
    expect_said(fleet, fleet->host[0], 1, "host node0 tells in wire version 1");
    expect_said(fleet, fleet->host[0], 1, NULL);
    expect_said(fleet, fleet->host[1], 1, "host node1");
    expect_said(fleet, fleet->host[1], 5, "host node1 tells in wire version 5");
    expect_said(fleet, fleet->host[0], 1, NULL);
    assert_int_equal(fleet->join->refused, 6);
    assert_int_equal(fleet->join->foreigns, 2);
    give(fleet, fleet->host[0]); /* it was updated */
    assert_int_equal(fleet->join->foreigns, 1);
    assert_string_equal(fleet->join->foreign[0].host, "node1");
    assert_int_equal(muster_join_coverage(fleet->join, fleet->at_ns).ranks, MADE_RANKS);
}

/* Who begins to listen later, inside a kept minute, leaves out what he cannot know yet. */
static void test_undescribed(void **state)
{
    struct fleet *fleet = *state;
    made_step(fleet->host[0], -1);
    fleet->host[0]->message.described = false;
    for (unsigned i = 0; i < MADE_RANKS; i++) {
        fleet->host[0]->process[i].described = false;
        fleet->host[0]->comm[i].described = false;
    }
    give(fleet, fleet->host[0]);
    assert_int_equal(fleet->join->hosts, 0);
    assert_int_equal(fleet->join->unknown, MADE_RANKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_late_rank_of_the_other_host, begin, end),
        cmocka_unit_test_setup_teardown(test_who_is_looked_at_closely_is_told_once, begin, end),
        cmocka_unit_test_setup_teardown(test_nobody_is_late, begin, end),
        cmocka_unit_test_setup_teardown(test_silent_host_is_not_blamed, begin, end),
        cmocka_unit_test_setup_teardown(test_absent_rank, begin, end),
        cmocka_unit_test_setup_teardown(test_who_was_killed_before_the_others_gave_up, begin, end),
        cmocka_unit_test_setup_teardown(test_remains_of_an_id_stand_for_no_other_host, begin, end),
        cmocka_unit_test_setup_teardown(test_looks_at_one_window, begin, end),
        cmocka_unit_test_setup_teardown(test_twice, begin, end),
        cmocka_unit_test_setup_teardown(test_another_job_and_a_second_agent, begin, end),
        cmocka_unit_test_setup_teardown(test_each_host_of_another_version_is_named_once, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_undescribed, begin, end),
        cmocka_unit_test_setup_teardown(test_the_servers_clock_jumps, begin, end),
        cmocka_unit_test_setup_teardown(test_duplicate_ranks, begin, end),
        cmocka_unit_test_setup_teardown(test_two_jobs_with_one_id, begin, end),
        cmocka_unit_test_setup_teardown(test_a_million_communicators, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
