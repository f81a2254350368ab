#include "segment/segment_check.h"

#include <stdatomic.h>
#include <string.h>

#include "base/nccl_types.h"
#include "base/text.h"
#include "segment/segment_reader.h"
#include "segment/totals.h"

int muster_identity_check(const char *name, struct muster_seg_identity *identity,
                          struct muster_err *err)
{
    muster_text_clean(identity->why_not_armed, sizeof(identity->why_not_armed));
    muster_text_clean(identity->host, sizeof(identity->host));
    muster_text_clean(identity->hostname, sizeof(identity->hostname));
    muster_text_clean(identity->gpu_name, sizeof(identity->gpu_name));
    muster_text_clean_path(identity->run_dir, sizeof(identity->run_dir));
    muster_text_clean_path(identity->file_stem, sizeof(identity->file_stem));
    muster_text_clean(identity->slurm_job, sizeof(identity->slurm_job));
    muster_text_clean(identity->slurm_step, sizeof(identity->slurm_step));
    muster_text_clean(identity->recorded_by, sizeof(identity->recorded_by));
    if (identity->timing > MUSTER_TIMING_CHANNELS)
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

/* Written only where it is wrong: what was never written stays a hole. */
static void settle_kind(uint8_t *kind, unsigned kinds)
{
    if (muster_kind_or_unknown(*kind, kinds) != *kind)
        *kind = muster_kind_or_unknown(*kind, kinds);
}

static void check_comm(struct muster_seg_comm *comm)
{
    muster_text_clean(comm->gpu_pci, sizeof(comm->gpu_pci));
    muster_text_clean(comm->gpu_uuid, sizeof(comm->gpu_uuid));
    muster_text_clean(comm->name, sizeof(comm->name));
    for (unsigned i = 0; i < MUSTER_SEG_CALLS; i++) {
        settle_kind(&comm->call[i].func, MUSTER_FUNCS);
        settle_kind(&comm->call[i].dtype, MUSTER_DTYPES);
    }
}

static void check_row(struct muster_seg_row *row)
{
    settle_kind(&row->func, MUSTER_FUNCS);
    settle_kind(&row->algo, MUSTER_ALGOS);
    settle_kind(&row->proto, MUSTER_PROTOS);
    if (row->size_log2 > 63 && row->size_log2 < MUSTER_SIZE_MIXED)
        row->size_log2 = MUSTER_SIZE_MIXED;
}

void muster_check_op(struct muster_op *op)
{
    settle_kind(&op->func, MUSTER_FUNCS);
    settle_kind(&op->dtype, MUSTER_DTYPES);
    settle_kind(&op->algo, MUSTER_ALGOS);
    settle_kind(&op->proto, MUSTER_PROTOS);
    settle_kind(&op->source, MUSTER_SOURCES);
}

static void check_slot(struct muster_seg_slot *slot)
{
    settle_kind(&slot->func, MUSTER_FUNCS);
    settle_kind(&slot->dtype, MUSTER_DTYPES);
    settle_kind(&slot->algo, MUSTER_ALGOS);
    settle_kind(&slot->proto, MUSTER_PROTOS);
}

static void check_policy(struct muster_seg_policy *policy)
{
    for (unsigned i = 0; i < MUSTER_SEG_RULES; i++)
        muster_text_clean(policy->rule[i].name, sizeof(policy->rule[i].name));
    if (atomic_load_explicit(&policy->state, memory_order_relaxed) >= MUSTER_POLICY_STATES)
        atomic_store_explicit(&policy->state, MUSTER_POLICY_NONE, memory_order_relaxed);
}

void muster_seg_parts_note(struct muster_seg_parts *parts, size_t from, size_t end)
{
    for (size_t part = from / MUSTER_SEG_PART; part * MUSTER_SEG_PART < end; part++)
        parts->read[part] = true;
}

/* Whether something was read into an entry. */
static bool is_read(const struct muster_segment *segment, const struct muster_seg_parts *parts,
                    const void *entry, size_t bytes)
{
    size_t at = (size_t)((const char *)entry - (const char *)segment);
    bool read = !parts;
    for (size_t part = at / MUSTER_SEG_PART; part <= (at + bytes - 1) / MUSTER_SEG_PART && !read;)
        read = parts->read[part++];
    return read;
}

void muster_check_tables(struct muster_segment *segment, const struct muster_seg_parts *parts)
{
    for (unsigned i = 0; i <= MUSTER_SEG_COMMS; i++)
        if (is_read(segment, parts, &segment->comm[i], sizeof(segment->comm[i])))
            check_comm(&segment->comm[i]);
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        if (is_read(segment, parts, &segment->row[i], sizeof(segment->row[i])))
            check_row(&segment->row[i]);
    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++)
        if (is_read(segment, parts, &segment->net[i], sizeof(segment->net[i])) &&
            segment->net[i].send > 1)
            segment->net[i].send = 1;
    if (is_read(segment, parts, &segment->facts, sizeof(segment->facts)))
        muster_facts_check(&segment->facts);
}

void muster_check_flight(struct muster_segment *segment, const struct muster_seg_parts *parts)
{
    if (is_read(segment, parts, &segment->policy, sizeof(segment->policy)))
        check_policy(&segment->policy);
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        if (is_read(segment, parts, &segment->slot[i], sizeof(segment->slot[i])))
            check_slot(&segment->slot[i]);
        uint32_t word = atomic_load_explicit(&segment->slot_state[i], memory_order_relaxed);
        if ((word & 0xff) > MUSTER_SLOT_RESTING)
            atomic_store_explicit(&segment->slot_state[i], 0, memory_order_relaxed);
    }
}

void muster_check_entries(struct muster_segment *segment, const struct muster_seg_parts *parts)
{
    muster_check_tables(segment, parts);
    muster_check_flight(segment, parts);
    for (unsigned i = 0; i < MUSTER_SEG_RING; i++)
        if (is_read(segment, parts, &segment->ring[i], sizeof(segment->ring[i])))
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
    size_t size = sizeof(*segment);
    if (segment->size != size || segment->header_bytes != offsetof(struct muster_segment, comm) ||
        segment->comm_bytes != sizeof(struct muster_seg_comm) ||
        segment->row_bytes != sizeof(struct muster_seg_row) ||
        segment->net_bytes != sizeof(struct muster_seg_net) ||
        segment->slot_bytes != sizeof(struct muster_seg_slot) ||
        segment->op_bytes != sizeof(struct muster_op))
        return muster_fail(err, "%s: a segment of another layout (%u bytes, expected %zu)", name,
                           segment->size, size);
    if (bytes < size)
        return muster_fail(err, "%s: cut short: %zu of %zu bytes", name, bytes, size);
    return 0;
}
