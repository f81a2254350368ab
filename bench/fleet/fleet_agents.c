/*
 * The agents of many hosts in one process, for fleet.py: what they tell is made first, and told
 * over a few connections to a real NATS as agents tell it, kept and sent again like theirs.
 *
 * usage: fleet_agents --nats URL --ranks N --seconds S [--fault none|rank|host|moves] [--from T]
 *        [--nats-credentials FILE]
 *        [--offline]  joins and evaluates here, as fast as it goes, and tells when what is named
 *        [--dump FILE]  with --offline: what it joins, for oracle.py, which reads what ranks cost
 *        [--run DIR]  of a recorded run in place of N generated ranks, from its first operation on
 *        [--salt N]   with --run: as if its communicators had other numbers, so that others of its
 *                     operations are told
 *        [--rough]    one in twenty hosts silent from 8 to 18 s, others killed from 18 to 24 s, a
 *                     quarter of all cut off from 26 to 32 s
 *
 * Says in a line of JSON what is going to happen when, waits for a line of input, tells, and says
 * in another line what became of it.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fleet/evaluator.h"
#include "fleet/fleet_name.h"
#include "fleet/nats/sender.h"
#include "fleet_job.h"
#include "fleet_tape.h"

enum { CONNECTIONS = 4, SLICES = 10 /* of a half second: agents do not speak at once */ };
#define HALF_NS (MUSTER_NS_PER_S / 2)
#define DUE_NS  100e6 /* 1 % of 10 s */
enum { SILENT_FROM = 16, KILLED_FROM = 36, KILLED_UNTIL = 48, CUT_FROM = 52, CUT_UNTIL = 64 };

static bool rough; /* the scenario, as a function of host and half second; set once */

static bool is_killed(unsigned host, unsigned half)
{
    return rough && host % 20 == 7 && half >= KILLED_FROM && half < KILLED_UNTIL;
}

static bool is_silent(unsigned host, unsigned half)
{
    return rough && host % 20 == 3 && half >= SILENT_FROM && half < KILLED_FROM;
}

static bool is_cut_off(unsigned host, unsigned hosts, unsigned half)
{
    return rough && host < hosts / 4 && half >= CUT_FROM && half < CUT_UNTIL;
}

static bool begins(unsigned host, unsigned half)
{
    return half == 0 || (rough && host % 20 == 7 && half == KILLED_UNTIL);
}

/* A share of the hosts, on one connection. */
struct agents {
    const struct fleet_tape *tape;
    struct muster_sender *sender;
    unsigned first;
    unsigned *next;     /* half second that each host tells next */
    uint64_t *sequence; /* likewise */
    uint64_t begin_ns, session;
    char subject[MUSTER_FLEET_NAME + sizeof MUSTER_FLEET_JOBS + 1];
    uint64_t cut;
    pthread_t thread;
};

static void put_message(struct agents *agents, unsigned host, unsigned half,
                        struct muster_wire_out *out)
{
    const struct fleet_tape *tape = agents->tape;
    const struct fleet_message *body = &tape->message[(size_t)half * tape->hosts + host];
    bool second_life = rough && host % 20 == 7 && half >= KILLED_UNTIL;
    if (begins(host, half))
        agents->sequence[host] = 0;
    struct muster_wire_message message = {
        .instance = agents->session + 2 * host + second_life,
        .sequence = agents->sequence[host]++,
        .mono_ns = body->mono_ns,
        .unix_ns = muster_unix_ns(),
        .described = body->described,
        .boot_hash = host + 1,
        .uid = FLEET_TAPE_UID,
        .run_dir = FLEET_TAPE_RUN,
        .processes = body->processes,
    };
    snprintf(message.host, sizeof message.host, "node%u", host);
    memcpy(message.hostname, message.host, sizeof message.hostname);
    muster_wire_write_head(&message, out);
    muster_wire_put_bytes(out, tape->byte + body->at, body->bytes);
    if (out->failed)
        exit(2);
}

static void publish(struct agents *agents, unsigned host, unsigned half)
{
    struct muster_wire_out out = {0};
    put_message(agents, host, half, &out);
    muster_sender_add(agents->sender, agents->subject, out.byte, out.used, muster_now_ns());
}

/* What its hosts have to say by now. */
static void publish_due(struct agents *agents, unsigned half, unsigned slice)
{
    const struct fleet_tape *tape = agents->tape;
    for (unsigned host = agents->first; host < tape->hosts; host += CONNECTIONS) {
        unsigned due = half + (host / CONNECTIONS % SLICES <= slice);
        if (is_cut_off(host, tape->hosts, half))
            continue;
        for (; agents->next[host] < due && agents->next[host] < tape->halves;
             agents->next[host]++) {
            unsigned at = agents->next[host];
            if (!is_killed(host, at) && !is_silent(host, at))
                publish(agents, host, at);
        }
    }
}

static void *agents_main(void *arg)
{
    struct agents *agents = arg;
    for (unsigned i = 0; i < (agents->tape->halves + 1) * SLICES; i++) {
        uint64_t at_ns = agents->begin_ns + (i + SLICES) * (HALF_NS / SLICES),
                 now = muster_now_ns();
        if (at_ns > now)
            usleep((useconds_t)((at_ns - now) / 1000));
        publish_due(agents, i / SLICES, i % SLICES);
        muster_sender_send(agents->sender);
    }
    for (int i = 0; i < 50 && muster_sender_figures(agents->sender).waiting > 0; i++) {
        usleep(100000);
        muster_sender_send(agents->sender);
    }
    return NULL;
}

struct options {
    struct muster_nats_access nats;
    unsigned ranks, seconds;
    enum fleet_fault fault;
    double from_s;
    bool offline;
    const char *dump, *run;
    uint64_t salt;
};

static int usage(void)
{
    fprintf(stderr,
            "usage: fleet_agents --nats URL --ranks N --seconds S [--fault none|rank|host|moves] "
            "[--from T] [--rough] [--nats-credentials FILE]\n");
    return 2;
}

static int read_options(int argc, char **argv, struct options *to)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--rough") == 0) {
            rough = true;
            continue;
        }
        if (strcmp(argv[i], "--offline") == 0) {
            to->offline = true;
            continue;
        }
        if (strcmp(argv[i], "--dump") == 0)
            to->dump = value;
        else if (strcmp(argv[i], "--run") == 0)
            to->run = value;
        else if (strcmp(argv[i], "--salt") == 0)
            to->salt = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--nats") == 0)
            to->nats.url = value;
        else if (strcmp(argv[i], "--nats-credentials") == 0)
            to->nats.credentials = value;
        else if (strcmp(argv[i], "--ranks") == 0)
            to->ranks = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            to->seconds = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--from") == 0)
            to->from_s = strtod(value, NULL);
        else if (strcmp(argv[i], "--fault") == 0 && fleet_fault_of(value) >= 0)
            to->fault = (enum fleet_fault)fleet_fault_of(value);
        else
            return usage();
        i++;
    }
    bool ranks =
        to->ranks >= JOB_HOST_GPUS && to->ranks <= JOB_RANKS_MAX && to->ranks % JOB_HOST_GPUS == 0;
    bool good = (to->nats.url || to->offline) && (to->run || ranks) && to->seconds > 0 &&
                to->seconds < 3600;
    return good ? 0 : usage();
}

/* ---- without NATS: time is the job's, and what a look takes of a processor ---- */

struct offline {
    double now_s, evaluated_s, longest_s, joined_s;
    double begun_s, free_s; /* of the processor's time: a look; of the job's: when it is over */
    FILE *dump;             /* messages, each behind its length; NULL: nowhere */
};

static double spent_s(void)
{
    return (double)muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1e9;
}

static void print_finding(void *arg, const struct muster_finding *finding)
{
    const struct offline *offline = arg;
    char sentence[512];
    muster_finding_sentence(finding, sentence, sizeof sentence);
    printf("%6.1f s %s%s\n", offline->now_s + spent_s() - offline->begun_s,
           finding->resolved || finding->retracted ? "over: " : "", sentence);
}

/* As long as one look takes there is no other. */
static void look(struct muster_evaluator *evaluator, struct muster_join *join,
                 struct offline *offline)
{
    if (offline->now_s < offline->free_s)
        return;
    offline->begun_s = spent_s();
    muster_evaluator_look(evaluator, join, (uint64_t)(offline->now_s * 1e9), print_finding,
                          offline);
    double took_s = spent_s() - offline->begun_s;
    offline->free_s = offline->now_s + took_s;
    offline->evaluated_s += took_s;
    offline->longest_s = took_s > offline->longest_s ? took_s : offline->longest_s;
}

static void join_half(struct agents *agents, unsigned half, struct muster_join *join,
                      struct offline *offline)
{
    uint64_t at_ns = (half + 1) * HALF_NS;
    for (unsigned host = 0; host < agents->tape->hosts; host++) {
        struct muster_wire_out out = {0};
        struct muster_err err;
        if (is_killed(host, half) || is_silent(host, half))
            continue;
        put_message(agents, host, half, &out);
        uint32_t length = (uint32_t)out.used;
        if (offline->dump)
            fwrite(&length, sizeof length, 1, offline->dump),
                fwrite(out.byte, 1, out.used, offline->dump);
        double begin_s = spent_s();
        if (muster_join_take(join, out.byte, out.used, at_ns, at_ns, &err) != 0)
            printf("%s\n", err.text);
        offline->joined_s += spent_s() - begin_s;
        free(out.byte);
    }
}

/* What each rank cost in all that is joined, a line each. */
static void print_costs(struct muster_join *join, uint64_t now_ns)
{
    struct muster_rank_costs costs = {0};
    struct muster_run run;
    struct muster_view view;
    if (!muster_join_run(join, now_ns, false, &run) || muster_view_of_run(&run, &view, NULL) != 0 ||
        !muster_rank_costs_take(&costs, join, &run, &view))
        exit(2);
    for (size_t i = 0; i < costs.n; i++)
        printf("cost %d %llu %llu %llu\n", join->process[i].segment->identity.rank,
               (unsigned long long)costs.cost[i].operations,
               (unsigned long long)costs.cost[i].late_ns,
               (unsigned long long)costs.cost[i].wait_ns);
    muster_rank_costs_free(&costs);
    muster_view_free(&view);
    muster_join_run_free(&run);
}

static void evaluate_offline(const struct fleet_tape *tape, const char *dump)
{
    char name[MUSTER_FLEET_NAME];
    muster_fleet_name(name, FLEET_TAPE_UID, FLEET_TAPE_RUN);
    struct agents agents = {
        .tape = tape, .session = 1, .sequence = calloc(tape->hosts, sizeof(uint64_t))};
    struct muster_join *join = muster_join_new(name);
    struct muster_evaluator *evaluator = muster_evaluator_new(10 * MUSTER_NS_PER_S);
    struct offline offline = {.dump = dump ? fopen(dump, "we") : NULL};
    if ((dump && !offline.dump) || !agents.sequence || !join || !evaluator)
        exit(2);
    mallopt(M_MMAP_MAX, 0); /* as a worker does */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    for (unsigned half = 0; half < tape->halves; half++) {
        offline.now_s = (half + 1) / 2.0;
        join_half(&agents, half, join, &offline);
        look(evaluator, join, &offline);
    }
    printf("join %.3f, judge %.3f of a processor, one look at most %.2f s; %llu operations timed\n",
           2 * offline.joined_s / tape->halves, 2 * offline.evaluated_s / tape->halves,
           offline.longest_s, (unsigned long long)join->timed);
    if (offline.dump)
        print_costs(join, tape->halves * HALF_NS);
    if (offline.dump && fclose(offline.dump) != 0)
        exit(2);
    muster_evaluator_free(evaluator);
    muster_join_free(join);
    free(agents.sequence);
}

static void start(struct agents *agents, unsigned c, const struct options *options,
                  const struct fleet_tape *tape)
{
    char name[MUSTER_FLEET_NAME];
    struct muster_err err;
    const struct muster_link_options link = {
        .nats = options->nats, .who = "fleet_agents", .log = stderr, .quiet = true};
    uint64_t session = muster_unix_ns() << 20;
    muster_fleet_name(name, FLEET_TAPE_UID, FLEET_TAPE_RUN);
    *agents = (struct agents){.tape = tape, .first = c, .session = session};
    snprintf(agents->subject, sizeof agents->subject, "%s.%s", MUSTER_FLEET_JOBS, name);
    agents->next = calloc(tape->hosts, sizeof *agents->next);
    agents->sequence = calloc(tape->hosts, sizeof *agents->sequence);
    if (!agents->next || !agents->sequence ||
        muster_sender_open(&link, session + c, &agents->sender, &err) != 0) {
        fprintf(stderr, "fleet_agents: %s\n", agents->sequence ? err.text : "out of memory");
        exit(2);
    }
}

static void play(const struct options *options, const struct fleet_tape *tape)
{
    static struct agents agents[CONNECTIONS];
    struct muster_sender_figures sum = {0};
    for (unsigned c = 0; c < CONNECTIONS; c++)
        start(&agents[c], c, options, tape);
    uint64_t begin_ns = muster_now_ns();
    double began = (double)muster_unix_ns() / 1e9;
    for (unsigned c = 0; c < CONNECTIONS; c++) {
        agents[c].begin_ns = begin_ns;
        if (pthread_create(&agents[c].thread, NULL, agents_main, &agents[c]) != 0)
            exit(2);
    }
    printf("{\"began\": %.3f}\n", began);
    fflush(stdout);
    for (unsigned c = 0; c < CONNECTIONS; c++) {
        pthread_join(agents[c].thread, NULL);
        struct muster_sender_figures one = muster_sender_figures(agents[c].sender);
        sum.there += one.there;
        sum.lost += one.lost;
        sum.waiting += one.waiting;
        sum.bytes += one.bytes;
        muster_sender_close(agents[c].sender);
        free(agents[c].next);
        free(agents[c].sequence);
    }
    printf(
        "{\"told\": %llu, \"lost\": %llu, \"waiting\": %llu, \"bytes\": %llu, \"cpu_s\": %.2f}\n",
        (unsigned long long)sum.there, (unsigned long long)sum.lost,
        (unsigned long long)sum.waiting, (unsigned long long)sum.bytes,
        (double)muster_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9);
}

static void print_job(const struct options *options, const struct job *job,
                      const struct fleet_tape *tape)
{
    printf(
        "{\"ranks\": %u, \"guilty\": %d, \"guilty_ranks\": %u, \"step_s\": %.4f, \"due_s\": %.3f, "
        "\"bytes_a_rank_and_second\": %.1f, \"run_begins\": %.3f, \"cpu_s\": %.2f}\n",
        tape->ranks, job->faults ? (int)job->fault[0].first : -1,
        job->faults ? job->fault[0].ranks : 0, job->step_ns / 1e9, fleet_job_cost_s(job, DUE_NS),
        (double)tape->bytes / options->seconds / tape->ranks, (double)tape->begin_unix_ns / 1e9,
        (double)muster_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9);
}

int main(int argc, char **argv)
{
    static struct job job;
    struct options options = {.seconds = 30};
    struct fleet_tape tape;
    char line[16];
    if (read_options(argc, argv, &options) != 0)
        return 2;
    if (options.run) {
        fleet_tape_of_run(options.run, options.salt, 2 * options.seconds, &tape);
    } else {
        fleet_job_make(options.ranks, options.seconds, options.fault, options.from_s, &job);
        fleet_tape_make(&job, 2 * options.seconds, begins, &tape);
    }
    print_job(&options, &job, &tape);
    fflush(stdout);
    if (options.offline)
        evaluate_offline(&tape, options.dump);
    else if (fgets(line, sizeof line, stdin))
        play(&options, &tape);
    fleet_tape_free(&tape);
    job_free(&job);
    return 0;
}
