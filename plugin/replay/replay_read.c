#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "nccl/nccl_names.h"
#include "replay/replay_ids.h"
#include "replay/replay_line.h"
#include "replay/xz.h"
#include "trace/trace.h"

#define CALLS_MAX ((size_t)1 << 24)

struct reader {
    struct muster_trace trace;
    struct muster_ids handles; /* id -> event kind */
    struct muster_ids contexts;
    struct muster_line_strings words;
};

static int out_of_memory(const struct muster_line *line)
{
    return muster_fail_memory(line->err, line->file);
}

static int copy_text(const struct muster_line *line, const char *name, char *to, size_t size)
{
    const char *text;
    if (muster_line_text(line, name, &text))
        return -1;
    muster_text_copy(to, size, text);
    return 0;
}

static int read_end(const struct muster_line *line, struct muster_trace_meta *meta)
{
    const char *end;
    if (!muster_line_has(line, "end"))
        return 0;
    if (muster_line_text(line, "end", &end))
        return -1;
    if (!end || strcmp(end, "killed") != 0)
        return muster_line_wrong(line, "end", "\"killed\"");
    meta->killed = true;
    return 0;
}

static int read_meta(const struct muster_line *line, struct muster_trace_meta *meta)
{
    int64_t format, api, nccl;
    const json_t *op = json_object_get(line->json, "op");
    if (!json_is_string(op) || strcmp(json_string_value(op), "meta") != 0)
        return muster_line_wrong(line, "op", "\"meta\" in the first line");
    if (muster_line_int(line, "format", MUSTER_TRACE_FORMAT, MUSTER_TRACE_FORMAT, &format) ||
        muster_line_int(line, "api", 1, MUSTER_TRACE_API_MAX, &api) ||
        muster_line_int(line, "nccl", 0, UINT32_MAX, &nccl) ||
        muster_line_i32(line, "rank", -1, &meta->rank) ||
        muster_line_i32(line, "nranks", 0, &meta->nranks) ||
        muster_line_i32(line, "local_rank", -1, &meta->local_rank) ||
        copy_text(line, "host", meta->host, sizeof meta->host) ||
        copy_text(line, "gpu", meta->gpu, sizeof meta->gpu) || read_end(line, meta)) {
        return -1;
    }
    meta->format = (unsigned)format;
    meta->api = (unsigned)api;
    meta->nccl = (uint32_t)nccl;
    return 0;
}

/* A number of a handle or context that lines before this one introduced; 0 where `none_allowed`. */
static int read_known(const struct muster_line *line, const char *name,
                      const struct muster_ids *ids, bool none_allowed, uint64_t *id)
{
    if (muster_line_u64(line, name, id))
        return -1;
    if ((*id == 0 && none_allowed) || muster_ids_get(ids, *id) != MUSTER_IDS_NONE)
        return 0;
    return muster_line_wrong(line, name, "a number that an earlier line introduced");
}

static int read_new(const struct muster_line *line, const char *name, struct muster_ids *ids,
                    uint32_t value, uint64_t *id)
{
    if (muster_line_u64(line, name, id))
        return -1;
    if (*id == 0 || muster_ids_get(ids, *id) != MUSTER_IDS_NONE)
        return muster_line_wrong(line, name, "a number not used before");
    return muster_ids_put(ids, *id, value) ? 0 : out_of_memory(line);
}

static int read_init(struct reader *reader, const struct muster_line *line,
                     struct muster_trace_call *call)
{
    struct muster_event_init *init = &call->init;
    *init = (struct muster_event_init){.rank = -1, .api = reader->trace.meta.api};
    if (read_new(line, "ctx", &reader->contexts, 0, &call->ctx))
        return -1;
    if (init->api <= 3)
        return 0;
    return muster_line_hash(line, "comm", &init->comm_hash) ||
                   muster_line_text(line, "name", &init->name) ||
                   muster_line_i32(line, "nNodes", INT32_MIN, &init->nnodes) ||
                   muster_line_i32(line, "nranks", INT32_MIN, &init->nranks) ||
                   muster_line_i32(line, "rank", INT32_MIN, &init->rank)
               ? -1
               : 0;
}

/* "type", a single bit, to its position. */
static int read_kind(const struct reader *reader, const struct muster_line *line, unsigned *kind)
{
    int64_t type;
    if (muster_line_int(line, "type", 1, 1 << (MUSTER_EVENT_KINDS - 1), &type))
        return -1;
    if ((type & (type - 1)) != 0 || !((unsigned)type & muster_trace_kinds(reader->trace.meta.api)))
        return muster_line_wrong(line, "type", "one event bit of the interface version");
    *kind = (unsigned)__builtin_ctzll((unsigned long long)type);
    return 0;
}

static bool has_words(unsigned kind)
{
    return kind == MUSTER_EVENT_COLL || kind == MUSTER_EVENT_P2P || kind == MUSTER_EVENT_COLL_API ||
           kind == MUSTER_EVENT_P2P_API || kind == MUSTER_EVENT_CE_COLL;
}

static void set_words(struct muster_event_op *op)
{
    op->func = muster_names_match(MUSTER_NAMES_FUNC, op->func_text);
    op->dtype = muster_names_match(MUSTER_NAMES_DTYPE, op->dtype_text);
    op->algo = muster_names_match(MUSTER_NAMES_ALGO, op->algo_text);
    op->proto = muster_names_match(MUSTER_NAMES_PROTO, op->proto_text);
}

static int read_event(const struct reader *reader, const struct muster_line *line,
                      struct muster_trace_call *call)
{
    unsigned api = reader->trace.meta.api;
    struct muster_event *event = &call->event;
    event->kind = (uint8_t)call->kind;
    for (const struct muster_trace_field *field = muster_trace_fields(call->kind); field->name;
         field++) {
        if (api >= field->first_api && api <= field->last_api &&
            muster_line_field(line, field, event)) {
            return -1;
        }
    }
    if (has_words(call->kind))
        set_words(&event->op);
    if (api >= 5 && (call->kind == MUSTER_EVENT_COLL || call->kind == MUSTER_EVENT_P2P))
        return read_known(line, "pgroup", &reader->handles, true, &call->parent_group);
    return 0;
}

static int read_start(struct reader *reader, const struct muster_line *line,
                      struct muster_trace_call *call)
{
    return read_kind(reader, line, &call->kind) ||
                   read_known(line, "ctx", &reader->contexts, true, &call->ctx) ||
                   read_known(line, "parent", &reader->handles, true, &call->parent) ||
                   read_event(reader, line, call) ||
                   read_new(line, "h", &reader->handles, call->kind, &call->handle)
               ? -1
               : 0;
}

/* Handle and type of a state or stop. */
static int read_target(struct reader *reader, const struct muster_line *line,
                       struct muster_trace_call *call)
{
    if (read_known(line, "h", &reader->handles, false, &call->handle) ||
        read_kind(reader, line, &call->kind)) {
        return -1;
    }
    if (call->kind != muster_ids_get(&reader->handles, call->handle))
        return muster_line_wrong(line, "type", "the type that the handle was started with");
    return 0;
}

static int read_state(struct reader *reader, const struct muster_line *line,
                      struct muster_trace_call *call)
{
    int64_t state;
    struct muster_event_args *args = &call->args;
    if (read_target(reader, line, call) || muster_line_int(line, "state", 0, UINT8_MAX, &state))
        return -1;
    call->state = (unsigned)state;
    args->given = true;
    if (muster_line_has(line, "ptimer"))
        return muster_line_u64(line, "ptimer", &args->ptimer);
    if (muster_line_has(line, "size"))
        return muster_line_u64(line, "size", &args->trans_bytes);
    if (muster_line_has(line, "appended"))
        return muster_line_i32(line, "appended", INT32_MIN, &args->appended);
    args->given = false;
    return 0;
}

static int read_fini(struct reader *reader, const struct muster_line *line,
                     struct muster_trace_call *call)
{
    return read_known(line, "ctx", &reader->contexts, false, &call->ctx);
}

static int read_call(struct reader *reader, const struct muster_line *line,
                     struct muster_trace_call *call)
{
    static const struct {
        const char *word;
        int (*read)(struct reader *, const struct muster_line *, struct muster_trace_call *);
    } ops[] = {
        [MUSTER_TRACE_INIT] = {"init", read_init},    [MUSTER_TRACE_START] = {"start", read_start},
        [MUSTER_TRACE_STATE] = {"state", read_state}, [MUSTER_TRACE_STOP] = {"stop", read_target},
        [MUSTER_TRACE_FINI] = {"fini", read_fini},
    };
    const json_t *op = json_object_get(line->json, "op");
    for (size_t i = 0; json_is_string(op) && i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(json_string_value(op), ops[i].word) == 0) {
            call->op = (enum muster_trace_op)i;
            return muster_line_u64(line, "t", &call->t_ns) ||
                           muster_line_i32(line, "tid", 0, &call->tid) ||
                           ops[i].read(reader, line, call)
                       ? -1
                       : 0;
        }
    }
    return muster_line_wrong(line, "op", "init, start, state, stop or fini");
}

static int add_call(struct reader *reader, const struct muster_line *line)
{
    struct muster_trace *trace = &reader->trace;
    if (trace->calls == CALLS_MAX) {
        return muster_fail(line->err, "%s:%zu: more than %zu calls", line->file, line->number,
                           CALLS_MAX);
    }
    struct muster_trace_call *call =
        muster_arena_add(&trace->memory, &trace->call, &trace->calls, sizeof *call);
    return read_call(reader, line, call);
}

static int no_object(const struct muster_line *line, const char *found)
{
    char shown[120];
    muster_text_copy(shown, sizeof shown, found);
    return muster_fail(line->err, "%s:%zu: %s, expected a JSON object", line->file, line->number,
                       shown);
}

/* 1: the last line, and it was cut short. */
static int read_line(struct reader *reader, struct muster_line *line, const char *text,
                     size_t bytes, bool ended)
{
    json_error_t why;
    if (bytes > MUSTER_TRACE_LINE_MAX)
        return muster_fail(line->err, "%s:%zu: a line longer than 1 MiB", line->file, line->number);
    line->json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!line->json)
        return !ended && line->number > 1 ? 1 : no_object(line, why.text);
    int failed;
    if (!json_is_object(line->json))
        failed = no_object(line, "another JSON value");
    else if (line->number == 1)
        failed = read_meta(line, &reader->trace.meta);
    else
        failed = add_call(reader, line);
    json_decref(line->json);
    return failed;
}

static int read_lines(struct reader *reader, struct muster_line *line, const char *text,
                      size_t bytes, bool *truncated)
{
    const char *end = text + bytes;
    if (bytes == 0)
        return muster_fail(line->err, "%s:1: an empty file, expected the meta line", line->file);
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((newline ? newline : end) - text);
        line->number++;
        int cut = read_line(reader, line, text, length, newline != NULL);
        if (cut < 0)
            return -1;
        *truncated = cut;
        text = newline ? newline + 1 : end;
    }
    return 0;
}

int muster_trace_parse(const char *name, const char *text, size_t bytes, struct muster_trace *trace,
                       bool *truncated, struct muster_err *err)
{
    bool cut = false;
    struct muster_arena own = {0};
    struct reader *reader = muster_arena_array(&own, 1, sizeof *reader);
    if (muster_arena_check(&own, err, name))
        return -1;
    struct muster_line line = {.file = name, .words = &reader->words, .err = err};
    struct muster_arena *memory = &reader->trace.memory;
    reader->words.text = muster_arena_array(memory, bytes + 1, 1);
    int failed = memory->failed ? 0 : read_lines(reader, &line, text, bytes, &cut);
    if (failed || muster_arena_check(memory, err, name)) {
        failed = -1;
        muster_trace_free(&reader->trace);
    } else {
        *trace = reader->trace;
        *truncated = cut;
    }
    muster_ids_free(&reader->handles);
    muster_ids_free(&reader->contexts);
    muster_arena_free(&own);
    return failed;
}

int muster_trace_read(const char *path, struct muster_trace *trace, bool *truncated,
                      struct muster_err *err)
{
    char *text;
    size_t bytes;
    bool cut, parsed_cut;
    if (muster_xz_load(path, &text, &bytes, &cut, err))
        return -1;
    int failed = muster_trace_parse(path, text, bytes, trace, &parsed_cut, err);
    free(text);
    if (!failed)
        *truncated = cut || parsed_cut;
    return failed;
}

void muster_trace_free(struct muster_trace *trace)
{
    muster_arena_free(&trace->memory);
    *trace = (struct muster_trace){0};
}
