/* The pages of large memory: what holds nothing takes none, what is written once is not taken page
 * by page. */
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

/* How many bytes to ask malloc and its like for where `bytes` are needed: so many that pages of 2
 * MiB fit what is mapped for it. Then it begins and ends with one, also after it has grown. Below 4
 * MiB, or beyond all memory, as it is. */
size_t muster_pages_whole(size_t bytes);

/* Asks for such pages, for what malloc and its like just gave for that. Of large arrays page faults
 * take as long as what is done with them. Nothing below 4 MiB is asked for, so that what a job's
 * own process keeps stays as it is. Advice: nothing can go wrong, and no more memory is taken than
 * 2 MiB an array. */
void muster_pages_ask_big(void *from, size_t bytes);

/* For a process that reads whole runs, once, as it begins. What malloc and its like give in one
 * piece from 1 MiB on is mapped by itself, whatever was freed before: it comes as zeros that nobody
 * wrote, grows by moving its pages, and goes back at once. */
void muster_pages_keep_apart(void);

#endif
