/* Of a large job those are looked at closely who show, and a sample of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "fleet/near.h"
#include "wire_made.h"

enum { HOSTS = 1100, LATE_HOST = 77, LATE = LATE_HOST * MADE_RANKS + 2, GROUP = 10, HALVES = 5 };
#define SERVER (5000 * MADE_SECOND)

struct fleet {
    struct made *host[HOSTS];
    struct muster_join *join;
    struct muster_near near;
    uint64_t at_ns;
};

/* Each ten hosts have a communicator of their own where `grouped`, else there is one of all. */
static struct fleet *begin(bool grouped)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    char name[MUSTER_FLEET_NAME];
    muster_fleet_name(name, 1000, MADE_RUN);
    fleet->join = muster_join_new(name);
    for (unsigned h = 0; h < HOSTS; h++) {
        fleet->host[h] = made_new(h, HOSTS);
        for (unsigned i = 0; i < MADE_RANKS && grouped; i++) {
            struct muster_seg_comm *comm = &fleet->host[h]->comm[i].seg;
            comm->id = MADE_COMM + h / GROUP;
            comm->rank = (int32_t)(h % GROUP * MADE_RANKS + i);
            comm->nranks = GROUP * MADE_RANKS;
        }
    }
    return fleet;
}

static void end(struct fleet *fleet)
{
    for (unsigned h = 0; h < HOSTS; h++)
        free(fleet->host[h]);
    muster_near_free(&fleet->near);
    muster_join_free(fleet->join);
    free(fleet);
}

static void play(struct fleet *fleet, int late, unsigned halves)
{
    for (unsigned i = 0; i < halves; i++) {
        fleet->at_ns += MADE_SECOND / 2;
        for (unsigned h = 0; h < HOSTS; h++) {
            struct muster_err err;
            size_t bytes;
            made_step(fleet->host[h], late);
            unsigned char *data = made_bytes(fleet->host[h], &bytes);
            if (muster_join_take(fleet->join, data, bytes, SERVER + fleet->at_ns, fleet->at_ns,
                                 &err) != 0)
                fail_msg("%s", err.text);
            free(data);
        }
        assert_true(muster_near_choose(&fleet->near, fleet->join, fleet->at_ns));
    }
}

static size_t marked(const struct fleet *fleet)
{
    size_t n = 0;
    for (size_t i = 0; i < fleet->join->processes; i++)
        n += fleet->join->process[i].near;
    return n;
}

static void test_nobody_shows(void **state)
{
    (void)state;
    struct fleet *fleet = begin(false);
    play(fleet, -1, HALVES);
    assert_int_equal(fleet->near.hosts, 0);
    end(fleet);
}

/* Its host is chosen within a second, and what is kept of those who are looked at is more. */
static void test_a_late_rank_shows(void **state)
{
    (void)state;
    struct fleet *fleet = begin(false);
    play(fleet, -1, 2);
    play(fleet, LATE, 2);
    assert_int_equal(fleet->near.hosts, 1);
    assert_int_equal(fleet->near.host[0], LATE_HOST);
    size_t n = marked(fleet);
    assert_in_range(n, 32 * MADE_RANKS, 256 * MADE_RANKS);
    play(fleet, LATE, 1);
    for (size_t i = 0; i < fleet->join->processes; i++) {
        const struct muster_join_process *process = &fleet->join->process[i];
        assert_true(process->near || process->host != LATE_HOST);
        if (process->near)
            assert_int_equal(process->ops, process->taken);
        else
            assert_in_range(process->ops, 1, process->taken - 1);
    }
    end(fleet);
}

/* Those who share a small communicator with it are looked at beside it. */
static void test_its_communicators_are_looked_at(void **state)
{
    (void)state;
    struct fleet *fleet = begin(true);
    play(fleet, LATE, 3);
    for (size_t i = 0; i < fleet->join->processes; i++) {
        const struct muster_join_process *process = &fleet->join->process[i];
        if (process->host / GROUP == LATE_HOST / GROUP)
            assert_true(process->near);
    }
    assert_in_range(marked(fleet), GROUP * MADE_RANKS, 256 * MADE_RANKS);
    end(fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nobody_shows),
                                       cmocka_unit_test(test_a_late_rank_shows),
                                       cmocka_unit_test(test_its_communicators_are_looked_at)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
