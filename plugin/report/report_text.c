#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "base/text.h"
#include "report/columns.h"
#include "report/report_output.h"

enum { CELL = 48, COMM_DIGITS = 8, GAP = 2 };

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
    const struct muster_report_show *show;
};

static unsigned width_shown(const struct muster_report_show *show)
{
    return show->terminal.width ? show->terminal.width : MUSTER_TERMINAL_USUAL;
}

/* Whether two rows that follow each other have the same first column. */
static bool has_twins(const struct grid *grid)
{
    char before[CELL];
    char text[CELL];
    for (size_t i = 0; i < grid->n; i++) {
        cell_text(text, &grid->table->column[0], grid->row[i]);
        if (i && strcmp(before, text) == 0)
            return true;
        memcpy(before, text, sizeof before);
    }
    return false;
}

/* Whether all rows show what they show in the column before. */
static bool is_beside(const struct grid *grid, const struct muster_column *column)
{
    char before[CELL];
    char text[CELL];
    for (size_t i = 0; i < grid->n; i++) {
        cell_text(before, column - 1, grid->row[i]);
        cell_text(text, column, grid->row[i]);
        if (strcmp(before, text) != 0)
            return false;
    }
    return true;
}

/* Width of a column, 0 where it would show nothing. */
static size_t width_of(const struct grid *grid, const struct muster_column *column)
{
    char first[CELL];
    char text[CELL];
    bool same = true;
    bool empty = true;
    size_t width;
    bool fits = !column->by || (column->by & grid->by);
    bool folded = grid->by & (1u << MUSTER_BY_COMM | 1u << MUSTER_BY_SIZE);
    if ((column->flags & MUSTER_COLUMN_TWINS) && !has_twins(grid))
        return 0;
    if (!column->head || !fits || ((column->flags & MUSTER_COLUMN_SUMS) && !folded))
        return 0;
    if ((column->flags & MUSTER_COLUMN_BESIDE) && is_beside(grid, column))
        return 0;
    width = strlen(column->head);
    if (column->unit && strlen(column->unit) > width)
        width = strlen(column->unit);
    for (size_t i = 0; i < grid->n; i++) {
        cell_text(i ? text : first, column, grid->row[i]);
        const char *now = i ? text : first;
        same = same && strcmp(first, now) == 0;
        empty = empty && (strcmp(now, "-") == 0 ||
                          ((column->flags & MUSTER_COLUMN_QUIET) && strcmp(now, "0") == 0));
        size_t cells = muster_terminal_cells(now);
        width = cells > width ? cells : width;
    }
    return empty || (same && (column->flags & MUSTER_COLUMN_MERGE)) ? 0 : width;
}

static void put(FILE *out, const struct muster_column *column, size_t width, const char *text)
{
    bool left = column->type == MUSTER_CELL_STR || column->type == MUSTER_CELL_ID;
    size_t cells = muster_terminal_cells(text);
    int pad = (int)(width > cells ? width - cells : 0);
    fprintf(out, "  %*s%s%*s", left ? 0 : pad, "", text, left ? pad : 0, "");
}

/* Text columns are not padded where nothing follows, so that no line ends in blanks. */
static void put_line(const struct grid *grid, FILE *out, const void *row, bool unit)
{
    size_t last = 0;
    char text[CELL];
    bool culprit =
        row && grid->table == &muster_rank_table && ((const struct muster_report_rank *)row)->named;
    for (size_t c = 0; c < grid->table->columns; c++) {
        const struct muster_column *column = &grid->table->column[c];
        if (row)
            cell_text(text, column, row);
        bool ends = column->type == MUSTER_CELL_STR && row && strcmp(text, "-") == 0 &&
                    column == &grid->table->column[grid->table->columns - 1];
        if (grid->width[c] && (!unit || column->unit) && !ends)
            last = c;
    }
    fputs(culprit ? grid->show->terminal.style ? "\033[1m>" : ">" : "", out);
    for (size_t c = 0, first = 1; c <= last; c++) {
        const struct muster_column *column = &grid->table->column[c];
        if (!grid->width[c])
            continue;
        if (row)
            cell_text(text, column, row);
        else
            muster_text_copy(text, CELL, unit ? column->unit : column->head);
        size_t width = c == last && column->type == MUSTER_CELL_STR ? 0 : grid->width[c];
        put(out, column, width > 0 && first && culprit ? width - 1 : width, text);
        first = 0;
    }
    fputs(culprit && grid->show->terminal.style ? "\033[0m\n" : "\n", out);
}

/* Leaves columns out until a line fits, where somebody reads at that width; how many. */
static unsigned fit(const struct grid *grid)
{
    unsigned left_out = 0;
    if (!grid->show->terminal.fit)
        return 0;
    for (unsigned spare = 9; spare > 0; spare--) {
        for (size_t at = grid->table->columns; at > 0; at--) {
            size_t width = 0;
            for (size_t c = 0; c < grid->table->columns; c++)
                width += grid->width[c] ? grid->width[c] + GAP : 0;
            if (width <= width_shown(grid->show))
                return left_out;
            if (grid->table->column[at - 1].spare == spare && grid->width[at - 1]) {
                grid->width[at - 1] = 0;
                left_out++;
            }
        }
    }
    return left_out;
}

static int put_rows(FILE *out, const struct muster_table *table, unsigned by,
                    const struct muster_rows *rows, const struct muster_report_show *show)
{
    struct grid grid = {.table = table, .row = rows->row, .n = rows->n, .by = by, .show = show};
    bool units = false;
    grid.width = calloc(table->columns, sizeof *grid.width);
    if (!grid.width)
        return -1;
    for (size_t c = 0; c < table->columns; c++)
        grid.width[c] = width_of(&grid, &table->column[c]);
    unsigned left_out = fit(&grid);
    for (size_t c = 0; c < table->columns; c++)
        units |= grid.width[c] && table->column[c].unit;
    put_line(&grid, out, NULL, false);
    if (units)
        put_line(&grid, out, NULL, true);
    for (size_t i = 0; i < rows->n; i++)
        put_line(&grid, out, rows->row[i], false);
    if (left_out) {
        fprintf(out, "  %u column%s left out to fit %u columns\n", left_out,
                left_out > 1 ? "s" : "", width_shown(show));
    }
    free(grid.width);
    return 0;
}

struct muster_rows_choice muster_report_choice_of(const struct muster_table *table, unsigned by,
                                                  const struct muster_report_show *show)
{
    const struct muster_column *rank = muster_column_find(table, 0, "rank");
    bool each = table == &muster_op_table && by == 1u << MUSTER_BY_RANK_SIZE;
    return (struct muster_rows_choice){
        .sort = show->sort ? muster_column_find(table, by, show->sort) : NULL,
        .worst = show->worst,
        .top = show->top,
        .each = each ? rank : NULL,
    };
}

bool muster_report_can_sort(const struct muster_report *report,
                            const struct muster_report_show *show)
{
    unsigned by = 1u << report->by;
    bool both = show->rows == MUSTER_ROWS_BOTH;
    return !show->sort ||
           ((both || show->rows == MUSTER_ROWS_RANK) &&
            muster_column_find(&muster_rank_table, 0, show->sort)) ||
           ((both || show->rows == MUSTER_ROWS_OP) &&
            muster_column_find(&muster_op_table, by, show->sort)) ||
           (show->rows == MUSTER_ROWS_RULE &&
            muster_column_find(&muster_rule_table, 0, show->sort));
}

/* Rows under a title; nothing if there are none. */
struct section {
    const char *title, *what; /* "ranks": what the rows are */
    const struct muster_table *table;
    unsigned by;
    const void *rows;
    size_t n;
    bool (*is)(const void *row);
    const char *order; /* how they stand where nobody chose; NULL: nothing to note */
};

static int put_table(FILE *out, const struct section *section,
                     const struct muster_report_show *show)
{
    struct muster_rows_choice choice = muster_report_choice_of(section->table, section->by, show);
    struct muster_rows rows;
    choice.is = section->is;
    int result = muster_rows_choose(section->table, section->rows, section->n, &choice, &rows);
    if (result == 0 && rows.n) {
        bool style = show->terminal.style;
        fprintf(out, "\n%s%s%s", style ? "\033[1m" : "", section->title, style ? "\033[0m" : "");
        if (choice.sort)
            fprintf(out, ", by %s", choice.sort->head ? choice.sort->head : choice.sort->name);
        else if (section->order)
            fprintf(out, ", %s", section->order);
        if (rows.n < rows.found) {
            fprintf(out, " (%zu of %zu %s%s; --top 0 shows all)", rows.n, rows.found, section->what,
                    choice.each ? ", so many of each rank" : "");
        }
        fputc('\n', out);
        result = put_rows(out, section->table, section->by, &rows, show);
    }
    muster_rows_free(&rows);
    return result;
}

static void put_timing(const struct muster_report *report, FILE *out)
{
    enum { SOURCES = 4 };
    const char *const words[SOURCES] = {
        muster_source_name(MUSTER_SOURCE_GPU), muster_source_name(MUSTER_SOURCE_EVENT),
        muster_source_name(MUSTER_SOURCE_PROXY), muster_source_name(MUSTER_SOURCE_HOST)};
    const char *const clocks[SOURCES] = {"the GPUs' own clocks", "events on the GPUs' own clocks",
                                         "the clock of the network proxies", "the host clock"};
    uint64_t ops = 0, to_itself = 0, all = 0;
    uint64_t timed[SOURCES] = {0};
    for (size_t i = 0; i < report->ranks; i++) {
        ops += report->rank[i].ops;
        to_itself += report->rank[i].to_itself;
        for (size_t s = 0; s < SOURCES; s++) {
            timed[s] +=
                strcmp(report->rank[i].source, words[s]) == 0 ? report->rank[i].timed_ops : 0;
        }
        all += report->rank[i].timed_ops;
    }
    fprintf(out, "%" PRIu64 " operations", ops - to_itself);
    if (ops && !all)
        fputs(", none timed", out);
    for (size_t s = 0; s < SOURCES; s++) {
        if (timed[s]) {
            fprintf(out, ", %" PRIu64 " (%.1f %%) timed by %s", timed[s],
                    100.0 * (double)timed[s] / (double)(ops - to_itself), clocks[s]);
        }
    }
    if (to_itself) {
        fprintf(out,
                "; %" PRIu64 " more are copies of a rank to itself, which have no time of "
                "their own",
                to_itself);
    }
    if (report->joint)
        fprintf(out, "; %" PRIu64 " compared between the ranks", report->joint);
}

/* Of the rank that paid most; nothing where none did. */
static void put_cost(const struct muster_report *report, FILE *out)
{
    const struct muster_report_rank *most = NULL;
    for (size_t i = 0; i < report->ranks; i++) {
        const struct muster_report_rank *rank = &report->rank[i];
        if (rank->cost_s > (most ? most->cost_s : 0))
            most = rank;
    }
    if (!most)
        return;
    fprintf(out, "; timing by events cost %s%.3g s", report->ranks > 1 ? "a rank at most " : "",
            most->cost_s);
    if (!isnan(most->cost_share))
        fprintf(out, " (%.2g %% of its time)", 100 * most->cost_share);
}

static int put_header(const struct muster_report *report, const struct muster_report_show *show,
                      FILE *out)
{
    char *text = NULL;
    size_t bytes;
    if (muster_report_scope(report->run, report->ranks, width_shown(show), out))
        return -1;
    FILE *line = open_memstream(&text, &bytes);
    if (!line)
        return -1;
    put_timing(report, line);
    put_cost(report, line);
    if (!muster_text_close(line, &text))
        return -1;
    muster_terminal_wrap(out, width_shown(show), "", "  ", text);
    free(text);
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

static int put_ops(const struct muster_report *report, const struct muster_report_show *show,
                   FILE *out)
{
    unsigned by = 1u << report->by;
    struct section section = {.what = "kinds",
                              .table = &muster_op_table,
                              .by = by,
                              .rows = report->op,
                              .n = report->ops,
                              .order = "longest in NCCL first"};
    if (report->by != MUSTER_BY_OP) {
        section.title = report->by == MUSTER_BY_RANK_SIZE ? "operations of each rank by size"
                                                          : "operations of all ranks together";
        return put_table(out, &section, show);
    }
    section.title = "collectives of all ranks together";
    section.is = is_collective;
    if (put_table(out, &section, show))
        return -1;
    section.title = "sends and receives";
    section.is = is_p2p;
    return put_table(out, &section, show);
}

static int put_rules(const struct muster_report *report, const struct muster_report_show *show,
                     FILE *out)
{
    if (!report->rules) {
        fputs("\nno policy\n", out);
        return 0;
    }
    return put_table(out,
                     &(struct section){.title = "rules of the policy, all ranks together",
                                       .what = "rows",
                                       .table = &muster_rule_table,
                                       .rows = report->rule,
                                       .n = report->rules},
                     show);
}

static void legend(const struct muster_report *report, const struct muster_report_show *show,
                   FILE *out)
{
    char text[512];
    uint64_t ops = 0, timed = 0;
    for (size_t i = 0; i < report->ranks; i++) {
        ops += report->rank[i].ops - report->rank[i].to_itself;
        timed += report->rank[i].timed_ops;
    }
    if (timed && timed * 1000 < ops * 995) {
        snprintf(
            text, sizeof text,
            "Sums are of the %.1f %% of operations that were timed; ~ run: an estimate for all "
            "of them.",
            100.0 * (double)timed / (double)ops);
        muster_terminal_wrap(out, width_shown(show), "  ", "  ", text);
    }
    if (report->joint) {
        muster_terminal_wrap(out, width_shown(show), "  ", "  ",
                             "in NCCL: timed operations in sum. waited: of that, for ranks that "
                             "came later. made others wait: how long, in each operation, the rank "
                             "that waited longest waited for this one.");
    }
}

static int put_ranks(const struct muster_report *report, const struct muster_report_show *show,
                     FILE *out)
{
    const struct section section = {.title = "ranks",
                                    .what = "ranks",
                                    .table = &muster_rank_table,
                                    .rows = report->rank,
                                    .n = report->ranks,
                                    .order = show->worst && report->joint ? "worst first" : NULL};
    if (put_table(out, &section, show))
        return -1;
    legend(report, show, out);
    return 0;
}

static int put_nets(const struct muster_report *report, const struct muster_report_show *show,
                    FILE *out)
{
    return put_table(out,
                     &(struct section){.title = "network, by rank and peer",
                                       .what = "rows",
                                       .table = &muster_net_table,
                                       .rows = report->net,
                                       .n = report->nets},
                     show);
}

static int put_tags(const struct muster_report *report, const struct muster_report_show *show,
                    FILE *out)
{
    return put_table(out,
                     &(struct section){.title = "tags of the job's own, all ranks together",
                                       .what = "tags",
                                       .table = &muster_tag_table,
                                       .rows = report->tag,
                                       .n = report->tags},
                     show);
}

int muster_report_text(const struct muster_report *report, const struct muster_report_show *show,
                       FILE *out)
{
    bool both = show->rows == MUSTER_ROWS_BOTH;
    if (put_header(report, show, out) ||
        ((both || show->rows == MUSTER_ROWS_RANK) && put_ranks(report, show, out)) ||
        ((both || show->rows == MUSTER_ROWS_OP) && put_ops(report, show, out)) ||
        (show->rows == MUSTER_ROWS_RULE && put_rules(report, show, out)) ||
        (both && (put_tags(report, show, out) || put_nets(report, show, out)))) {
        return -1;
    }
    if (report->gaps)
        fputs("\ncaveats\n", out);
    for (size_t i = 0; i < report->gaps; i++)
        muster_terminal_wrap(out, width_shown(show), "  - ", "    ", report->gap[i]);
    return 0;
}
