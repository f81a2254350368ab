#include "top/top_fleet.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "emitted/emitted.h"

enum { RANKS = 256, COMMS = 256 };

struct muster_top_fleet {
    struct muster_top top;
    uint64_t at_ns, all_calls; /* the server's time of the state before, calls of all ranks then */
    struct muster_top_rank rank[RANKS], before[RANKS];
    struct muster_top_comm comm[COMMS], comm_before[COMMS];
    uint64_t calls[RANKS], calls_before[RANKS]; /* of all communicators of a rank */
    size_t ranks_before, comms_before;
    struct muster_findings found;
};

struct muster_top_fleet *muster_top_fleet_new(void)
{
    struct muster_top_fleet *fleet = calloc(1, sizeof *fleet);
    if (fleet)
        fleet->top = (struct muster_top){.state = MUSTER_TOP_ENDED,
                                         .jobs = 1,
                                         .ranks_expected = -1,
                                         .progress_s = NAN,
                                         .timed_share = NAN,
                                         .all_hosts = true};
    return fleet;
}

void muster_top_fleet_free(struct muster_top_fleet *fleet)
{
    if (fleet)
        muster_findings_free(&fleet->found);
    free(fleet);
}

/* ---- members ---- */

static void text_of(const json_t *object, const char *key, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (text) /* what is not sent stays as it was */
        muster_text_copy(to, size, text);
    muster_text_clean(to, size);
}

static uint64_t whole_of(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

/* -1 where there is none. */
static int32_t small_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    return number >= 0 && number < INT32_MAX ? (int32_t)number : -1;
}

static double seconds_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    double seconds = json_is_number(value) ? json_number_value(value) : NAN;
    return seconds >= 0 && seconds < 1e12 ? seconds : NAN;
}

/* ---- ranks ---- */

static const struct muster_top_rank *rank_before(const struct muster_top_fleet *fleet,
                                                 const struct muster_top_rank *rank, size_t *at)
{
    for (*at = 0; *at < fleet->ranks_before; ++*at) {
        const struct muster_top_rank *one = &fleet->before[*at];
        if (one->rank == rank->rank && one->pid == rank->pid && strcmp(one->host, rank->host) == 0)
            return one;
    }
    return NULL;
}

/* What it made others wait in an operation of those that are known now: us. */
static void add_trend(struct muster_top_rank *rank, const struct muster_top_rank *before)
{
    double now = rank->compared ? (double)rank->made_wait_ns / (double)rank->compared / 1e3 : 0;
    unsigned keep = before ? before->trends : 0;
    unsigned from = keep == MUSTER_TOP_TREND ? 1 : 0;
    for (unsigned i = from; i < keep; i++)
        rank->trend[rank->trends++] = before->trend[i];
    rank->trend[rank->trends++] = now;
}

static void take_rank(struct muster_top_fleet *fleet, const json_t *from, double passed_s)
{
    struct muster_top_rank *rank = &fleet->rank[fleet->top.ranks];
    size_t at;
    *rank = (struct muster_top_rank){.rank = small_of(from, "rank"),
                                     .gpu = small_of(from, "gpu"),
                                     .pid = (uint32_t)whole_of(from, "pid"),
                                     .alive = json_is_true(json_object_get(from, "alive")),
                                     .since_s = seconds_of(from, "since_s"),
                                     .waits = -1,
                                     .compared = whole_of(from, "compared"),
                                     .made_wait_ns = whole_of(from, "made_wait_ns"),
                                     .waited_ns = whole_of(from, "waited_ns")};
    text_of(from, "host", rank->host, sizeof rank->host);
    text_of(from, "call", rank->call, sizeof rank->call);
    fleet->calls[fleet->top.ranks++] = whole_of(from, "calls");
    const struct muster_top_rank *before = rank_before(fleet, rank, &at);
    uint64_t calls = fleet->calls[fleet->top.ranks - 1];
    if (before && passed_s > 0 && calls >= fleet->calls_before[at])
        rank->ops_s = (double)(calls - fleet->calls_before[at]) / passed_s;
    else if (before)
        rank->ops_s = before->ops_s;
    add_trend(rank, before);
}

/* ---- communicators ---- */

static void take_comm(struct muster_top_fleet *fleet, const json_t *from, double passed_s)
{
    struct muster_top_comm *comm = &fleet->comm[fleet->top.comms++];
    const char *id = json_string_value(json_object_get(from, "id"));
    *comm = (struct muster_top_comm){.id = id && strlen(id) == 16 ? strtoull(id, NULL, 16) : 0,
                                     .nranks = (uint32_t)whole_of(from, "nranks"),
                                     .here = (uint32_t)whole_of(from, "heard"),
                                     .calls = whole_of(from, "calls"),
                                     .behind = small_of(from, "behind"),
                                     .behind_by = whole_of(from, "behind_by"),
                                     .since_s = seconds_of(from, "since_s")};
    text_of(from, "name", comm->name, sizeof comm->name);
    for (size_t i = 0; i < fleet->comms_before; i++) {
        const struct muster_top_comm *before = &fleet->comm_before[i];
        if (before->id == comm->id && passed_s > 0 && comm->calls >= before->calls)
            comm->ops_s = (double)(comm->calls - before->calls) / passed_s;
        else if (before->id == comm->id)
            comm->ops_s = before->ops_s;
    }
}

/* ---- findings ---- */

static int parse_line(struct muster_findings *found, const char *line, struct muster_err *err)
{
    size_t bytes = strlen(line);
    char *whole =
        malloc(bytes + 1); /* with its end: in a file a line without one is still written */
    if (!whole)
        return muster_fail_memory(err, "a finding");
    memcpy(whole, line, bytes);
    whole[bytes] = '\n';
    int rc = muster_emitted_parse("finding", whole, bytes + 1, found, err);
    free(whole);
    return rc;
}

/* Those that hold, worst first: kinds are numbered so. */
static int by_weight(const void *left, const void *right)
{
    const struct muster_finding *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->cost_s < b->cost_s) - (a->cost_s > b->cost_s);
}

static int take_findings(struct muster_top_fleet *fleet, const char *const *line, size_t lines,
                         struct muster_err *err)
{
    size_t kept = 0;
    muster_findings_free(&fleet->found);
    fleet->found = (struct muster_findings){0};
    for (size_t i = 0; i < lines; i++)
        if (parse_line(&fleet->found, line[i], err) != 0)
            return -1;
    for (size_t i = 0; i < fleet->found.n; i++)
        if (!fleet->found.finding[i].resolved && !fleet->found.finding[i].retracted)
            fleet->found.finding[kept++] = fleet->found.finding[i];
    fleet->found.n = kept;
    if (kept)
        qsort(fleet->found.finding, kept, sizeof *fleet->found.finding, by_weight);
    for (size_t f = 0; f < kept; f++)
        for (unsigned i = 0; i < fleet->found.finding[f].ranks; i++)
            for (size_t r = 0; r < fleet->top.ranks; r++)
                fleet->rank[r].culprit |= fleet->rank[r].rank == fleet->found.finding[f].rank[i];
    return 0;
}

/* ---- all ---- */

static void take_lists(struct muster_top_fleet *fleet, const json_t *state, double passed_s)
{
    size_t i;
    const json_t *one;
    memcpy(fleet->before, fleet->rank, sizeof fleet->rank);
    memcpy(fleet->calls_before, fleet->calls, sizeof fleet->calls);
    memcpy(fleet->comm_before, fleet->comm, sizeof fleet->comm);
    fleet->ranks_before = fleet->top.ranks;
    fleet->comms_before = fleet->top.comms;
    fleet->top.ranks = fleet->top.comms = 0;
    json_array_foreach(json_object_get(state, "ranks_shown"), i, one)
    {
        if (fleet->top.ranks < RANKS && json_is_object(one))
            take_rank(fleet, one, passed_s);
    }
    json_array_foreach(json_object_get(state, "communicators"), i, one)
    {
        if (fleet->top.comms < COMMS && json_is_object(one))
            take_comm(fleet, one, passed_s);
    }
}

static void take_state(struct muster_top_fleet *fleet, const json_t *state)
{
    struct muster_top *top = &fleet->top;
    uint64_t at_ns = whole_of(state, "at_ns");
    double passed_s =
        fleet->at_ns && at_ns > fleet->at_ns ? (double)(at_ns - fleet->at_ns) / 1e9 : 0;
    uint64_t calls = whole_of(state, "calls");
    if (passed_s > 0 && calls >= fleet->all_calls)
        top->ops_s = (double)(calls - fleet->all_calls) / passed_s;
    fleet->at_ns = at_ns;
    fleet->all_calls = calls;
    text_of(state, "run_dir", top->run, sizeof top->run);
    top->state = MUSTER_TOP_RUNS;
    top->ranks_alive = small_of(state, "running");
    top->ranks_expected = small_of(state, "expected");
    top->nccl = (uint32_t)whole_of(state, "nccl");
    top->compared = whole_of(state, "compared");
    top->progress_s = seconds_of(state, "progress_s");
    double up_s = seconds_of(state, "up_s");
    top->up_s = isnan(up_s) ? 0 : up_s;
    take_lists(fleet, state, passed_s);
}

int muster_top_fleet_take(struct muster_top_fleet *fleet, const char *name, const char *state,
                          const char *const *line, size_t lines, struct muster_err *err)
{
    if (!fleet->top.run[0])
        muster_text_copy(fleet->top.run, sizeof fleet->top.run, name);
    if (state) {
        json_t *object = json_loads(state, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(object)) {
            json_decref(object);
            return muster_fail(err, "job %s: what its worker says of it is no JSON object", name);
        }
        take_state(fleet, object);
        json_decref(object);
    } else {
        fleet->top.state = MUSTER_TOP_ENDED;
    }
    return take_findings(fleet, line, lines, err);
}

void muster_top_fleet_fill(struct muster_top_fleet *fleet, struct muster_top *top)
{
    *top = fleet->top;
    top->rank = fleet->rank;
    top->comm = fleet->comm;
    top->finding = fleet->found.finding;
    top->findings = fleet->found.n;
}
