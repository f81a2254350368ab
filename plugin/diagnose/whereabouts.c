#include "diagnose/whereabouts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/text.h"
#include "diagnose/hang/hang_case.h"
#include "diagnose/hang/hang_state.h"
#include "view/aligned.h"

static void name_call(const struct muster_hang_member *member, uint64_t number, char *to,
                      size_t room)
{
    const struct muster_hang_call *call = muster_hang_call(member, number);
    char size[32];
    if (!call) {
        snprintf(to, room, "collective #%" PRIu64, number);
        return;
    }
    muster_text_bytes(size, sizeof size, call->count * muster_dtype_bytes(call->dtype));
    snprintf(to, room, "%s #%" PRIu64 " (%s)", muster_func_name(call->func), number, size);
}

/* The newest call, where that is a send or receive. */
static const struct muster_hang_pair *newest_pair(const struct muster_hang_member *member)
{
    const struct muster_hang_pair *newest = NULL;
    for (uint32_t i = 0; i < member->pairs; i++)
        if (!newest || member->pair[i].enqueue_ns > newest->enqueue_ns)
            newest = &member->pair[i];
    return newest && newest->enqueue_ns >= member->called_ns ? newest : NULL;
}

/* A rank of the communicator as people know it. */
static int32_t global_rank(const struct muster_hang_comm *comm, int32_t rank)
{
    const struct muster_hang_member *member = muster_hang_by_rank(comm, rank);
    return member ? member->rank : rank;
}

static void name_pair(const struct muster_hang_comm *comm, const struct muster_hang_pair *pair,
                      char *to, size_t room)
{
    char size[32];
    muster_text_bytes(size, sizeof size, pair->count * muster_dtype_bytes(pair->dtype));
    snprintf(to, room, "%s %" PRId32 " #%" PRIu64 " (%s)", pair->send ? "Send to" : "Recv from",
             global_rank(comm, pair->peer), pair->posted - 1, size);
}

/* What the communicator's ranks show of each other. */
struct progress {
    uint64_t done;  /* collectives below have ended on a rank, so that all had come to them */
    uint64_t least; /* all have called those below */
};

static struct progress progress_of(const struct muster_hang_comm *comm)
{
    struct progress progress = {.least = UINT64_MAX};
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        progress.done = member->done > progress.done ? member->done : progress.done;
        progress.least = member->calls < progress.least ? member->calls : progress.least;
    }
    return progress;
}

enum { NAMED = 4 };

/* One more of those waited for: named, or counted where there are many. */
static void add_waited_for(struct muster_whereabout *one, unsigned *n, int32_t rank)
{
    struct muster_text text = muster_text_behind(one->waits, sizeof one->waits);
    if ((*n)++ < NAMED)
        muster_text_add(&text, "%s%" PRId32, text.used ? ", " : "", rank);
}

static void end_waited_for(struct muster_whereabout *one, unsigned n)
{
    struct muster_text text = muster_text_behind(one->waits, sizeof one->waits);
    if (n > NAMED)
        muster_text_add(&text, " and %u more", n - NAMED);
}

/* Who never came to the last call of `member`, a collective. */
static void name_missing(const struct muster_hang_comm *comm,
                         const struct muster_hang_member *member, struct muster_whereabout *one)
{
    unsigned missing = 0;
    for (uint32_t i = 0; i < comm->members; i++)
        if (comm->member[i].calls < member->calls)
            add_waited_for(one, &missing, comm->member[i].rank);
    end_waited_for(one, missing);
    one->unseen = comm->nranks > comm->members ? comm->nranks - comm->members : 0;
}

/* Which peers of its sends and receives have posted less. */
static void name_silent_peers(const struct muster_hang_comm *comm,
                              const struct muster_hang_member *member,
                              struct muster_whereabout *one)
{
    unsigned silent = 0;
    uint64_t posted_there;
    for (uint32_t i = 0; i < member->pairs; i++)
        if (muster_hang_waits_for_peer(comm, member, &member->pair[i], &posted_there))
            add_waited_for(one, &silent, global_rank(comm, member->pair[i].peer));
    end_waited_for(one, silent);
}

/* Its own kernels' ends may not all have been shown; where a collective that ends on all ranks
 * together has ended on another, it is in it no more. */
static bool has_ended(const struct progress *progress, const struct muster_hang_member *member)
{
    const struct muster_hang_call *last = muster_hang_call(member, member->calls - 1);
    return member->calls > 0 && member->calls <= progress->done && member->pairs == 0 && last &&
           muster_joint_ends_together(last->func);
}

static enum muster_where where_of(const struct progress *progress,
                                  const struct muster_hang_member *member)
{
    if (member->state != MUSTER_PROCESS_RUNNING)
        return MUSTER_WHERE_GONE;
    if (!member->called_ns)
        return MUSTER_WHERE_NOT_YET;
    if (member->in_call_ns)
        return MUSTER_WHERE_CALLS;
    if (has_ended(progress, member))
        return MUSTER_WHERE_OUTSIDE;
    return member->ended == MUSTER_HANG_OPEN   ? MUSTER_WHERE_WAITS
           : member->ended == MUSTER_HANG_IDLE ? MUSTER_WHERE_OUTSIDE
                                               : MUSTER_WHERE_CALLED;
}

/* What is newer, and what waits, is where the rank is. */
static void take(const struct muster_hang_comm *comm, const struct muster_hang_member *member,
                 struct muster_whereabout *one)
{
    struct progress progress = progress_of(comm);
    enum muster_where where = where_of(&progress, member);
    double since_s = member->called_ns && member->seen_ns > member->called_ns
                         ? (double)(member->seen_ns - member->called_ns) / 1e9
                     : member->called_ns ? 0
                                         : NAN;
    bool waits = where == MUSTER_WHERE_WAITS || where == MUSTER_WHERE_CALLS;
    bool waited = one->where == MUSTER_WHERE_WAITS || one->where == MUSTER_WHERE_CALLS;
    bool newer = isnan(one->since_s) || (!isnan(since_s) && since_s < one->since_s);
    if (one->comm && (waited > waits || (waited == waits && !newer)))
        return;
    one->comm = comm->id;
    one->where = where;
    one->since_s = since_s;
    one->call[0] = one->in[0] = one->waits[0] = '\0';
    one->unseen = 0;
    const struct muster_hang_pair *pair = newest_pair(member);
    if (pair) {
        name_pair(comm, pair, one->call, sizeof one->call);
        name_silent_peers(comm, member, one);
        return;
    }
    if (member->calls) {
        name_call(member, member->calls - 1, one->call, sizeof one->call);
        name_missing(comm, member, one);
    }
    /* Nobody is past what a rank has not called, and all before it has ended. */
    if (waits && progress.done == progress.least && progress.least + 1 < member->calls)
        name_call(member, progress.least, one->in, sizeof one->in);
}

static struct muster_whereabout *row_of(struct muster_whereabouts *all,
                                        const struct muster_hang_member *member)
{
    for (size_t i = 0; i < all->n; i++) {
        struct muster_whereabout *one = &all->rank[i];
        if (one->pid == member->pid && one->rank == member->rank &&
            strcmp(one->host, member->host) == 0) {
            return one;
        }
    }
    if (!muster_grow(&all->rank, all->n, sizeof *all->rank))
        return NULL;
    all->rank[all->n] = (struct muster_whereabout){.rank = member->rank,
                                                   .pid = member->pid,
                                                   .host = member->host,
                                                   .gpu = member->gpu,
                                                   .state = member->state,
                                                   .since_s = NAN};
    return &all->rank[all->n++];
}

static int by_rank(const void *left, const void *right)
{
    const struct muster_whereabout *a = left, *b = right;
    bool a_gone = a->where == MUSTER_WHERE_GONE, b_gone = b->where == MUSTER_WHERE_GONE;
    if (a_gone != b_gone)
        return a_gone - b_gone;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

int muster_whereabouts_of(const struct muster_view *view, struct muster_whereabouts *all,
                          struct muster_err *err)
{
    struct muster_arena arena = {0};
    struct muster_hang_state state;
    *all = (struct muster_whereabouts){0};
    muster_hang_state_of(view, &arena, &state);
    bool whole = !arena.failed;
    for (size_t c = 0; c < state.comms && whole; c++) {
        for (uint32_t i = 0; i < state.comm[c].members && whole; i++) {
            struct muster_whereabout *one = row_of(all, &state.comm[c].member[i]);
            whole = one != NULL;
            if (one && !state.comm[c].member[i].over)
                take(&state.comm[c], &state.comm[c].member[i], one);
        }
    }
    muster_arena_free(&arena);
    for (size_t i = 0; i < all->n; i++) {
        struct muster_whereabout *one = &all->rank[i];
        one->where = one->state != MUSTER_PROCESS_RUNNING ? MUSTER_WHERE_GONE
                     : one->comm                          ? one->where
                                                          : MUSTER_WHERE_NOT_YET;
    }
    if (all->n)
        qsort(all->rank, all->n, sizeof *all->rank, by_rank);
    return whole ? 0 : muster_fail_memory(err, "where the ranks are");
}

void muster_whereabouts_free(struct muster_whereabouts *all)
{
    free(all->rank);
    *all = (struct muster_whereabouts){0};
}

const char *muster_whereabout_in(const struct muster_whereabout *one)
{
    return one->in[0] ? one->in : one->call;
}

void muster_whereabout_for(const struct muster_whereabout *one, char *to, size_t size)
{
    bool several = strpbrk(one->waits, ", ") != NULL;
    char unseen[48] = "";
    if (one->unseen)
        snprintf(unseen, sizeof unseen, "%sone of %" PRIu32 "%s not seen",
                 one->waits[0] ? " or " : "", one->unseen, one->waits[0] ? "" : " ranks");
    snprintf(to, size, "%s%s%s",
             !one->waits[0] ? ""
             : several      ? "ranks "
                            : "rank ",
             one->waits, unseen);
}

void muster_whereabout_text(const struct muster_whereabout *one, char *to, size_t size)
{
    char waits[160];
    muster_whereabout_for(one, waits, sizeof waits);
    const char *comma = waits[0] ? ", waiting for " : "";
    switch (one->where) {
    case MUSTER_WHERE_WAITS:
        snprintf(to, size, "in %s for %.1f s%s%s", one->in[0] ? one->in : "it", one->since_s, comma,
                 waits);
        return;
    case MUSTER_WHERE_CALLS:
        snprintf(to, size, "in the call for %.1f s%s%s", one->since_s, comma, waits);
        return;
    case MUSTER_WHERE_OUTSIDE:
        snprintf(to, size, "outside NCCL, called it %.1f s ago", one->since_s);
        return;
    case MUSTER_WHERE_CALLED:
        snprintf(to, size, "called it %.1f s ago%s%s", one->since_s, comma, waits);
        return;
    case MUSTER_WHERE_NOT_YET:
        snprintf(to, size, "has called nothing");
        return;
    case MUSTER_WHERE_GONE:
        break;
    }
    snprintf(to, size, "%s",
             one->state == MUSTER_PROCESS_KILLED ? "gone (killed or crashed)" : "ended");
}

enum { WHO = 160, STATE = 160, HOST = 12, CALL = 26 };

static void put_who(const struct muster_whereabout *one, int host, char *to, size_t size)
{
    snprintf(to, size, "  %4" PRId32 " %8" PRIu32 "  %-*.*s ", one->rank, one->pid, host, HOST,
             one->host);
}

static const char *call_of(const struct muster_whereabout *one)
{
    return one->call[0] ? one->call : "-";
}

/* Of the table with its column of last calls: the longest line. */
static size_t cells_of(const struct muster_whereabouts *all, size_t shown)
{
    size_t most = 0;
    for (size_t i = 0; i < shown; i++) {
        char state[STATE], who[WHO], line[512];
        muster_whereabout_text(&all->rank[i], state, sizeof state);
        put_who(&all->rank[i], HOST, who, sizeof who);
        snprintf(line, sizeof line, "%s%-*s %s", who, CALL, call_of(&all->rank[i]), state);
        size_t cells = muster_terminal_cells(line);
        most = cells > most ? cells : most;
    }
    return most;
}

/* Without the column of last calls: a state that speaks of "it" has the call before it. */
static void print_narrow(const struct muster_whereabouts *all, size_t shown, unsigned width,
                         FILE *out)
{
    int host = 4;
    for (size_t i = 0; i < shown; i++) {
        int cells = (int)strnlen(all->rank[i].host, HOST);
        host = cells > host ? cells : host;
    }
    fprintf(out, "  rank      pid  %-*s state\n", host, "host");
    for (size_t i = 0; i < shown; i++) {
        const struct muster_whereabout *one = &all->rank[i];
        char state[STATE], who[WHO], rest[WHO], line[512];
        bool bare = one->in[0] || !one->call[0];
        muster_whereabout_text(one, state, sizeof state);
        put_who(one, host, who, sizeof who);
        snprintf(rest, sizeof rest, "%*s", (int)muster_terminal_cells(who) + 2, "");
        snprintf(line, sizeof line, "%s%s%s", bare ? "" : one->call, bare ? "" : ": ", state);
        muster_terminal_wrap(out, width, who, rest, line);
    }
}

void muster_whereabouts_print(const struct muster_whereabouts *all, size_t top,
                              const struct muster_terminal *terminal, FILE *out)
{
    size_t shown = top && top < all->n ? top : all->n;
    fprintf(out, "where everybody is");
    fprintf(out, shown < all->n ? " (%zu of %zu ranks)\n" : "\n", shown, all->n);
    if (terminal->fit && cells_of(all, shown) > terminal->width) {
        print_narrow(all, shown, terminal->width, out);
        return;
    }
    fprintf(out, "  rank      pid  %-*s %-*s state\n", HOST, "host", CALL, "last call");
    for (size_t i = 0; i < shown; i++) {
        char state[STATE], who[WHO];
        muster_whereabout_text(&all->rank[i], state, sizeof state);
        put_who(&all->rank[i], HOST, who, sizeof who);
        fprintf(out, "%s%-*s %s\n", who, CALL, call_of(&all->rank[i]), state);
    }
}

void muster_whereabouts_json(const struct muster_whereabouts *all, const char *job,
                             struct muster_json *json)
{
    static const char *const words[] = {"waits", "in_call", "outside", "called", "not_yet", "gone"};
    for (size_t i = 0; i < all->n; i++) {
        const struct muster_whereabout *one = &all->rank[i];
        char id[17];
        snprintf(id, sizeof id, "%016" PRIx64, one->comm);
        muster_json_object(json, NULL);
        muster_json_i64(json, "rank", one->rank);
        muster_json_u64(json, "pid", one->pid);
        muster_json_str(json, "host", one->host);
        muster_json_str(json, "where", words[one->where]);
        muster_json_str(json, "comm", one->comm ? id : NULL);
        muster_json_str(json, "call", one->call[0] ? one->call : NULL);
        muster_json_real(json, "since_s", one->since_s, 3);
        muster_json_str(json, "waits_for", one->waits[0] ? one->waits : NULL);
        muster_json_u64(json, "not_seen", one->unseen);
        if (job)
            muster_json_str(json, "job", job);
        muster_json_end(json);
    }
}
