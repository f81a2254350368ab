/* Whole files of text, plain or xz, recognized by their first bytes. */
#ifndef MUSTER_REPLAY_XZ_H
#define MUSTER_REPLAY_XZ_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define MUSTER_TRACE_TEXT_MAX ((size_t)1 << 30)
#define MUSTER_TRACE_LINE_MAX ((size_t)1 << 20)

/* The caller frees *text. `cut`: compressed data ends early; what came before is there. Stops in a
 * line beyond MUSTER_TRACE_LINE_MAX, which whoever parses the text refuses. */
int muster_xz_load(const char *path, char **text, size_t *bytes, bool *cut, struct muster_err *err);

#endif
