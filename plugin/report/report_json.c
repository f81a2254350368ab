#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "report/columns.h"
#include "report/report_output.h"

enum { SCHEMA = 2 };

static void write_cell(struct muster_json *json, const char *key, const struct muster_cell *cell)
{
    char id[17];
    if (cell->absent) {
        muster_json_null(json, key);
        return;
    }
    switch (cell->type) {
    case MUSTER_CELL_STR:
        muster_json_str(json, key, cell->str);
        break;
    case MUSTER_CELL_ID:
        snprintf(id, sizeof id, "%016" PRIx64, cell->u64);
        muster_json_str(json, key, id);
        break;
    case MUSTER_CELL_U64:
    case MUSTER_CELL_KNOWN:
    case MUSTER_CELL_BYTES:
        muster_json_u64(json, key, cell->u64);
        break;
    case MUSTER_CELL_I64:
        muster_json_i64(json, key, cell->i64);
        break;
    case MUSTER_CELL_REAL:
        muster_json_real(json, key, cell->real, 6);
        break;
    case MUSTER_CELL_BOOL:
        muster_json_bool(json, key, cell->flag);
        break;
    }
}

/* Length of the object's name in "object.member"; 0: a plain member. */
static size_t object_letters(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot ? (size_t)(dot - name) : 0;
}

static void write_row(struct muster_json *json, const struct muster_table *table, const void *row)
{
    const char *open = NULL; /* the column that opened the object that is open */
    muster_json_object(json, NULL);
    for (size_t c = 0; c < table->columns; c++) {
        const struct muster_column *column = &table->column[c];
        const char *name = column->name;
        if (!name || (column->by && !(column->by & 1u << MUSTER_BY_OP)))
            continue;
        size_t letters = object_letters(name);
        struct muster_cell cell = muster_cell(column, row);
        if (open && (object_letters(open) != letters || strncmp(open, name, letters) != 0)) {
            muster_json_end(json);
            open = NULL;
        }
        if (letters && !open) {
            char object[32];
            snprintf(object, sizeof object, "%.*s", (int)letters, name);
            muster_json_object(json, object);
            open = name;
        }
        write_cell(json, letters ? name + letters + 1 : name, &cell);
    }
    if (open)
        muster_json_end(json);
    muster_json_end(json);
}

static void write_rows(struct muster_json *json, const char *key, const struct muster_table *table,
                       const void *rows, size_t n)
{
    muster_json_array(json, key);
    for (size_t i = 0; i < n; i++)
        write_row(json, table, (const char *)rows + i * table->row_bytes);
    muster_json_end(json);
}

void muster_report_json(const struct muster_report *report,
                        void (*more)(const void *arg, struct muster_json *json), const void *arg,
                        FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", SCHEMA);
    muster_json_str(&json, "muster", MUSTER_VERSION);
    muster_json_array(&json, "run");
    for (size_t i = 0; i < report->run->sources; i++)
        muster_json_str(&json, NULL, report->run->source[i]);
    muster_json_end(&json);
    write_rows(&json, "ranks", &muster_rank_table, report->rank, report->ranks);
    write_rows(&json, "ops", &muster_op_table, report->op, report->ops);
    write_rows(&json, "net", &muster_net_table, report->net, report->nets);
    write_rows(&json, "rules", &muster_rule_table, report->rule, report->rules);
    write_rows(&json, "tags", &muster_tag_table, report->tag, report->tags);
    muster_json_array(&json, "gaps");
    for (size_t i = 0; i < report->gaps; i++)
        muster_json_str(&json, NULL, report->gap[i]);
    muster_json_end(&json);
    if (more)
        more(arg, &json);
    muster_json_end(&json);
    fputc('\n', out);
}
