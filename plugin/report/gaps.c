/* What could not be seen and why, in sentences. Each names how much, of whom, and what to do. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sort.h"
#include "base/text.h"
#include "report/report_internal.h"

enum { LIST_MAX = 12 }; /* ranks or communicators named in one sentence */

struct ranks {
    int64_t *rank;
    size_t n;
    char text[256]; /* "rank 3" or "ranks 0-3, 7 and 12 more" */
};

struct gaps {
    struct muster_report *report;
    struct muster_arena *memory; /* of what is needed on the way */
    struct ranks ranks;          /* of the sentence under way; room for all that are seen */
};

__attribute__((format(printf, 2, 0))) static void add_gap(struct muster_report *report,
                                                          const char *fmt, va_list args)
{
    const char **gap = muster_arena_add(&report->memory, &report->gap, &report->gaps, sizeof *gap);
    *gap = muster_arena_vformat(&report->memory, fmt, args);
}

__attribute__((format(printf, 2, 3))) static void put(struct gaps *gaps, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_gap(gaps->report, fmt, args);
    va_end(args);
}

/* Sorts them and words the list; -1 stands for a rank that is not known. */
static void describe_ranks(struct ranks *ranks)
{
    struct muster_text text = muster_text_begin(ranks->text, sizeof ranks->text);
    size_t n = 0;
    muster_sort_i64(ranks->rank, ranks->n);
    for (size_t i = 0; i < ranks->n; i++)
        if (n == 0 || ranks->rank[i] != ranks->rank[n - 1])
            ranks->rank[n++] = ranks->rank[i];
    muster_text_add(&text, n == 1 ? "rank " : "ranks ");
    for (size_t i = 0, last, items = 0; i < n; i = last + 1, items++) {
        for (last = i; last + 1 < n && ranks->rank[last + 1] == ranks->rank[last] + 1; last++) {
        }
        const char *join = i ? ", " : "";
        if (items == LIST_MAX) {
            muster_text_add(&text, " and %zu more", n - i);
            return;
        }
        if (ranks->rank[i] < 0) {
            muster_text_add(&text, "%snot known", join);
            last = i;
        } else if (last == i) {
            muster_text_add(&text, "%s%" PRId64, join, ranks->rank[i]);
        } else {
            muster_text_add(&text, "%s%" PRId64 "-%" PRId64, join, ranks->rank[i],
                            ranks->rank[last]);
        }
    }
}

/* One sentence for all ranks that `of` gives a number: "<sum> <sentence> (<ranks>)". */
static void report_sum(struct gaps *gaps,
                       uint64_t (*of)(const struct muster_report_rank *, unsigned), unsigned arg,
                       const char *sentence)
{
    const struct muster_report *report = gaps->report;
    struct ranks *ranks = &gaps->ranks;
    uint64_t sum = 0;
    ranks->n = 0;
    for (size_t i = 0; i < report->ranks; i++) {
        uint64_t n = of(&report->rank[i], arg);
        if (n) {
            ranks->rank[ranks->n++] = report->rank[i].rank;
            sum += n;
        }
    }
    if (sum) {
        describe_ranks(ranks);
        put(gaps, "%" PRIu64 " %s (%s)", sum, sentence, ranks->text);
    }
}

/* The text that `of` gives row i, and whose it is; NULL: none, or an earlier row's. */
static const char *next_text(struct gaps *gaps,
                             const char *(*of)(const struct muster_report_rank *), size_t i)
{
    const struct muster_report *report = gaps->report;
    struct ranks *ranks = &gaps->ranks;
    const char *text = of(&report->rank[i]);
    for (size_t j = 0; j < i && text; j++) {
        const char *earlier = of(&report->rank[j]);
        if (earlier && strcmp(earlier, text) == 0)
            return NULL;
    }
    ranks->n = 0;
    for (size_t j = i; j < report->ranks && text; j++) {
        const char *same = of(&report->rank[j]);
        if (same && strcmp(same, text) == 0)
            ranks->rank[ranks->n++] = report->rank[j].rank;
    }
    if (text)
        describe_ranks(ranks);
    return text;
}

/* One sentence for each distinct text that `of` gives: "<ranks>: <text>". */
static void report_each(struct gaps *gaps, const char *(*of)(const struct muster_report_rank *))
{
    for (size_t i = 0; i < gaps->report->ranks; i++) {
        const char *text = next_text(gaps, of, i);
        if (text)
            put(gaps, "%s: %s", gaps->ranks.text, text);
    }
}

static const char *recorded_by(const struct muster_report_rank *rank)
{
    return rank->recorded_by;
}

/* Nodes with different installations. */
static void report_builds(struct gaps *gaps)
{
    size_t builds = 0;
    for (size_t i = 0; i < gaps->report->ranks; i++)
        builds += next_text(gaps, recorded_by, i) != NULL;
    for (size_t i = 0; i < gaps->report->ranks && builds > 1; i++) {
        const char *text = next_text(gaps, recorded_by, i);
        if (text)
            put(gaps, "%s: recorded by muster %s, others by another", gaps->ranks.text, text);
    }
}

static const char *why_no_times(const struct muster_report_rank *rank)
{
    const struct muster_seg_identity *who = &rank->process->identity;
    if (!rank->ops || strcmp(rank->source, muster_source_name(MUSTER_SOURCE_GPU)) == 0 ||
        strcmp(rank->source, muster_source_name(MUSTER_SOURCE_EVENT)) == 0) {
        return NULL;
    }
    if (who->timing == MUSTER_TIMING_LIGHT)
        return "no GPU times: MUSTER_TIMING is light";
    if (!who->armed)
        return who->why_not_armed[0] ? who->why_not_armed : "no GPU times: not possible here";
    return "no GPU times: no launch was seen to its end";
}

static const char *why_replay(const struct muster_report_rank *rank)
{
    if (!rank->replay)
        return NULL;
    if (strcmp(rank->replay, "max") == 0)
        return "replayed from a recording at full speed: host times mean nothing";
    return strcmp(rank->replay, "1") == 0
               ? "replayed from a recording at its own pace: host times are the recorded job's"
               : "replayed from a recording faster than it was: host times do not fit the GPUs'";
}

static const char *why_not_steered(const struct muster_report_rank *rank)
{
    const struct muster_process *process = rank->process;
    const struct muster_seg_policy *policy = &process->segment->policy;
    if (!atomic_load_explicit(&policy->configured, memory_order_relaxed))
        return NULL;
    if (!policy->tuner_api) {
        return "a policy was given and NCCL loaded no tuner: it steered nothing (NCCL_TUNER_PLUGIN "
               "not set there, or the library not found)";
    }
    switch (atomic_load_explicit(&policy->state, memory_order_relaxed)) {
    case MUSTER_POLICY_INVALID:
        return "the policy has errors and steered nothing: the job's standard error lists them";
    case MUSTER_POLICY_REFUSED:
        return "the policy has another hash than MUSTER_POLICY_SHA256 and steered nothing";
    default:
        return NULL;
    }
}

static uint64_t captured(const struct muster_report_rank *rank, unsigned replays_seen)
{
    return (rank->graph_ops != 0) == (replays_seen != 0) ? rank->captured : 0;
}

static uint64_t api_only(const struct muster_report_rank *rank, unsigned unused)
{
    (void)unused;
    return rank->api_only;
}

static uint64_t dropped(const struct muster_report_rank *rank, unsigned reason)
{
    return rank->drops[reason];
}

static uint64_t lost_log(const struct muster_report_rank *rank, unsigned unused)
{
    (void)unused;
    return rank->lost_log;
}

static uint64_t ops_missing(const struct muster_report_rank *rank, unsigned unused)
{
    (void)unused;
    return rank->first_of_process ? rank->process->ops_missing : 0;
}

static uint64_t merged(const struct muster_report_rank *rank, unsigned unused)
{
    (void)unused;
    return rank->first_of_process ? rank->process->segment->comm[MUSTER_SEG_COMMS].folded : 0;
}

/* A communicator that has called no collective has its sends numbered. */
static void report_level(struct gaps *gaps, int64_t rank, const struct muster_seg_comm *comm)
{
    uint64_t timing = comm->timing;
    unsigned level = muster_seg_timing_level(timing);
    uint32_t since = muster_seg_timing_since(timing);
    const char *what = comm->calls ? "operation" : "group of sends";
    if (level) {
        put(gaps,
            "rank %" PRId64 ", communicator %016" PRIx64 ": 1 in %llu blocks timed since "
            "%s %" PRIu32 ": %" PRIu32 " operations a second in the process",
            rank, comm->id, 1ull << level, what, since, muster_seg_timing_rate(timing));
    } else {
        put(gaps,
            "rank %" PRId64 ", communicator %016" PRIx64 ": every block timed only since "
            "%s %" PRIu32 ": before, the process had too many operations a second",
            rank, comm->id, what, since);
    }
}

/* What `auto` timed in the end, and why not the rest. */
static void report_levels(struct gaps *gaps, const struct muster_build *build)
{
    for (uint32_t p = 0; p < build->run->processes; p++) {
        const struct muster_segment *segment = build->run->process[p].segment;
        for (unsigned c = 0; c < MUSTER_SEG_COMMS; c++) {
            const struct muster_seg_comm *comm = &segment->comm[c];
            if (!comm->uid || !comm->timing || muster_seg_timing_level(comm->timing) > 63)
                continue;
            uint32_t entry = muster_build_place(build, p, comm->uid).entry;
            report_level(gaps, build->report->rank[entry].rank, comm);
        }
    }
}

static void report_drops(struct gaps *gaps)
{
    static const char *const sentence[MUSTER_DROPS] = {
        [MUSTER_DROP_NO_SLOT] =
            "operations not recorded: too many were in flight at once (no_slot)",
        [MUSTER_DROP_NO_COMM] =
            "events not recorded: more communicators at once than muster follows (no_comm)",
        [MUSTER_DROP_STALE] = "events left out: they named one long over (stale_handle)",
        [MUSTER_DROP_FOREIGN] =
            "events left out: another process's, as NCCL's PXN sends them (foreign_handle)",
        [MUSTER_DROP_TIME_ORDER] = "GPU times refused: stop at or before start (time_order)",
        [MUSTER_DROP_TIME_LONG] =
            "GPU times refused: longer than the host time since the call (time_too_long)",
        [MUSTER_DROP_TIME_BACK] =
            "GPU times refused: stop before the channel's previous stop (time_backwards)",
        [MUSTER_DROP_CHANNEL] = "events left out: channel number out of range (channel)",
        [MUSTER_DROP_NO_PROXY_SLOT] =
            "network operations not recorded: too many were in flight at once (no_proxy_slot)",
        [MUSTER_DROP_INCOMPLETE] =
            "operations without times: not all their channels were reported (incomplete)",
        [MUSTER_DROP_NO_EVENT] = "launches not timed: too many were in flight at once (no_event)",
        [MUSTER_DROP_TIME_RING] =
            "GPU times refused: of channels that told another operation's before (time_ring)",
    };
    for (unsigned d = 0; d < MUSTER_DROPS; d++)
        report_sum(gaps, dropped, d, sentence[d]);
}

static void report_ranks_missing(struct gaps *gaps)
{
    const struct muster_report *report = gaps->report;
    int64_t world = 0;
    for (size_t i = 0; i < report->ranks; i++) {
        int64_t own = report->rank[i].process->identity.world;
        world = own > world ? own : world;
    }
    if (world <= (int64_t)report->ranks || world > 1 << 24)
        return;
    struct muster_arena memory = {0};
    bool *seen = muster_arena_array(&memory, (size_t)world, sizeof *seen);
    struct ranks ranks = {.rank = NULL};
    for (size_t i = 0; seen && i < report->ranks; i++)
        if (report->rank[i].rank >= 0 && report->rank[i].rank < world)
            seen[report->rank[i].rank] = true;
    for (int64_t i = 0; seen && i < world; i++) {
        if (!seen[i]) {
            int64_t *missing = muster_arena_add(&memory, &ranks.rank, &ranks.n, sizeof *missing);
            *missing = i;
        }
    }
    if (ranks.n) {
        describe_ranks(&ranks);
        put(gaps, "not observed of the job's %" PRId64 ": %s", world, ranks.text);
    }
    muster_arena_end(&memory, gaps->memory);
}

/* "communicators 1a2b (dp), 3c4d and 5 more" of those that `is`; the number is returned. */
static size_t list_comms(const struct muster_report *report, char *to, size_t size,
                         bool (*is)(const struct muster_report_comm *))
{
    struct muster_text text = muster_text_begin(to, size);
    size_t n = 0;
    for (size_t i = 1; i < report->comms; i++) {
        const struct muster_report_comm *comm = &report->comm[i];
        if (!is(comm))
            continue;
        if (n++ < LIST_MAX / 3)
            muster_text_add(&text, "%s%016" PRIx64 "%s%s%s", text.used ? ", " : "", comm->id,
                            comm->name ? " (" : "", comm->name ? comm->name : "",
                            comm->name ? ")" : "");
    }
    if (n > LIST_MAX / 3)
        muster_text_add(&text, " and %zu more", n - LIST_MAX / 3);
    return n;
}

static bool partly_seen(const struct muster_report_comm *comm)
{
    return comm->id && comm->ops && comm->nranks > comm->seen;
}

static bool recorded_twice(const struct muster_report_comm *comm)
{
    return comm->duplicate_rank;
}

static bool silent_single(const struct muster_report_comm *comm)
{
    return comm->nranks == 1 && !comm->ops;
}

static bool unused(const struct muster_report_comm *comm)
{
    return comm->nranks != 1 && !comm->ops;
}

static bool used(const struct muster_report_comm *comm)
{
    return comm->ops != 0;
}

static bool size_unknown(const struct muster_report_comm *comm)
{
    return comm->ops && !comm->nranks;
}

static void report_comms(struct gaps *gaps)
{
    const struct muster_report *report = gaps->report;
    char list[512];
    if (list_comms(report, list, sizeof list, partly_seen)) {
        put(gaps,
            "not all ranks of %s were observed: no transfer and wait times there, and lateness is "
            "relative to the ranks seen",
            list);
    }
    if (list_comms(report, list, sizeof list, recorded_twice))
        put(gaps, "a rank of %s was recorded twice: its ranks are not compared", list);
    size_t n = list_comms(report, list, sizeof list, silent_single);
    if (n) {
        put(gaps,
            "%zu communicator%s of a single rank: NCCL launches and shows nothing for operations "
            "there",
            n, n > 1 ? "s" : "");
    }
    if (!list_comms(report, list, sizeof list, used) &&
        list_comms(report, list, sizeof list, unused)) {
        put(gaps,
            "no operation ran in %s: what a framework does in kernels of its own (XLA up to 4 MiB "
            "inside a host) or in CUDA graphs may never reach NCCL's interface",
            list);
    }
    if (list_comms(report, list, sizeof list, size_unknown))
        put(gaps, "the number of ranks of %s is not known: NCCL before 2.27 does not tell", list);
}

static void report_recording(struct gaps *gaps, const struct muster_build *build)
{
    report_sum(gaps, captured, 0,
               "calls were recorded into CUDA graphs and no replay of them was seen: NCCL shows "
               "replays only with MUSTER_TIMING=channels or over a network");
    report_sum(gaps, captured, 1,
               "calls were recorded into CUDA graphs; graph replays count where NCCL showed them");
    report_levels(gaps, build);
    report_sum(
        gaps, api_only, 0,
        "operations were seen only as calls: NCCL shows no launch for symmetric, copy-engine "
        "or AllGatherV kernels");
    report_drops(gaps);
    report_sum(gaps, lost_log, 0,
               "operations did not fit the log's queue: totals include them, the single operations "
               "are not known");
    report_sum(
        gaps, ops_missing, 0,
        "operations are in the totals but not known one by one any more: percentiles over them "
        "are within 6 %, and they are not compared between ranks");
    report_sum(gaps, merged, 0,
               "communicators had no entry of their own and are counted together as \"other\"");
}

void muster_build_gaps(struct muster_build *build)
{
    struct gaps gaps = {.report = build->report, .memory = &build->memory};
    const struct muster_run *run = build->run;
    gaps.ranks.rank =
        muster_arena_array(gaps.memory, build->report->ranks + 1, sizeof *gaps.ranks.rank);
    if (!gaps.ranks.rank)
        return;
    report_each(&gaps, why_replay);
    report_builds(&gaps);
    report_ranks_missing(&gaps);
    report_each(&gaps, why_no_times);
    report_each(&gaps, why_not_steered);
    report_comms(&gaps);
    report_recording(&gaps, build);
    if (build->report->mismatched) {
        put(&gaps,
            "%" PRIu64 " timed operations are not compared: at the same place ranks called "
            "different ones",
            build->report->mismatched);
    }
    if (build->unattributed) {
        put(&gaps, "%" PRIu64 " operations belong to communicators that nothing describes",
            build->unattributed);
    }
    if (build->view->left_out) {
        put(&gaps,
            "one stretch of time in %" PRIu64 " is compared, the same of all ranks: %" PRIu64
            " operations are more than memory is meant for; counts and bytes are of all",
            build->view->every, build->view->left_out + build->view->ops);
    }
    for (size_t i = 0; i < run->notes; i++)
        put(&gaps, "%s", run->note[i]);
}

void muster_report_add_gap(struct muster_report *report, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_gap(report, fmt, args);
    va_end(args);
}
