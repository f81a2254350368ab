/*
 * Whether a line has words of the table of lines (job_log.h). A line is compared with a thousand of
 * them, and most lines have none: its pairs of bytes rule nearly all of them out first. Pure.
 */
#ifndef MUSTER_DOCTOR_RULES_JOB_LOG_WORDS_H
#define MUSTER_DOCTOR_RULES_JOB_LOG_WORDS_H

#include <stdbool.h>
#include <stddef.h>

enum { MUSTER_LOG_PAIRS = 65536 };

struct muster_log_text {
    const char *line; /* the caller's, as long as this is used */
    size_t length;
    unsigned char pairs[MUSTER_LOG_PAIRS / 8]; /* one bit for each pair of bytes that it has */
};

void muster_log_text_begin(struct muster_log_text *text, const char *line);
/* `words`: parts in this order, separated by '*'; '^' first: at the line's begin; '$' last: at its
 * end. */
bool muster_log_text_has(const struct muster_log_text *text, const char *words);

#endif
