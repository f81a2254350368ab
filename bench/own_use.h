/* What the calling process holds. */
#ifndef MUSTER_BENCH_OWN_USE_H
#define MUSTER_BENCH_OWN_USE_H

/* Entries of a folder, "." and ".." included: of /proc/self/fd the descriptors, of /proc/self/task
 * the threads. 0: it cannot be read. */
int own_entries(const char *path);

/* Memory of its own, in KiB; -1: not told. */
long own_anonymous_kib(void);

#endif
