/* A leader and 1,024 members that are none: what they would find is made up, and what they would
 * wait for it is added up (hosts_cost.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/hosts/hosts.h"
#include "doctor/hosts/hosts_rounds.h"
#include "hosts_cost.h"

enum {
    N = 1024,
    SUBNET = 64,
    RDMAS = 2,
    REPORT_MS = 1000,  /* of a host without GPUs in use, and its launcher */
    ABSENT_MS = 10000, /* ssh's ConnectTimeout, as cmd_doctor_hosts.c gives it */
    MOST_MS = 60000,
};

/* What is wrong with the made-up network. */
struct network {
    char (*reach)(unsigned from, unsigned to, unsigned target);
    char (*rdma)(unsigned from, unsigned to, unsigned port);
    bool (*loses)(unsigned from, unsigned to);
    double (*gbps)(unsigned from, unsigned to);
    unsigned absent;                          /* never answers */
    bool (*cuts)(unsigned from, unsigned to); /* full frames do not pass */
};

struct job {
    const struct network *network;
    struct muster_hosts_message plan;
    struct muster_arena arena, answer;
    enum muster_hosts_kind asked;
    unsigned next;                          /* member that answers next */
    unsigned known[N];                      /* which member is the i-th of the plan */
    double report_ms, reach_ms, measure_ms; /* simulated: of the slowest member */
};

static void describe(unsigned i, struct muster_hosts_member *member)
{
    *member = (struct muster_hosts_member){.rank = (int)i,
                                           .addresses = 1,
                                           .frames = 40000,
                                           .low = 32768,
                                           .high = 60999,
                                           .token = i + 1};
    snprintf(member->name, sizeof member->name, "n%04u", i);
    snprintf(member->id, sizeof member->id, "n%04u boot", i);
    member->address[0] =
        (struct muster_interface){.name = "eth0", .family = AF_INET, .prefix = 24, .mtu = 9000};
    const uint8_t address[4] = {10, 1, (uint8_t)(i / SUBNET), (uint8_t)(i % SUBNET + 1)};
    memcpy(&member->address[0].address, address, sizeof address);
    for (unsigned p = 0; p < MUSTER_HOSTS_PORTS; p++)
        member->port[p] = (uint16_t)(36000 + 7000 * p);
    for (member->rdmas = 0; member->rdmas < RDMAS; member->rdmas++) {
        struct muster_verbs_address *port = &member->rdma[member->rdmas];
        *port = (struct muster_verbs_address){.port = 1, .mtu = 4096, .queue = 100 + i, .gid = {1}};
        snprintf(port->device, sizeof port->device, "mlx5_%u", member->rdmas);
    }
}

static int take_order(void *self, const char *text, struct muster_err *err)
{
    struct job *job = self;
    struct muster_hosts_message message;
    int rc = muster_hosts_read(text, strlen(text), &job->arena, &message, err);
    assert_int_equal(rc, 0);
    if (message.kind == MUSTER_HOSTS_REACH) {
        job->plan = message;
        for (unsigned i = 0; i < message.n; i++)
            job->known[i] = (unsigned)message.members[i].token - 1;
    } else if (message.kind == MUSTER_HOSTS_MEASURE) {
        job->plan.partner = message.partner;
        job->plan.rounds = message.rounds;
        job->measure_ms =
            hosts_cost_rounds_ms(message.partner, message.rounds, message.n, message.ms);
    }
    job->asked = message.kind;
    job->next = 0;
    return 0;
}

static const char *hello(struct job *job, unsigned i)
{
    struct muster_hosts_message message = {
        .kind = MUSTER_HOSTS_HELLO,
        .report = "{\"version\":1,\"host\":\"n\",\"host_id\":\"x\",\"checks\":[]}"};
    describe(i, &message.member);
    return muster_hosts_write(&message, &job->answer);
}

/* One member's view of the plan. */
struct view {
    const struct job *job;
    unsigned self;
};

static char end_of_connection(const void *self, unsigned peer, unsigned target)
{
    const struct view *view = self;
    const struct job *job = view->job;
    return job->network->reach(job->known[view->self], job->known[peer], target);
}

static char end_of_frames(const void *self, unsigned peer, unsigned target)
{
    const struct view *view = self;
    const struct job *job = view->job;
    const struct network *network = job->network;
    if (end_of_connection(self, peer, target) == MUSTER_HOSTS_SILENT)
        return MUSTER_HOSTS_SILENT;
    return network->cuts && network->cuts(job->known[view->self], job->known[peer])
               ? MUSTER_HOSTS_SMALLER
               : MUSTER_HOSTS_REACHED;
}

static char end_of_rdma(const void *self, unsigned peer, unsigned target)
{
    const struct view *view = self;
    const struct job *job = view->job;
    return job->network->rdma(job->known[view->self], job->known[peer], target);
}

static void add_up(struct job *job, unsigned self)
{
    const struct view view = {job, self};
    struct hosts_cost_ends ends = {end_of_connection, &view, job->plan.n, self, MUSTER_HOSTS_PORTS};
    double ms[] = {hosts_cost_connect_ms(&ends, job->plan.timeout_ms), 0, 0};
    ends.end = end_of_frames;
    ends.targets = 1;
    ms[1] = hosts_cost_datagrams_ms(&ends);
    ends.end = end_of_rdma;
    ends.targets = RDMAS;
    ms[2] = hosts_cost_datagrams_ms(&ends);
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) /* all at once */
        job->reach_ms = ms[i] > job->reach_ms ? ms[i] : job->reach_ms;
}

static const char *reached(struct job *job, unsigned self)
{
    unsigned n = job->plan.n;
    struct muster_hosts_message message = {.kind = MUSTER_HOSTS_REACHED_ALL, .n = n};
    char *ends = muster_arena_array(&job->answer, n * MUSTER_HOSTS_PORTS + 1ul, 1);
    char *frames = muster_arena_array(&job->answer, n + 1ul, 1);
    char *rdma = muster_arena_array(&job->answer, n * RDMAS + 1ul, 1);
    unsigned *bytes = muster_arena_array(&job->answer, n, sizeof *bytes);
    for (unsigned i = 0; i < n; i++) {
        for (unsigned t = 0; t < MUSTER_HOSTS_PORTS; t++)
            ends[i * MUSTER_HOSTS_PORTS + t] =
                i == self ? '-' : job->network->reach(job->known[self], job->known[i], t);
        for (unsigned p = 0; p < RDMAS; p++)
            rdma[i * RDMAS + p] =
                i == self ? '-' : job->network->rdma(job->known[self], job->known[i], p);
        const struct view view = {job, self};
        frames[i] = i == self ? MUSTER_HOSTS_UNTESTED : end_of_frames(&view, i, 0);
        bytes[i] = frames[i] == MUSTER_HOSTS_SMALLER ? 1500 : 9000;
    }
    add_up(job, self);
    message.ends = ends;
    message.frame_ends = frames;
    message.frame_bytes = bytes;
    message.rdma_ends = rdma;
    return muster_hosts_write(&message, &job->answer);
}

static const char *measured(struct job *job, unsigned self)
{
    struct muster_hosts_flow flow[MUSTER_HOSTS_ROUNDS];
    struct muster_hosts_message message = {.kind = MUSTER_HOSTS_MEASURED, .flow = flow};
    for (unsigned r = 0; r < job->plan.rounds; r++) {
        int peer = job->plan.partner[r * job->plan.n + self];
        if (peer < 0)
            continue;
        unsigned from = job->known[peer], to = job->known[self];
        bool loses = job->network->loses && job->network->loses(from, to);
        flow[message.flows++] = (struct muster_hosts_flow){
            .peer = (unsigned)peer,
            .gbps = job->network->gbps ? job->network->gbps(from, to) : 90,
            .expected = 2000,
            .lost = loses ? 60 : 0};
    }
    return muster_hosts_write(&message, &job->answer);
}

static int give_answer(void *self, unsigned wait_ms, unsigned *from, const char **text,
                       size_t *size, struct muster_err *err)
{
    struct job *job = self;
    (void)wait_ms;
    unsigned at = job->next++;
    muster_arena_free(&job->answer);
    job->report_ms = job->report_ms > REPORT_MS ? job->report_ms : REPORT_MS;
    if (job->asked == MUSTER_HOSTS_BEGIN && at == job->network->absent) {
        job->report_ms = ABSENT_MS;
        at = job->next++;
    }
    if (at >= (job->asked == MUSTER_HOSTS_BEGIN ? N : job->plan.n))
        return muster_fail(err, "nobody is left"); /* the absent one never comes */
    *from = job->asked == MUSTER_HOSTS_BEGIN ? at : job->known[at];
    *text = job->asked == MUSTER_HOSTS_BEGIN   ? hello(job, at)
            : job->asked == MUSTER_HOSTS_REACH ? reached(job, at)
                                               : measured(job, at);
    *size = strlen(*text);
    return 1;
}

static const char *none_lost(void *self, unsigned member)
{
    (void)self;
    (void)member;
    return NULL;
}

static void examine(const struct network *network, struct muster_checks *checks)
{
    struct job job = {.network = network};
    struct muster_err err;
    struct muster_hosts_result result;
    const struct muster_hosts_lead lead = {
        .channel = {&job, take_order, give_answer, none_lost, NULL},
        .n = N,
        .patience_ms = 600 * 1000, /* never runs out: who is absent shows by the channel's end */
        .ms = 1000,
        .quiet = true};
    assert_int_equal(muster_hosts_lead_run(&lead, &result, &err), 0);
    assert_int_equal(muster_hosts_evaluate(&result, checks, &err), 0);
    print_message(
        "simulated: reports %.1f s, connections %.1f s, measurements %.1f s; the leader's "
        "own work here: %.2f s\n",
        job.report_ms / 1e3, job.reach_ms / 1e3, job.measure_ms / 1e3,
        result.report_s + result.reach_s + result.measure_s);
    assert_true(job.reach_ms > 0 && job.measure_ms > 0); /* else nothing was added up */
    assert_true(job.report_ms + job.reach_ms + job.measure_ms < MOST_MS);
    muster_hosts_result_free(&result);
    muster_arena_free(&job.arena);
    muster_arena_free(&job.answer);
}

/* For doctor_outcomes_test, which wants to see each check fire and pass by. */
static void note_outcome(const struct muster_check *check)
{
    char path[4096];
    const char *folder = getenv("MUSTER_TEST_OUTCOMES");
    snprintf(path, sizeof path, "%s/hosts_lead_test", folder ? folder : "");
    static const char *mode = "we"; /* what an earlier run saw is gone */
    FILE *file = folder ? fopen(path, mode) : NULL;
    if (!file)
        return;
    mode = "ae";
    fprintf(file, "%s %s\n", check->id, muster_check_name(check->status));
    fclose(file);
}

static void expect(struct muster_checks *checks, const char *id, enum muster_check_status status,
                   const char *found)
{
    const struct muster_check *check = muster_checks_find(checks, id);
    assert_non_null(check);
    assert_string_equal(check->found, found);
    assert_int_equal(check->status, status);
    note_outcome(check);
}

/* ---- networks ---- */

static char all_reached(unsigned from, unsigned to, unsigned target)
{
    (void)from;
    (void)to;
    (void)target;
    return '.';
}

static char reach_with_faults(unsigned from, unsigned to, unsigned target)
{
    bool apart = (from / SUBNET == 3) != (to / SUBNET == 3);
    if (apart || from == 700 || to == 700)
        return 't';
    return to == 900 && target >= 2 ? 'r' : '.';
}

/* The second rail of a host, and everything RDMA between two subnets. */
static char rdma_with_faults(unsigned from, unsigned to, unsigned port)
{
    bool apart =
        (from / SUBNET == 5 && to / SUBNET == 6) || (from / SUBNET == 6 && to / SUBNET == 5);
    return apart ? 'u' : port == 1 && (to == 800 || from == 800) ? 's' : '.';
}

static bool loses_with_faults(unsigned from, unsigned to)
{
    return from == 500 || to == 500;
}

static bool cuts_with_faults(unsigned from, unsigned to)
{
    return from == 300 || to == 300;
}

static double gbps_with_faults(unsigned from, unsigned to)
{
    return from == 600 || to == 600 ? 20 : 90;
}

static void a_sound_network_has_no_problem(void **state)
{
    static const struct network network = {.reach = all_reached, .rdma = all_reached, .absent = N};
    struct muster_checks *checks = calloc(1, sizeof *checks);
    (void)state;
    assert_non_null(checks);
    examine(&network, checks);
    for (int i = 0; i < checks->n; i++) {
        assert_int_equal(checks->at[i].status, MUSTER_CHECK_OK);
        note_outcome(&checks->at[i]);
    }
    expect(checks, "hosts.reach", MUSTER_CHECK_OK, "1047552 pairs");
    expect(checks, "hosts.rdma", MUSTER_CHECK_OK, "2095104 pairs of ports");
    muster_checks_free(checks);
    free(checks);
}

static void each_fault_is_named_once(void **state)
{
    static const struct network network = {
        reach_with_faults, rdma_with_faults, loses_with_faults, gbps_with_faults, 42,
        cuts_with_faults};
    struct muster_checks *checks = calloc(1, sizeof *checks);
    (void)state;
    assert_non_null(checks);
    examine(&network, checks);
    expect(checks, "hosts.reports", MUSTER_CHECK_PROBLEM, "1 of 1024 hosts did not report");
    expect(checks, "hosts.reach", MUSTER_CHECK_PROBLEM, "subnet 10.1.3.0/24, both ways");
    assert_int_equal(muster_checks_find(checks, "hosts.reach")->evidences, 2);
    assert_non_null(
        strstr(muster_checks_find(checks, "hosts.reach")->evidence[1], "host n0700, both ways"));
    expect(checks, "hosts.ports", MUSTER_CHECK_PROBLEM,
           "ports 46884 to 60999, from all others to host n0900");
    expect(checks, "hosts.rdma", MUSTER_CHECK_PROBLEM,
           "all ports, between subnet 10.1.5.0/24 and subnet 10.1.6.0/24, both ways");
    const struct muster_check *rdma = muster_checks_find(checks, "hosts.rdma");
    assert_int_equal(rdma->evidences, 2);
    assert_non_null(strstr(rdma->evidence[1], "mlx5_1, host n0800, both ways"));
    expect(checks, "hosts.bandwidth", MUSTER_CHECK_PROBLEM,
           "host n0600 carries less than 70 % of the job's median");
    expect(checks, "hosts.loss", MUSTER_CHECK_PROBLEM, "host n0500 loses packets");
    expect(checks, "hosts.frames", MUSTER_CHECK_PROBLEM, "host n0300, both ways");
    muster_checks_free(checks);
    free(checks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_network_has_no_problem),
        cmocka_unit_test(each_fault_is_named_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
