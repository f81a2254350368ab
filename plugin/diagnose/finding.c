#include "diagnose/finding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/on.h"

_Static_assert((int)MUSTER_ON_KINDS == (int)MUSTER_FINDING_KINDS, "one list of kinds");

static const char *word_of(const char *const *words, size_t n, size_t i)
{
    return i < n ? words[i] : "unknown";
}

const char *muster_finding_word(enum muster_finding_kind kind)
{
    return word_of(muster_on_kind_words, MUSTER_FINDING_KINDS, (size_t)kind);
}

const char *muster_finding_mode_word(enum muster_finding_mode mode)
{
    static const char *const words[] = {NULL, "persistent", "intermittent", "once"};
    return word_of(words, 4, (size_t)mode);
}

const char *muster_finding_cause_word(enum muster_finding_cause cause)
{
    static const char *const words[] = {"unknown", "gpu", "host"};
    return word_of(words, 3, (size_t)cause);
}

struct muster_finding *muster_findings_add(struct muster_findings *findings)
{
    if (findings->n == findings->room) {
        size_t room = findings->room ? 2 * findings->room : 4;
        struct muster_finding *more =
            reallocarray(findings->finding, room, sizeof *findings->finding);
        if (!more)
            return NULL;
        findings->finding = more;
        findings->room = room;
    }
    struct muster_finding *finding = &findings->finding[findings->n++];
    memset(finding, 0, sizeof *finding);
    finding->gpu = -1;
    finding->op.root = -1;
    return finding;
}

void muster_findings_free(struct muster_findings *findings)
{
    free(findings->finding);
    memset(findings, 0, sizeof *findings);
}

void muster_finding_say(struct muster_finding_lines *lines, const char *fmt, ...)
{
    char text[MUSTER_FINDING_LINE];
    va_list args;
    if (lines->n >= MUSTER_FINDING_LINES)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    muster_text_copy(lines->line[lines->n++], MUSTER_FINDING_LINE, text);
}

/* ---- the sentence ---- */

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text->at, text->left, fmt, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < text->left ? (size_t)n : text->left - 1;
    text->at += used;
    text->left -= used;
}

/* "rank 1", "ranks 0, 2, 3", "no rank". */
static void put_ranks(struct text *text, const int32_t *rank, unsigned n)
{
    enum { SHOWN = 8 };
    put(text, n == 0 ? "no rank" : n == 1 ? "rank" : "ranks");
    for (unsigned i = 0; i < n && i < SHOWN; i++)
        put(text, "%s%" PRId32, i ? ", " : " ", rank[i]);
    if (n > SHOWN)
        put(text, " and %u more", n - SHOWN);
}

static void put_guilty(struct text *text, const struct muster_finding *finding)
{
    put_ranks(text, finding->rank, finding->ranks);
    if (!finding->host[0] || finding->ranks != 1)
        return;
    put(text, " (host %s", finding->host);
    if (finding->gpu >= 0)
        put(text, ", GPU %" PRId32, finding->gpu);
    put(text, ")");
}

static void put_op(struct text *text, const struct muster_finding *finding)
{
    char size[32];
    if (!finding->has_op) {
        put(text, "an operation (communicator %016" PRIx64 ")", finding->comm);
        return;
    }
    muster_text_bytes(size, sizeof size, finding->op.bytes);
    put(text, "%s #%" PRIu64 " (%s, communicator %016" PRIx64 ")",
        muster_func_word(finding->op.func), finding->op.index, size, finding->comm);
}

static void put_victims(struct text *text, const struct muster_finding *finding)
{
    if (finding->victims == 0)
        return;
    put(text, "; ");
    put_ranks(text, finding->victim, finding->victims);
    put(text, finding->victims == 1 ? " waits in it" : " wait in it");
    put(text, " since %.0f s", finding->cost_s / finding->victims);
}

static void put_cost(struct text *text, const struct muster_finding *finding)
{
    put(text, "; it cost %.3g s", finding->cost_s);
    if (finding->cost_share > 0)
        put(text, " (%.2g %% of the run)", 100 * finding->cost_share);
}

static void put_hang(struct text *text, const struct muster_finding *finding)
{
    switch (finding->kind) {
    case MUSTER_FINDING_HANG_ABSENT:
        put_guilty(text, finding);
        put(text, " never entered ");
        put_op(text, finding);
        break;
    case MUSTER_FINDING_HANG_DEAD:
        put_guilty(text, finding);
        put(text,
            finding->ranks > 1 ? " are gone and did not enter " : " is gone and did not enter ");
        put_op(text, finding);
        break;
    case MUSTER_FINDING_HANG_MISMATCH:
        put_guilty(text, finding);
        put(text, " called something else in place of ");
        put_op(text, finding);
        break;
    case MUSTER_FINDING_HANG_STUCK:
        put(text, "all ranks entered ");
        put_op(text, finding);
        put(text, " and none ends it");
        break;
    default:
        put_guilty(text, finding);
        put(text, " started communicators %016" PRIx64 " and %016" PRIx64 " in the opposite order",
            finding->comms[0], finding->comms[1]);
    }
    put_victims(text, finding);
}

static void put_divergence(struct text *text, const struct muster_finding *finding)
{
    put_guilty(text, finding);
    bool tie = finding->confidence <= 0.5;
    if (finding->has_op) {
        put(text, tie ? " chose differently in " : " chose other than the other ranks in ");
        put_op(text, finding);
    } else {
        put(text,
            tie ? " have different policies in communicator %016" PRIx64
            : finding->ranks == 1
                ? " has not the policy of most ranks in communicator %016" PRIx64
                : " have not the policy of most ranks in communicator %016" PRIx64,
            finding->comm);
    }
    for (unsigned i = 0; i < finding->evidence.n && i < 2; i++)
        put(text, "%s%s", i ? "; " : ": ", finding->evidence.line[i]);
}

static void put_path(struct text *text, const struct muster_finding *finding)
{
    put_ranks(text, finding->rank, finding->ranks);
    if (finding->host[0])
        put(text, " (host %s)", finding->host);
    put(text, finding->kind == MUSTER_FINDING_PATH_MISSING
                  ? " do not use the best path between them"
                  : " have a path between them that does less than it can");
    for (unsigned i = 0; i < finding->evidence.n && i < 2; i++)
        put(text, "%s%s", i ? "; " : ": ", finding->evidence.line[i]);
}

static void put_slow(struct text *text, const struct muster_finding *finding)
{
    if (finding->kind == MUSTER_FINDING_LATE_RANK) {
        put_guilty(text, finding);
        put(text, finding->ranks > 1 ? " come late to " : " comes late to ");
        put_op(text, finding);
        if (finding->cause != MUSTER_CAUSE_UNKNOWN)
            put(text, ", cause %s", muster_finding_cause_word(finding->cause));
    } else if (finding->kind == MUSTER_FINDING_SLOW_TRANSFER && finding->ranks >= 2) {
        put(text, "the transfer from rank %" PRId32 " to rank %" PRId32 " is slow in ",
            finding->rank[0], finding->rank[1]);
        put_op(text, finding);
    } else {
        put(text, "transfers are slow in ");
        put_op(text, finding);
    }
    put_cost(text, finding);
    if (finding->evidence.n > 0)
        put(text, ": %s", finding->evidence.line[0]);
}

void muster_finding_sentence(const struct muster_finding *finding, char *to, size_t size)
{
    struct text text = {to, size};
    if (size == 0)
        return;
    put(&text, "%s%s: ", muster_finding_word(finding->kind),
        finding->resolved ? " (resolved)" : "");
    if (finding->kind >= MUSTER_FINDING_HANG_ABSENT && finding->kind <= MUSTER_FINDING_HANG_ORDER)
        put_hang(&text, finding);
    else if (finding->kind == MUSTER_FINDING_POLICY_DIVERGENCE)
        put_divergence(&text, finding);
    else if (finding->kind == MUSTER_FINDING_PATH_MISSING ||
             finding->kind == MUSTER_FINDING_PATH_DEGRADED)
        put_path(&text, finding);
    else
        put_slow(&text, finding);
}

/* ---- JSON ---- */

static void json_hex(struct muster_json *json, const char *key, uint64_t id)
{
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, id);
    muster_json_str(json, key, text);
}

static void json_ranks(struct muster_json *json, const char *key, const int32_t *rank, unsigned n)
{
    muster_json_array(json, key);
    for (unsigned i = 0; i < n; i++)
        muster_json_i64(json, NULL, rank[i]);
    muster_json_end(json);
}

static void json_lines(struct muster_json *json, const char *key,
                       const struct muster_finding_lines *lines)
{
    muster_json_array(json, key);
    for (unsigned i = 0; i < lines->n; i++)
        muster_json_str(json, NULL, lines->line[i]);
    muster_json_end(json);
}

static void json_or_null(struct muster_json *json, const char *key, int32_t value)
{
    if (value < 0)
        muster_json_null(json, key);
    else
        muster_json_i64(json, key, value);
}

static void json_op(struct muster_json *json, const struct muster_finding *finding)
{
    if (!finding->has_op) {
        muster_json_null(json, "op");
        return;
    }
    muster_json_object(json, "op");
    muster_json_str(json, "func", muster_func_word(finding->op.func));
    muster_json_u64(json, "index", finding->op.index);
    muster_json_u64(json, "bytes", finding->op.bytes);
    muster_json_str(json, "datatype", muster_dtype_word(finding->op.dtype));
    json_or_null(json, "root", finding->op.root);
    muster_json_end(json);
}

static void json_comms(struct muster_json *json, const struct muster_finding *finding)
{
    muster_json_array(json, "comms");
    for (unsigned i = 0; i < 2 && finding->kind == MUSTER_FINDING_HANG_ORDER; i++)
        json_hex(json, NULL, finding->comms[i]);
    muster_json_end(json);
}

void muster_finding_json(const struct muster_finding *finding, struct muster_json *json)
{
    bool late = finding->kind == MUSTER_FINDING_LATE_RANK;
    muster_json_str(json, "kind", muster_finding_word(finding->kind));
    json_hex(json, "comm", finding->comm);
    json_ranks(json, "ranks", finding->rank, finding->ranks);
    json_comms(json, finding);
    json_ranks(json, "victims", finding->victim, finding->victims);
    muster_json_str(json, "host", finding->host[0] ? finding->host : NULL);
    json_or_null(json, "gpu", finding->gpu);
    json_op(json, finding);
    muster_json_str(json, "mode", muster_finding_mode_word(finding->mode));
    muster_json_str(json, "cause", late ? muster_finding_cause_word(finding->cause) : NULL);
    muster_json_u64(json, "since_unix_ns", finding->since_unix_ns);
    muster_json_bool(json, "resolved", finding->resolved);
    muster_json_real(json, "cost_s", finding->cost_s, 6);
    muster_json_real(json, "cost_share", finding->cost_share, 6);
    muster_json_real(json, "confidence", finding->confidence, 3);
    json_lines(json, "evidence", &finding->evidence);
    json_lines(json, "not_observable", &finding->not_observable);
    muster_json_str(json, "advice", finding->advice);
}
