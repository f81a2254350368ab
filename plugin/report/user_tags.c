/* What ran under each tag that the job's own code put on its operations. */
#include <math.h>
#include <stdlib.h>

#include "report/report_internal.h"

/* A tag of one process, on its way to its row. */
struct tag_part {
    uint64_t tag; /* 0: of all tags that found no place */
    uint32_t process;
    unsigned entry;
};

static int by_tag(const void *left, const void *right)
{
    const struct tag_part *a = left, *b = right;
    if (a->tag != b->tag)
        return a->tag - 1 < b->tag - 1 ? -1 : 1; /* 0 is the last one */
    return a->process < b->process ? -1 : a->process > b->process;
}

static struct tag_part *find_parts(const struct muster_run *run, size_t *parts,
                                   struct muster_arena *memory)
{
    struct tag_part *part = NULL;
    for (uint32_t p = 0; p < run->processes; p++) {
        for (unsigned i = 0; i < MUSTER_SEG_TAGS; i++) {
            const struct muster_seg_tag *tag = &run->process[p].segment->tag[i];
            if (!tag->count)
                continue;
            struct tag_part *made = muster_arena_add(memory, &part, parts, sizeof *part);
            *made = (struct tag_part){tag->tag, p, i};
        }
    }
    if (part)
        qsort(part, *parts, sizeof *part, by_tag);
    return part;
}

/* The row of each tag, and for each entry of each process which row it is. */
static void make_rows(struct muster_build *build, const struct tag_part *part, size_t parts,
                      uint32_t *row_of)
{
    struct muster_report *report = build->report;
    report->tag = muster_arena_array(&report->memory, parts, sizeof *report->tag);
    for (size_t i = 0; part && report->tag && i < parts; i++) {
        const struct muster_seg_tag *from =
            &build->run->process[part[i].process].segment->tag[part[i].entry];
        if (i == 0 || part[i - 1].tag != part[i].tag)
            report->tag[report->tags++] = (struct muster_report_tag){
                .tag = part[i].tag, .total_us = NAN, .p50_us = NAN, .p99_us = NAN};
        struct muster_report_tag *row = &report->tag[report->tags - 1];
        row->processes++;
        row->count += from->count;
        row->bytes += from->bytes;
        row_of[part[i].process * MUSTER_SEG_TAGS + part[i].entry] = (uint32_t)(row - report->tag);
    }
}

/* The times of tagged operations, by row: those of the GPUs' own clocks. */
static void collect(struct muster_build *build, const uint32_t *row_of,
                    struct muster_samples *samples)
{
    const struct muster_view *view = build->view;
    for (size_t i = 0; i < view->ops; i++) {
        const struct muster_view_op *op = &view->op[i];
        unsigned tag = muster_op_tag(op->flags);
        if (tag == 0 || tag > MUSTER_SEG_TAGS || !muster_source_is_gpu(op->source))
            continue;
        uint32_t p = view->gpu[view->member[op->member].gpu].process;
        uint32_t row = row_of[p * MUSTER_SEG_TAGS + tag - 1];
        if (row != MUSTER_NO_CLASS)
            muster_samples_add(samples, row, op->end_ns - op->begin_ns, &build->memory);
    }
}

static void add_times(struct muster_report *report, const struct muster_samples *samples,
                      struct muster_arena *memory)
{
    struct muster_sample_groups groups = muster_samples_group(samples, report->tags, memory);
    for (size_t t = 0; groups.value && t < report->tags; t++) {
        struct muster_report_tag *row = &report->tag[t];
        uint64_t *value = groups.value + groups.first[t], sum = 0;
        row->timed_ops = groups.first[t + 1] - groups.first[t];
        for (size_t i = 0; i < row->timed_ops; i++)
            sum += value[i];
        if (row->timed_ops) {
            row->total_us = (double)sum / 1e3;
            row->p50_us = (double)muster_quantile_exact(value, row->timed_ops, 0.5) / 1e3;
            row->p99_us = (double)muster_quantile_exact(value, row->timed_ops, 0.99) / 1e3;
        }
    }
}

void muster_build_tags(struct muster_build *build)
{
    size_t parts = 0, entries = build->run->processes * MUSTER_SEG_TAGS;
    const struct tag_part *part = find_parts(build->run, &parts, &build->memory);
    struct muster_samples samples = {0};
    uint32_t *row_of = parts ? muster_arena_array(&build->memory, entries, sizeof *row_of) : NULL;
    if (!row_of)
        return;
    for (size_t i = 0; i < entries; i++)
        row_of[i] = MUSTER_NO_CLASS;
    make_rows(build, part, parts, row_of);
    collect(build, row_of, &samples);
    add_times(build->report, &samples, &build->memory);
}
