/* Memory that runs out on demand, for tests made by muster_memory_test: all allocations of what
 * they link come through here (--wrap). */
#ifndef MUSTER_TESTS_UNIT_FAILING_MEMORY_H
#define MUSTER_TESTS_UNIT_FAILING_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* `left` allocations from now on succeed, all later ones fail, until failing_memory_end. */
void failing_memory_begin(long left);
/* The same, but only the first of these fails: what it was for must be missed by itself. */
void failing_memory_once(long left);
/* Whether one failed. */
bool failing_memory_end(void);
/* Memory that never runs out; free() frees it. For json_set_alloc_funcs: whether a library's own
 * allocations come through here depends on how it is linked. */
void *failing_memory_spare(size_t size);
/* Blocks allocated and not freed. */
long failing_memory_live(void);

#endif
