/* Making packets small: perfetto_deflate.c with zlib, perfetto_no_deflate.c without. */
#ifndef MUSTER_TIMELINE_PERFETTO_DEFLATE_H
#define MUSTER_TIMELINE_PERFETTO_DEFLATE_H

#include <stddef.h>

/* Those bytes deflated; the caller frees. NULL: they do not become smaller, there is no memory for
 * it, or no zlib; then they are written as they are. */
unsigned char *muster_perfetto_deflate(const unsigned char *bytes, size_t n, size_t *deflated);

#endif
