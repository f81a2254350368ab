/* What agents find on their hosts becomes a finding of the job, if it can be so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/evaluator.h"
#include "fleet/join.h"
#include "wire_made.h"

enum { HOSTS = 2, HALVES = 12 };
#define HALF_NS (MADE_SECOND / 2)
#define SERVER  (5000 * MADE_SECOND)

struct fleet {
    struct made *host[HOSTS];
    struct muster_finding finding[HOSTS];
    bool mute[HOSTS];
    struct muster_join *join;
    struct muster_evaluator *evaluator;
    uint64_t at_ns;
    int32_t first; /* rank of the first that was emitted */
    unsigned emitted, over;
    char said[MUSTER_FINDING_LINE]; /* the last line of what it cannot know */
};

static void note(void *arg, const struct muster_finding *finding)
{
    struct fleet *fleet = arg;
    if (finding->resolved || finding->retracted) {
        fleet->over++;
        return;
    }
    if (fleet->emitted++ == 0)
        fleet->first = finding->rank[0];
    const struct muster_finding_lines *lines = &finding->not_observable;
    memcpy(fleet->said, lines->line[lines->n - 1], sizeof fleet->said);
}

static int begin(void **state)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    char name[MUSTER_FLEET_NAME];
    muster_fleet_name(name, 1000, MADE_RUN);
    fleet->join = muster_join_new(name);
    fleet->evaluator = muster_evaluator_new(1000 * MADE_SECOND);
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

/* From now on the agent of `host` finds that; cost: share of the time, 0: that it is over. */
static void find(struct fleet *fleet, unsigned host, int32_t rank, double cost)
{
    struct muster_wire_message *message = &fleet->host[host]->message;
    fleet->finding[host] = (struct muster_finding){.kind = MUSTER_FINDING_LATE_RANK,
                                                   .comm = MADE_COMM,
                                                   .rank = {rank},
                                                   .ranks = 1,
                                                   .gpu = 1,
                                                   .cost_s = 10 * cost,
                                                   .cost_share = cost,
                                                   .confidence = 0.98,
                                                   .against_one = true,
                                                   .since_unix_ns = 1};
    message->finds = true;
    message->finding = &fleet->finding[host];
    message->findings = cost > 0;
}

static void run(struct fleet *fleet, unsigned halves)
{
    for (unsigned i = 0; i < halves; i++) {
        fleet->at_ns += HALF_NS;
        for (unsigned h = 0; h < HOSTS; h++) {
            struct muster_err err;
            size_t bytes;
            made_step(fleet->host[h], -1);
            unsigned char *data = made_bytes(fleet->host[h], &bytes);
            fleet->host[h]->message.finds = false; /* it is not sent again */
            if (!fleet->mute[h] && muster_join_take(fleet->join, data, bytes, SERVER + fleet->at_ns,
                                                    fleet->at_ns, &err) != 0)
                fail_msg("%s", err.text);
            free(data);
        }
        assert_true(
            muster_evaluator_look(fleet->evaluator, fleet->join, fleet->at_ns, note, fleet));
    }
}

static void test_what_an_agent_finds_is_found_of_the_job(void **state)
{
    struct fleet *fleet = *state;
    run(fleet, 2);
    find(fleet, 1, MADE_RANKS + 2, 0.1);
    run(fleet, HALVES);
    assert_int_equal(fleet->emitted, 1);
    assert_int_equal(fleet->first, MADE_RANKS + 2);
    assert_string_equal(fleet->said,
                        "found by the agent of host node1, which sees all operations of "
                        "its ranks and none of other hosts");
    assert_int_equal(fleet->over, 0);
    find(fleet, 1, MADE_RANKS + 2, 0);
    run(fleet, HALVES);
    assert_int_equal(fleet->emitted, 1);
    assert_int_equal(fleet->over, 1);
}

/* Whoever speaks for one host accuses nobody of another. */
static void test_an_agent_is_believed_about_its_own_ranks_alone(void **state)
{
    static const int32_t others[] = {MADE_RANKS, 999, -1};
    struct fleet *fleet = *state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        find(fleet, 0, others[i], 0.5);
        run(fleet, HALVES);
    }
    assert_int_equal(fleet->emitted, 0);
}

static void test_a_rank_that_two_hosts_have_is_nobodys(void **state)
{
    struct fleet *fleet = *state;
    fleet->host[1]->process[0].identity.rank = 2;
    find(fleet, 0, 2, 0.5);
    run(fleet, HALVES);
    assert_int_equal(fleet->emitted, 0);
}

/* All wait for the other one. */
static void test_who_costs_less_than_half_of_another_is_not_told(void **state)
{
    struct fleet *fleet = *state;
    find(fleet, 0, 1, 0.04);
    find(fleet, 1, MADE_RANKS + 1, 0.1);
    run(fleet, HALVES);
    assert_int_equal(fleet->emitted, 1);
    assert_int_equal(fleet->first, MADE_RANKS + 1);
}

static void test_where_ranks_are_not_heard_nothing_is_found(void **state)
{
    struct fleet *fleet = *state;
    fleet->mute[1] = true;
    find(fleet, 0, 1, 0.1);
    run(fleet, HALVES);
    assert_int_equal(fleet->emitted, 0);
    fleet->mute[1] = false;
    for (unsigned h = 0; h < HOSTS; h++)
        fleet->host[h]->message.described = true;
    run(fleet, HALVES);
    assert_int_equal(fleet->emitted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_an_agent_finds_is_found_of_the_job, begin, end),
        cmocka_unit_test_setup_teardown(test_an_agent_is_believed_about_its_own_ranks_alone, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_a_rank_that_two_hosts_have_is_nobodys, begin, end),
        cmocka_unit_test_setup_teardown(test_who_costs_less_than_half_of_another_is_not_told, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_where_ranks_are_not_heard_nothing_is_found, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
