/*
 * How NCCL wants to be given a plugin: by its path, which no later change of LD_LIBRARY_PATH can
 * turn to another file, where the version takes one; by the name of its file where it does not.
 * From NCCL's sources, release by release.
 */
#ifndef MUSTER_LAUNCH_PLUGIN_FORM_H
#define MUSTER_LAUNCH_PLUGIN_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether NCCL of that version (22703; 0: not known) loads a plugin from a path of so many bytes.
 */
bool muster_plugin_by_path(uint32_t version, size_t length);

/* Put to one libnccl after the other: begins with the path's length, all else 0. */
struct muster_plugin_question {
    size_t length;
    size_t asked, take; /* so many, and those that take the path */
};
void muster_plugin_ask(void *question, const char *libnccl);

/* What NCCL_PROFILER_PLUGIN is to be so that every NCCL that a job started here may load finds
 * `path`: that itself, or its last part where one of them does not take paths, or its version or
 * all of them are not known. Points into `path`. */
const char *muster_plugin_word(const char *path);

#endif
