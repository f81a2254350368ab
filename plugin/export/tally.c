/* Adding up rows and operations, and collecting the durations that are known one by one. */
#include <stdlib.h>

#include "export/build.h"
#include "segment/rows.h"

static struct muster_class_key key_of(const struct muster_build *build,
                                      const struct muster_member *member,
                                      const struct muster_class_key *own)
{
    bool p2p = muster_func_is_p2p(own->func);
    uint32_t comm = member ? member->comm : 0;
    switch (build->report->by) {
    case MUSTER_BY_COMM:
        return (struct muster_class_key){.comm = comm, .rank = -1, .peer = -1};
    case MUSTER_BY_SIZE:
        return (struct muster_class_key){.comm = MUSTER_NO_COMM,
                                         .rank = -1,
                                         .peer = -1,
                                         .func = own->func,
                                         .size_log2 = own->size_log2};
    case MUSTER_BY_OP:
        break;
    }
    return (struct muster_class_key){.comm = comm,
                                     .rank = p2p && member ? member->rank : -1,
                                     .peer = p2p ? own->peer : -1,
                                     .func = own->func,
                                     .algo = own->algo,
                                     .proto = own->proto,
                                     .size_log2 = own->size_log2};
}

static uint64_t bytes_of(const struct muster_member *member, const struct muster_op *op)
{
    return muster_op_size_bytes(op->func, op->dtype, op->count, member ? member->nranks : 0);
}

static struct muster_class_key op_key(const struct muster_build *build,
                                      const struct muster_member *member,
                                      const struct muster_op *op)
{
    struct muster_class_key own = {
        .func = op->func,
        .algo = op->algo,
        .proto = op->proto,
        .size_log2 = muster_size_log2(bytes_of(member, op)),
        .peer = op->peer,
    };
    return key_of(build, member, &own);
}

static uint32_t entry_of(const struct muster_build *build, size_t process,
                         const struct muster_member *member)
{
    return member ? member->entry : build->first_entry[process];
}

/* What a class and its communicator learn from `count` more operations. */
static void note(struct muster_build *build, uint32_t at, const struct muster_member *member,
                 uint32_t channels, uint64_t count)
{
    struct muster_class *class = &build->class[at];
    uint32_t nranks = member ? member->nranks : 0;
    class->mixed |= class->totals.count > count && class->nranks != nranks;
    class->nranks = nranks;
    class->channels = channels;
    build->report->comm[member ? member->comm : 0].ops += count;
    build->strays += member ? 0 : count;
}

static int count_rows(struct muster_build *build, size_t p)
{
    const struct muster_segment *segment = build->run->process[p].segment;
    for (size_t i = 0; i < MUSTER_SEG_ROWS; i++) {
        const struct muster_seg_row *row = &segment->row[i];
        if (!row->comm || !row->count) {
            continue;
        }
        const struct muster_member *member = muster_build_member(build, p, row->comm);
        struct muster_class_key own = {.func = row->func,
                                       .algo = row->algo,
                                       .proto = row->proto,
                                       .size_log2 = row->size_log2,
                                       .peer = row->peer};
        struct muster_class_key key = key_of(build, member, &own);
        uint32_t class = muster_build_class(build, &key, true);
        if (class == MUSTER_NO_CLASS || muster_totals_add_row(&build->class[class].totals, row) ||
            muster_totals_add_row(&build->rank[entry_of(build, p, member)], row)) {
            return -1;
        }
        note(build, class, member, row->channels, row->count);
    }
    return 0;
}

/* Of a process whose segment is gone: what its log still tells. */
static int count_ops(struct muster_build *build, size_t p)
{
    const struct muster_process *process = &build->run->process[p];
    for (size_t i = 0; i < process->ops; i++) {
        const struct muster_op *op = &process->op[i];
        const struct muster_member *member = muster_build_member(build, p, op->comm);
        uint32_t entry = entry_of(build, p, member);
        struct muster_class_key key = op_key(build, member, op);
        uint32_t class = muster_build_class(build, &key, true);
        if (class == MUSTER_NO_CLASS) {
            return -1;
        }
        uint64_t bytes = bytes_of(member, op);
        muster_totals_add_op(&build->class[class].totals, op, bytes);
        muster_totals_add_op(&build->rank[entry], op, bytes);
        note(build, class, member, op->channels, 1);
    }
    return 0;
}

static int sample_ops(struct muster_build *build, size_t p)
{
    const struct muster_process *process = &build->run->process[p];
    const struct muster_member *member = NULL;
    for (size_t i = 0; i < process->ops; i++) {
        const struct muster_op *op = &process->op[i];
        unsigned source = muster_op_source(op);
        bool late_arming = (op->flags & MUSTER_OP_ARMING) && op->number >= MUSTER_WARM_UP;
        if (!source && !late_arming) {
            continue;
        }
        if (!member || member->uid != op->comm) {
            member = muster_build_member(build, p, op->comm);
        }
        build->report->rank[entry_of(build, p, member)].late_armings += late_arming;
        if (!source) {
            continue;
        }
        struct muster_class_key key = op_key(build, member, op);
        uint32_t class = muster_build_class(build, &key, false);
        uint32_t entry = entry_of(build, p, member);
        uint64_t ns = muster_op_duration_ns(op);
        if ((source == build->rank[entry].source &&
             muster_samples_add(&build->by_rank, entry, ns)) ||
            (class != MUSTER_NO_CLASS && source == build->class[class].totals.source &&
             muster_samples_add(&build->by_class, class, ns)) ||
            (member && muster_build_offer(build, member, class, op))) {
            return -1;
        }
    }
    return 0;
}

static void add_segment_counts(struct muster_build *build, size_t p)
{
    const struct muster_segment *segment = build->run->process[p].segment;
    struct muster_report_rank *first = &build->report->rank[build->first_entry[p]];
    for (size_t d = 0; d < MUSTER_DROPS; d++) {
        first->drops[d] = segment->drops[d];
    }
    first->lost_log = segment->lost_log;
    for (size_t i = build->first_member[p]; i < build->first_member[p + 1]; i++) {
        const struct muster_member *member = &build->member[i];
        struct muster_report_rank *rank = &build->report->rank[member->entry];
        if (!member->segment) {
            continue;
        }
        rank->captured += member->segment->captured;
        /* the process's count includes those of its communicators: move them to their GPU */
        for (size_t d = 0; rank != first && d < MUSTER_DROPS; d++) {
            uint64_t own = member->segment->drops[d];
            own = own < first->drops[d] ? own : first->drops[d];
            rank->drops[d] += own;
            first->drops[d] -= own;
        }
    }
}

int muster_build_tally(struct muster_build *build)
{
    size_t processes = build->run->processes;
    build->rank = calloc(build->report->ranks + 1, sizeof *build->rank);
    if (!build->rank) {
        return -1;
    }
    for (size_t p = 0; p < processes; p++) {
        bool segment = build->run->process[p].segment;
        if (segment) {
            add_segment_counts(build, p);
        }
        if (segment ? count_rows(build, p) : count_ops(build, p)) {
            return -1;
        }
    }
    for (size_t p = 0; p < processes; p++) {
        if (sample_ops(build, p)) {
            return -1;
        }
    }
    return muster_build_joint(build);
}
