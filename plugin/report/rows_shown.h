/* Which rows of a table are shown, and in which order. */
#ifndef MUSTER_REPORT_ROWS_SHOWN_H
#define MUSTER_REPORT_ROWS_SHOWN_H

#include <stdbool.h>
#include <stddef.h>

#include "report/columns.h"

struct muster_rows_choice {
    const struct muster_column *sort; /* biggest first, words from a to z; NULL: as they are */
    bool worst;                       /* ranks without `sort`: the worst first */
    size_t top;                       /* at most so many; 0: all */
    const struct muster_column *each; /* `top` of each value of this column; NULL: of all */
    bool (*is)(const void *row);      /* NULL: all rows */
};

struct muster_rows {
    const void **row;
    size_t n;     /* chosen */
    size_t found; /* there were so many before `top` */
};

/* Of n rows of the table. muster_rows_free in any case. -1: no memory. */
int muster_rows_choose(const struct muster_table *table, const void *rows, size_t n,
                       const struct muster_rows_choice *choice, struct muster_rows *chosen);
void muster_rows_free(struct muster_rows *chosen);

#endif
