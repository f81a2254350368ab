#include "run/run_process.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/host.h"
#include "run/refresh.h"
#include "run/trim.h"
#include "segment/segment_reader.h"
#include "segment/totals.h"

enum { SILENT_S = 15 }; /* a log of another host that grew since is alive */

void muster_run_note(struct muster_run *run, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *line = muster_arena_vformat(&run->memory, fmt, args);
    va_end(args);
    *(const char **)muster_arena_add(&run->memory, &run->note, &run->notes, sizeof line) = line;
}

void muster_process_free(struct muster_process *process)
{
    free(process->segment);
    free(process->comm);
    if (process->refreshed)
        process->refreshed->window.op = NULL; /* is `op` */
    muster_refreshed_free(process->refreshed);
    free(process->op);
    free(process->log);
}

/* Of a process whose segment nobody can see: it lies in memory of its own, or on another host. */
static bool log_still_grows(const struct muster_log *log, const struct muster_segment *image)
{
    struct muster_host host;
    muster_host_read(&host, getenv("NCCL_HOSTID"));
    if (log->identity.boot_hash == host.boot_hash && strcmp(log->identity.host, host.id) == 0)
        return muster_process_start_ticks((pid_t)log->identity.pid) == log->identity.start_ticks &&
               log->identity.start_ticks != 0;
    uint64_t now = muster_unix_ns();
    uint64_t seen = atomic_load_explicit(&image->heartbeat_unix_ns, memory_order_relaxed);
    return seen > now || now - seen < SILENT_S * MUSTER_NS_PER_S;
}

enum muster_process_state muster_process_state_of(bool alive, uint32_t exit_state)
{
    return alive                                 ? MUSTER_PROCESS_RUNNING
           : exit_state == MUSTER_EXIT_FINALIZED ? MUSTER_PROCESS_FINALIZED
           : exit_state == MUSTER_EXIT_EXITED    ? MUSTER_PROCESS_EXITED
                                                 : MUSTER_PROCESS_KILLED;
}

static enum muster_process_state state_of(const struct muster_pieces *pieces, bool from_log)
{
    uint32_t exit_state = atomic_load_explicit(&pieces->segment->exit_state, memory_order_relaxed);
    enum muster_process_state state = muster_process_state_of(pieces->alive, exit_state);
    bool grows = state == MUSTER_PROCESS_KILLED && from_log &&
                 log_still_grows(&pieces->log, pieces->segment);
    return grows ? MUSTER_PROCESS_RUNNING : state;
}

static bool append_op(struct muster_process *process, const struct muster_op *op)
{
    if (!muster_grow(&process->op, process->ops, sizeof(*process->op)))
        return false;
    if (process->refreshed)
        process->refreshed->window.op = process->op;
    process->op[process->ops++] = *op;
    return true;
}

/* Of the operations that the segment retired, or that the log has. */
static uint64_t missing_from(const struct muster_process *process, uint64_t log_end)
{
    uint64_t head = atomic_load_explicit(&process->segment->ring_head, memory_order_relaxed);
    return (head > log_end ? head : log_end) - process->log_ops - process->ops;
}

/* What the log has not got yet, or never will. */
static bool add_ring(struct muster_process *process, uint64_t log_end)
{
    struct muster_segment *segment = process->segment;
    uint64_t head = atomic_load_explicit(&segment->ring_head, memory_order_relaxed);
    uint64_t from = head > MUSTER_SEG_RING ? head - MUSTER_SEG_RING : 0;
    /* The entry that comes next may be half written. */
    if (head >= MUSTER_SEG_RING &&
        (process->state == MUSTER_PROCESS_KILLED || process->state == MUSTER_PROCESS_RUNNING))
        from++;
    for (uint64_t n = from > log_end ? from : log_end; n < head; n++) {
        const struct muster_op *op = &segment->ring[n % MUSTER_SEG_RING];
        if (op->comm != 0 && !append_op(process, op))
            return false;
    }
    process->ops_missing = missing_from(process, log_end);
    process->read_to = head > log_end ? head : log_end;
    return true;
}

static void no_times(struct muster_op *op)
{
    op->source = MUSTER_SOURCE_NONE;
    op->begin_ns = op->end_ns = 0;
}

/* Its launch was not shown, or is just being written. */
static void no_launch(struct muster_op *op)
{
    op->flags = (op->flags & MUSTER_OP_UNSCORED) | MUSTER_OP_API_ONLY;
    op->algo = MUSTER_ALGO_UNKNOWN;
    op->proto = MUSTER_PROTO_UNKNOWN;
    op->channels = 0;
}

static bool add_slot(struct muster_process *process, struct muster_row_index *rows, unsigned i,
                     bool from_log)
{
    struct muster_segment *segment = process->segment;
    const struct muster_seg_slot *slot = &segment->slot[i];
    unsigned state = atomic_load_explicit(&segment->slot_state[i], memory_order_relaxed) & 0xff;
    struct muster_op op;
    if (state != MUSTER_SLOT_CALLED && state != MUSTER_SLOT_LAUNCHED && state != MUSTER_SLOT_DONE)
        return true;
    muster_slot_op(slot, &op);
    if (state == MUSTER_SLOT_CALLED)
        no_launch(&op);
    /* A living process may have moved on between two of the copied times; the log's was living. */
    if ((from_log || process->state == MUSTER_PROCESS_RUNNING) && state != MUSTER_SLOT_DONE)
        no_times(&op);
    if (slot->comm_entry >= MUSTER_SEG_COMMS || segment->comm[slot->comm_entry].uid != op.comm)
        op.comm = MUSTER_SEG_OTHER_UID;
    muster_rows_add(segment, rows, &op,
                    muster_op_size_bytes(op.func, op.dtype, op.count, slot->nranks));
    return append_op(process, &op);
}

static bool add_in_flight(struct muster_process *process, bool from_log)
{
    struct muster_row_index *rows = malloc(sizeof(*rows));
    bool whole = rows != NULL;
    if (rows)
        muster_rows_index(process->segment, rows);
    for (unsigned i = 0; whole && i < MUSTER_SEG_SLOTS; i++)
        whole = add_slot(process, rows, i, from_log);
    free(rows);
    return whole;
}

static int by_uid(const void *a, const void *b)
{
    const struct muster_log_comm *one = a, *two = b;
    return (one->uid > two->uid) - (one->uid < two->uid);
}

/* Those that only the segment knows. */
static bool add_comms(struct muster_process *process)
{
    size_t known = process->comms;
    if (known > 0)
        qsort(process->comm, known, sizeof(*process->comm), by_uid);
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *comm = &process->segment->comm[i];
        const struct muster_log_comm key = {.uid = comm->uid};
        if (comm->uid == 0 ||
            (known > 0 && bsearch(&key, process->comm, known, sizeof(key), by_uid)))
            continue;
        if (!muster_grow(&process->comm, process->comms, sizeof(*process->comm)))
            return false;
        struct muster_log_comm *added = &process->comm[process->comms++];
        *added = (struct muster_log_comm){comm->uid,    comm->id,     comm->rank,
                                          comm->nranks, comm->nnodes, ""};
        memcpy(added->name, comm->name, sizeof(added->name));
    }
    if (process->comms > known)
        qsort(process->comm, process->comms, sizeof(*process->comm), by_uid);
    return true;
}

const struct muster_log_comm *muster_process_comm(const struct muster_process *process,
                                                  uint32_t uid)
{
    struct muster_log_comm key = {.uid = uid};
    return process->comms ? bsearch(&key, process->comm, process->comms, sizeof(key), by_uid)
                          : NULL;
}

/* Its operations, or where they are. */
static void take_log_ops(struct muster_process *process, struct muster_pieces *pieces)
{
    struct muster_log *log = &pieces->log;
    if (pieces->log_path) {
        process->log = pieces->log_path;
        process->log_end = log->next_op;
        process->log_ops = log->ops;
        pieces->log_path = NULL;
        return;
    }
    process->op = log->op;
    process->ops = log->ops;
    log->op = NULL;
}

int muster_process_read_ops(const struct muster_process *process, muster_op_taker take, void *to,
                            struct muster_err *err)
{
    if (process->log && muster_log_read_ops(process->log, process->log_end, take, to, err) != 0)
        return -1;
    if (process->ops)
        take(to, process->op, process->ops);
    return 0;
}

static uint64_t heartbeat_of(const struct muster_segment *segment)
{
    return segment ? atomic_load_explicit(&segment->heartbeat_unix_ns, memory_order_relaxed) : 0;
}

static uint64_t last_seen(const struct muster_process *process, const struct muster_log *log)
{
    uint64_t seen = heartbeat_of(process->segment), logged = heartbeat_of(log->image);
    if (logged > seen)
        seen = logged;
    return seen > process->identity.begin_unix_ns ? seen : process->identity.begin_unix_ns;
}

static int by_operation(const void *a, const void *b)
{
    const struct muster_seg_slot *one = *(const struct muster_seg_slot *const *)a;
    const struct muster_seg_slot *two = *(const struct muster_seg_slot *const *)b;
    if (one->enqueue_ns != two->enqueue_ns)
        return one->enqueue_ns < two->enqueue_ns ? -1 : 1;
    if (one->number != two->number)
        return one->number < two->number ? -1 : 1;
    if (one->comm != two->comm)
        return one->comm < two->comm ? -1 : 1;
    if (one->peer != two->peer)
        return one->peer < two->peer ? -1 : 1;
    return (one->func > two->func) - (one->func < two->func);
}

static size_t sort_slots(struct muster_segment *segment, struct muster_seg_slot **slot)
{
    size_t n = 0;
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++)
        if (atomic_load_explicit(&segment->slot_state[i], memory_order_relaxed) != 0)
            slot[n++] = &segment->slot[i];
    qsort(slot, n, sizeof(*slot), by_operation);
    return n;
}

static void retire(struct muster_segment *segment, struct muster_row_index *rows,
                   const struct muster_op *logged)
{
    struct muster_op op = *logged;
    unsigned entry = 0;
    while (entry < MUSTER_SEG_COMMS && segment->comm[entry].uid != op.comm)
        entry++;
    struct muster_seg_comm *comm = &segment->comm[entry];
    op.comm = comm->uid;
    comm->retired++;
    muster_rows_add(segment, rows, &op,
                    muster_op_size_bytes(op.func, op.dtype, op.count, comm->nranks));
}

/* What the log has behind its newest image: those operations count, and are in flight no more. */
static bool catch_up(struct muster_segment *segment, const struct muster_log *log)
{
    struct muster_row_index *rows = malloc(sizeof(*rows));
    struct muster_seg_slot **slot = calloc(MUSTER_SEG_SLOTS, sizeof(struct muster_seg_slot *));
    bool whole = rows && slot;
    size_t n = whole ? sort_slots(segment, slot) : 0;
    if (whole)
        muster_rows_index(segment, rows);
    for (size_t i = log->ops_imaged; whole && i < log->ops; i++) {
        const struct muster_op *op = &log->op[i];
        struct muster_seg_slot like = {.number = op->number,
                                       .enqueue_ns = op->enqueue_ns,
                                       .comm = op->comm,
                                       .peer = op->peer,
                                       .func = op->func};
        struct muster_seg_slot *key = &like;
        struct muster_seg_slot **found =
            n ? bsearch(&key, slot, n, sizeof(*slot), by_operation) : NULL;
        if (found)
            atomic_store_explicit(&segment->slot_state[*found - segment->slot], 0,
                                  memory_order_relaxed);
        retire(segment, rows, op);
    }
    free(rows);
    free(slot);
    return whole;
}

static bool put_together(struct muster_process *process, struct muster_pieces *pieces,
                         bool from_log)
{
    struct muster_log *log = &pieces->log;
    process->segment = pieces->segment;
    pieces->segment = NULL;
    process->identity = process->segment->identity;
    process->last_seen_unix_ns = last_seen(process, log);
    muster_rows_undo(process->segment);
    bool whole = !from_log || catch_up(process->segment, log);
    take_log_ops(process, pieces);
    process->comm = log->comm;
    process->comms = log->comms;
    log->comm = NULL;
    whole = add_comms(process) && whole;
    if (from_log)
        process->ops_missing = missing_from(process, log->next_op);
    else
        whole = add_ring(process, log->next_op) && whole;
    process->retired = process->ops;
    whole = add_in_flight(process, from_log) && whole;
    muster_run_trim(process->segment);
    return whole;
}

static void note_log(struct muster_run *run, const struct muster_process *process,
                     const struct muster_log *log, bool from_log)
{
    const char *stem = process->identity.file_stem;
    if (from_log)
        muster_run_note(run,
                        "%s: only the log is left; it is known up to the log's last second, %llu "
                        "of its operations in totals only",
                        stem, (unsigned long long)process->ops_missing);
    if (log->damaged)
        muster_run_note(run, "%s.log: %u damaged stretches skipped, the first at byte %llu", stem,
                        log->damaged, (unsigned long long)log->damaged_at);
}

void muster_run_add(struct muster_run *run, struct muster_pieces *pieces)
{
    struct muster_process process = {0};
    bool from_log = !pieces->segment;
    if (from_log) {
        pieces->segment = pieces->log.image;
        pieces->log.image = NULL;
    }
    if (!muster_grow(&run->process, run->processes, sizeof(*run->process))) {
        run->memory.failed = true;
        free(pieces->segment);
        muster_log_free(&pieces->log);
        free(pieces->log_path);
        return;
    }
    process.state = state_of(pieces, from_log);
    if (!put_together(&process, pieces, from_log))
        run->memory.failed = true;
    note_log(run, &process, &pieces->log, from_log);
    run->process[run->processes++] = process;
    muster_log_free(&pieces->log);
    free(pieces->log_path);
}

void muster_run_add_known(struct muster_run *run, struct muster_process *process)
{
    if (!muster_grow(&run->process, run->processes, sizeof(*run->process))) {
        run->memory.failed = true;
        return;
    }
    run->process[run->processes++] = *process;
    memset(process, 0, sizeof(*process));
}

static bool copy_comms(struct muster_process *process, const struct muster_log *log)
{
    process->comms = 0;
    for (size_t i = 0; i < log->comms; i++) {
        if (!muster_grow(&process->comm, process->comms, sizeof(*process->comm)))
            return false;
        process->comm[process->comms++] = log->comm[i];
    }
    return true;
}

/* Its image as of now; the tail keeps its own, which later patches go on from. */
static bool show_image(struct muster_process *process, const struct muster_log *log)
{
    struct muster_segment *segment = muster_segment_blank();
    if (!segment)
        return false;
    memcpy((void *)segment, log->image, sizeof(*segment));
    free(process->segment);
    process->segment = segment;
    process->identity = segment->identity = log->identity;
    muster_rows_undo(segment);
    return catch_up(segment, log);
}

bool muster_process_refresh_log(struct muster_process *process, const char *path, size_t most,
                                bool *no_memory)
{
    struct muster_err err;
    if (!process->refreshed) { /* its log is read from the beginning */
        free(process->log);
        process->log = NULL;
        process->log_ops = process->ops = process->retired = 0;
        if (!muster_process_begin_refresh(process, most, MUSTER_RUN_LATEST))
            return false;
    } else if (!process->refreshed->tail)
        return false;
    if (muster_process_take_log(process, path, most, &err) != 0)
        return false;
    const struct muster_log *log = &process->refreshed->tail->log;
    bool whole = show_image(process, log) && copy_comms(process, log) && add_comms(process);
    const struct muster_pieces pieces = {.segment = process->segment, .log = *log};
    process->state = state_of(&pieces, true);
    process->read_to = log->next_op;
    process->last_seen_unix_ns = last_seen(process, log);
    *no_memory |= !whole || !add_in_flight(process, true);
    muster_run_trim(process->segment);
    return true;
}

/* One that is over is read whole, once more; what it still did is in its ring. */
static bool read_last(struct muster_process *process, const char *path)
{
    struct muster_segment *segment;
    if (muster_segment_read(path, &segment, NULL) != 0)
        return false;
    muster_rows_undo(segment);
    free(process->segment);
    process->segment = segment;
    process->identity = segment->identity;
    return true;
}

bool muster_process_refresh(struct muster_process *process, const char *path, bool alive,
                            size_t most, struct muster_op *scratch, bool *no_memory)
{
    if (!process->refreshed && !muster_process_begin_refresh(process, most, MUSTER_RUN_LATEST))
        return false;
    uint64_t missed = process->refreshed->missed;
    muster_process_take_ring(process, path, most, scratch);
    process->ops_missing += process->refreshed->missed - missed;
    if (alive ? !muster_process_read_tables(process, path, true) ||
                    muster_segment_read_flight(path, process->segment, NULL) != 0
              : !read_last(process, path))
        return false;
    const struct muster_pieces pieces = {.segment = process->segment, .alive = alive};
    process->state = state_of(&pieces, false);
    if (heartbeat_of(process->segment) > process->last_seen_unix_ns)
        process->last_seen_unix_ns = heartbeat_of(process->segment);
    *no_memory |= !add_comms(process) || !add_in_flight(process, false);
    muster_run_trim(process->segment);
    return true;
}
