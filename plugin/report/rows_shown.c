#include "report/rows_shown.h"

#include <stdlib.h>
#include <string.h>

#include "report/report.h"

struct order {
    const struct muster_column *each, *sort;
    bool ranks;
};

/* Absent values last; numbers from the biggest, words and ranks from the smallest. */
static int by_cell(const struct muster_column *column, const void *left, const void *right)
{
    struct muster_cell a = muster_cell(column, left);
    struct muster_cell b = muster_cell(column, right);
    if (a.absent || b.absent)
        return (int)a.absent - (int)b.absent;
    switch (a.type) {
    case MUSTER_CELL_STR:
        return strcmp(a.str, b.str);
    case MUSTER_CELL_I64:
        return (a.i64 > b.i64) - (a.i64 < b.i64);
    case MUSTER_CELL_REAL:
        return (a.real < b.real) - (a.real > b.real);
    case MUSTER_CELL_BOOL:
        return (int)b.flag - (int)a.flag;
    case MUSTER_CELL_ID:
    case MUSTER_CELL_U64:
    case MUSTER_CELL_KNOWN:
    case MUSTER_CELL_BYTES:
        break;
    }
    return (a.u64 < b.u64) - (a.u64 > b.u64);
}

/* Who is named by a finding, then who made others wait longest. */
static int by_named(const struct muster_report_rank *a, const struct muster_report_rank *b)
{
    unsigned first = a->named ? a->named : UINT32_MAX;
    unsigned second = b->named ? b->named : UINT32_MAX;
    if (first != second)
        return first < second ? -1 : 1;
    return (a->late_us < b->late_us) - (a->late_us > b->late_us);
}

static int by_order(const void *left, const void *right, void *arg)
{
    const struct order *order = arg;
    const void *a = *(const void *const *)left;
    const void *b = *(const void *const *)right;
    int first = order->each ? by_cell(order->each, a, b) : 0;
    if (first == 0 && order->sort)
        first = by_cell(order->sort, a, b);
    else if (first == 0 && order->ranks)
        first = by_named(a, b);
    return first ? first : (a > b) - (a < b);
}

/* Keeps the first `top` of each group of rows with the same value. */
static size_t keep(const struct muster_rows_choice *choice, const void **row, size_t n)
{
    const void *before = NULL;
    size_t kept = 0, of_group = 0;
    for (size_t i = 0; i < n; i++) {
        bool same = before && (!choice->each || by_cell(choice->each, before, row[i]) == 0);
        before = row[i];
        of_group = same ? of_group + 1 : 1;
        if (!choice->top || of_group <= choice->top)
            row[kept++] = row[i];
    }
    return kept;
}

int muster_rows_choose(const struct muster_table *table, const void *rows, size_t n,
                       const struct muster_rows_choice *choice, struct muster_rows *chosen)
{
    struct order order = {choice->each, choice->sort, choice->worst && table == &muster_rank_table};
    *chosen = (struct muster_rows){.row = malloc((n + 1) * sizeof *chosen->row)};
    if (!chosen->row)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const void *at = (const char *)rows + i * table->row_bytes;
        if (!choice->is || choice->is(at))
            chosen->row[chosen->found++] = at;
    }
    if (chosen->found)
        qsort_r(chosen->row, chosen->found, sizeof *chosen->row, by_order, &order);
    chosen->n = keep(choice, chosen->row, chosen->found);
    return 0;
}

void muster_rows_free(struct muster_rows *chosen)
{
    free(chosen->row);
    *chosen = (struct muster_rows){0};
}
