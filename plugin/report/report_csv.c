#include <inttypes.h>
#include <string.h>

#include "report/columns.h"
#include "report/report_output.h"

/* A cell that begins like this is a formula to a spreadsheet, quoted or not; behind an apostrophe
 * it is text. A lone sign is no formula. */
static bool is_formula(const char *text)
{
    return *text && strchr("=@+-\t\r", *text) && (text[1] || *text == '=' || *text == '@');
}

static void write_text(FILE *out, const char *text)
{
    bool formula = is_formula(text);
    if (!formula && !strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputs(formula ? "\"'" : "\"", out);
    for (; *text; text++)
        fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, out);
    fputc('"', out);
}

static void write_cell(FILE *out, const struct muster_cell *cell)
{
    if (cell->absent)
        return;
    switch (cell->type) {
    case MUSTER_CELL_STR:
        write_text(out, cell->str);
        break;
    case MUSTER_CELL_ID:
        fprintf(out, "%016" PRIx64, cell->u64);
        break;
    case MUSTER_CELL_U64:
    case MUSTER_CELL_KNOWN:
    case MUSTER_CELL_BYTES:
        fprintf(out, "%" PRIu64, cell->u64);
        break;
    case MUSTER_CELL_I64:
        fprintf(out, "%" PRId64, cell->i64);
        break;
    case MUSTER_CELL_REAL:
        fprintf(out, "%.6f", cell->real);
        break;
    case MUSTER_CELL_BOOL:
        fputs(cell->flag ? "true" : "false", out);
        break;
    }
}

static bool is_shown(const struct muster_column *column, unsigned by)
{
    return column->name && (!column->by || (column->by & by));
}

static void write_row(FILE *out, const struct muster_table *table, unsigned by, const void *row)
{
    const char *comma = "";
    for (size_t c = 0; c < table->columns; c++) {
        const struct muster_column *column = &table->column[c];
        if (!is_shown(column, by))
            continue;
        fputs(comma, out);
        comma = ",";
        if (row) {
            struct muster_cell cell = muster_cell(column, row);
            write_cell(out, &cell);
        } else {
            fputs(column->name, out);
        }
    }
    fputc('\n', out);
}

static int write_rows(FILE *out, const struct muster_table *table, unsigned by, const void *rows,
                      size_t n, const struct muster_report_show *show)
{
    const struct muster_rows_choice choice = muster_report_choice_of(table, by, show);
    struct muster_rows chosen;
    int result = muster_rows_choose(table, rows, n, &choice, &chosen);
    if (result == 0)
        write_row(out, table, by, NULL);
    for (size_t i = 0; result == 0 && i < chosen.n; i++)
        write_row(out, table, by, chosen.row[i]);
    muster_rows_free(&chosen);
    return result;
}

int muster_report_csv(const struct muster_report *report, const struct muster_report_show *show,
                      FILE *out)
{
    if (show->rows == MUSTER_ROWS_RULE)
        return write_rows(out, &muster_rule_table, 0, report->rule, report->rules, show);
    if (show->rows == MUSTER_ROWS_OP)
        return write_rows(out, &muster_op_table, 1u << report->by, report->op, report->ops, show);
    return write_rows(out, &muster_rank_table, 0, report->rank, report->ranks, show);
}
