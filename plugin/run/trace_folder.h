/* Recorded calls that somebody takes for a run: rank-0.jsonl, or the folder of such files. */
#ifndef MUSTER_RUN_TRACE_FOLDER_H
#define MUSTER_RUN_TRACE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Fills in the folder that `muster replay` takes. False: it is nothing of that kind. */
bool muster_trace_folder(const char *path, char *folder, size_t size);

#endif
