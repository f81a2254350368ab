/* A job as `muster top` may be given it. */
#ifndef MUSTER_TESTS_UNIT_TOP_TOP_MADE_H
#define MUSTER_TESTS_UNIT_TOP_TOP_MADE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "top/top_screen.h"

enum { MADE_LATE = 2 };

/* `ranks` ranks, of which MADE_LATE made the others wait and is named by a finding; one
 * communicator, one class. Free with made_free. */
void made_job(struct muster_top *top, size_t ranks);
void made_free(struct muster_top *top);

/* The screen's line that holds `text`; NULL: none. */
const struct muster_screen_line *made_find(const struct muster_screen *screen, const char *text);

#endif
