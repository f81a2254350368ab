/*
 * The file of a page, of whatever kind: the shell with what belongs into it. Text goes in as text,
 * JSON so that nothing in it ends its element.
 */
#ifndef MUSTER_PAGE_PAGE_FILE_H
#define MUSTER_PAGE_PAGE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "page/page.h"

enum { MUSTER_PAGE_LINES = 4 };

struct muster_page_file {
    enum muster_page_kind kind;
    const char *line[MUSTER_PAGE_LINES]; /* the verdict; the caller's */
    unsigned lines;
    char *data, *page; /* JSON: what can be read back, and what is only shown; of open_memstream */
    size_t data_bytes, page_bytes;
};

/* Writes `path`, which is there whole or not at all. */
int muster_page_file_write(const struct muster_page_file *file, const char *path, uint64_t *bytes,
                           struct muster_err *err);
void muster_page_file_free(struct muster_page_file *file);

#endif
