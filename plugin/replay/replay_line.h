/* One line of a trace: typed access to its members, each failure worded with file and line. */
#ifndef MUSTER_REPLAY_REPLAY_LINE_H
#define MUSTER_REPLAY_REPLAY_LINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/trace_format.h"

enum { MUSTER_WORD_SLOTS = 1024 };

/* Copies of the strings of a trace. The same word has mostly the same address, as NCCL's literals
 * have. */
struct muster_line_strings {
    char *text; /* room for all strings of the trace: they are shorter than its text */
    size_t used;
    const char *recent[MUSTER_WORD_SLOTS]; /* by hash */
};

struct muster_line {
    const char *file;
    size_t number;
    json_t *json; /* an object */
    struct muster_line_strings *words;
    struct muster_err *err;
};

/* Fails with "file:line: <what was found>, expected <expected>". */
int muster_line_wrong(const struct muster_line *line, const char *name, const char *expected);

bool muster_line_has(const struct muster_line *line, const char *name);
int muster_line_int(const struct muster_line *line, const char *name, int64_t min, int64_t max,
                    int64_t *value);
int muster_line_i32(const struct muster_line *line, const char *name, int64_t min, int32_t *value);
int muster_line_u64(const struct muster_line *line, const char *name, uint64_t *value);
int muster_line_hash(const struct muster_line *line, const char *name, uint64_t *value);
/* NULL for JSON's null. Lives as long as the words. */
int muster_line_text(const struct muster_line *line, const char *name, const char **value);
/* Reads a field of `event` as in the table of formats. */
int muster_line_field(const struct muster_line *line, const struct muster_trace_field *field,
                      struct muster_event *event);

#endif
