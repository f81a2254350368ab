/* Small helpers for text that people wrote or will read. */
#ifndef MUSTER_BASE_TEXT_H
#define MUSTER_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Copies at most size - 1 bytes, always terminated; what could play with a terminal becomes '?':
 * control characters, also those of Unicode, what turns the direction of writing, bytes that are no
 * UTF-8. from may be NULL. What is cut is cut between characters. */
void muster_text_copy(char *to, size_t size, const char *from);
/* The same in place, for bytes that may lack an end; zeros behind it. */
void muster_text_clean(char *text, size_t size);
/* Both for names of files, which need be no UTF-8: single bytes above ASCII stay. */
void muster_text_copy_path(char *to, size_t size, const char *from);
void muster_text_clean_path(char *path, size_t size);
/* "4 KiB", "1.5 MiB", "512 B". */
void muster_text_bytes(char *to, size_t size, uint64_t bytes);
/* The suffix of an ordinal number: "st", "nd", "rd", "th". Static. */
const char *muster_text_ordinal(uint64_t number);
/* How long ago: "2 s ago", "3 min ago", "5 hours ago", "now" where it is still to come. */
void muster_text_age(char *to, size_t size, uint64_t then_unix_ns, uint64_t now_unix_ns);
/* Text that grows within a place of `size` bytes and is terminated there at any time. What does not
 * fit is cut, and nothing comes behind it. */
struct muster_text {
    char *to;
    size_t size;
    size_t used; /* bytes before the end */
};
/* An empty text, and one that goes on behind what stands in `to`. size 0: nothing is written. */
struct muster_text muster_text_begin(char *to, size_t size);
struct muster_text muster_text_behind(char *to, size_t size);
__attribute__((format(printf, 2, 3))) void muster_text_add(struct muster_text *text,
                                                           const char *fmt, ...);
/* What stands before item i of n: "", ", " or `last` ("a, b or c"). Static, or `last`. */
const char *muster_text_join(size_t i, size_t n, const char *last);
/* Whole decimal number without sign, tail or overflow. */
bool muster_text_u64(const char *text, uint64_t *value);
/* The units of sizes, in this order: B, kB to TB, KiB to TiB. */
struct muster_text_unit {
    const char *name;
    uint64_t bytes;
};
enum { MUSTER_TEXT_UNITS = 9 };
extern const struct muster_text_unit muster_text_units[MUSTER_TEXT_UNITS];
/* A size: digits with one of these units or none; a space between is allowed. */
bool muster_text_size(const char *text, uint64_t *bytes);
/* Bytes of the valid UTF-8 character that the terminated `text` begins with; 0: none. */
size_t muster_text_utf8(const char *text);
/* Whether `text` is `end` with something before it, as a file name is before its suffix. */
bool muster_text_ends_with(const char *text, const char *end);
/* The candidate nearest to `word` by edit distance if it is plausibly a typo (<= 1/3 of the
 * letters), else NULL. */
const char *muster_text_nearest(const char *word, const char *const *candidates, size_t n);
/* Closes a stream of open_memstream; NULL passes. False: memory ran out somewhere on the way, which
 * fclose need not report; *text is freed then. */
bool muster_text_close(FILE *stream, char **text);

#endif
