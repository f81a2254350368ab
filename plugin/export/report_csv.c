#include <inttypes.h>
#include <string.h>

#include "export/columns.h"
#include "export/report_out.h"

static void write_text(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, out);
    }
    fputc('"', out);
}

static void write_cell(FILE *out, const struct muster_cell *cell)
{
    if (cell->absent) {
        return;
    }
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

static void write_rows(FILE *out, const struct muster_table *table, unsigned by, const void *rows,
                       size_t n)
{
    for (size_t i = 0; i <= n; i++) {
        const char *comma = "";
        for (size_t c = 0; c < table->columns; c++) {
            const struct muster_column *column = &table->column[c];
            if (!column->name || (column->by && !(column->by & by))) {
                continue;
            }
            fputs(comma, out);
            comma = ",";
            if (i == 0) {
                fputs(column->name, out);
            } else {
                struct muster_cell cell =
                    muster_cell(column, (const char *)rows + (i - 1) * table->row_bytes);
                write_cell(out, &cell);
            }
        }
        fputc('\n', out);
    }
}

void muster_report_csv(const struct muster_report *report, enum muster_report_rows rows, FILE *out)
{
    if (rows == MUSTER_ROWS_RULE) {
        write_rows(out, &muster_rule_table, 0, report->rule, report->rules);
    } else if (rows == MUSTER_ROWS_OP) {
        write_rows(out, &muster_op_table, 1u << report->by, report->op, report->ops);
    } else {
        write_rows(out, &muster_rank_table, 0, report->rank, report->ranks);
    }
}
