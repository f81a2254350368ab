/* Findings files: a JSON object a line. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "diagnose/finding_changes.h"
#include "emitted/emitted.h"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double real_of(const json_t *object, const char *key)
{
    double value = json_number_value(json_object_get(object, key));
    return value >= 0 && value < 1e18 ? value : 0;
}

static uint64_t whole_of(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

/* A rank, a root, a GPU: -1 where there is none. */
static int32_t small_of(const json_t *value)
{
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    return number >= 0 && number < INT32_MAX ? (int32_t)number : -1;
}

static uint64_t id_of(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == 16 ? strtoull(text, NULL, 16) : 0;
}

static unsigned ranks_of(const json_t *object, const char *key, int32_t rank[MUSTER_FINDING_RANKS])
{
    const json_t *array = json_object_get(object, key);
    unsigned n = 0;
    for (size_t i = 0; i < json_array_size(array) && n < MUSTER_FINDING_RANKS; i++)
        rank[n++] = small_of(json_array_get(array, i));
    return n;
}

static void lines_of(const json_t *object, const char *key, struct muster_finding_lines *to)
{
    const json_t *array = json_object_get(object, key);
    for (size_t i = 0; i < json_array_size(array); i++) {
        char line[MUSTER_FINDING_LINE];
        const char *text = json_string_value(json_array_get(array, i));
        muster_text_copy(line, sizeof line, text ? text : "");
        muster_text_clean(line, sizeof line);
        muster_finding_line(to, "%s", line);
    }
}

static void op_of(const json_t *object, struct muster_finding *finding)
{
    const json_t *op = json_object_get(object, "op");
    finding->op.root = -1;
    if (!json_is_object(op))
        return;
    finding->has_op = true;
    while (finding->op.func < MUSTER_FUNCS &&
           strcmp(muster_func_name(finding->op.func), text_of(op, "func")) != 0)
        finding->op.func++;
    while (finding->op.dtype < MUSTER_DTYPES &&
           strcmp(muster_dtype_name(finding->op.dtype), text_of(op, "datatype")) != 0)
        finding->op.dtype++;
    finding->op.func = finding->op.func < MUSTER_FUNCS ? finding->op.func : MUSTER_FUNC_UNKNOWN;
    finding->op.dtype =
        finding->op.dtype < MUSTER_DTYPES ? finding->op.dtype : MUSTER_DTYPE_UNKNOWN;
    finding->op.index = whole_of(op, "index");
    finding->op.bytes = whole_of(op, "bytes");
    finding->op.root = small_of(json_object_get(op, "root"));
}

static enum muster_finding_cause cause_of(const json_t *object)
{
    enum muster_finding_cause cause = MUSTER_CAUSE_HOST;
    while (cause > MUSTER_CAUSE_UNKNOWN &&
           strcmp(text_of(object, "cause"), muster_finding_cause_name(cause)) != 0)
        cause--;
    return cause;
}

/* Earlier files do not have it. */
static enum muster_finding_went went_of(const json_t *object)
{
    enum muster_finding_went went = MUSTER_WENT_KILLED;
    while (went < MUSTER_WENT_UNKNOWN &&
           strcmp(text_of(object, "went"), muster_finding_went_name(went)) != 0)
        went++;
    return went;
}

static void words_of(const json_t *object, struct muster_finding *finding)
{
    for (unsigned m = MUSTER_MODE_PERSISTENT; m <= MUSTER_MODE_MOVES; m++)
        if (strcmp(text_of(object, "mode"), muster_finding_mode_name(m)) == 0)
            finding->mode = m;
    finding->cause = cause_of(object);
    finding->went = went_of(object);
    muster_text_copy(finding->host, sizeof finding->host, text_of(object, "host"));
    muster_text_copy(finding->to_host, sizeof finding->to_host, text_of(object, "to_host"));
    muster_text_copy(finding->advice, sizeof finding->advice, text_of(object, "advice"));
    muster_text_copy(finding->where, sizeof finding->where, text_of(object, "where"));
    muster_text_clean(finding->host, sizeof finding->host);
    muster_text_clean(finding->to_host, sizeof finding->to_host);
    muster_text_clean(finding->where, sizeof finding->where);
    muster_text_clean(finding->advice, sizeof finding->advice);
}

static void costs_of(const json_t *object, struct muster_finding *finding)
{
    finding->cost_s = real_of(object, "cost_s");
    finding->cost_share = real_of(object, "cost_share");
    finding->cost_low_s = real_of(object, "cost_low_s");
    finding->cost_high_s = real_of(object, "cost_high_s");
    finding->cost_run_s = real_of(object, "cost_run_s");
    finding->gpu_hours = real_of(object, "gpu_hours");
}

static void times_of(const json_t *object, struct muster_finding *finding)
{
    const json_t *every = json_object_get(object, "every"), *when = json_object_get(object, "when");
    finding->every_steps = (uint32_t)whole_of(every, "steps");
    finding->every_s = real_of(every, "seconds");
    finding->since_unix_ns = whole_of(object, "since_unix_ns");
    for (size_t i = 0; i < json_array_size(when) && i < MUSTER_FINDING_STRETCHES; i++) {
        const json_t *one = json_array_get(when, i);
        finding->stretch[finding->stretches++] =
            (struct muster_finding_stretch){.rank = small_of(json_object_get(one, "rank")),
                                            .cause = cause_of(one),
                                            .since_unix_ns = whole_of(one, "since_unix_ns"),
                                            .until_unix_ns = whole_of(one, "until_unix_ns")};
    }
}

/* False: it is of no kind that is known here. */
static bool finding_of(const json_t *object, struct muster_finding *finding)
{
    const char *name = text_of(object, "kind");
    enum muster_finding_kind kind = muster_finding_kind_of(name, strlen(name));
    if (kind == MUSTER_FINDING_KINDS)
        return false;
    memset(finding, 0, sizeof *finding);
    finding->kind = kind;
    finding->comm = id_of(json_object_get(object, "comm"));
    muster_text_copy(finding->comm_name, sizeof finding->comm_name, text_of(object, "comm_name"));
    for (size_t i = 0; i < 2; i++)
        finding->comms[i] = id_of(json_array_get(json_object_get(object, "comms"), i));
    finding->ranks = ranks_of(object, "ranks", finding->rank);
    finding->victims = ranks_of(object, "victims", finding->victim);
    finding->gpu = small_of(json_object_get(object, "gpu"));
    finding->resolved = json_is_true(json_object_get(object, "resolved"));
    finding->retracted = json_is_true(json_object_get(object, "retracted"));
    finding->entered = json_is_true(json_object_get(object, "entered"));
    finding->confidence = real_of(object, "confidence");
    costs_of(object, finding);
    times_of(object, finding);
    op_of(object, finding);
    words_of(object, finding);
    lines_of(object, "evidence", &finding->evidence);
    lines_of(object, "not_observable", &finding->not_observable);
    return true;
}

/* The newest word on a finding stands for all. */
static struct muster_finding *place(struct muster_findings *emitted,
                                    const struct muster_finding *finding)
{
    for (size_t i = 0; i < emitted->n; i++)
        if (muster_watch_same(&emitted->finding[i], finding))
            return &emitted->finding[i];
    return muster_findings_add(emitted);
}

static int take_line(const char *name, size_t number, const char *line, size_t n,
                     struct muster_findings *emitted)
{
    struct muster_finding finding;
    json_error_t wrong;
    json_t *object = json_loadb(line, n, 0, &wrong);
    if (!object)
        muster_finding_line(&emitted->not_observable, "%s:%zu:%d: %s; the line is left out", name,
                            number, wrong.column, wrong.text);
    else if (!finding_of(object, &finding))
        muster_finding_line(&emitted->not_observable,
                            "%s:%zu:1: expected a finding's \"kind\"; the line is left out", name,
                            number);
    else {
        struct muster_finding *at = place(emitted, &finding);
        json_decref(object);
        if (at)
            *at = finding;
        return at ? 0 : -1;
    }
    json_decref(object);
    return 0;
}

int muster_emitted_parse(const char *name, const char *bytes, size_t n,
                         struct muster_findings *emitted, struct muster_err *err)
{
    const char *end = bytes + n;
    for (size_t number = 1; bytes < end; number++) {
        const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
        /* What its process was killed in has no end. */
        if (!stop)
            return 0;
        if (stop > bytes && take_line(name, number, bytes, (size_t)(stop - bytes), emitted) != 0)
            return muster_fail_memory(err, name);
        bytes = stop + 1;
    }
    return 0;
}
