/* Large memory that is mostly zeros: what holds nothing takes no memory. */
#ifndef MUSTER_BASE_PAGES_H
#define MUSTER_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

bool muster_is_zero(const void *data, size_t bytes);

/* Zeroes private memory and gives its whole pages back. */
void muster_pages_clear(void *from, size_t bytes);

/* Gives back the whole pages that hold nothing but zeros. Pages that nobody touched are not looked
 * into: that would make them. */
void muster_pages_trim(void *from, size_t bytes);

#endif
