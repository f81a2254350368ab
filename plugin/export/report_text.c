#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "export/columns.h"
#include "export/report_out.h"

enum { TOP = 20, CELL = 40, COMM_DIGITS = 8 };

static void cell_text(char *to, const struct muster_column *column, const void *row)
{
    struct muster_cell cell = muster_cell(column, row);
    if (cell.absent) {
        muster_text_copy(to, CELL, "-");
        return;
    }
    switch (cell.type) {
    case MUSTER_CELL_STR:
        muster_text_copy(to, CELL, strcmp(cell.str, "unknown") == 0 ? "-" : cell.str);
        break;
    case MUSTER_CELL_ID:
        snprintf(to, CELL, "%016" PRIx64, cell.u64);
        to[COMM_DIGITS] = '\0';
        break;
    case MUSTER_CELL_U64:
    case MUSTER_CELL_KNOWN:
        snprintf(to, CELL, "%" PRIu64, cell.u64);
        break;
    case MUSTER_CELL_BYTES:
        muster_text_bytes(to, CELL, cell.u64);
        break;
    case MUSTER_CELL_I64:
        snprintf(to, CELL, "%" PRId64, cell.i64);
        break;
    case MUSTER_CELL_REAL:
        snprintf(to, CELL, "%.*f", column->decimals,
                 cell.real * (column->scale > 0 ? column->scale : 1));
        break;
    case MUSTER_CELL_BOOL:
        muster_text_copy(to, CELL, cell.flag ? "yes" : "no");
        break;
    }
}

struct grid {
    const struct muster_table *table;
    const void *const *row;
    size_t n;
    unsigned by;
    size_t *width; /* of each column; 0: left out */
};

/* Whether two rows that follow each other have the same first column. */
static bool has_twins(const struct grid *grid)
{
    char before[CELL];
    char text[CELL];
    for (size_t i = 0; i < grid->n; i++) {
        cell_text(text, &grid->table->column[0], grid->row[i]);
        if (i && strcmp(before, text) == 0) {
            return true;
        }
        memcpy(before, text, sizeof before);
    }
    return false;
}

/* Width of a column, 0 where it would tell nothing. */
static size_t width_of(const struct grid *grid, const struct muster_column *column)
{
    char first[CELL];
    char text[CELL];
    bool same = true;
    bool empty = true;
    size_t width;
    bool fits = !column->by || (column->by & grid->by);
    bool folded = grid->by & (1u << MUSTER_BY_COMM | 1u << MUSTER_BY_SIZE);
    if ((column->flags & MUSTER_COLUMN_TWINS) && !has_twins(grid)) {
        return 0;
    }
    if (!column->head || !fits || ((column->flags & MUSTER_COLUMN_SUMS) && !folded)) {
        return 0;
    }
    width = strlen(column->head);
    if (column->unit && strlen(column->unit) > width) {
        width = strlen(column->unit);
    }
    for (size_t i = 0; i < grid->n; i++) {
        cell_text(i ? text : first, column, grid->row[i]);
        const char *now = i ? text : first;
        same = same && strcmp(first, now) == 0;
        empty = empty && (strcmp(now, "-") == 0 ||
                          ((column->flags & MUSTER_COLUMN_QUIET) && strcmp(now, "0") == 0));
        width = strlen(now) > width ? strlen(now) : width;
    }
    return empty || (same && (column->flags & MUSTER_COLUMN_MERGE)) ? 0 : width;
}

static void put(FILE *out, const struct muster_column *column, size_t width, const char *text)
{
    bool left = column->type == MUSTER_CELL_STR || column->type == MUSTER_CELL_ID;
    fprintf(out, left ? "  %-*s" : "  %*s", (int)width, text);
}

/* Text columns are not padded where nothing follows, so that no line ends in blanks. */
static void put_line(const struct grid *grid, FILE *out, const void *row, bool unit)
{
    size_t last = 0;
    char text[CELL];
    for (size_t c = 0; c < grid->table->columns; c++) {
        const struct muster_column *column = &grid->table->column[c];
        if (grid->width[c] && (!unit || column->unit)) {
            last = c;
        }
    }
    for (size_t c = 0; c <= last; c++) {
        const struct muster_column *column = &grid->table->column[c];
        if (!grid->width[c]) {
            continue;
        }
        if (row) {
            cell_text(text, column, row);
        } else {
            muster_text_copy(text, CELL, unit ? column->unit : column->head);
        }
        put(out, column, c == last && column->type == MUSTER_CELL_STR ? 0 : grid->width[c], text);
    }
    fputc('\n', out);
}

static int put_rows(FILE *out, const struct muster_table *table, unsigned by,
                    const void *const *row, size_t n)
{
    struct grid grid = {.table = table, .row = row, .n = n, .by = by};
    bool units = false;
    grid.width = calloc(table->columns, sizeof *grid.width);
    if (!grid.width) {
        return -1;
    }
    for (size_t c = 0; c < table->columns; c++) {
        grid.width[c] = width_of(&grid, &table->column[c]);
        units |= grid.width[c] && table->column[c].unit;
    }
    put_line(&grid, out, NULL, false);
    if (units) {
        put_line(&grid, out, NULL, true);
    }
    for (size_t i = 0; i < n; i++) {
        put_line(&grid, out, row[i], false);
    }
    free(grid.width);
    return 0;
}

/* The first `limit` of the rows that `is` (NULL: all), under a title; nothing if there are none. */
static int put_table(FILE *out, const char *title, const struct muster_table *table, unsigned by,
                     const void *rows, size_t n, bool (*is)(const void *row), size_t limit)
{
    const void **row = malloc((n + 1) * sizeof *row);
    size_t found = 0;
    int result = 0;
    if (!row) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const void *at = (const char *)rows + i * table->row_bytes;
        if (!is || is(at)) {
            row[found++] = at;
        }
    }
    if (found) {
        fprintf(out, "\n%s", title);
        if (found > limit) {
            fprintf(out, ", the first %zu of %zu kinds (--by op shows all)", limit, found);
        }
        fputc('\n', out);
        result = put_rows(out, table, by, row, found < limit ? found : limit);
    }
    free(row);
    return result;
}

static int by_text(const void *left, const void *right)
{
    const char *a = *(const char *const *)left;
    const char *b = *(const char *const *)right;
    return strcmp(a ? a : "", b ? b : "");
}

/* How many different hosts; 0 without memory. */
static size_t count_hosts(const struct muster_report *report)
{
    const char **host = malloc((report->ranks + 1) * sizeof *host);
    size_t hosts = 0;
    for (size_t i = 0; host && i < report->ranks; i++) {
        host[i] = report->rank[i].host;
    }
    if (host) {
        qsort(host, report->ranks, sizeof *host, by_text);
    }
    for (size_t i = 0; host && i < report->ranks; i++) {
        hosts += i == 0 || by_text(&host[i - 1], &host[i]) != 0;
    }
    free(host);
    return hosts;
}

static void put_nccl(const struct muster_report *report, FILE *out)
{
    const char *nccl = report->ranks ? report->rank[0].nccl : NULL;
    for (size_t i = 0; i < report->ranks && nccl; i++) {
        nccl = report->rank[i].nccl && strcmp(report->rank[i].nccl, nccl) == 0 ? nccl : NULL;
    }
    if (nccl) {
        fprintf(out, ", NCCL %s", nccl);
    }
}

static void put_timing(const struct muster_report *report, FILE *out)
{
    const char *const words[] = {muster_source_word(MUSTER_SOURCE_GPU),
                                 muster_source_word(MUSTER_SOURCE_PROXY),
                                 muster_source_word(MUSTER_SOURCE_HOST)};
    const char *const clocks[] = {"the GPUs' own clocks", "the clock of the network proxies",
                                  "the host clock"};
    uint64_t ops = 0;
    uint64_t timed[3] = {0};
    for (size_t i = 0; i < report->ranks; i++) {
        ops += report->rank[i].ops;
        for (size_t s = 0; s < 3; s++) {
            timed[s] +=
                strcmp(report->rank[i].source, words[s]) == 0 ? report->rank[i].timed_ops : 0;
        }
    }
    fprintf(out, "%" PRIu64 " operations", ops);
    if (ops && !timed[0] && !timed[1] && !timed[2]) {
        fputs(", none timed", out);
    }
    for (size_t s = 0; s < 3; s++) {
        if (timed[s]) {
            fprintf(out, ", %" PRIu64 " (%.1f %%) timed by %s", timed[s],
                    100.0 * (double)timed[s] / (double)ops, clocks[s]);
        }
    }
    if (report->joint) {
        fprintf(out, "; %" PRIu64 " compared between the ranks", report->joint);
    }
    fputc('\n', out);
}

static int put_header(const struct muster_report *report, FILE *out)
{
    const struct muster_run *run = report->run;
    size_t hosts = count_hosts(report);
    if (hosts == 0 && report->ranks > 0)
        return -1;
    fputs(run->sources ? "run " : "what lives on this host", out);
    for (size_t i = 0; i < run->sources && i < 4; i++) {
        fprintf(out, "%s%s", i ? ", " : "", run->source[i]);
    }
    if (run->sources > 4) {
        fprintf(out, " and %zu more", run->sources - 4);
    }
    fprintf(out, "\n%zu rank%s on %zu host%s", report->ranks, report->ranks == 1 ? "" : "s", hosts,
            hosts == 1 ? "" : "s");
    put_nccl(report, out);
    fputc('\n', out);
    put_timing(report, out);
    return 0;
}

static bool is_p2p(const void *row)
{
    return ((const struct muster_report_op *)row)->peer >= 0;
}

static bool is_collective(const void *row)
{
    return !is_p2p(row);
}

static int put_ops(const struct muster_report *report, enum muster_report_rows rows, FILE *out)
{
    size_t limit = rows == MUSTER_ROWS_OP ? SIZE_MAX : TOP;
    unsigned by = 1u << report->by;
    if (report->by != MUSTER_BY_OP) {
        return put_table(out, "operations of all ranks together", &muster_op_table, by, report->op,
                         report->ops, NULL, limit);
    }
    return put_table(out, "collectives, all ranks together", &muster_op_table, by, report->op,
                     report->ops, is_collective, limit) ||
                   put_table(out, "sends and receives", &muster_op_table, by, report->op,
                             report->ops, is_p2p, limit)
               ? -1
               : 0;
}

static int put_rules(const struct muster_report *report, FILE *out)
{
    if (!report->rules) {
        fputs("\nno policy\n", out);
        return 0;
    }
    return put_table(out, "rules of the policy, all ranks together", &muster_rule_table, 0,
                     report->rule, report->rules, NULL, SIZE_MAX);
}

static int put_ranks(const struct muster_report *report, FILE *out)
{
    if (put_table(out, "ranks", &muster_rank_table, 0, report->rank, report->ranks, NULL,
                  SIZE_MAX)) {
        return -1;
    }
    if (report->joint) {
        fputs(
            "  busy: timed operations in sum. wait: of that, for ranks that came later. late: how "
            "long\n  the rank that waited longest in each operation waited for this one.\n",
            out);
    }
    return 0;
}

int muster_report_text(const struct muster_report *report, enum muster_report_rows rows, FILE *out)
{
    bool both = rows == MUSTER_ROWS_BOTH;
    if (put_header(report, out) || ((both || rows == MUSTER_ROWS_RANK) && put_ranks(report, out)) ||
        ((both || rows == MUSTER_ROWS_OP) && put_ops(report, rows, out)) ||
        (rows == MUSTER_ROWS_RULE && put_rules(report, out)) ||
        (both && put_table(out, "network, by rank and peer", &muster_net_table, 0, report->net,
                           report->nets, NULL, SIZE_MAX))) {
        return -1;
    }
    if (report->gaps) {
        fputs("\nnot seen, or to be read with care\n", out);
    }
    for (size_t i = 0; i < report->gaps; i++) {
        fprintf(out, "  - %s\n", report->gap[i]);
    }
    return 0;
}
