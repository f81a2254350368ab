/* `muster doctor --hosts`: who leads, who is a member, and what the leader prints. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "cli/doctor/cmd_doctor.h"
#include "doctor/doctor.h"
#include "doctor/rules/checks_print.h"
#include "doctor/rules/doctor_compare.h"
#include "doctor/rules/job_log.h"
#include "doctor/survey.h"
#include "launch/child.h"

enum {
    VARIABLES = 256,
    PASSIVE_MS = 60000, /* of a host's report: its own checks are bounded below that */
    ACTIVE_MS = 300000,
    MEASURE_MS = 1000,
    WORDS = 16,
    TORCH_PORT = 29500, /* PyTorch's MASTER_PORT where none is set */
};

extern char **environ;

/* ---- a member ---- */

static char *examine(void *arg, bool active, struct muster_err *err)
{
    struct doctor_options given = *(const struct doctor_options *)arg;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    given.log = NULL; /* the leader's */
    given.format = MUSTER_DOCTOR_JSON;
    given.active = active;
    given.passive = !active;
    int rc = out ? muster_doctor_report(&given, out, err) : muster_fail_memory(err, "the report");
    if (!muster_text_close(out, &text))
        return NULL;
    if (rc < 0) {
        free(text);
        return NULL;
    }
    return text;
}

static int be_member(const struct doctor_options *given, struct muster_hosts_self *self,
                     struct muster_err *err)
{
    struct muster_host host;
    muster_doctor_host_read(&host);
    self->examine = examine;
    self->arg = (void *)(uintptr_t)given;
    self->name = host.name;
    self->id = host.id;
    self->sysfs = muster_sysfs_root();
    int rc = muster_hosts_member_run(self, err);
    self->channel.close(self->channel.self);
    return rc;
}

static int be_started(const struct muster_cmd *self, const struct doctor_options *given)
{
    struct muster_hosts_self member = {.launched = true};
    struct muster_hosts_place place;
    struct muster_err err;
    uint64_t number = 0;
    muster_hosts_place_read(&place);
    if (strcmp(given->as, "launcher") == 0 && place.rank >= 0)
        number = (uint64_t)place.rank;
    else if (!muster_text_u64(given->as, &number) || number >= MUSTER_HOSTS_MAX)
        return muster_opt_wrong(self, "--as \"%s\": expected a number, or \"launcher\" under one",
                                given->as);
    member.member = (unsigned)number;
    if (muster_hosts_started(member.member, &member.channel, &err) == 0 &&
        be_member(given, &member, &err) == 0)
        return MUSTER_STATUS_OK;
    fprintf(stderr, "muster doctor: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

/* ---- what the leader prints ---- */

static int compare(const struct muster_hosts_result *result, struct muster_checks *checks,
                   const struct doctor_options *given, FILE *out, struct muster_err *err)
{
    const struct muster_check *reach = muster_checks_find(checks, "hosts.reach");
    struct muster_comparison *comparison = muster_comparison_new(err);
    int rc = comparison ? 0 : -1;
    if (rc == 0)
        muster_comparison_explain(comparison, given->symptom);
    for (unsigned i = 0; rc == 0 && i < result->here; i++) {
        const struct muster_hosts_seen *seen = &result->seen[i];
        rc = muster_comparison_add(comparison, seen->member.name, seen->report,
                                   strlen(seen->report), err);
    }
    if (rc == 0)
        muster_comparison_show_shared(comparison);
    if (rc == 0 && reach && reach->status == MUSTER_CHECK_OK)
        muster_comparison_dismiss(comparison, "net.interface"); /* all reach it */
    if (rc == 0)
        rc = muster_comparison_print(comparison, given->format == MUSTER_DOCTOR_JSON, out, err);
    muster_comparison_free(comparison);
    return rc;
}

static void print_text(const struct doctor_options *given, const struct muster_checks *checks,
                       const char *differences, struct muster_hosts_result *result)
{
    const struct muster_causes none = {.n = 0};
    const char *more = muster_arena_format(
        &result->arena,
        "\n%s%u hosts: reports %.1f s, connections %.1f s, bandwidth and loss %.1f s\n",
        differences, result->here, result->report_s, result->reach_s, result->measure_s);
    muster_doctor_print(checks, &none, given->all, *more ? more : differences);
}

static json_t *json_of_hosts(const struct muster_hosts_result *result)
{
    json_t *hosts = json_array();
    for (unsigned i = 0; i < result->n; i++) {
        const struct muster_hosts_seen *seen = &result->seen[i];
        json_t *host = json_object();
        json_object_set_new(host, "host", json_string(seen->member.name));
        json_object_set_new(host, "rank",
                            seen->member.rank < 0 ? json_null() : json_integer(seen->member.rank));
        json_object_set_new(host, "missing",
                            seen->missing ? json_string(seen->missing) : json_null());
        json_object_set_new(host, "report",
                            seen->report ? json_loads(seen->report, 0, NULL) : json_null());
        json_array_append_new(hosts, host);
    }
    return hosts;
}

static int print_json(const struct muster_checks *checks, const char *differences,
                      const struct muster_hosts_result *result, struct muster_err *err)
{
    const struct muster_causes none = {.n = 0};
    const struct muster_checks_place place = {"", "", -1, -1};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out)
        muster_checks_json(checks, &none, &place, out);
    if (!muster_text_close(out, &text))
        return muster_fail_memory(err, "the report");
    json_t *all = json_loads(text, 0, NULL), *between = json_loads(differences, 0, NULL);
    json_t *object = json_object();
    json_object_set_new(object, "version", json_integer(1));
    json_object_set_new(object, "muster", json_string(MUSTER_VERSION));
    json_object_set(object, "checks", json_object_get(all, "checks"));
    json_object_set(object, "differences", json_object_get(between, "differences"));
    json_object_set_new(object, "hosts", json_of_hosts(result));
    int rc = json_dumpf(object, stdout, JSON_INDENT(1)) ? muster_fail_memory(err, "the report") : 0;
    putchar('\n');
    json_decref(object);
    json_decref(between);
    json_decref(all);
    free(text);
    return rc;
}

static int print(const struct doctor_options *given, const struct muster_job_log *log,
                 struct muster_hosts_result *result, struct muster_err *err)
{
    bool json = given->format == MUSTER_DOCTOR_JSON;
    char *differences = NULL;
    size_t size = 0;
    struct muster_checks *checks = muster_arena_array(&result->arena, 1, sizeof *checks);
    FILE *out = open_memstream(&differences, &size);
    int rc = checks && out ? muster_hosts_evaluate(result, checks, err)
                           : muster_fail_memory(err, "the report");
    if (rc == 0 && log)
        muster_job_log_checks(log, strcmp(given->log, "-") == 0 ? "standard input" : given->log,
                              checks);
    int differ = rc == 0 ? compare(result, checks, given, out, err) : -1;
    if (!muster_text_close(out, &differences) || differ < 0)
        rc = -1;
    if (rc == 0 && json)
        rc = print_json(checks, differences, result, err);
    else if (rc == 0)
        print_text(given, checks, differences, result);
    if (rc == 0)
        rc = differ | muster_checks_exit(checks);
    if (checks)
        muster_checks_free(checks);
    free(differences);
    return rc;
}

/* What the job printed: its symptoms, where none is given, and its lines. NULL with err. */
static struct muster_job_log *read_log(struct doctor_options *given, struct muster_arena *memory,
                                       char *words, size_t size, struct muster_err *err)
{
    struct muster_job_log *log = muster_arena_array(memory, 1, sizeof *log);
    if (muster_arena_check(memory, err, given->log) || muster_doctor_log_read(given->log, log, err))
        return NULL;
    muster_job_log_symptoms(log, words, size);
    if (!given->symptom && *words)
        given->symptom = words;
    return log;
}

static int lead_with(const struct doctor_options *given, const struct muster_job_log *log,
                     struct muster_hosts_lead *lead, struct muster_err *err)
{
    struct muster_hosts_result result;
    lead->active = given->active;
    lead->patience_ms = given->active ? ACTIVE_MS : PASSIVE_MS;
    lead->ms = given->quick ? 0 : MEASURE_MS;
    lead->quiet = !isatty(STDERR_FILENO);
    int rc = muster_hosts_lead_run(lead, &result, err);
    if (rc == 0) {
        rc = print(given, log, &result, err);
        muster_hosts_result_free(&result);
    }
    return rc;
}

static int lead(const struct doctor_options *options, struct muster_hosts_lead *lead,
                struct muster_err *err)
{
    enum { SYMPTOMS = 256 };
    struct doctor_options given = *options;
    char words[SYMPTOMS] = "";
    struct muster_arena memory = {0};
    struct muster_job_log *log =
        given.log ? read_log(&given, &memory, words, sizeof words, err) : NULL;
    int rc = given.log && !log ? -1 : lead_with(&given, log, lead, err);
    muster_arena_free(&memory);
    lead->channel.close(lead->channel.self);
    return rc;
}

/* ---- the leader of what it starts ---- */

/* What the job will have here: members started by ssh have none of it. */
static size_t take_variables(struct muster_arena *arena, size_t hosts, const char **name,
                             const char **value)
{
    static const char *const heads[] = {"NCCL_", "TORCH_NCCL_", "GLOO_", "MASTER_", "UCX_", "FI_"};
    size_t n = 0;
    name[n] = "MUSTER_HOSTS";
    value[n++] = muster_arena_format(arena, "%zu", hosts);
    for (char **at = environ; *at; at++)
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
            const char *equal = strchr(*at, '=');
            if (!equal || n == VARIABLES || strncmp(*at, heads[i], strlen(heads[i])) != 0 ||
                strncmp(*at, "NCCL_HOSTID=", 12) == 0)
                continue;
            name[n] = muster_arena_format(arena, "%.*s", (int)(equal - *at), *at);
            value[n++] = muster_arena_text(arena, equal + 1);
        }
    return n;
}

static int lead_started(const struct doctor_options *given, const char *launcher,
                        const char *const *host, size_t n, struct muster_err *err)
{
    static char exe[PATH_MAX];
    const char *name[VARIABLES], *value[VARIABLES], *command[WORDS] = {exe};
    struct muster_arena arena = {0};
    struct muster_hosts_lead leader = {.n = (unsigned)n,
                                       .host = strstr(launcher, "{}") ? host : NULL,
                                       .name = name,
                                       .value = value};
    size_t words = 1;
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[length > 0 ? length : 0] = '\0';
    if (given->command)
        command[0] = given->command;
    command[words++] = "doctor";
    if (given->nccl) {
        command[words++] = "--nccl";
        command[words++] = given->nccl;
    }
    command[words] = "--as";
    leader.variables = take_variables(&arena, n, name, value);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* three pipes a host */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    int rc = muster_arena_check(&arena, err, "the variables");
    if (rc == 0)
        rc = muster_hosts_start(launcher, command, host, (unsigned)n, &leader.channel, err);
    if (rc == 0)
        rc = lead(given, &leader, err);
    muster_arena_free(&arena);
    return rc;
}

static int lead_named(const struct doctor_options *given, char **names, int n,
                      struct muster_err *err)
{
    struct muster_arena arena = {0};
    const char *const *host;
    const char *list = muster_arena_text(&arena, "");
    for (int i = 0; i < n; i++)
        list = muster_arena_format(&arena, "%s %s", list, names[i]);
    size_t hosts = muster_hosts_names(list, &arena, &host, err);
    const char *launcher =
        given->with ? given->with : "ssh -o BatchMode=yes -o ConnectTimeout=10 {}";
    int rc = hosts == SIZE_MAX ? -1
             : hosts < 2       ? muster_fail(err, "--hosts needs two hosts and more")
                               : lead_started(given, launcher, host, hosts, err);
    muster_arena_free(&arena);
    return rc;
}

/* In an allocation of Slurm, not under srun: one step over all its hosts. */
static int lead_allocation(const struct doctor_options *given, const char *nodes,
                           struct muster_err *err)
{
    struct muster_arena arena = {0};
    const char *const *host;
    size_t n = muster_hosts_names(nodes, &arena, &host, err);
    const char *launcher = muster_arena_format(
        &arena, "srun --overlap --quiet --nodes=%zu --ntasks=%zu --ntasks-per-node=1", n, n);
    int rc = n == SIZE_MAX ? -1
             : n < 2 ? muster_fail(err, "this allocation has one host: muster doctor looks at it")
                     : lead_started(given, launcher, host, n, err);
    muster_arena_free(&arena);
    return rc;
}

/* ---- under a launcher that started one process a host ---- */

struct joining {
    const struct doctor_options *given;
    const struct muster_hosts_place *place;
    const char *share;
    const char *rendezvous; /* NULL: in the shared folder */
};

/* Behind torchrun's own port, which is MASTER_PORT. */
static const char *choose_rendezvous(const struct doctor_options *given, char text[NAME_MAX])
{
    const char *host = muster_env("MASTER_ADDR"), *port = muster_env("MASTER_PORT");
    uint64_t number;
    if (given->rendezvous || given->share || !host)
        return given->rendezvous;
    if (!port || !muster_text_u64(port, &number) || number >= UINT16_MAX)
        number = TORCH_PORT;
    snprintf(text, NAME_MAX, strchr(host, ':') ? "[%.200s]:%u" : "%.200s:%u", host,
             (unsigned)number + 1);
    return text;
}

/* The first process is a member, too: its own host needs no name. */
static int join_at(const struct joining *joining, struct muster_hosts_self *self,
                   struct muster_err *err)
{
    char host[256], own[32];
    uint16_t port;
    const char *at = joining->rendezvous;
    if (muster_hosts_meet_place(at, host, &port, err))
        return -1;
    snprintf(own, sizeof own, "localhost:%u", port);
    return muster_hosts_meet_join(self->member ? at : own, joining->place->job, self->member,
                                  &self->channel, err);
}

static int join(void *arg)
{
    const struct joining *joining = arg;
    struct muster_hosts_self self = {.member = (unsigned)joining->place->rank};
    struct muster_err err;
    int rc = joining->rendezvous ? join_at(joining, &self, &err)
                                 : muster_hosts_share_join(joining->share, joining->place->job,
                                                           self.member, &self.channel, &err);
    if (rc == 0 && be_member(joining->given, &self, &err) == 0)
        return MUSTER_STATUS_OK;
    fprintf(stderr, "muster doctor: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

static int lead_shared(const struct joining *joining, struct muster_err *err)
{
    struct muster_arena arena = {0};
    const char *name = "MUSTER_HOSTS";
    const char *value = muster_arena_format(&arena, "%u", joining->place->world);
    struct muster_hosts_lead leader = {
        .n = joining->place->world, .name = &name, .value = &value, .variables = 1};
    const struct muster_child child = {
        .work = join, .arg = (void *)(uintptr_t)joining, .orphaned = SIGTERM};
    pid_t pid;
    int rc = muster_arena_check(&arena, err, "the variables");
    if (rc == 0)
        rc = joining->rendezvous ? muster_hosts_meet_lead(joining->rendezvous, joining->place->job,
                                                          leader.n, &leader.channel, err)
                                 : muster_hosts_share_lead(joining->share, joining->place->job,
                                                           leader.n, &leader.channel, err);
    if (rc == 0 && muster_child_start(&child, &pid, err)) {
        leader.channel.close(leader.channel.self);
        rc = -1;
    } else if (rc == 0) {
        rc = lead(joining->given, &leader, err);
        if (!muster_child_wait(pid, 1000, NULL))
            muster_child_kill(pid, NULL);
    }
    muster_arena_free(&arena);
    return rc;
}

int muster_doctor_hosts(const struct muster_cmd *self, const struct doctor_options *given,
                        char **names, int n)
{
    struct muster_hosts_place place;
    struct muster_err err;
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    int rc;
    /* A host whose ssh has ended is known by what the write returns, not by our own end. */
    signal(SIGPIPE, SIG_IGN);
    if (given->as)
        return be_started(self, given);
    muster_hosts_place_read(&place);
    char at_master[NAME_MAX];
    const struct joining joining = {given, &place, given->share ? given->share : ".",
                                    choose_rendezvous(given, at_master)};
    if (n > 0)
        rc = lead_named(given, names, n, &err);
    else if (place.rank == 0 && place.world > 1)
        rc = lead_shared(&joining, &err);
    else if (place.rank > 0 && place.world > 1)
        return join((void *)(uintptr_t)&joining);
    else if (nodes && *nodes)
        rc = lead_allocation(given, nodes, &err);
    else
        return muster_opt_wrong(self, "--hosts: name the hosts, or start it once a host by srun, "
                                      "mpirun or torchrun");
    if (rc < 0) {
        fprintf(stderr, "muster doctor: %s\n", err.text);
        return MUSTER_STATUS_USAGE;
    }
    return rc ? MUSTER_STATUS_FINDING : MUSTER_STATUS_OK;
}
