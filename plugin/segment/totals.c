#include "segment/totals.h"

#include <string.h>

#include "segment/seqlock.h"

struct row_key {
    uint32_t comm;
    int32_t peer;
    uint8_t func, algo, proto, size_log2;
};

uint8_t muster_size_log2(uint64_t bytes)
{
    if (bytes == 0)
        return MUSTER_SIZE_ZERO;
    return (uint8_t)(63 - __builtin_clzll(bytes));
}

static unsigned key_hash(const struct row_key *key)
{
    uint64_t word = (uint64_t)key->comm << 32 | (uint32_t)key->peer;
    uint64_t kind = (uint64_t)key->func << 24 | (uint64_t)key->algo << 16 |
                    (uint64_t)key->proto << 8 | key->size_log2;
    uint64_t hash = (word ^ kind * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
    return (unsigned)(hash >> 40) % MUSTER_ROW_INDEX;
}

static bool row_is(const struct muster_seg_row *row, const struct row_key *key)
{
    return row->comm == key->comm && row->peer == key->peer && row->func == key->func &&
           row->algo == key->algo && row->proto == key->proto && row->size_log2 == key->size_log2;
}

static void row_label(struct muster_seg_row *row, const struct row_key *key)
{
    muster_seg_write_begin(&row->seq);
    row->comm = key->comm;
    row->peer = key->peer;
    row->func = key->func;
    row->algo = key->algo;
    row->proto = key->proto;
    row->size_log2 = key->size_log2;
    muster_seg_write_end(&row->seq);
}

static struct row_key key_of_row(const struct muster_seg_row *row)
{
    return (struct row_key){row->comm, row->peer, row->func, row->algo, row->proto, row->size_log2};
}

/* The index place that holds the key's row, or the free one where it belongs. There is always a
 * free one: the index is larger than the table. */
static unsigned index_place(const struct muster_segment *segment,
                            const struct muster_row_index *index, const struct row_key *key)
{
    unsigned place = key_hash(key);
    while (index->at[place] && !row_is(&segment->row[index->at[place] - 1], key))
        place = (place + 1) % MUSTER_ROW_INDEX;
    return place;
}

void muster_rows_index(const struct muster_segment *segment, struct muster_row_index *index)
{
    memset(index, 0, sizeof *index);
    for (unsigned r = MUSTER_FUNCS; r < MUSTER_SEG_ROWS; r++) {
        if (segment->row[r].comm == 0)
            continue;
        struct row_key key = key_of_row(&segment->row[r]);
        unsigned place = index_place(segment, index, &key);
        if (index->at[place] == 0) {
            index->at[place] = (uint16_t)(r + 1);
            index->used++;
        }
    }
}

static unsigned row_of_last_resort(struct muster_segment *segment, uint8_t func)
{
    unsigned r = func < MUSTER_FUNCS ? func : MUSTER_FUNC_UNKNOWN;
    if (segment->row[r].comm == 0) {
        struct row_key key = {MUSTER_SEG_OTHER_UID, -1, (uint8_t)r, 0, 0, MUSTER_SIZE_MIXED};
        row_label(&segment->row[r], &key);
    }
    return r;
}

static unsigned free_row(const struct muster_segment *segment)
{
    unsigned r = MUSTER_FUNCS;
    while (r < MUSTER_SEG_ROWS && segment->row[r].comm != 0)
        r++;
    return r;
}

unsigned muster_rows_find(struct muster_segment *segment, struct muster_row_index *index,
                          const struct muster_op *op, uint64_t bytes)
{
    struct row_key key = {op->comm,  muster_func_is_p2p(op->func) ? op->peer : -1,
                          op->func,  op->algo,
                          op->proto, muster_size_log2(bytes)};
    unsigned place = index_place(segment, index, &key);
    if (index->at[place])
        return index->at[place] - 1u;
    if (index->used >= MUSTER_SEG_ROWS - MUSTER_FUNCS)
        return row_of_last_resort(segment, op->func);
    unsigned r = free_row(segment);
    if (r == MUSTER_SEG_ROWS)
        return row_of_last_resort(segment, op->func);
    row_label(&segment->row[r], &key);
    index->at[place] = (uint16_t)(r + 1);
    index->used++;
    return r;
}

/* A row's durations are of one kind: a better clock throws out what a worse one measured. */
static uint8_t row_source(const struct muster_seg_row *row)
{
    if (row->timed)
        return MUSTER_SOURCE_GPU;
    if (row->event_timed)
        return MUSTER_SOURCE_EVENT;
    if (row->proxy_timed)
        return MUSTER_SOURCE_PROXY;
    return row->host_timed ? MUSTER_SOURCE_HOST : MUSTER_SOURCE_NONE;
}

static void row_forget_durations(struct muster_seg_row *row)
{
    row->sum_ns = row->min_ns = row->max_ns = 0;
    memset(&row->hist, 0, sizeof row->hist);
}

static void row_add_duration(struct muster_seg_row *row, const struct muster_op *op)
{
    unsigned before = muster_source_rank(row_source(row)), now = muster_source_rank(op->source);
    if (op->source == MUSTER_SOURCE_GPU)
        row->timed++;
    else if (op->source == MUSTER_SOURCE_EVENT)
        row->event_timed++;
    else if (op->source == MUSTER_SOURCE_PROXY)
        row->proxy_timed++;
    else
        row->host_timed++;
    if (now < before)
        return;
    if (now > before)
        row_forget_durations(row);
    uint64_t d = muster_op_duration_ns(op);
    bool first = row->max_ns == 0 && row->sum_ns == 0;
    row->sum_ns += d;
    row->min_ns = first || d < row->min_ns ? d : row->min_ns;
    row->max_ns = d > row->max_ns ? d : row->max_ns;
    row->hist.n[muster_hist_bucket(d)]++;
}

static void row_add(struct muster_seg_row *row, const struct muster_op *op, uint64_t bytes)
{
    muster_seg_write_begin(&row->seq);
    row->count++;
    row->bytes += bytes;
    row->graph += (op->flags & MUSTER_OP_GRAPH) != 0;
    row->api_only += (op->flags & MUSTER_OP_API_ONLY) != 0;
    row->channels = op->channels;
    if (op->source != MUSTER_SOURCE_NONE && op->end_ns >= op->begin_ns)
        row_add_duration(row, op);
    muster_seg_write_end(&row->seq);
}

void muster_rows_add(struct muster_segment *segment, struct muster_row_index *index,
                     const struct muster_op *op, uint64_t bytes)
{
    row_add(&segment->row[muster_rows_find(segment, index, op, bytes)], op, bytes);
}

static void undo_arm(struct muster_segment *segment, unsigned slot, unsigned r, unsigned entry,
                     const struct muster_op *op)
{
    struct muster_seg_undo *undo = &segment->undo;
    const struct muster_seg_row *row = &segment->row[r];
    unsigned bucket = muster_hist_bucket(muster_op_duration_ns(op));
    undo->row = r;
    undo->slot = slot;
    undo->slot_word = atomic_load_explicit(&segment->slot_state[slot], memory_order_relaxed);
    undo->bucket = bucket;
    undo->bucket_n = row->hist.n[bucket];
    undo->count = row->count;
    undo->bytes = row->bytes;
    undo->graph = row->graph;
    undo->api_only = row->api_only;
    undo->timed = row->timed;
    undo->event_timed = row->event_timed;
    undo->proxy_timed = row->proxy_timed;
    undo->host_timed = row->host_timed;
    undo->sum_ns = row->sum_ns;
    undo->min_ns = row->min_ns;
    undo->max_ns = row->max_ns;
    undo->comm_entry = entry;
    undo->retired = segment->comm[entry].retired;
    /* Pairs with nothing in a living process: a reader after SIGKILL sees memory as this thread
     * left it. Release only keeps the compiler and the processor from storing it early. */
    atomic_store_explicit(&undo->armed, 1, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
}

void muster_rows_retire(struct muster_segment *segment, struct muster_row_index *index,
                        unsigned slot, uint32_t next, unsigned entry, const struct muster_op *op,
                        uint64_t bytes)
{
    unsigned r = muster_rows_find(segment, index, op, bytes);
    undo_arm(segment, slot, r, entry, op);
    row_add(&segment->row[r], op, bytes);
    segment->comm[entry].retired++;
    /* Release: whoever takes a freed slot (acquire in the recorder) sees it fully read. */
    atomic_store_explicit(&segment->slot_state[slot], next, memory_order_release);
    atomic_store_explicit(&segment->undo.armed, 0, memory_order_release);
}

void muster_rows_undo(struct muster_segment *segment)
{
    struct muster_seg_undo *undo = &segment->undo;
    if (atomic_load_explicit(&undo->armed, memory_order_relaxed) != 1)
        return;
    atomic_store_explicit(&undo->armed, 0, memory_order_relaxed);
    if (undo->row >= MUSTER_SEG_ROWS || undo->slot >= MUSTER_SEG_SLOTS ||
        undo->bucket >= MUSTER_HIST_BUCKETS || undo->comm_entry > MUSTER_SEG_COMMS)
        return;
    struct muster_seg_row *row = &segment->row[undo->row];
    row->count = undo->count;
    row->bytes = undo->bytes;
    row->graph = undo->graph;
    row->api_only = undo->api_only;
    row->timed = undo->timed;
    row->event_timed = undo->event_timed;
    row->proxy_timed = undo->proxy_timed;
    row->host_timed = undo->host_timed;
    row->sum_ns = undo->sum_ns;
    row->min_ns = undo->min_ns;
    row->max_ns = undo->max_ns;
    row->hist.n[undo->bucket] = undo->bucket_n;
    row->seq &= ~1u;
    segment->comm[undo->comm_entry].retired = undo->retired;
    atomic_store_explicit(&segment->slot_state[undo->slot], undo->slot_word, memory_order_relaxed);
}

static void row_merge(struct muster_seg_row *into, const struct muster_seg_row *from)
{
    unsigned have = muster_source_rank(row_source(into)),
             add = muster_source_rank(row_source(from));
    muster_seg_write_begin(&into->seq);
    if (add > have)
        row_forget_durations(into);
    if (add >= have && add != MUSTER_SOURCE_NONE) {
        bool first = into->max_ns == 0 && into->sum_ns == 0;
        into->min_ns = first || from->min_ns < into->min_ns ? from->min_ns : into->min_ns;
        into->max_ns = from->max_ns > into->max_ns ? from->max_ns : into->max_ns;
        into->sum_ns += from->sum_ns;
        muster_hist_merge(&into->hist, &from->hist);
    }
    into->count += from->count;
    into->bytes += from->bytes;
    into->graph += from->graph;
    into->api_only += from->api_only;
    into->timed += from->timed;
    into->event_timed += from->event_timed;
    into->proxy_timed += from->proxy_timed;
    into->host_timed += from->host_timed;
    muster_seg_write_end(&into->seq);
}

static void row_free(struct muster_seg_row *row)
{
    muster_seg_write_begin(&row->seq);
    memset((char *)row + sizeof row->seq, 0, sizeof *row - sizeof row->seq);
    muster_seg_write_end(&row->seq);
}

void muster_rows_merge(struct muster_segment *segment, struct muster_row_index *index, uint32_t uid)
{
    for (unsigned r = MUSTER_FUNCS; r < MUSTER_SEG_ROWS; r++) {
        struct muster_seg_row *row = &segment->row[r];
        if (row->comm != uid)
            continue;
        struct row_key key = key_of_row(row);
        key.comm = MUSTER_SEG_OTHER_UID;
        key.peer = -1;
        unsigned place = index_place(segment, index, &key);
        if (index->at[place]) {
            row_merge(&segment->row[index->at[place] - 1], row);
            row_free(row);
        } else {
            row_label(row, &key);
        }
        muster_rows_index(segment, index);
    }
}

void muster_slot_op(const struct muster_seg_slot *slot, struct muster_op *op)
{
    *op = (struct muster_op){
        .number = slot->number,
        .enqueue_ns = slot->enqueue_ns,
        .count = slot->count,
        .comm = slot->comm,
        .peer = slot->peer,
        .func = slot->func,
        .dtype = slot->dtype,
        .algo = slot->algo,
        .proto = slot->proto,
        .channels = slot->channels,
        .flags = slot->flags,
    };
    /* Acquire: pairs with the release of the callback that closed the part, so that the times of
     * every part counted here are visible. */
    uint32_t ended = atomic_load_explicit(&slot->ended, memory_order_acquire);
    uint32_t proxy_ended = atomic_load_explicit(&slot->proxy_ended, memory_order_acquire);
    uint32_t started = atomic_load_explicit(&slot->started, memory_order_relaxed);
    uint32_t proxy_started = atomic_load_explicit(&slot->proxy_started, memory_order_relaxed);
    bool bad = atomic_load_explicit(&slot->bad, memory_order_relaxed) != 0;
    /* NCCL announces more channels for a send or receive than it uses (NCCL issue 2056). */
    bool whole = slot->p2p ? ended > 0 && ended == started : ended > 0 && ended == slot->channels;
    if (whole && !bad) {
        op->source = MUSTER_SOURCE_GPU;
        op->begin_ns = atomic_load_explicit(&slot->begin_ns, memory_order_relaxed);
        op->end_ns = atomic_load_explicit(&slot->end_ns, memory_order_relaxed);
    } else if (proxy_ended > 0 && proxy_ended == proxy_started) {
        op->source = slot->algo == MUSTER_ALGO_CE ? MUSTER_SOURCE_HOST : MUSTER_SOURCE_PROXY;
        op->begin_ns = atomic_load_explicit(&slot->proxy_begin_ns, memory_order_relaxed);
        op->end_ns = atomic_load_explicit(&slot->proxy_end_ns, memory_order_relaxed);
    }
    if (started != ended || proxy_started != proxy_ended || (!whole && ended > 0))
        op->flags |= MUSTER_OP_INCOMPLETE;
}
