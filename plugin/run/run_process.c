#include "segment/run_process.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/host.h"
#include "segment/rows.h"

enum { SILENT_S = 15 }; /* a log of another host that grew since is alive */

void muster_run_note(struct muster_run *run, const char *fmt, ...)
{
    va_list args;
    char *line;
    va_start(args, fmt);
    int n = vasprintf(&line, fmt, args);
    va_end(args);
    if (n < 0 || !muster_grow(&run->note, run->notes, sizeof(*run->note))) {
        run->no_memory = true;
        free(n < 0 ? NULL : line);
        return;
    }
    run->note[run->notes++] = line;
}

void muster_process_free(struct muster_process *process)
{
    free(process->segment);
    free(process->comm);
    free(process->op);
}

/* Of a process whose segment nobody can see: it lies in memory of its own, or on another host. */
static bool log_still_grows(const struct muster_log *log)
{
    struct muster_host host;
    muster_host_read(&host, getenv("NCCL_HOSTID"));
    if (log->identity.boot_hash == host.boot_hash && strcmp(log->identity.host, host.id) == 0)
        return muster_process_start_ticks((pid_t)log->identity.pid) == log->identity.start_ticks &&
               log->identity.start_ticks != 0;
    uint64_t seen = log->process.heartbeat_unix_ns, now = muster_unix_ns();
    return seen > now || now - seen < SILENT_S * MUSTER_NS_PER_S;
}

static enum muster_process_state state_of(const struct muster_pieces *pieces, bool from_log)
{
    unsigned exit_state = atomic_load_explicit(&pieces->segment->exit_state, memory_order_relaxed);
    if (pieces->alive)
        return MUSTER_PROCESS_RUNNING;
    if (exit_state == MUSTER_EXIT_FINALIZED)
        return MUSTER_PROCESS_FINALIZED;
    if (exit_state == MUSTER_EXIT_EXITED)
        return MUSTER_PROCESS_EXITED;
    return from_log && log_still_grows(&pieces->log) ? MUSTER_PROCESS_RUNNING
                                                     : MUSTER_PROCESS_KILLED;
}

static bool append_op(struct muster_process *process, const struct muster_op *op)
{
    if (!muster_grow(&process->op, process->ops, sizeof(*process->op)))
        return false;
    process->op[process->ops++] = *op;
    return true;
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
    uint64_t retired = head > log_end ? head : log_end;
    process->ops_missing = retired - process->ops;
    return true;
}

static void no_times(struct muster_op *op)
{
    op->source = MUSTER_SOURCE_NONE;
    op->begin_ns = op->end_ns = 0;
}

static bool add_slot(struct muster_process *process, struct muster_row_index *rows, unsigned i)
{
    struct muster_segment *segment = process->segment;
    const struct muster_seg_slot *slot = &segment->slot[i];
    unsigned state = atomic_load_explicit(&segment->slot_state[i], memory_order_relaxed) & 0xff;
    struct muster_op op;
    if (state != MUSTER_SLOT_LAUNCHED && state != MUSTER_SLOT_DONE)
        return true;
    muster_slot_op(slot, &op);
    /* A living process may have moved on between two of the copied times. */
    if (process->state == MUSTER_PROCESS_RUNNING && state != MUSTER_SLOT_DONE)
        no_times(&op);
    if (slot->comm_entry >= MUSTER_SEG_COMMS || segment->comm[slot->comm_entry].uid != op.comm)
        op.comm = MUSTER_SEG_OTHER_UID;
    muster_rows_add(segment, rows, &op,
                    muster_op_size_bytes(op.func, op.dtype, op.count, slot->nranks));
    return append_op(process, &op);
}

static bool add_in_flight(struct muster_process *process)
{
    struct muster_row_index *rows = malloc(sizeof(*rows));
    bool whole = rows != NULL;
    if (rows)
        muster_rows_index(process->segment, rows);
    for (unsigned i = 0; whole && i < MUSTER_SEG_SLOTS; i++)
        whole = add_slot(process, rows, i);
    free(rows);
    return whole;
}

static int by_uid(const void *a, const void *b)
{
    const struct muster_log_comm *one = a, *two = b;
    return (one->uid > two->uid) - (one->uid < two->uid);
}

/* The log's communicators, and those that only the segment knows. */
static bool add_comms(struct muster_process *process, struct muster_log *log)
{
    process->comm = log->comm;
    process->comms = log->comms;
    log->comm = NULL;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *comm = &process->segment->comm[i];
        if (comm->uid == 0 || muster_uid_find(&log->comm_index, comm->uid) != SIZE_MAX)
            continue;
        if (!muster_grow(&process->comm, process->comms, sizeof(*process->comm)))
            return false;
        struct muster_log_comm *added = &process->comm[process->comms++];
        *added = (struct muster_log_comm){comm->uid,    comm->id,     comm->rank,
                                          comm->nranks, comm->nnodes, ""};
        memcpy(added->name, comm->name, sizeof(added->name));
    }
    if (process->comms > 0)
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

static void take_log_ops(struct muster_process *process, struct muster_log *log)
{
    process->op = log->op;
    process->ops = log->ops;
    log->op = NULL;
}

static uint64_t last_seen(const struct muster_process *process, const struct muster_log *log)
{
    uint64_t seen =
        atomic_load_explicit(&process->segment->heartbeat_unix_ns, memory_order_relaxed);
    if (log->process.heartbeat_unix_ns > seen)
        seen = log->process.heartbeat_unix_ns;
    return seen > process->identity.begin_unix_ns ? seen : process->identity.begin_unix_ns;
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
    take_log_ops(process, log);
    bool whole = add_comms(process, log);
    if (from_log)
        process->ops_missing = log->ops_missing;
    else
        whole = add_ring(process, log->next_op) && whole;
    return add_in_flight(process) && whole;
}

static void note_log(struct muster_run *run, const struct muster_pieces *pieces, bool from_log)
{
    const struct muster_seg_identity *identity = &pieces->segment->identity;
    const struct muster_log *log = &pieces->log;
    if (from_log)
        muster_run_note(run,
                        "%s: only the log is left; totals are those of its %zu operations, "
                        "%llu are missing",
                        identity->file_stem, log->ops, (unsigned long long)log->ops_missing);
    if (log->damaged)
        muster_run_note(run, "%s.log: %u damaged stretches skipped, the first at byte %llu",
                        identity->file_stem, log->damaged, (unsigned long long)log->damaged_at);
}

void muster_run_add(struct muster_run *run, struct muster_pieces *pieces)
{
    struct muster_process process = {0};
    bool from_log = !pieces->segment;
    if (from_log)
        pieces->segment = muster_run_rebuild(&pieces->log);
    if (!pieces->segment || !muster_grow(&run->process, run->processes, sizeof(*run->process))) {
        run->no_memory = true;
        free(pieces->segment);
        muster_log_free(&pieces->log);
        return;
    }
    process.state = state_of(pieces, from_log);
    process.policy_known = !from_log || pieces->log.version > MUSTER_LOG_VERSION_MIN;
    note_log(run, pieces, from_log);
    if (!put_together(&process, pieces, from_log))
        run->no_memory = true;
    run->process[run->processes++] = process;
    muster_log_free(&pieces->log);
}
