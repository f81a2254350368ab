/*
 * What a job's leader would have told of its late ranks: recorded runs second by second through the
 * live diagnosis' windows, beside what is found afterwards. Network totals are known of the whole
 * run only, so slow links between hosts are left out.
 *
 * usage: live_play [--fleet] RUN...    Exit status 1 if what was told live is not what is found
 * afterwards.
 * --fleet: of the operations only those that agents would tell a fleet of, each half second.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "diagnose/diagnose.h"
#include "diagnose/finding_changes.h"
#include "fleet/gather.h"
#include "fleet/thinning.h"
#include "run/op_window.h"

enum {
    OPS_ALL = 32768,
    OPS_MOST = 4096,
    NEW_LEAST = 16
}; /* as in plugin/diagnose/live/live_slow.c */

struct play {
    const struct muster_run *run;
    struct muster_window *window;
    size_t *at;                       /* operations taken, of each process */
    struct muster_thinning *thinning; /* by process; NULL: all operations are told */
    struct muster_process *process;   /* the run as far as it is in the windows */
    uint64_t timed;                   /* when it was evaluated last */
    struct muster_watch watch;
    struct muster_windows windows;
    unsigned looks, halved, second;
};

static void report(void *arg, const struct muster_finding *finding)
{
    const struct play *play = arg;
    char text[600];
    muster_finding_sentence(finding, text, sizeof text);
    printf("  second %u: %s\n", play->second, text);
}

/* What agents leave out is no timed operation. */
static void thin(struct muster_thinning *thinning, const struct muster_process *process,
                 struct muster_op *op, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct muster_log_comm *comm = muster_process_comm(process, op[i].comm);
        if (!muster_source_is_gpu(op[i].source) ||
            (comm && muster_thinning_takes(thinning, muster_sampling_id(comm->nranks), op[i].number,
                                           0))) /* logs do not say of how many */
            continue;
        op[i].source = MUSTER_SOURCE_NONE;
        op[i].begin_ns = op[i].end_ns = 0;
    }
}

/* All that was called until then. Returns the operations timed so far. */
static uint64_t take(struct play *play, uint64_t until_ns)
{
    size_t processes = play->run->processes, most = OPS_ALL / processes;
    uint64_t timed = 0;
    bool halved = false;
    for (size_t i = 0; i < processes; i++) {
        const struct muster_process *whole = &play->run->process[i];
        struct muster_window *window = &play->window[i];
        size_t from = play->at[i];
        while (play->at[i] < whole->ops && whole->op[play->at[i]].enqueue_ns <= until_ns)
            play->at[i]++;
        if (play->thinning) {
            thin(&play->thinning[i], whole, whole->op + from, play->at[i] - from);
            muster_thinning_turn(&play->thinning[i], until_ns, MUSTER_GATHER_BYTES);
        }
        if (!muster_window_take(window, whole->op + from, play->at[i] - from,
                                most < OPS_MOST ? most : OPS_MOST, &halved))
            exit(2);
        play->process[i] = *whole;
        play->process[i].op = window->op;
        play->process[i].ops = window->n;
        timed += window->timed;
    }
    play->halved += halved;
    return timed;
}

static bool is_late(const struct muster_finding *finding)
{
    return finding->kind == MUSTER_FINDING_LATE_RANK;
}

/* `play`: NULL, when the run is over. */
static int diagnose(struct play *play, const struct muster_run *run,
                    struct muster_findings *findings, struct muster_err *err)
{
    struct muster_view view;
    if (muster_view_of_run(run, &view, err) != 0)
        return -1;
    if (play)
        muster_windows_take(&play->windows, play->halved, &view);
    int rc = muster_diagnose_slow(&view, findings, err);
    muster_view_free(&view);
    return rc;
}

static void evaluate(struct play *play)
{
    struct muster_run part = {.process = play->process, .processes = play->run->processes};
    struct muster_findings now = {0};
    size_t kept = 0;
    if (diagnose(play, &part, &now, NULL) != 0)
        exit(2);
    for (size_t i = 0; i < now.n; i++)
        if (is_late(&now.finding[i]))
            now.finding[kept++] = now.finding[i];
    now.n = kept;
    muster_watch_slow(&play->watch, &now, false, report, play);
    muster_findings_free(&now);
    play->looks++;
}

static void span_of(const struct muster_run *run, uint64_t *begin, uint64_t *end)
{
    *begin = UINT64_MAX;
    *end = 0;
    for (size_t i = 0; i < run->processes; i++) {
        for (size_t k = 0; k < run->process[i].ops; k++) {
            uint64_t at = run->process[i].op[k].enqueue_ns;
            *begin = at < *begin ? at : *begin;
            *end = at > *end ? at : *end;
        }
    }
}

static void play_all(struct play *play)
{
    uint64_t begin, end;
    span_of(play->run, &begin, &end);
    uint64_t between = play->thinning ? MUSTER_NS_PER_S / 2 : MUSTER_NS_PER_S;
    for (uint64_t now = begin; now < end + MUSTER_NS_PER_S;) {
        now += between;
        play->second = (unsigned)((now - begin) / MUSTER_NS_PER_S);
        uint64_t timed = take(play, now);
        if (!muster_watch_suspects(&play->watch) &&
            timed - play->timed < NEW_LEAST * play->run->processes)
            continue;
        play->timed = timed;
        evaluate(play);
    }
}

/* Sets of ranks as bits, whatever the communicator. */
static uint64_t late_ranks(const struct muster_findings *findings)
{
    uint64_t set = 0;
    for (size_t i = 0; i < findings->n; i++) {
        const struct muster_finding *finding = &findings->finding[i];
        for (unsigned r = 0; is_late(finding) && r < finding->ranks; r++)
            set |= 1ull << (finding->rank[r] & 63);
    }
    return set;
}

static bool one(const char *name, bool fleet)
{
    struct muster_run_query query = {.run = &name, .runs = 1, .segment_dir = "/nonexistent"};
    struct muster_findings after = {0};
    struct muster_run run;
    struct muster_err err;
    if (muster_run_load(&query, &run, &err) != 0 || diagnose(NULL, &run, &after, &err) != 0) {
        fprintf(stderr, "live_play: %s\n", err.text);
        exit(2);
    }
    struct play play = {.run = &run,
                        .window = calloc(run.processes, sizeof *play.window),
                        .at = calloc(run.processes, sizeof *play.at),
                        .thinning = fleet ? calloc(run.processes, sizeof *play.thinning) : NULL,
                        .process = calloc(run.processes, sizeof *play.process)};
    if (!play.window || !play.at || !play.process || (fleet && !play.thinning))
        exit(2);
    printf("%s\n", name);
    play_all(&play);
    uint64_t live = late_ranks(&play.watch.known), whole = late_ranks(&after);
    printf("  %u seconds, judged %u times: ranks %" PRIx64 " live, %" PRIx64 " afterwards%s\n",
           play.second, play.looks, live, whole, live == whole ? "" : ": DIFFERENT");
    for (size_t i = 0; i < run.processes; i++)
        muster_window_free(&play.window[i]);
    free(play.window);
    free(play.at);
    free(play.process);
    free(play.thinning);
    muster_watch_free(&play.watch);
    muster_findings_free(&after);
    muster_run_free(&run);
    return live == whole;
}

int main(int argc, char **argv)
{
    bool same = true, fleet = argc > 1 && strcmp(argv[1], "--fleet") == 0;
    if (argc < 2 + fleet) {
        fprintf(stderr, "usage: live_play [--fleet] RUN...\n");
        return 2;
    }
    for (int i = 1 + fleet; i < argc; i++)
        same = one(argv[i], fleet) && same;
    return !same;
}
