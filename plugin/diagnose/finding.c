#include "diagnose/finding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

static const char *word_of(const char *const *words, size_t n, size_t i)
{
    return i < n ? words[i] : "unknown";
}

const char *muster_finding_name(enum muster_finding_kind kind)
{
    return kind < MUSTER_FINDING_KINDS ? muster_finding_rows[kind].name : "unknown";
}

const char *muster_finding_mode_name(enum muster_finding_mode mode)
{
    static const char *const words[] = {NULL, "persistent", "intermittent", "once", "moves"};
    return word_of(words, 5, (size_t)mode);
}

const char *muster_finding_cause_name(enum muster_finding_cause cause)
{
    static const char *const words[] = {"unknown", "gpu", "host"};
    return word_of(words, 3, (size_t)cause);
}

const char *muster_finding_went_name(enum muster_finding_went went)
{
    static const char *const words[] = {"killed", "left", "unknown"};
    return word_of(words, 3, (size_t)went);
}

struct muster_finding *muster_findings_add(struct muster_findings *findings)
{
    if (!muster_grow(&findings->finding, findings->n, sizeof *findings->finding))
        return NULL;
    struct muster_finding *finding = &findings->finding[findings->n++];
    memset(finding, 0, sizeof *finding);
    finding->gpu = -1;
    finding->op.root = -1;
    return finding;
}

struct muster_finding *muster_findings_copy(struct muster_findings *findings,
                                            const struct muster_finding *finding)
{
    struct muster_finding *copy = muster_findings_add(findings);
    if (copy)
        *copy = *finding;
    return copy;
}

void muster_findings_free(struct muster_findings *findings)
{
    free(findings->finding);
    memset(findings, 0, sizeof *findings);
}

bool muster_findings_any_late(const struct muster_findings *findings)
{
    bool any = false;
    for (size_t i = 0; i < findings->n; i++)
        any |= muster_finding_is_late(&findings->finding[i]);
    return any;
}

bool muster_findings_join(struct muster_findings *findings, struct muster_findings *more)
{
    size_t n = findings->n;
    for (size_t i = 0; i < more->n; i++) {
        if (!muster_findings_copy(findings, &more->finding[i])) {
            findings->n = n;
            return false;
        }
    }
    for (unsigned i = 0; i < more->not_observable.n; i++)
        muster_finding_line(&findings->not_observable, "%s", more->not_observable.line[i]);
    if (more->clean.compared)
        findings->clean = more->clean;
    muster_findings_free(more);
    return true;
}

void muster_finding_line(struct muster_finding_lines *lines, const char *fmt, ...)
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
    muster_json_str(json, "func", muster_func_name(finding->op.func));
    muster_json_u64(json, "index", finding->op.index);
    muster_json_u64(json, "bytes", finding->op.bytes);
    muster_json_str(json, "datatype", muster_dtype_name(finding->op.dtype));
    json_or_null(json, "root", finding->op.root);
    muster_json_end(json);
}

static void json_beat(struct muster_json *json, const struct muster_finding *finding)
{
    if (!finding->every_steps) {
        muster_json_null(json, "every");
        return;
    }
    muster_json_object(json, "every");
    muster_json_u64(json, "steps", finding->every_steps);
    muster_json_real(json, "seconds", finding->every_s, 3);
    muster_json_end(json);
}

static void json_stretches(struct muster_json *json, const struct muster_finding *finding)
{
    muster_json_array(json, "when");
    for (unsigned i = 0; i < finding->stretches; i++) {
        muster_json_object(json, NULL);
        muster_json_i64(json, "rank", finding->stretch[i].rank);
        muster_json_str(json, "cause", muster_finding_cause_name(finding->stretch[i].cause));
        muster_json_u64(json, "since_unix_ns", finding->stretch[i].since_unix_ns);
        muster_json_u64(json, "until_unix_ns", finding->stretch[i].until_unix_ns);
        muster_json_end(json);
    }
    muster_json_end(json);
}

/* null: not known. */
static void json_cost(struct muster_json *json, const char *key, double value)
{
    if (value > 0)
        muster_json_real(json, key, value, 6);
    else
        muster_json_null(json, key);
}

static void json_comms(struct muster_json *json, const struct muster_finding *finding)
{
    muster_json_array(json, "comms");
    for (unsigned i = 0; i < 2 && finding->kind == MUSTER_FINDING_HANG_ORDER; i++)
        json_hex(json, NULL, finding->comms[i]);
    muster_json_end(json);
}

void muster_findings_name(struct muster_findings *findings, const struct muster_view *view)
{
    for (size_t i = 0; i < findings->n; i++) {
        struct muster_finding *finding = &findings->finding[i];
        for (size_t c = 0; c < view->comms && finding->comm && !finding->comm_name[0]; c++)
            if (view->comm[c].id == finding->comm)
                muster_text_copy(finding->comm_name, sizeof finding->comm_name, view->comm[c].name);
    }
}

static void json_dead(struct muster_json *json, const struct muster_finding *finding)
{
    if (finding->kind != MUSTER_FINDING_HANG_DEAD)
        return;
    muster_json_str(json, "went", muster_finding_went_name(finding->went));
    muster_json_bool(json, "entered", finding->entered);
}

void muster_finding_json(const struct muster_finding *finding, struct muster_json *json)
{
    bool late = muster_finding_is_late(finding);
    muster_json_str(json, "kind", muster_finding_name(finding->kind));
    json_hex(json, "comm", finding->comm);
    muster_json_str(json, "comm_name", finding->comm_name[0] ? finding->comm_name : NULL);
    json_ranks(json, "ranks", finding->rank, finding->ranks);
    json_comms(json, finding);
    json_ranks(json, "victims", finding->victim, finding->victims);
    muster_json_str(json, "host", finding->host[0] ? finding->host : NULL);
    if (finding->to_host[0])
        muster_json_str(json, "to_host", finding->to_host);
    json_or_null(json, "gpu", finding->gpu);
    json_op(json, finding);
    muster_json_str(json, "mode", muster_finding_mode_name(finding->mode));
    muster_json_str(json, "cause", late ? muster_finding_cause_name(finding->cause) : NULL);
    json_dead(json, finding);
    muster_json_u64(json, "since_unix_ns", finding->since_unix_ns);
    muster_json_bool(json, "resolved", finding->resolved);
    muster_json_bool(json, "retracted", finding->retracted);
    muster_json_real(json, "cost_s", finding->cost_s, 6);
    muster_json_real(json, "cost_share", finding->cost_share, 6);
    json_cost(json, "cost_low_s", finding->cost_low_s);
    json_cost(json, "cost_high_s", finding->cost_high_s);
    json_cost(json, "cost_run_s", finding->cost_run_s);
    json_cost(json, "gpu_hours", finding->gpu_hours);
    muster_json_str(json, "where", finding->where[0] ? finding->where : NULL);
    json_beat(json, finding);
    json_stretches(json, finding);
    muster_json_real(json, "confidence", finding->confidence, 3);
    json_lines(json, "evidence", &finding->evidence);
    json_lines(json, "not_observable", &finding->not_observable);
    muster_json_str(json, "advice", finding->advice);
}

void muster_finding_set_ends(struct muster_finding *finding, const struct muster_view_gpu *from,
                             const struct muster_view_gpu *to)
{
    finding->rank[0] = from->rank;
    finding->rank[1] = to->rank;
    finding->ranks = 2;
    finding->gpu = from->gpu_index;
    muster_text_copy(finding->host, sizeof finding->host, from->host);
    muster_text_copy(finding->to_host, sizeof finding->to_host, to->host);
}

void muster_finding_set_op(struct muster_finding *finding, const struct muster_view *view,
                           const struct muster_view_comm *comm, const struct muster_view_op *op)
{
    uint8_t dtype = view->class[op->class].dtype;
    finding->has_op = true;
    finding->op.func = op->func;
    finding->op.dtype = dtype;
    finding->op.index = op->number;
    finding->op.bytes = muster_op_size_bytes(op->func, dtype, op->count, comm->nranks);
}
