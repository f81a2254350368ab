/* What ran under each tag that the job's own code put on its operations. */
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
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

static int find_parts(const struct muster_run *run, struct tag_part **part, size_t *parts)
{
    for (uint32_t p = 0; p < run->processes; p++) {
        for (unsigned i = 0; i < MUSTER_SEG_TAGS; i++) {
            const struct muster_seg_tag *tag = &run->process[p].segment->tag[i];
            if (!tag->count)
                continue;
            if (!muster_grow(part, *parts, sizeof **part))
                return -1;
            (*part)[(*parts)++] = (struct tag_part){tag->tag, p, i};
        }
    }
    if (*parts)
        qsort(*part, *parts, sizeof **part, by_tag);
    return 0;
}

/* The row of each tag, and for each entry of each process which row it is. */
static int make_rows(struct muster_build *build, const struct tag_part *part, size_t parts,
                     uint32_t *row_of)
{
    struct muster_report *report = build->report;
    report->tag = calloc(parts + 1, sizeof *report->tag);
    if (!report->tag)
        return -1;
    for (size_t i = 0; i < parts; i++) {
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
    return 0;
}

/* The times of tagged operations, by row: those of the GPUs' own clocks. */
static int collect(const struct muster_build *build, const uint32_t *row_of,
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
        if (row != MUSTER_NO_CLASS && muster_samples_add(samples, row, op->end_ns - op->begin_ns))
            return -1;
    }
    return 0;
}

static int add_times(struct muster_report *report, struct muster_samples *samples)
{
    struct muster_sample_groups groups = {0};
    if (muster_samples_group(samples, report->tags, &groups))
        return -1;
    for (size_t t = 0; t < report->tags; t++) {
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
    muster_sample_groups_free(&groups);
    return 0;
}

int muster_build_tags(struct muster_build *build)
{
    struct tag_part *part = NULL;
    size_t parts = 0;
    if (find_parts(build->run, &part, &parts)) {
        free(part);
        return -1;
    }
    if (!parts)
        return 0;
    struct muster_samples samples = {0};
    size_t entries = build->run->processes * MUSTER_SEG_TAGS;
    uint32_t *row_of = malloc(entries * sizeof *row_of);
    for (size_t i = 0; row_of && i < entries; i++)
        row_of[i] = MUSTER_NO_CLASS;
    int result = !row_of || make_rows(build, part, parts, row_of) ||
                         collect(build, row_of, &samples) || add_times(build->report, &samples)
                     ? -1
                     : 0;
    muster_samples_free(&samples);
    free(row_of);
    free(part);
    return result;
}
