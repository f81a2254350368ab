#include "top/top_process.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/text.h"

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static double rate(uint64_t before, uint64_t now, uint64_t passed_ns)
{
    return passed_ns && now > before ? (double)(now - before) * 1e9 / (double)passed_ns : 0;
}

/* ---- communicators ---- */

static const struct muster_top_part *part_before(const struct muster_top_process *process,
                                                 uint64_t id)
{
    for (size_t i = 0; i < process->parts; i++)
        if (process->part[i].id == id)
            return &process->part[i];
    return NULL;
}

/* The table counts collectives and has the time when anything was called: where the time moved and
 * the count did not, it was a send or receive. At first sight, and of who sends at times, it may
 * be. */
static void count_sends(struct muster_top_part *part, const struct muster_top_part *before)
{
    bool moved = part->called_ns != (before ? before->called_ns : 0);
    part->sends =
        before && !moved ? before->sends : moved && part->calls == (before ? before->calls : 0);
    part->asks = moved && (part->sends || !before || before->send.func != MUSTER_FUNC_UNKNOWN);
    if (before)
        part->send = before->send;
}

static struct muster_top_part part_of(const struct muster_top_process *process,
                                      const struct muster_seg_comm *comm, uint64_t passed_ns)
{
    const struct muster_top_part *before = part_before(process, comm->id);
    struct muster_top_part part = {
        .id = comm->id, .uid = comm->uid, .rank = comm->rank, .nranks = comm->nranks};
    memcpy(part.name, comm->name, sizeof part.name);
    muster_text_clean(part.name, sizeof part.name);
    part.calls = comm->calls;
    part.called_ns = comm->called_ns;
    part.moved_ns = most(most(comm->called_ns, comm->ended_ns), comm->begin_ns);
    part.ops_s = before ? rate(before->calls, part.calls, passed_ns) : 0;
    const struct muster_seg_call *call = &comm->call[(part.calls - 1) % MUSTER_SEG_CALLS];
    if (part.calls && call->number == (uint16_t)(part.calls - 1))
        part.call = *call;
    part.call.func = muster_kind_or_unknown(part.call.func, MUSTER_FUNCS);
    part.call.dtype = muster_kind_or_unknown(part.call.dtype, MUSTER_DTYPES);
    count_sends(&part, before);
    return part;
}

/* The largest communicator decides the GPU. */
static void take_gpu(struct muster_top_process *process, const struct muster_seg_comm *comm,
                     uint32_t *largest)
{
    if (comm->nranks < *largest)
        return;
    *largest = comm->nranks;
    process->gpu = comm->gpu_index;
}

/* A torn entry is shown for one look: nothing but a number is wrong then. */
bool muster_top_process_take(struct muster_top_process *process,
                             const struct muster_segment *segment, unsigned entries,
                             uint64_t now_ns)
{
    uint64_t passed = process->seen_ns ? now_ns - process->seen_ns : 0, retired = 0;
    struct muster_top_part *part = NULL;
    size_t parts = 0;
    uint32_t largest = 0;
    bool whole = true;
    process->gpu = -1;
    for (unsigned i = 0; i < entries; i++) {
        const struct muster_seg_comm *comm = &segment->comm[i];
        if (comm->uid == 0)
            continue;
        retired += comm->retired;
        if (comm->id == 0 || comm->end_ns != 0)
            continue;
        take_gpu(process, comm, &largest);
        whole = whole && muster_grow(&part, parts, sizeof *part);
        if (whole)
            part[parts++] = part_of(process, comm, passed);
    }
    free(process->part);
    process->part = part;
    process->parts = parts;
    process->ops_s = rate(process->retired, retired, passed);
    process->retired = retired; /* less once an ended communicator has given up its entry */
    process->seen_ns = now_ns;
    process->alive = true;
    return whole;
}

const struct muster_top_part *muster_top_process_newest(const struct muster_top_process *process)
{
    const struct muster_top_part *newest = NULL;
    for (size_t i = 0; i < process->parts; i++)
        if (!newest || process->part[i].called_ns > newest->called_ns)
            newest = &process->part[i];
    return newest;
}

/* ---- sends and receives ---- */

bool muster_top_process_asks(const struct muster_top_process *process)
{
    bool asks = false;
    for (size_t i = 0; i < process->parts; i++)
        asks |= process->part[i].asks;
    return asks;
}

static bool is_p2p(uint8_t func)
{
    return func < MUSTER_FUNCS && muster_func_is_p2p(func);
}

/* The newest one of `part` in flight; when it was called, 0: none is. */
static uint64_t newest_in_flight(struct muster_top_part *part, const struct muster_segment *flight)
{
    uint64_t newest = 0;
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        const struct muster_seg_slot *slot = &flight->slot[i];
        if ((flight->slot_state[i] & 0xff) == MUSTER_SLOT_FREE || slot->comm != part->uid ||
            !is_p2p(slot->func) || slot->enqueue_ns < newest)
            continue;
        newest = slot->enqueue_ns;
        part->send = (struct muster_top_send){slot->number, slot->count, slot->peer, slot->func,
                                              slot->dtype};
    }
    return newest;
}

void muster_top_process_take_sends(struct muster_top_process *process,
                                   const struct muster_segment *flight, const struct muster_op *op,
                                   size_t ops)
{
    for (size_t p = 0; p < process->parts; p++) {
        struct muster_top_part *part = &process->part[p];
        if (!part->asks)
            continue;
        part->asks = false;
        part->send = (struct muster_top_send){.func = MUSTER_FUNC_UNKNOWN};
        uint64_t newest = newest_in_flight(part, flight);
        for (size_t i = 0; i < ops; i++) {
            if (op[i].comm != part->uid || !is_p2p(op[i].func) || op[i].enqueue_ns < newest)
                continue;
            newest = op[i].enqueue_ns;
            part->send = (struct muster_top_send){op[i].number, op[i].count, op[i].peer, op[i].func,
                                                  op[i].dtype};
        }
        part->sends |= newest != 0 && newest >= part->called_ns;
    }
}

/* ---- sums of operations ---- */

static struct muster_top_class *class_of(struct muster_top_process *process,
                                         const struct muster_seg_row *row)
{
    const struct muster_top_class like = {
        .func = row->func, .algo = row->algo, .proto = row->proto, .size_log2 = row->size_log2};
    for (size_t i = 0; i < process->classes; i++) {
        struct muster_top_class *class = &process->class[i];
        if (class->func == like.func && class->algo == like.algo && class->proto == like.proto &&
            class->size_log2 == like.size_log2)
            return class;
    }
    if (!muster_grow(&process->class, process->classes, sizeof *process->class))
        return NULL;
    process->class[process->classes] = like;
    return &process->class[process->classes++];
}

static void add_row(struct muster_top_class *class, const struct muster_seg_row *row)
{
    class->count += row->count;
    class->bytes += row->bytes;
    /* Durations on the GPU's clock alone: others hold what the host and the network add. */
    if (!row->timed && !row->event_timed)
        return;
    class->sum_ns += row->sum_ns;
    class->max_ns = most(class->max_ns, row->max_ns);
    for (unsigned i = 0; i < MUSTER_HIST_BUCKETS; i++)
        class->timed += row->hist.n[i];
}

bool muster_top_process_take_rows(struct muster_top_process *process,
                                  const struct muster_segment *segment)
{
    free(process->class);
    process->class = NULL;
    process->classes = 0;
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++) {
        const struct muster_seg_row *row = &segment->row[i];
        if (row->comm == 0 || row->count == 0)
            continue;
        struct muster_top_class *class = class_of(process, row);
        if (!class)
            return false;
        add_row(class, row);
    }
    return true;
}

/* ---- what it cost ---- */

void muster_top_process_compare(struct muster_top_process *process,
                                const struct muster_rank_cost *compared)
{
    uint64_t operations = compared->operations - process->compared.operations;
    uint64_t late_ns = compared->late_ns - process->compared.late_ns;
    if (compared->operations <= process->compared.operations)
        return;
    if (process->trends == MUSTER_TOP_TREND) {
        process->trends--;
        memmove(&process->trend[0], &process->trend[1], process->trends * sizeof(double));
    }
    process->trend[process->trends++] = (double)late_ns / 1e3 / (double)operations;
    process->compared = *compared;
}

void muster_top_process_free(struct muster_top_process *process)
{
    free(process->part);
    free(process->class);
}
