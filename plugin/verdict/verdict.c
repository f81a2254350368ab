#include "verdict/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/terminal.h"
#include "base/text.h"
#include "run/live_jobs.h"
#include "verdict/verdict_clean.h"
#include "verdict/verdict_middle.h"
#include "verdict/verdict_now.h"
#include "verdict/verdict_writer.h"
#include "view/coverage.h"

const char *muster_verdict_name(enum muster_verdict_state state)
{
    static const char *const names[] = {"held_back", "nobody", "unknown"};
    return names[state];
}

/* ---- somebody ---- */

/* "Host node1 (ranks 8, 9, 10, 11 and 4 more)" */
static void put_host(char *to, size_t size, const struct muster_finding *finding)
{
    char ranks[48];
    muster_verdict_put_ranks(ranks, sizeof ranks, "r", finding->rank, finding->ranks);
    snprintf(to, size, "Host %s (%s)", finding->host, ranks);
}

/* "Rank 2 (node0, GPU 2)" */
static void put_who(char *to, size_t size, const struct muster_finding *finding)
{
    if (finding->kind == MUSTER_FINDING_LATE_HOST) {
        put_host(to, size, finding);
        return;
    }
    muster_verdict_put_ranks(to, size, "R", finding->rank, finding->ranks);
    if (!finding->host[0])
        return;
    struct muster_text text = muster_text_behind(to, size);
    muster_text_add(&text, " (%s", finding->host);
    if (finding->gpu >= 0 && finding->ranks == 1)
        muster_text_add(&text, ", GPU %" PRId32, finding->gpu);
    muster_text_add(&text, ")");
}

/* What the job lost: where not all was timed, of the whole run. */
struct loss {
    double share, s;
    bool sampled;
};

static struct loss loss_of(const struct muster_view *view, const struct muster_finding *finding,
                           struct muster_arena *memory)
{
    const struct muster_view_span *span = muster_view_spans(view, memory);
    double covered_s = 0, run_s = 0;
    for (size_t g = 0; span && g < view->gpus; g++) {
        double covered = (double)span[g].covered_ns / (double)MUSTER_NS_PER_S;
        run_s = covered > covered_s ? (double)span[g].run_ns / (double)MUSTER_NS_PER_S : run_s;
        covered_s = covered > covered_s ? covered : covered_s;
    }
    if (!(finding->cost_share > 0) || covered_s >= 0.9 * run_s)
        return (struct loss){finding->cost_share, finding->cost_s, false};
    double s = finding->cost_run_s > 0 ? finding->cost_run_s : finding->cost_share * run_s;
    return (struct loss){s < run_s ? s / run_s : 1, s, true};
}

static void put_loss(char *to, size_t size, const struct loss *loss)
{
    if (!(loss->share > 0))
        snprintf(to, size, "%.3g s", loss->s);
    else if (loss->sampled)
        snprintf(to, size, "%.2g %% of its time, about %.2g s over the run", 100 * loss->share,
                 loss->s);
    else
        snprintf(to, size, "%.2g %% of its time, %.3g s", 100 * loss->share, loss->s);
}

/* ", before the first of 3 AllReduce of each step, each 10th step (every 5.2 s)" */
static void put_place(char *to, size_t size, const struct muster_finding *finding)
{
    char beat[64] = "";
    if (finding->every_steps) {
        snprintf(beat, sizeof beat, ", each %" PRIu32 "%s step (every %.3g s)",
                 finding->every_steps, muster_text_ordinal(finding->every_steps), finding->every_s);
    }
    snprintf(to, size, "%s%s%s", finding->where[0] ? ", " : "", finding->where, beat);
}

static void put_cause(struct muster_verdict_writer *writer, const struct muster_finding *finding)
{
    char place[192], causes[MUSTER_FINDING_LINE];
    put_place(place, sizeof place, finding);
    muster_finding_causes(finding, causes, sizeof causes);
    switch (finding->cause) {
    case MUSTER_CAUSE_GPU:
        muster_verdict_put(
            writer,
            "Cause: the GPU%s. The calls were queued in time, and the GPU came late to them.",
            place);
        muster_verdict_put(
            writer,
            "Cause: the GPU. The calls were queued in time, and the GPU came late to them.");
        muster_verdict_put(writer, "Cause: the GPU, not the host.");
        break;
    case MUSTER_CAUSE_HOST:
        muster_verdict_put(
            writer, "Cause: the host%s. The process called late, and its GPU had nothing to do.",
            place);
        muster_verdict_put(
            writer, "Cause: the host. The process called late, and its GPU had nothing to do.");
        muster_verdict_put(writer, "Cause: the host, not the GPU.");
        break;
    case MUSTER_CAUSE_UNKNOWN:
        if (causes[0]) {
            muster_verdict_put(writer, "Causes: %s.", causes);
            muster_verdict_put(writer, "Cause: not the same for all.");
            break;
        }
        muster_verdict_put(writer, "Cause: not known, GPU or host%s.", place);
        muster_verdict_put(writer, "Cause: not known, GPU or host.");
        break;
    }
    muster_verdict_end_line(writer);
}

static void put_late(struct muster_verdict_writer *writer, const struct muster_view *view,
                     const struct muster_finding *finding)
{
    char who[192], loss[96], rank[96];
    struct loss lost = loss_of(view, finding, &writer->memory);
    put_who(who, sizeof who, finding);
    muster_verdict_put_ranks(rank, sizeof rank, "R", finding->rank, finding->ranks);
    put_loss(loss, sizeof loss, &lost);
    bool host = finding->kind == MUSTER_FINDING_LATE_HOST;
    const char *s = finding->ranks == 1 || host ? "s" : "";
    if (finding->mode == MUSTER_MODE_MOVES) {
        muster_verdict_put(writer, "%s hold this job back, one after the other: it loses %s.", who,
                           loss);
        muster_verdict_put(writer, "%s hold this job back by turns: it loses %s.", rank, loss);
    }
    muster_verdict_put(writer, "%s hold%s this job back: the others wait, and it loses %s.", who, s,
                       loss);
    muster_verdict_put(writer, "%s hold%s this job back: it loses %s.", who, s, loss);
    muster_verdict_put(writer, "%s hold%s this job back: %.2g %% lost.", who, s, 100 * lost.share);
    muster_verdict_put(writer, "%s hold%s this job back: %.2g %% lost.", rank, s, 100 * lost.share);
    muster_verdict_end_line(writer);
    put_cause(writer, finding);
}

/* "rank 1 (node0)" and "rank 2 (node1)"; a host that both are on stands behind the second. */
static void put_ends(char *from, char *to, size_t size, const struct muster_finding *finding)
{
    bool same = strcmp(finding->host, finding->to_host) == 0;
    snprintf(from, size, "rank %" PRId32, finding->rank[0]);
    snprintf(to, size, "rank %" PRId32, finding->rank[1]);
    if (finding->host[0] && !same)
        snprintf(from, size, "rank %" PRId32 " (%s)", finding->rank[0], finding->host);
    if (finding->to_host[0]) {
        snprintf(to, size, "rank %" PRId32 " (%s%s)", finding->rank[1], same ? "both on " : "",
                 finding->to_host);
    }
}

static void put_transfer(struct muster_verdict_writer *writer, const struct muster_view *view,
                         const struct muster_finding *finding)
{
    char loss[96], from[192], to[192];
    struct loss lost = loss_of(view, finding, &writer->memory);
    put_loss(loss, sizeof loss, &lost);
    if (finding->ranks >= 2) {
        put_ends(from, to, sizeof from, finding);
        muster_verdict_put(writer, "The transfer from %s to %s holds this job back: it loses %s.",
                           from, to, loss);
        muster_verdict_put(writer, "Slow transfer from %s to %s: the job loses %s.", from, to,
                           loss);
        muster_verdict_put(writer, "Slow transfer from %s to %s.", from, to);
        muster_verdict_put(writer, "Slow transfer from rank %" PRId32 " to rank %" PRId32 ".",
                           finding->rank[0], finding->rank[1]);
    } else {
        muster_verdict_put(
            writer, "Transfers in communicator %016" PRIx64 " hold this job back: it loses %s.",
            finding->comm, loss);
        muster_verdict_put(writer, "Slow transfers: the job loses %s.", loss);
    }
    muster_verdict_end_line(writer);
}

/* What a hang is, without the communicator. */
static const char *hang_verb(const struct muster_finding *finding, char *text, size_t size)
{
    switch (finding->kind) {
    case MUSTER_FINDING_HANG_ABSENT:
        return "never entered";
    case MUSTER_FINDING_HANG_DEAD:
        snprintf(text, size, "%s gone, %s, %s", finding->ranks > 1 ? "are" : "is",
                 muster_finding_went_words(finding),
                 finding->entered ? "inside" : "and never entered");
        return text;
    case MUSTER_FINDING_HANG_MISMATCH:
        return "called something else in place of";
    default:
        return NULL;
    }
}

/* Of a run whose processes have all ended. */
static bool is_over(const struct muster_view *view)
{
    return view->run && muster_run_alive(view->run) == 0;
}

static const char *hang_word(bool over)
{
    return over ? "This job hung" : "This job hangs";
}

static void put_hang(struct muster_verdict_writer *writer, const struct muster_finding *finding,
                     bool over)
{
    char who[192], op[64], waits[96] = "", words[96];
    const char *verb = hang_verb(finding, words, sizeof words);
    put_who(who, sizeof who, finding);
    who[0] = 'r';
    snprintf(op, sizeof op, "%s #%" PRIu64, muster_func_name(finding->op.func), finding->op.index);
    if (finding->victims) {
        muster_verdict_put_ranks(waits, sizeof waits, "r", finding->victim, finding->victims);
        struct muster_text text = muster_text_behind(waits, sizeof waits);
        muster_text_add(&text, " %s been waiting for %.0f s",
                        over                    ? "had"
                        : finding->victims == 1 ? "has"
                                                : "have",
                        finding->cost_s / finding->victims);
    }
    if (finding->has_op && verb) {
        muster_verdict_put(writer, "%s: %s %s %s; %s.", hang_word(over), who, verb, op, waits);
        muster_verdict_put(writer, "Hang: %s %s %s; %s.", who, verb, op, waits);
        muster_verdict_put(writer, "Hang: %s %s %s.", who, verb, op);
    } else if (finding->kind == MUSTER_FINDING_HANG_STUCK && finding->has_op) {
        muster_verdict_put(writer, "%s: all ranks entered %s and none ends it; %s.",
                           hang_word(over), op, waits);
        muster_verdict_put(writer, "Hang: all ranks entered %s, none ends it.", op);
    }
}

/* Nobody waits for it yet. */
static void put_gone(struct muster_verdict_writer *writer, const struct muster_finding *finding)
{
    char who[192], ranks[96];
    const char *is = finding->ranks == 1 ? "is" : "are", *went = muster_finding_went_words(finding);
    put_who(who, sizeof who, finding);
    muster_verdict_put_ranks(ranks, sizeof ranks, "R", finding->rank, finding->ranks);
    muster_verdict_put(writer,
                       "%s %s gone, %s, while the others live on: whoever calls "
                       "communicator %016" PRIx64 " next waits for %s.",
                       who, is, went, finding->comm, finding->ranks == 1 ? "it" : "them");
    muster_verdict_put(writer, "%s %s gone, %s; the others live on.", who, is, went);
    muster_verdict_put(writer, "%s %s gone; the others live on.", ranks, is);
}

/* "hang_absent: rank 2 ..." without the kind; hangs are named with their word. */
static void put_sentence(struct muster_verdict_writer *writer, const struct muster_finding *finding,
                         bool over)
{
    char text[1024];
    muster_finding_sentence(finding, text, sizeof text);
    const char *from = strstr(text, ": ");
    from = from ? from + 2 : text;
    bool hangs = muster_finding_is_hang(finding) && !muster_finding_hangs_not_yet(finding);
    if (!hangs && finding->kind == MUSTER_FINDING_HANG_DEAD)
        put_gone(writer, finding);
    else if (hangs)
        put_hang(writer, finding, over);
    muster_verdict_put(writer, "%s%s%s.", hangs ? hang_word(over) : "", hangs ? ": " : "", from);
    muster_verdict_put(writer, "%s%s.", hangs ? "Hang: " : "", from);
    muster_verdict_end_line(writer);
}

/* Calls that did not match, though nothing hung. At a tie there are two sides. */
static void put_calls(struct muster_verdict_writer *writer, const struct muster_finding *finding)
{
    char who[192], ranks[96];
    const char *func = muster_func_name(finding->op.func);
    bool tie = finding->confidence <= 0.5;
    put_who(who, sizeof who, finding);
    muster_verdict_put_ranks(ranks, sizeof ranks, "r", finding->rank, finding->ranks);
    who[0] = 'r';
    muster_verdict_put(writer, "Ranks disagree on call #%" PRIu64 ": %s called %s.",
                       finding->op.index, who,
                       tie ? "different things" : "something else than the others");
    muster_verdict_put(writer, "Ranks disagree on call #%" PRIu64 ", %s: %s.", finding->op.index,
                       func, ranks);
    muster_verdict_end_line(writer);
    if (finding->evidence.n >= 2) {
        muster_verdict_put(writer, "Seen: %s; %s.", finding->evidence.line[0],
                           finding->evidence.line[1]);
        muster_verdict_put(writer, "%s; %s.", finding->evidence.line[0], finding->evidence.line[1]);
    }
    if (finding->evidence.n) {
        muster_verdict_put(writer, "Seen: %s.", finding->evidence.line[0]);
        muster_verdict_end_line(writer);
    }
}

static void put_held(struct muster_verdict_writer *writer, const struct muster_view *view,
                     const struct muster_finding *finding)
{
    bool has_cause = muster_finding_is_late(finding);
    if (has_cause) {
        put_late(writer, view, finding);
    } else if (finding->kind == MUSTER_FINDING_SLOW_TRANSFER) {
        put_transfer(writer, view, finding);
    } else if (finding->kind == MUSTER_FINDING_MISMATCH) {
        put_calls(writer, finding);
        has_cause = true;
    } else {
        put_sentence(writer, finding, is_over(view));
    }
    if (!has_cause && finding->evidence.n) {
        muster_verdict_put(writer, "Seen: %s.", finding->evidence.line[0]);
        muster_verdict_end_line(writer);
    }
    if (finding->advice[0]) {
        muster_verdict_put(writer, "Next: %s.", finding->advice);
        muster_verdict_end_line(writer);
    }
}

/* ---- nobody, or not known ---- */

/* From there on waiting is reported beside "nobody". Of recordings that are well clean waits for
 * 2.4 % of its time, fsdp-clean for 4.8, net-clean for 9.2; over a network at a thirtieth of its
 * speed it is 17 (net-throttled); in jobs of frameworks on two GPUs, whose hosts are uneven, 12
 * (hf-clean) and 31 (FSDP). Between 9.2 and 12 % nothing changes; at 5 % net-clean would be
 * reported, too, and at 20 % the slow network no longer. */
static const double waited_much = 0.1;

/* Nobody is a culprit, and still there is waiting: that has to be reported where victims show in
 * tables. */
static void put_waited(struct muster_verdict_writer *writer, double waited)
{
    if (waited < waited_much)
        return;
    muster_verdict_put(
        writer,
        "Yet ranks waited for %.2g %% of the time, each for others in turn. Next: see busbw "
        "below, or "
        "`muster compare` with a good run.",
        100 * waited);
    muster_verdict_put(
        writer,
        "Yet ranks waited %.2g %% of the time, in turn. Next: `muster compare` with a good run.",
        100 * waited);
    muster_verdict_put(writer, "Yet ranks waited %.2g %% of the time, in turn.", 100 * waited);
    muster_verdict_end_line(writer);
}

/* `but_graphs`: nothing is known of its replays of CUDA graphs, which may be most of it. */
static void put_nobody(struct muster_verdict_writer *writer,
                       const struct muster_finding_clean *clean, bool but_graphs)
{
    if (but_graphs) {
        muster_verdict_put(writer, "Nobody is seen to hold this job back, but its CUDA graph "
                                   "replays were not timed.");
        muster_verdict_put(writer, "Nobody is seen to be late; CUDA graph replays are not timed.");
    }
    muster_verdict_put(writer, "Nobody holds this job back.");
    muster_verdict_end_line(writer);
    muster_verdict_put(writer,
                       "%" PRIu64 " operations of %" PRIu32 " of %" PRIu32
                       " ranks were compared; %" PRIu64
                       " us of delay in one of five would have been found.",
                       clean->compared, clean->seen, clean->nranks,
                       (uint64_t)(clean->least_ns / MUSTER_NS_PER_US));
    muster_verdict_put(
        writer, "%" PRIu64 " operations compared; %" PRIu64 " us in one of five would be found.",
        clean->compared, (uint64_t)(clean->least_ns / MUSTER_NS_PER_US));
    muster_verdict_end_line(writer);
    if (but_graphs) {
        muster_verdict_put(writer, "Next: where most of a step is a graph, record with `muster run "
                                   "--timing channels`, which times replays inside one host.");
        muster_verdict_put(writer, "Next: `muster run --timing channels` times replays.");
        muster_verdict_end_line(writer);
    }
}

/* Nobody can be asked to time more. */
static bool times_all(const struct muster_view *view)
{
    for (size_t g = 0; g < view->gpus; g++)
        if (view->gpu[g].timing != MUSTER_TIMING_FULL &&
            view->gpu[g].timing != MUSTER_TIMING_CHANNELS)
            return false;
    return true;
}

static const char *why_unknown(const struct muster_view *view,
                               const struct muster_finding_clean *clean, const char **next)
{
    size_t scored = 0;
    for (size_t i = 0; i < view->ops && !scored; i++)
        scored += muster_view_scored(&view->op[i]);
    *next = "";
    if (view->gpus == 0) {
        *next = "start the job with `muster run -- COMMAND`";
        return "no rank was recorded";
    }
    if (view->gpus == 1) {
        *next = "record the other ranks, too: give all their run directories";
        return "only one rank was recorded, nobody to compare it with";
    }
    if (!scored) {
        *next = times_all(view) ? "the caveats say why there are no GPU times"
                                : "record with `muster run --timing full`; the caveats say why "
                                  "there are no GPU times";
        return "no operation was timed by its GPU";
    }
    *next = times_all(view) ? "let it run longer"
                            : "let it run longer, or record with `muster run --timing full`";
    return clean->compared ? "too few operations could be compared between ranks"
                           : "no operation, or too few, were timed on all ranks that were seen";
}

static void put_unknown(struct muster_verdict_writer *writer, const struct muster_view *view,
                        const struct muster_finding_clean *clean)
{
    const char *next;
    const char *why = why_unknown(view, clean, &next);
    muster_verdict_put(writer, "Cannot tell whether anybody holds this job back: %s.", why);
    muster_verdict_put(writer, "Cannot tell who holds this job back: %s.", why);
    muster_verdict_put(writer, "No verdict: %s.", why);
    muster_verdict_end_line(writer);
    if (next[0]) {
        muster_verdict_put(writer, "Next: %s.", next);
        muster_verdict_end_line(writer);
    }
}

/* What was reported without all that it rests on is taken back; a finding stands. */
static void put_no_memory(struct muster_verdict_writer *writer)
{
    struct muster_verdict *verdict = writer->verdict;
    *verdict = (struct muster_verdict){
        .finding = verdict->finding,
        .state = verdict->finding ? MUSTER_VERDICT_HELD : MUSTER_VERDICT_UNKNOWN,
        .no_memory = true,
    };
    muster_verdict_put(writer, "No verdict: out of memory. Next: again, where more is free.");
    muster_verdict_end_line(writer);
}

/* A hang before all else, then what costs most; paths and choices last. */
static const struct muster_finding *heaviest(const struct muster_findings *findings)
{
    const struct muster_finding *most = NULL;
    for (size_t f = 0; f < findings->n; f++) {
        const struct muster_finding *own = &findings->finding[f];
        enum muster_finding_scope scope = muster_finding_rows[own->kind].scope;
        enum muster_finding_scope best = most ? muster_finding_rows[most->kind].scope : scope;
        bool counts = !own->resolved && !own->retracted && scope != MUSTER_SCOPE_PATH;
        if (counts &&
            (!most || scope < best ||
             (scope == best && scope == MUSTER_SCOPE_SLOW && own->cost_share > most->cost_share)))
            most = own;
    }
    return most;
}

void muster_verdict_of(const struct muster_view *view, const struct muster_findings *findings,
                       unsigned width, struct muster_verdict *verdict)
{
    struct muster_verdict_writer writer = {.verdict = verdict, .width = width};
    *verdict = (struct muster_verdict){.finding = heaviest(findings)};
    if (verdict->finding) {
        verdict->state = MUSTER_VERDICT_HELD;
        put_held(&writer, view, verdict->finding);
    } else if (muster_verdict_write_now(&writer, view) ||
               muster_verdict_write_middle(&writer, view, findings->clean.least_ns > 0)) {
        verdict->state = MUSTER_VERDICT_UNKNOWN;
    } else if (findings->clean.least_ns) {
        verdict->state = MUSTER_VERDICT_NOBODY;
        bool but_graphs = muster_verdict_graphs_untimed(view);
        put_nobody(&writer, &findings->clean, but_graphs);
        if (!but_graphs)
            put_waited(&writer, muster_verdict_waited(view, &writer.memory));
    } else {
        verdict->state = MUSTER_VERDICT_UNKNOWN;
        put_unknown(&writer, view, &findings->clean);
    }
    if (writer.memory.failed)
        put_no_memory(&writer);
    muster_arena_free(&writer.memory);
}

void muster_verdict_json(const struct muster_verdict *verdict, struct muster_json *json)
{
    muster_json_object(json, "verdict");
    muster_json_str(json, "state", muster_verdict_name(verdict->state));
    muster_json_array(json, "lines");
    for (unsigned i = 0; i < verdict->lines; i++)
        muster_json_str(json, NULL, verdict->line[i]);
    muster_json_end(json);
    muster_json_end(json);
}
