/* What could not be seen and why, in sentences. Each says how much, of whom, and what to do. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "export/build.h"

enum { LIST_MAX = 12 }; /* ranks or communicators named in one sentence */

struct gaps {
    struct muster_report *report;
    const struct muster_build *build;
    size_t room;
    bool failed;
};

static void add_gap(struct gaps *gaps, char *text)
{
    struct muster_report *report = gaps->report;
    if (report->gaps == gaps->room) {
        size_t room = gaps->room ? 2 * gaps->room : 16;
        char **gap = reallocarray(report->gap, room, sizeof *gap);
        if (!gap) {
            gaps->failed = true;
            free(text);
            return;
        }
        report->gap = gap;
        gaps->room = room;
    }
    report->gap[report->gaps++] = text;
}

__attribute__((format(printf, 2, 3))) static void say(struct gaps *gaps, const char *fmt, ...)
{
    va_list args;
    char *text;
    va_start(args, fmt);
    int made = vasprintf(&text, fmt, args);
    va_end(args);
    if (made < 0) {
        gaps->failed = true;
    } else {
        add_gap(gaps, text);
    }
}

struct ranks {
    int64_t *rank;
    size_t n;
    char text[256]; /* "rank 3" or "ranks 0-3, 7 and 12 more" */
};

/* Sorts them and words the list; -1 stands for a rank that is not known. */
static void word_ranks(struct ranks *ranks)
{
    size_t n = 0;
    size_t used;
    muster_sort_i64(ranks->rank, ranks->n);
    for (size_t i = 0; i < ranks->n; i++) {
        if (n == 0 || ranks->rank[i] != ranks->rank[n - 1]) {
            ranks->rank[n++] = ranks->rank[i];
        }
    }
    used = (size_t)snprintf(ranks->text, sizeof ranks->text, n == 1 ? "rank " : "ranks ");
    for (size_t i = 0, last, items = 0; i < n; i = last + 1, items++) {
        for (last = i; last + 1 < n && ranks->rank[last + 1] == ranks->rank[last] + 1; last++) {
        }
        size_t left = sizeof ranks->text - used;
        const char *join = i ? ", " : "";
        int more;
        if (items == LIST_MAX) {
            snprintf(ranks->text + used, left, " and %zu more", n - i);
            return;
        }
        if (ranks->rank[i] < 0) {
            more = snprintf(ranks->text + used, left, "%snot known", join);
            last = i;
        } else if (last == i) {
            more = snprintf(ranks->text + used, left, "%s%" PRId64, join, ranks->rank[i]);
        } else {
            more = snprintf(ranks->text + used, left, "%s%" PRId64 "-%" PRId64, join,
                            ranks->rank[i], ranks->rank[last]);
        }
        used += (size_t)more < left ? (size_t)more : left - 1;
    }
}

/* One sentence for all ranks that `of` gives a number: "<sum> <sentence> (<ranks>)". */
static void say_sum(struct gaps *gaps, uint64_t (*of)(const struct muster_report_rank *, unsigned),
                    unsigned arg, const char *sentence)
{
    const struct muster_report *report = gaps->report;
    struct ranks ranks = {.rank = malloc((report->ranks + 1) * sizeof *ranks.rank)};
    uint64_t sum = 0;
    if (!ranks.rank) {
        gaps->failed = true;
        return;
    }
    for (size_t i = 0; i < report->ranks; i++) {
        uint64_t n = of(&report->rank[i], arg);
        if (n) {
            ranks.rank[ranks.n++] = report->rank[i].rank;
            sum += n;
        }
    }
    if (sum) {
        word_ranks(&ranks);
        say(gaps, "%" PRIu64 " %s (%s)", sum, sentence, ranks.text);
    }
    free(ranks.rank);
}

/* One sentence for each distinct text that `of` gives: "<ranks>: <text>". */
static void say_each(struct gaps *gaps, const char *(*of)(const struct muster_report_rank *))
{
    const struct muster_report *report = gaps->report;
    struct ranks ranks = {.rank = malloc((report->ranks + 1) * sizeof *ranks.rank)};
    if (!ranks.rank) {
        gaps->failed = true;
        return;
    }
    for (size_t i = 0; i < report->ranks; i++) {
        const char *text = of(&report->rank[i]);
        bool said = !text;
        for (size_t j = 0; j < i && !said; j++) {
            const char *earlier = of(&report->rank[j]);
            said = earlier && strcmp(earlier, text) == 0;
        }
        ranks.n = 0;
        for (size_t j = i; j < report->ranks && !said; j++) {
            const char *same = of(&report->rank[j]);
            if (same && strcmp(same, text) == 0) {
                ranks.rank[ranks.n++] = report->rank[j].rank;
            }
        }
        if (!said) {
            word_ranks(&ranks);
            say(gaps, "%s: %s", ranks.text, text);
        }
    }
    free(ranks.rank);
}

static const char *why_no_times(const struct muster_report_rank *rank)
{
    const struct muster_seg_identity *who = &rank->process->identity;
    if (!rank->ops || strcmp(rank->source, muster_source_word(MUSTER_SOURCE_GPU)) == 0) {
        return NULL;
    }
    if (who->timing == MUSTER_TIMING_LIGHT) {
        return "no GPU times: MUSTER_TIMING is light";
    }
    if (!who->armed) {
        return who->why_not_armed[0] ? who->why_not_armed : "no GPU times: not possible here";
    }
    if (who->timing == MUSTER_TIMING_AUTO) {
        return "no GPU times: MUSTER_TIMING is auto, which times blocks of operations, and none "
               "was reported; full times all, and slows small operations by about 30 %";
    }
    return "no GPU times: NCCL reported none";
}

static const char *why_replay(const struct muster_report_rank *rank)
{
    if (!rank->replay) {
        return NULL;
    }
    return strcmp(rank->replay, "max") == 0
               ? "replayed from a recording at full speed: host times mean nothing"
               : "replayed from a recording: host times are the replay's";
}

static const char *why_not_steered(const struct muster_report_rank *rank)
{
    const struct muster_process *process = rank->process;
    const struct muster_seg_policy *policy = process->segment ? &process->segment->policy : NULL;
    if (!policy || !process->policy_known ||
        !atomic_load_explicit(&policy->configured, memory_order_relaxed)) {
        return NULL;
    }
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

/* Without a network NCCL shows only replays of kernels that were timed when they were captured. */
static uint64_t captured_in_block(const struct muster_report_rank *rank, unsigned unused)
{
    const struct muster_segment *segment = rank->process->segment;
    (void)unused;
    if (rank->process->identity.timing != MUSTER_TIMING_AUTO || !segment) {
        return 0;
    }
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++) {
        if (segment->net[i].comm) {
            return 0;
        }
    }
    return rank->graph_ops;
}

static uint64_t late_armings(const struct muster_report_rank *rank, unsigned unused)
{
    (void)unused;
    return rank->late_armings;
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

static uint64_t folded(const struct muster_report_rank *rank, unsigned unused)
{
    const struct muster_segment *segment = rank->process->segment;
    (void)unused;
    return rank->first_of_process && segment ? segment->comm[MUSTER_SEG_COMMS].folded : 0;
}

static void say_drops(struct gaps *gaps)
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
    };
    for (unsigned d = 0; d < MUSTER_DROPS; d++) {
        say_sum(gaps, dropped, d, sentence[d]);
    }
}

static void say_ranks_missing(struct gaps *gaps)
{
    const struct muster_report *report = gaps->report;
    int64_t world = 0;
    for (size_t i = 0; i < report->ranks; i++) {
        int64_t own = report->rank[i].process->identity.world;
        world = own > world ? own : world;
    }
    if (world <= (int64_t)report->ranks || world > 1 << 24) {
        return;
    }
    bool *seen = calloc((size_t)world, sizeof *seen);
    struct ranks ranks = {.rank = malloc((size_t)world * sizeof *ranks.rank)};
    if (!seen || !ranks.rank) {
        gaps->failed = true;
        goto out;
    }
    for (size_t i = 0; i < report->ranks; i++) {
        if (report->rank[i].rank >= 0 && report->rank[i].rank < world) {
            seen[report->rank[i].rank] = true;
        }
    }
    for (int64_t i = 0; i < world; i++) {
        if (!seen[i]) {
            ranks.rank[ranks.n++] = i;
        }
    }
    if (ranks.n) {
        word_ranks(&ranks);
        say(gaps, "not observed of the job's %" PRId64 ": %s", world, ranks.text);
    }
out:
    free(seen);
    free(ranks.rank);
}

/* "communicators 1a2b (dp), 3c4d and 5 more" of those that `is`; the number is returned. */
static size_t list_comms(const struct muster_report *report, char *text, size_t size,
                         bool (*is)(const struct muster_report_comm *))
{
    size_t n = 0;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 1; i < report->comms; i++) {
        const struct muster_report_comm *comm = &report->comm[i];
        if (!is(comm)) {
            continue;
        }
        if (n++ < LIST_MAX / 3) {
            int more = snprintf(text + used, size - used, "%s%016" PRIx64 "%s%s%s",
                                used ? ", " : "", comm->id, comm->name ? " (" : "",
                                comm->name ? comm->name : "", comm->name ? ")" : "");
            used += (size_t)more < size - used ? (size_t)more : size - used - 1;
        }
    }
    if (n > LIST_MAX / 3) {
        snprintf(text + used, size - used, " and %zu more", n - LIST_MAX / 3);
    }
    return n;
}

static bool partly_seen(const struct muster_report_comm *comm)
{
    return comm->id && comm->ops && comm->nranks > comm->seen;
}

static bool recorded_twice(const struct muster_report_comm *comm)
{
    return comm->twice;
}

static bool silent_single(const struct muster_report_comm *comm)
{
    return comm->nranks == 1 && !comm->ops;
}

static bool size_unknown(const struct muster_report_comm *comm)
{
    return comm->ops && !comm->nranks;
}

static void say_comms(struct gaps *gaps)
{
    const struct muster_report *report = gaps->report;
    char list[512];
    if (list_comms(report, list, sizeof list, partly_seen)) {
        say(gaps,
            "not all ranks of %s were observed: no transfer and wait times there, and lateness is "
            "relative to the ranks seen",
            list);
    }
    if (list_comms(report, list, sizeof list, recorded_twice)) {
        say(gaps, "a rank of %s was recorded twice: its ranks are not compared", list);
    }
    size_t n = list_comms(report, list, sizeof list, silent_single);
    if (n) {
        say(gaps,
            "%zu communicator%s of a single rank: NCCL launches and shows nothing for operations "
            "there",
            n, n > 1 ? "s" : "");
    }
    if (list_comms(report, list, sizeof list, size_unknown)) {
        say(gaps, "the number of ranks of %s is not known: NCCL before 2.27 does not tell", list);
    }
}

static void say_recording(struct gaps *gaps)
{
    say_sum(gaps, captured, 0,
            "calls were recorded into CUDA graphs and no replay of them was seen: NCCL shows "
            "replays only with MUSTER_TIMING=full or over a network");
    say_sum(gaps, captured, 1,
            "calls were recorded into CUDA graphs; graph replays count where NCCL showed them");
    say_sum(gaps, captured_in_block, 0,
            "operations of replays were shown because their graphs were captured inside a timed "
            "block: those graphs stay slower; MUSTER_TIMING=light, or a capture after the "
            "communicator's first 64 operations, avoids that");
    say_sum(gaps, late_armings, 0,
            "operations in mid-run were the first of their communicator that NCCL timed, as a rule "
            "beside a block of another one: it stalls the process for some 50 ms then, and what "
            "was called meanwhile is not judged");
    say_sum(gaps, api_only, 0,
            "operations were seen only as calls: NCCL shows no launch for symmetric, copy-engine "
            "or AllGatherV kernels");
    say_drops(gaps);
    say_sum(gaps, lost_log, 0,
            "operations did not fit the log's queue: totals include them, the single operations "
            "are not known");
    say_sum(gaps, ops_missing, 0,
            "operations are in the totals but not known one by one any more: percentiles over them "
            "are within 6 %, and they are not compared between ranks");
    say_sum(gaps, folded, 0,
            "communicators had no entry of their own and are counted together as \"other\"");
}

int muster_build_gaps(struct muster_build *build)
{
    struct gaps gaps = {.report = build->report, .build = build};
    const struct muster_run *run = build->run;
    say_each(&gaps, why_replay);
    say_ranks_missing(&gaps);
    say_each(&gaps, why_no_times);
    say_each(&gaps, why_not_steered);
    say_comms(&gaps);
    say_recording(&gaps);
    if (build->report->mismatched) {
        say(&gaps,
            "%" PRIu64 " timed operations are not compared: at the same place ranks called "
            "different ones",
            build->report->mismatched);
    }
    if (build->strays) {
        say(&gaps, "%" PRIu64 " operations belong to communicators that nothing describes",
            build->strays);
    }
    for (size_t i = 0; i < run->notes; i++) {
        say(&gaps, "%s", run->note[i]);
    }
    return gaps.failed ? -1 : 0;
}

int muster_report_add_gap(struct muster_report *report, const char *text)
{
    char *copy = strdup(text);
    char **gap = copy ? reallocarray(report->gap, report->gaps + 1, sizeof *gap) : NULL;
    if (!gap) {
        free(copy);
        return -1;
    }
    report->gap = gap;
    report->gap[report->gaps++] = copy;
    return 0;
}
