/* The leader: asks all members the same in turn and keeps what each answers. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "doctor/hosts/hosts.h"
#include "doctor/hosts/hosts_patience.h"
#include "doctor/hosts/hosts_rounds.h"

enum {
    REACH_MS = 60000,
    STEP_MS = 250,
    ROUND_SPARE_MS = 7000, /* waiting for partners: hosts_measure.c's WAIT_MS and a little */
};

struct lead {
    const struct muster_hosts_lead *given;
    struct muster_hosts_result *result;
    struct muster_arena *arena;
    unsigned *place; /* of each member in result->seen */
};

static void log_step(const struct lead *lead, const char *what, unsigned n)
{
    if (!lead->given->quiet)
        fprintf(stderr, "muster doctor: %s %u hosts\n", what, n);
}

static void note(struct lead *lead, unsigned from, const char *text, size_t size,
                 enum muster_hosts_kind kind, unsigned *missing)
{
    struct muster_hosts_message message;
    struct muster_err err;
    struct muster_hosts_seen *seen = &lead->result->seen[lead->place[from]];
    if (muster_hosts_read(text, size, lead->arena, &message, &err)) {
        seen->missing = muster_arena_format(lead->arena, "its answer cannot be read: %s", err.text);
        *missing -= *missing > 0;
        return;
    }
    if (message.kind == MUSTER_HOSTS_FAILURE) {
        seen->missing = message.why;
        *missing -= *missing > 0;
    }
    if (message.kind != kind)
        return;
    if (kind == MUSTER_HOSTS_HELLO && !seen->report) {
        seen->member = message.member;
        seen->report = message.report;
    } else if (kind == MUSTER_HOSTS_REACHED_ALL && !seen->ends) {
        seen->ends = message.ends;
        seen->frame_ends = message.frame_ends;
        seen->frame_bytes = message.frame_bytes;
        seen->rdma_ends = message.rdma_ends;
    } else if (kind == MUSTER_HOSTS_MEASURED && !seen->flow) {
        seen->flow = message.flow;
        seen->flows = message.flows;
    } else {
        return;
    }
    *missing -= *missing > 0;
}

/* Members whose answer is still to come, and may. */
static unsigned count_missing(const struct lead *lead, enum muster_hosts_kind kind)
{
    unsigned n = 0;
    for (unsigned i = 0; i < lead->given->n; i++) {
        const struct muster_hosts_seen *seen = &lead->result->seen[lead->place[i]];
        bool here = kind == MUSTER_HOSTS_HELLO         ? seen->report != NULL
                    : kind == MUSTER_HOSTS_REACHED_ALL ? seen->ends || !seen->member.addresses
                                                       : seen->flow || !seen->ends;
        bool lost =
            seen->missing || lead->given->channel.lost(lead->given->channel.self, i) != NULL;
        n += !here && !lost;
    }
    return n;
}

/* Sends a message and keeps the answers that come within the time. */
static int ask(struct lead *lead, const struct muster_hosts_message *message,
               enum muster_hosts_kind answer, unsigned patience_ms, double *seconds,
               struct muster_err *err)
{
    const struct muster_hosts_channel *channel = &lead->given->channel;
    uint64_t begin_ns = muster_now_ns(), end_ns = begin_ns + patience_ms * MUSTER_NS_PER_MS;
    struct muster_arena arena = {0};
    const char *text = muster_hosts_write(message, &arena);
    int rc = muster_arena_check(&arena, err, "a message");
    if (rc == 0)
        rc = channel->send(channel->self, text, err);
    muster_arena_free(&arena);
    unsigned missing = rc == 0 ? count_missing(lead, answer) : 0;
    while (missing && muster_now_ns() < end_ns) {
        unsigned from;
        size_t size;
        int took = channel->take(channel->self, STEP_MS, &from, &text, &size, err);
        if (took > 0 && from < lead->given->n)
            note(lead, from, text, size, answer, &missing);
        else if (took < 0)
            break;
        if (took == 0 || missing == 0)
            missing = count_missing(lead, answer);
    }
    *seconds = (double)(muster_now_ns() - begin_ns) / (double)MUSTER_NS_PER_S;
    return rc;
}

static void note_missing(struct lead *lead)
{
    for (unsigned i = 0; i < lead->given->n; i++) {
        struct muster_hosts_seen *seen = &lead->result->seen[i];
        const char *lost = lead->given->channel.lost(lead->given->channel.self, i);
        if (lead->given->host)
            snprintf(seen->member.name, sizeof seen->member.name, "%.63s", lead->given->host[i]);
        else if (!seen->report)
            snprintf(seen->member.name, sizeof seen->member.name, "process %u", i);
        if (!seen->report && !seen->missing)
            seen->missing =
                muster_arena_text(lead->arena, lost ? lost : "it did not answer within the time");
    }
}

/* Those with a report first; messages of member i belong to seen[place[i]] from now on. */
static void sort_seen(struct lead *lead)
{
    struct muster_hosts_result *result = lead->result;
    struct muster_hosts_seen *sorted = muster_arena_array(lead->arena, result->n, sizeof *sorted);
    unsigned at = 0;
    for (int pass = 0; sorted && pass < 2; pass++)
        for (unsigned i = 0; i < result->n; i++)
            if ((result->seen[i].report == NULL) == pass) {
                lead->place[i] = at;
                sorted[at++] = result->seen[i];
                result->here += pass == 0;
            }
    if (sorted)
        result->seen = sorted;
}

static int reach(struct lead *lead, struct muster_err *err)
{
    struct muster_hosts_result *result = lead->result;
    struct muster_hosts_member *members =
        muster_arena_array(lead->arena, result->here + 1ul, sizeof *members);
    if (muster_arena_check(lead->arena, err, "the hosts"))
        return -1;
    for (unsigned i = 0; i < result->here; i++)
        members[i] = result->seen[i].member;
    const struct muster_hosts_message message = {.kind = MUSTER_HOSTS_REACH,
                                                 .members = members,
                                                 .n = result->here,
                                                 .timeout_ms = MUSTER_HOSTS_CONNECT_MS};
    log_step(lead, "connections between", result->here);
    return ask(lead, &message, MUSTER_HOSTS_REACHED_ALL, REACH_MS, &result->reach_s, err);
}

/* Whether both can measure: each has reported what it reached, and the one that calls reaches the
 * other. */
static bool can_measure(const struct muster_hosts_result *result, unsigned a, unsigned b)
{
    const struct muster_hosts_seen *from = &result->seen[a < b ? a : b];
    unsigned to = a < b ? b : a;
    size_t first = 0, length = from->ends ? strlen(from->ends) : 0;
    if (!result->seen[a].ends || !result->seen[b].ends)
        return false;
    for (unsigned i = 0; i < to; i++)
        first += muster_hosts_targets(&result->seen[i].member);
    for (unsigned t = 0; t < muster_hosts_targets(&result->seen[to].member); t++)
        if (first + t < length && from->ends[first + t] == MUSTER_HOSTS_REACHED)
            return true;
    return false;
}

static int measure(struct lead *lead, struct muster_err *err)
{
    struct muster_hosts_result *result = lead->result;
    unsigned n = result->here, rounds = muster_hosts_rounds(n);
    int *partner = muster_arena_array(lead->arena, (size_t)rounds * n + 1, sizeof *partner);
    if (muster_arena_check(lead->arena, err, "the rounds"))
        return -1;
    for (unsigned r = 0; r < rounds; r++)
        for (unsigned i = 0; i < n; i++) {
            int with = muster_hosts_partner(n, r, i);
            partner[r * n + i] = with >= 0 && can_measure(result, i, (unsigned)with) ? with : -1;
        }
    const struct muster_hosts_message message = {.kind = MUSTER_HOSTS_MEASURE,
                                                 .partner = partner,
                                                 .rounds = rounds,
                                                 .n = n,
                                                 .ms = lead->given->ms};
    log_step(lead, "bandwidth and loss between", n);
    unsigned patience_ms = rounds * (2 * lead->given->ms + 500) + 2 * ROUND_SPARE_MS;
    return ask(lead, &message, MUSTER_HOSTS_MEASURED, patience_ms, &result->measure_s, err);
}

static int run(struct lead *lead, struct muster_err *err)
{
    const struct muster_hosts_lead *given = lead->given;
    struct muster_hosts_result *result = lead->result;
    const struct muster_hosts_message begin = {.kind = MUSTER_HOSTS_BEGIN,
                                               .name = given->name,
                                               .value = given->value,
                                               .variables = given->variables,
                                               .active = given->active};
    const struct muster_hosts_message end = {.kind = MUSTER_HOSTS_END};
    double none;
    log_step(lead, "reports of", given->n);
    if (ask(lead, &begin, MUSTER_HOSTS_HELLO, given->patience_ms, &result->report_s, err))
        return -1;
    note_missing(lead);
    sort_seen(lead);
    int rc = muster_arena_check(lead->arena, err, "the hosts");
    if (rc == 0 && result->here > 1)
        rc = reach(lead, err);
    if (rc == 0 && result->here > 1 && given->ms)
        rc = measure(lead, err);
    struct muster_err ignored;
    ask(lead, &end, MUSTER_HOSTS_END, 0, &none, &ignored);
    return rc ? rc : muster_arena_check(lead->arena, err, "what the hosts told");
}

int muster_hosts_lead_run(const struct muster_hosts_lead *given, struct muster_hosts_result *result,
                          struct muster_err *err)
{
    struct lead lead = {.given = given, .result = result, .arena = &result->arena};
    *result = (struct muster_hosts_result){.n = given->n, .quick = given->ms == 0};
    result->seen = muster_arena_array(lead.arena, given->n, sizeof *result->seen);
    lead.place = muster_arena_array(lead.arena, given->n, sizeof *lead.place);
    for (unsigned i = 0; lead.place && i < given->n; i++)
        lead.place[i] = i;
    if (!lead.place || muster_arena_check(lead.arena, err, "the hosts") || run(&lead, err)) {
        muster_hosts_result_free(result);
        return -1;
    }
    return 0;
}

void muster_hosts_result_free(struct muster_hosts_result *result)
{
    muster_arena_free(&result->arena);
    *result = (struct muster_hosts_result){.n = 0};
}
