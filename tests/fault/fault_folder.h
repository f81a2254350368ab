/* Folders in which jobs leave something. Those that are missing are empty. */
#ifndef MUSTER_TESTS_FAULT_FAULT_FOLDER_H
#define MUSTER_TESTS_FAULT_FAULT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Removes all that is in it, folders with what they hold; not itself. */
void folder_empty(const char *path);

/* How many entries it has; `hidden`: whose names begin with a dot only. Adds their names to the
 * text `names` of `size` bytes, as far as they fit; NULL: wanted by nobody. */
unsigned folder_count(const char *path, bool hidden, char *names, size_t size);

/* Makes its files so old that remains of processes are removed rather than kept for them. */
void folder_make_old(const char *path);

#endif
