/* Segments of another format than this muster's: jobs keep the plugin that they were started with.
 */
#ifndef MUSTER_SEGMENT_FOREIGN_FORMAT_H
#define MUSTER_SEGMENT_FOREIGN_FORMAT_H

#include <stdint.h>

/* The format of a finished segment that is not MUSTER_SEG_VERSION; 0: it is, or no segment, or
 * cannot be read. Reads its first bytes alone. */
uint32_t muster_segment_foreign_format(const char *path);

#endif
