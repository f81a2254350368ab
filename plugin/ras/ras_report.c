#include "ras/ras_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/nccl_types.h"
#include "base/text.h"

enum { COMMS = 1 << 16, RANKS = 1 << 20, NAMED = 4 };

/* In the order of their lines. RAS has NCCL's words for them, which these are. */
static const uint8_t funcs[MUSTER_RAS_FUNCS] = {MUSTER_FUNC_BROADCAST, MUSTER_FUNC_REDUCE,
                                                MUSTER_FUNC_ALL_GATHER, MUSTER_FUNC_REDUCE_SCATTER,
                                                MUSTER_FUNC_ALL_REDUCE};

/* ---- reading ---- */

/* NCCL 2.28.7 and 2.28.9 leave out commas between missing ranks. Where one object follows another
 * nothing else can be meant.  */
static const char *with_commas(const char *text, size_t bytes, size_t *n,
                               struct muster_arena *memory)
{
    char *copy = muster_arena_array(memory, 2 * bytes + 1, 1);
    bool in_text = false, closed = false;
    *n = 0;
    for (size_t i = 0; copy && i < bytes; i++) {
        if (in_text && text[i] == '\\' && i + 1 < bytes)
            copy[(*n)++] = text[i++];
        else if (text[i] == '"')
            in_text = !in_text;
        else if (!in_text && closed && text[i] == '{')
            copy[(*n)++] = ',';
        if (in_text || !strchr(" \t\r\n", text[i]) || text[i] == '\0')
            closed = !in_text && text[i] == '}';
        copy[(*n)++] = text[i];
    }
    return copy;
}

static int64_t number(const json_t *object, const char *member)
{
    return json_integer_value(json_object_get(object, member));
}

static void read_status(const json_t *from, bool missing, struct muster_ras_rank *to)
{
    const json_t *status = json_object_get(from, "status");
    to->error = number(status, "async_error");
    to->state = !missing                                                   ? MUSTER_RAS_ANSWERS
                : json_is_true(json_object_get(status, "considered_dead")) ? MUSTER_RAS_DEAD
                                                                           : MUSTER_RAS_SILENT;
}

static void add_ranks(const json_t *list, bool missing, struct muster_ras_comm *to,
                      struct muster_arena *memory)
{
    size_t i;
    json_t *from;
    json_array_foreach(list, i, from)
    {
        struct muster_ras_rank *rank =
            muster_arena_add(memory, &to->rank, &to->ranks, sizeof *rank);
        const char *host = json_string_value(json_object_get(from, "host"));
        const json_t *counts = json_object_get(from, "collective_counts");
        *rank = (struct muster_ras_rank){.rank = (int32_t)number(from, "rank"),
                                         .pid = number(from, "pid")};
        muster_text_copy(rank->host, sizeof rank->host, host ? host : "?");
        read_status(from, missing, rank);
        for (unsigned f = 0; f < MUSTER_RAS_FUNCS; f++)
            rank->launched[f] = (uint64_t)number(counts, muster_func_name(funcs[f]));
    }
}

static int read_comms(const json_t *list, struct muster_ras_report *report, struct muster_err *err)
{
    size_t i;
    json_t *from;
    json_array_foreach(list, i, from)
    {
        const char *hash = json_string_value(json_object_get(from, "hash"));
        const json_t *here = json_object_get(from, "ranks");
        const json_t *missing = json_object_get(from, "missing_ranks");
        if (report->comms == COMMS || json_array_size(here) + json_array_size(missing) > RANKS)
            return muster_fail(err, "RAS tells of more than %d communicators, or %d ranks of one",
                               COMMS, RANKS);
        struct muster_arena *memory = &report->memory;
        struct muster_ras_comm *to =
            muster_arena_add(memory, &report->comm, &report->comms, sizeof *to);
        *to = (struct muster_ras_comm){.hash = hash ? strtoull(hash, NULL, 16) : 0};
        add_ranks(here, false, to, memory);
        add_ranks(missing, true, to, memory);
    }
    return muster_arena_check(&report->memory, err, "what RAS says");
}

int muster_ras_read(const char *name, const char *text, size_t bytes,
                    struct muster_ras_report *report, struct muster_err *err)
{
    json_error_t wrong;
    size_t n;
    *report = (struct muster_ras_report){0};
    struct muster_arena memory = {0};
    const char *whole = with_commas(text, bytes, &n, &memory);
    if (muster_arena_check(&memory, err, "what RAS says"))
        return -1;
    json_t *read = json_loadb(whole, n, 0, &wrong);
    muster_arena_free(&memory);
    if (!read)
        return muster_fail(err, "%s:%d:%d: no report of NCCL's RAS as JSON: %s", name, wrong.line,
                           wrong.column, wrong.text);
    const json_t *list = json_object_get(read, "communicators");
    int rc =
        json_is_array(list)
            ? read_comms(list, report, err)
            : muster_fail(err, "%s: no report of NCCL's RAS: expected \"communicators\"", name);
    json_decref(read);
    return rc;
}

void muster_ras_free(struct muster_ras_report *report)
{
    muster_arena_free(&report->memory);
    *report = (struct muster_ras_report){0};
}

/* ---- wording ---- */

/* Some ranks by name. */
struct naming {
    char text[160];
    size_t n; /* how many there are */
};

static void name_rank(struct naming *naming, const struct muster_ras_rank *rank)
{
    struct muster_text text = muster_text_behind(naming->text, sizeof naming->text);
    if (naming->n++ < NAMED)
        muster_text_add(&text, "%s%" PRId32 " (%.40s, pid %" PRId64 ")", text.used ? ", " : "",
                        rank->rank, rank->host, rank->pid);
}

static void end_naming(struct naming *naming)
{
    struct muster_text text = muster_text_behind(naming->text, sizeof naming->text);
    if (naming->n > NAMED)
        muster_text_add(&text, " and %zu more", naming->n - NAMED);
}

static bool put_state(const struct muster_ras_comm *comm, unsigned state, const char *what,
                      struct muster_finding_lines *to)
{
    struct naming naming = {.n = 0};
    for (size_t i = 0; i < comm->ranks; i++)
        if (comm->rank[i].state == state)
            name_rank(&naming, &comm->rank[i]);
    end_naming(&naming);
    if (naming.n)
        muster_finding_line(to, "NCCL's RAS says so, too: of this communicator rank %s %s",
                            naming.text, what);
    return naming.n > 0;
}

static bool put_errors(const struct muster_ras_comm *comm, struct muster_finding_lines *to)
{
    struct naming naming = {.n = 0};
    int64_t error = 0;
    for (size_t i = 0; i < comm->ranks; i++)
        if (comm->rank[i].error) {
            error = error ? error : comm->rank[i].error;
            name_rank(&naming, &comm->rank[i]);
        }
    end_naming(&naming);
    if (naming.n)
        muster_finding_line(to,
                            "NCCL's RAS knows of an error (ncclResult_t %" PRId64 ") on rank %s",
                            error, naming.text);
    return naming.n > 0;
}

/* Who launched fewer than the others. */
static bool put_behind(const struct muster_ras_comm *comm, unsigned f,
                       struct muster_finding_lines *to)
{
    struct naming naming = {.n = 0};
    uint64_t most = 0, least = UINT64_MAX;
    size_t answering = 0;
    for (size_t i = 0; i < comm->ranks; i++)
        if (comm->rank[i].state == MUSTER_RAS_ANSWERS)
            most = comm->rank[i].launched[f] > most ? comm->rank[i].launched[f] : most;
    for (size_t i = 0; i < comm->ranks; i++) {
        const struct muster_ras_rank *rank = &comm->rank[i];
        answering += rank->state == MUSTER_RAS_ANSWERS;
        if (rank->state != MUSTER_RAS_ANSWERS || rank->launched[f] == most)
            continue;
        least = rank->launched[f] < least ? rank->launched[f] : least;
        name_rank(&naming, rank);
    }
    end_naming(&naming);
    if (naming.n)
        muster_finding_line(to,
                            "NCCL's RAS counts %" PRIu64
                            " %s on rank %s of this communicator, %" PRIu64 " on the other %zu",
                            least, muster_func_name(funcs[f]), naming.text, most,
                            answering - naming.n);
    return naming.n > 0;
}

void muster_ras_describe(const struct muster_ras_report *report, uint64_t comm_id,
                         struct muster_finding_lines *to)
{
    const struct muster_ras_comm *comm = NULL;
    for (size_t i = 0; i < report->comms; i++)
        if (report->comm[i].hash == comm_id)
            comm = &report->comm[i];
    if (!comm) {
        muster_finding_line(
            to, "NCCL's RAS does not know this communicator: another job may have answered, as "
                "all of a user's on a host share its port");
        return;
    }
    bool any = put_state(comm, MUSTER_RAS_SILENT, "does not answer", to);
    any |= put_state(comm, MUSTER_RAS_DEAD, "is dead", to);
    any |= put_errors(comm, to);
    for (unsigned f = 0; f < MUSTER_RAS_FUNCS; f++)
        any |= put_behind(comm, f, to);
    if (!any)
        muster_finding_line(
            to,
            "NCCL's RAS adds nothing: all %zu ranks of this communicator answer and launched "
            "the same; it does not see what has ended",
            comm->ranks);
}
