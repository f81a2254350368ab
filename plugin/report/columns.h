/* The columns of the report: one table for each kind of row prints as text, JSON and CSV. */
#ifndef MUSTER_REPORT_COLUMNS_H
#define MUSTER_REPORT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum muster_cell_type {
    MUSTER_CELL_STR,   /* const char *; NULL: absent */
    MUSTER_CELL_ID,    /* uint64_t, 16 hex digits; 0: absent */
    MUSTER_CELL_U64,   /* uint64_t */
    MUSTER_CELL_KNOWN, /* uint64_t; 0: absent */
    MUSTER_CELL_BYTES, /* uint64_t */
    MUSTER_CELL_I64,   /* int64_t; negative: absent */
    MUSTER_CELL_REAL,  /* double; NAN: absent */
    MUSTER_CELL_BOOL,
};

enum muster_column_flags {
    MUSTER_COLUMN_MERGE = 1 << 0,  /* text: left out where all rows agree */
    MUSTER_COLUMN_QUIET = 1 << 1,  /* text: left out where all are 0 */
    MUSTER_COLUMN_SUMS = 1 << 2,   /* text: only of rows that fold several kinds of operations */
    MUSTER_COLUMN_TWINS = 1 << 3,  /* text: only where two rows have the same first column */
    MUSTER_COLUMN_BESIDE = 1 << 4, /* text: left out where all rows are as in the column before */
};

struct muster_column {
    const char *name; /* JSON and CSV; "a.b" is member b of object a in JSON; NULL: text only */
    enum muster_cell_type type;
    size_t offset;
    unsigned by;      /* 1 << enum muster_report_by: the rows of operations that have it; 0: all */
    const char *head; /* text: heading; NULL: not shown */
    const char *unit; /* text: below the heading; NULL: none */
    double scale;     /* text: factor of a REAL; 0: 1 */
    int decimals;     /* text */
    unsigned flags;
    unsigned
        spare; /* text: what is left out first where a line is too long, 9 before 1; 0: never */
};

struct muster_table {
    const struct muster_column *column;
    size_t columns;
    size_t row_bytes;
};

/* The column that a person means: its heading or its name in JSON, with or without the unit and
 * whatever stands between words. NULL: there is none. */
const struct muster_column *muster_column_find(const struct muster_table *table, unsigned by,
                                               const char *word);

extern const struct muster_table muster_rank_table;
extern const struct muster_table muster_op_table;
extern const struct muster_table muster_net_table;
extern const struct muster_table muster_rule_table;
extern const struct muster_table muster_tag_table;

struct muster_cell {
    enum muster_cell_type type;
    bool absent;
    union {
        const char *str;
        uint64_t u64;
        int64_t i64;
        double real;
        bool flag;
    };
};

struct muster_cell muster_cell(const struct muster_column *column, const void *row);

#endif
