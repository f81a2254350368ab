#include "segment/check.h"

#include <stdatomic.h>
#include <string.h>

#include "base/text.h"
#include "segment/read.h"
#include "segment/rows.h"

/* In place: terminated, no control characters, no stale bytes behind. */
static void clean(char *text, size_t size)
{
    char copy[MUSTER_SEG_PATH];
    text[size - 1] = 0;
    muster_text_copy(copy, size, text);
    memset(text, 0, size);
    muster_text_copy(text, size, copy);
}

int muster_identity_check(const char *name, struct muster_seg_identity *identity,
                          struct muster_err *err)
{
    clean(identity->why_not_armed, sizeof(identity->why_not_armed));
    clean(identity->host, sizeof(identity->host));
    clean(identity->hostname, sizeof(identity->hostname));
    clean(identity->gpu_name, sizeof(identity->gpu_name));
    clean(identity->run_dir, sizeof(identity->run_dir));
    clean(identity->file_stem, sizeof(identity->file_stem));
    if (identity->timing > MUSTER_TIMING_LIGHT)
        identity->timing = MUSTER_TIMING_AUTO;
    if (identity->rank_source > MUSTER_RANK_FROM_COMM)
        identity->rank_source = MUSTER_RANK_FROM_COMM;
    if (identity->run_dir[0] && identity->run_dir[0] != '/')
        return muster_fail(err, "%s: its run directory \"%.200s\" is not absolute", name,
                           identity->run_dir);
    if (strchr(identity->file_stem, '/') || identity->file_stem[0] == '.')
        return muster_fail(err, "%s: \"%s\" is no file name", name, identity->file_stem);
    return 0;
}

static uint8_t known(uint8_t value, unsigned count)
{
    return value < count ? value : 0;
}

void muster_check_comm(struct muster_seg_comm *comm)
{
    clean(comm->gpu_pci, sizeof(comm->gpu_pci));
    clean(comm->gpu_uuid, sizeof(comm->gpu_uuid));
    clean(comm->name, sizeof(comm->name));
    for (unsigned i = 0; i < MUSTER_SEG_CALLS; i++) {
        comm->call[i].func = known(comm->call[i].func, MUSTER_FUNCS);
        comm->call[i].dtype = known(comm->call[i].dtype, MUSTER_DTYPES);
    }
}

static void check_row(struct muster_seg_row *row)
{
    row->func = known(row->func, MUSTER_FUNCS);
    row->algo = known(row->algo, MUSTER_ALGOS);
    row->proto = known(row->proto, MUSTER_PROTOS);
    if (row->size_log2 > 63 && row->size_log2 < MUSTER_SIZE_MIXED)
        row->size_log2 = MUSTER_SIZE_MIXED;
}

void muster_check_op(struct muster_op *op)
{
    op->func = known(op->func, MUSTER_FUNCS);
    op->dtype = known(op->dtype, MUSTER_DTYPES);
    op->algo = known(op->algo, MUSTER_ALGOS);
    op->proto = known(op->proto, MUSTER_PROTOS);
    op->source = known(op->source, MUSTER_SOURCES);
}

static void check_slot(struct muster_seg_slot *slot)
{
    slot->func = known(slot->func, MUSTER_FUNCS);
    slot->dtype = known(slot->dtype, MUSTER_DTYPES);
    slot->algo = known(slot->algo, MUSTER_ALGOS);
    slot->proto = known(slot->proto, MUSTER_PROTOS);
}

static void check_policy(struct muster_seg_policy *policy)
{
    for (unsigned i = 0; i < MUSTER_SEG_RULES; i++)
        clean(policy->rule[i].name, sizeof(policy->rule[i].name));
    if (atomic_load_explicit(&policy->state, memory_order_relaxed) >= MUSTER_POLICY_STATES)
        atomic_store_explicit(&policy->state, MUSTER_POLICY_NONE, memory_order_relaxed);
}

void muster_check_entries(struct muster_segment *segment)
{
    check_policy(&segment->policy);
    for (unsigned i = 0; i <= MUSTER_SEG_COMMS; i++)
        muster_check_comm(&segment->comm[i]);
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        check_row(&segment->row[i]);
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++)
        segment->net[i].send = segment->net[i].send != 0;
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        check_slot(&segment->slot[i]);
        uint32_t word = atomic_load_explicit(&segment->slot_state[i], memory_order_relaxed);
        if ((word & 0xff) > MUSTER_SLOT_RESTING)
            atomic_store_explicit(&segment->slot_state[i], 0, memory_order_relaxed);
    }
    for (unsigned i = 0; i < MUSTER_SEG_RING; i++)
        muster_check_op(&segment->ring[i]);
    if (atomic_load_explicit(&segment->exit_state, memory_order_relaxed) > MUSTER_EXIT_FINALIZED)
        atomic_store_explicit(&segment->exit_state, MUSTER_EXIT_OPEN, memory_order_relaxed);
}

int muster_check_frame(const char *name, const struct muster_segment *segment, size_t bytes,
                       struct muster_err *err)
{
    if (bytes < offsetof(struct muster_segment, identity))
        return muster_fail(err, "%s: %zu bytes are too few for a segment", name, bytes);
    if (segment->magic == 0)
        return muster_fail(err, "%s: a segment that was not finished being created", name);
    if (segment->magic != MUSTER_SEG_MAGIC)
        return muster_fail(err, "%s: not a muster segment", name);
    if (segment->version != MUSTER_SEG_VERSION)
        return muster_fail(err, "%s: segment format %u, this muster reads %u", name,
                           segment->version, MUSTER_SEG_VERSION);
    if (segment->size != sizeof(*segment) ||
        segment->header_bytes != offsetof(struct muster_segment, comm) ||
        segment->comm_bytes != sizeof(struct muster_seg_comm) ||
        segment->row_bytes != sizeof(struct muster_seg_row) ||
        segment->net_bytes != sizeof(struct muster_seg_net) ||
        segment->slot_bytes != sizeof(struct muster_seg_slot) ||
        segment->op_bytes != sizeof(struct muster_op))
        return muster_fail(err, "%s: a segment of another layout (%u bytes, expected %zu)", name,
                           segment->size, sizeof(*segment));
    if (bytes < sizeof(*segment))
        return muster_fail(err, "%s: cut short: %zu of %zu bytes", name, bytes, sizeof(*segment));
    return 0;
}
