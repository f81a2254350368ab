#include "trace/trace_record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "trace/handle_ids.h"
#include "trace/trace_format.h"

enum { BUFFER = 1 << 20, CONTEXTS = 4096 };

struct muster_trace_recorder {
    pthread_mutex_t mutex;
    FILE *out; /* NULL: closed, or given up */
    int fd;
    int error; /* errno of a failed write */
    char *buffer;
    char path[1024 + 32]; /* of a directory as long as a setting may be */
    pid_t pid;            /* a forked child shares the file and must not write to it */
    unsigned api;
    uint64_t flushed_ns;
    struct muster_trace_who who;
    char host[128], gpu[64];
    struct muster_trace_recorder *next_closed;
    uint64_t contexts;             /* numbered so far */
    const void *context[CONTEXTS]; /* number n in entry n % CONTEXTS */
    struct muster_handle_ids handles;
};

static int create(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static int create_file(struct muster_trace_recorder *recorder, const char *dir, int32_t rank,
                       struct muster_err *err)
{
    int fd = -1;
    if (mkdir(dir, 0700) && errno != EEXIST)
        return muster_fail(err, "%s: %s", dir, strerror(errno));
    if (rank >= 0) {
        snprintf(recorder->path, sizeof recorder->path, "%s/rank-%" PRId32 ".jsonl", dir, rank);
        fd = create(recorder->path);
    }
    if (fd < 0) {
        snprintf(recorder->path, sizeof recorder->path, "%s/pid-%d.jsonl", dir, (int)getpid());
        fd = create(recorder->path);
    }
    return fd < 0 ? muster_fail(err, "%s: %s", recorder->path, strerror(errno)) : fd;
}

/* The stream's way out. A forked child inherits the buffer and writes it at its exit. */
static ssize_t write_out(void *cookie, const char *data, size_t bytes)
{
    struct muster_trace_recorder *recorder = cookie;
    size_t done = 0;
    while (recorder->pid == getpid() && done < bytes) {
        ssize_t n = write(recorder->fd, data + done, bytes - done);
        if (n < 0 && errno != EINTR) {
            recorder->error = errno;
            return 0;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)bytes;
}

static int close_out(void *cookie)
{
    struct muster_trace_recorder *recorder = cookie;
    return close(recorder->fd);
}

static int open_stream(struct muster_trace_recorder *recorder, struct muster_err *err)
{
    recorder->buffer = malloc(BUFFER);
    recorder->out =
        recorder->buffer
            ? fopencookie(recorder, "w",
                          (cookie_io_functions_t){.write = write_out, .close = close_out})
            : NULL;
    if (!recorder->out)
        return muster_fail_memory(err, recorder->path);
    setvbuf(recorder->out, recorder->buffer, _IOFBF, BUFFER);
    return 0;
}

int muster_trace_recorder_open(struct muster_trace_recorder **recorder, const char *dir,
                               const struct muster_trace_who *who, struct muster_err *err)
{
    struct muster_trace_recorder *made = calloc(1, sizeof *made);
    if (!made)
        return muster_fail_memory(err, "the trace recorder");
    made->pid = getpid();
    made->fd = create_file(made, dir, who->rank, err);
    if (made->fd < 0)
        goto err_free;
    if (open_stream(made, err))
        goto err_file;
    pthread_mutex_init(&made->mutex, NULL);
    made->who = *who;
    muster_text_copy(made->host, sizeof made->host, who->host);
    muster_text_copy(made->gpu, sizeof made->gpu, who->gpu);
    muster_log(MUSTER_LOG_WARN, "recording every call to %s: this slows the job down", made->path);
    *recorder = made;
    return 0;

err_file:
    close(made->fd);
    unlink(made->path);
    free(made->buffer);
err_free:
    free(made);
    return -1;
}

/* The file stops in the middle of a line, which readers leave out. */
static void give_up(struct muster_trace_recorder *recorder)
{
    muster_log(MUSTER_LOG_WARN, "%s: %s; recording of calls stops", recorder->path,
               strerror(recorder->error));
    fclose(recorder->out);
    recorder->out = NULL;
}

/* Closed recorders keep their memory: NCCL's threads may still be on their way here. The list is
 * for leak checkers. */
static _Atomic(struct muster_trace_recorder *) closed;

static void keep(struct muster_trace_recorder *recorder)
{
    recorder->next_closed = atomic_load_explicit(&closed, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&closed, &recorder->next_closed, recorder,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

void muster_trace_recorder_close(struct muster_trace_recorder *recorder)
{
    if (!recorder || recorder->pid != getpid())
        return;
    pthread_mutex_lock(&recorder->mutex);
    if (recorder->out && fflush(recorder->out)) {
        give_up(recorder);
    } else if (recorder->out) {
        fclose(recorder->out);
        recorder->out = NULL;
    }
    free(recorder->buffer);
    recorder->buffer = NULL;
    pthread_mutex_unlock(&recorder->mutex);
    keep(recorder);
}

/* False: nothing is to be recorded. Else the mutex is held. */
static bool lock(struct muster_trace_recorder *recorder)
{
    if (!recorder || recorder->pid != getpid())
        return false;
    pthread_mutex_lock(&recorder->mutex);
    if (recorder->out)
        return true;
    pthread_mutex_unlock(&recorder->mutex);
    return false;
}

static void unlock(struct muster_trace_recorder *recorder)
{
    if (ferror(recorder->out))
        give_up(recorder);
    pthread_mutex_unlock(&recorder->mutex);
}

static void begin_line(const struct muster_trace_recorder *recorder, struct muster_json *json,
                       uint64_t now, const char *op)
{
    muster_json_begin(json, recorder->out, false);
    muster_json_object(json, NULL);
    muster_json_u64(json, "t", now);
    muster_json_i64(json, "tid", gettid());
    muster_json_str(json, "op", op);
}

static void end_line(struct muster_trace_recorder *recorder, struct muster_json *json, uint64_t now)
{
    muster_json_end(json);
    if (now - recorder->flushed_ns >= MUSTER_NS_PER_S && now > recorder->flushed_ns) {
        fflush(recorder->out);
        recorder->flushed_ns = now;
    }
}

/* A line about an event that was started. NULL: it is not known, and there is no line. */
static const struct muster_handle_ids_entry *
begin_line_of(const struct muster_trace_recorder *recorder, struct muster_json *json, uint64_t now,
              const char *op, const void *handle)
{
    const struct muster_handle_ids_entry *event =
        muster_handle_ids_find(&recorder->handles, handle);
    if (event) {
        begin_line(recorder, json, now, op);
        muster_json_u64(json, "h", event->id);
        muster_json_u64(json, "type", 1u << event->kind);
    }
    return event;
}

/* The first line, from what is known with the first communicator. */
static void write_meta(struct muster_trace_recorder *recorder, const struct muster_event_init *init)
{
    struct muster_json json;
    const struct muster_trace_who *who = &recorder->who;
    muster_json_begin(&json, recorder->out, false);
    muster_json_object(&json, NULL);
    muster_json_str(&json, "op", "meta");
    muster_json_u64(&json, "format", MUSTER_TRACE_FORMAT);
    muster_json_u64(&json, "api", init->api);
    muster_json_u64(&json, "nccl", who->nccl);
    muster_json_i64(&json, "rank", who->rank >= 0 ? who->rank : init->rank >= 0 ? init->rank : -1);
    muster_json_i64(&json, "nranks",
                    who->world > 0     ? who->world
                    : init->nranks > 0 ? init->nranks
                                       : 0);
    muster_json_str(&json, "host", recorder->host);
    muster_json_i64(&json, "local_rank", who->local_rank >= 0 ? who->local_rank : -1);
    muster_json_str(&json, "gpu", recorder->gpu);
    muster_json_end(&json);
}

static uint64_t context_id(const struct muster_trace_recorder *recorder, const void *context)
{
    uint64_t oldest = recorder->contexts > CONTEXTS ? recorder->contexts - CONTEXTS : 0;
    for (uint64_t id = recorder->contexts; id > oldest; id--)
        if (recorder->context[id % CONTEXTS] == context)
            return id;
    return 0;
}

static uint64_t handle_id(const struct muster_trace_recorder *recorder, const void *handle)
{
    const struct muster_handle_ids_entry *entry =
        muster_handle_ids_find(&recorder->handles, handle);
    return entry ? entry->id : 0;
}

static void write_hash(struct muster_json *json, const char *key, uint64_t hash)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, hash);
    muster_json_str(json, key, hex);
}

static void write_u64(struct muster_json *json, const char *key, uint64_t value)
{
    char digits[24];
    if (value <= INT64_MAX) {
        muster_json_u64(json, key, value);
    } else {
        snprintf(digits, sizeof digits, "%" PRIu64, value);
        muster_json_str(json, key, digits);
    }
}

static void write_field(struct muster_json *json, const struct muster_trace_field *field,
                        const struct muster_event *event)
{
    const void *at = (const char *)event + field->offset;
    char address[24];
    switch (field->type) {
    case MUSTER_TRACE_I32:
        muster_json_i64(json, field->name, *(const int32_t *)at);
        break;
    case MUSTER_TRACE_U8:
        muster_json_u64(json, field->name, *(const uint8_t *)at);
        break;
    case MUSTER_TRACE_U64:
        write_u64(json, field->name, *(const uint64_t *)at);
        break;
    case MUSTER_TRACE_TAG:
        if (*(const uint64_t *)at)
            write_u64(json, field->name, *(const uint64_t *)at);
        break;
    case MUSTER_TRACE_BOOL:
        muster_json_u64(json, field->name, *(const bool *)at);
        break;
    case MUSTER_TRACE_TEXT:
        muster_json_str(json, field->name, *(const char *const *)at);
        break;
    case MUSTER_TRACE_POINTER:
        snprintf(address, sizeof address, "%p", *(void *const *)at);
        muster_json_str(json, field->name, address);
        break;
    case MUSTER_TRACE_HASH:
        write_hash(json, field->name, *(const uint64_t *)at);
        break;
    }
}

void muster_trace_init(struct muster_trace_recorder *recorder, const void *context,
                       const struct muster_event_init *init)
{
    struct muster_json json;
    uint64_t now = muster_now_ns();
    if (!lock(recorder))
        return;
    if (recorder->contexts == 0) {
        recorder->api = init->api;
        write_meta(recorder, init);
    }
    recorder->contexts++;
    recorder->context[recorder->contexts % CONTEXTS] = context;
    begin_line(recorder, &json, now, "init");
    muster_json_u64(&json, "ctx", recorder->contexts);
    if (recorder->api >= 4) {
        write_hash(&json, "comm", init->comm_hash);
        muster_json_str(&json, "name", init->name);
        muster_json_i64(&json, "nNodes", init->nnodes);
        muster_json_i64(&json, "nranks", init->nranks);
        muster_json_i64(&json, "rank", init->rank);
    }
    end_line(recorder, &json, now);
    unlock(recorder);
}

static void write_start(struct muster_trace_recorder *recorder, struct muster_json *json,
                        const void *context, const void *handle, const struct muster_event *event)
{
    bool grouped =
        recorder->api >= 5 && (event->kind == MUSTER_EVENT_COLL || event->kind == MUSTER_EVENT_P2P);
    /* Looked up before the handle gets its number: the parent may be an older event of the same
     * handle. */
    uint64_t parent = handle_id(recorder, event->parent);
    uint64_t group = grouped ? handle_id(recorder, event->op.parent_group) : 0;
    muster_json_u64(json, "ctx", context_id(recorder, context));
    muster_json_u64(json, "h", muster_handle_ids_add(&recorder->handles, handle, event->kind));
    muster_json_u64(json, "type", 1u << event->kind);
    muster_json_u64(json, "parent", parent);
    for (const struct muster_trace_field *field = muster_trace_fields(event->kind); field->name;
         field++) {
        if (recorder->api >= field->first_api && recorder->api <= field->last_api)
            write_field(json, field, event);
    }
    if (grouped)
        muster_json_u64(json, "pgroup", group);
}

void muster_trace_start(struct muster_trace_recorder *recorder, const void *context,
                        const void *handle, const struct muster_event *event)
{
    struct muster_json json;
    uint64_t now = muster_now_ns();
    if (!lock(recorder))
        return;
    /* Without an init there is no meta line yet, and nothing to which the event could belong. */
    if (recorder->contexts && 1u << event->kind & muster_trace_kinds(recorder->api)) {
        begin_line(recorder, &json, now, "start");
        write_start(recorder, &json, context, handle, event);
        end_line(recorder, &json, now);
    }
    unlock(recorder);
}

/* Which of the arguments a state carries. */
static void write_args(struct muster_json *json, unsigned kind,
                       const struct muster_event_args *args)
{
    if (kind == MUSTER_EVENT_KERNEL_CH || kind == MUSTER_EVENT_KERNEL_PHASE)
        write_u64(json, "ptimer", args->ptimer);
    else if (kind == MUSTER_EVENT_PROXY_STEP)
        write_u64(json, "size", args->trans_bytes);
    else if (kind == MUSTER_EVENT_PROXY_CTRL)
        muster_json_i64(json, "appended", args->appended);
}

void muster_trace_state(struct muster_trace_recorder *recorder, const void *handle, unsigned state,
                        const struct muster_event_args *args)
{
    struct muster_json json;
    uint64_t now = muster_now_ns();
    if (!lock(recorder))
        return;
    const struct muster_handle_ids_entry *target =
        begin_line_of(recorder, &json, now, "state", handle);
    if (target) {
        muster_json_u64(&json, "state", state & UINT8_MAX);
        if (args && args->given)
            write_args(&json, target->kind, args);
        end_line(recorder, &json, now);
    }
    unlock(recorder);
}

void muster_trace_stop(struct muster_trace_recorder *recorder, const void *handle)
{
    struct muster_json json;
    uint64_t now = muster_now_ns();
    if (!lock(recorder))
        return;
    if (begin_line_of(recorder, &json, now, "stop", handle))
        end_line(recorder, &json, now);
    unlock(recorder);
}

void muster_trace_fini(struct muster_trace_recorder *recorder, const void *context)
{
    struct muster_json json;
    uint64_t now = muster_now_ns();
    if (!lock(recorder))
        return;
    uint64_t id = context_id(recorder, context);
    if (id) {
        begin_line(recorder, &json, now, "fini");
        muster_json_u64(&json, "ctx", id);
        end_line(recorder, &json, now);
    }
    unlock(recorder);
}
