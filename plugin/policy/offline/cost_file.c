#include "policy/offline/cost_file.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "policy/policy_fields.h"
#include "segment/segment_reader.h"

enum { LINE_BYTES = 256, WORDS = 3, WORD_LIST = 160 };

#define BYTES_PER_US_OF_GBS 1e3

struct reader {
    float *cost;
    uint64_t bytes;
    const char *name;
    unsigned line;
    uint32_t seen; /* bit per entry */
    struct muster_err *err;
};

struct word {
    const char *text;
    unsigned column;
};

__attribute__((format(printf, 3, 4))) static int fail(const struct reader *reader, unsigned column,
                                                      const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    muster_text_copy(text, sizeof text, text);
    return muster_fail(reader->err, "%s:%u:%u: %s", reader->name, reader->line, column, text);
}

/* A whole decimal number, nan or inf. */
static bool parse_number(const char *text, const char *end, double *value)
{
    char copy[64], *stop;
    size_t n = (size_t)(end - text);
    if (n == 0 || n >= sizeof copy || memchr(text, 'x', n) || memchr(text, 'X', n))
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    *value = strtod(copy, &stop);
    return *stop == '\0';
}

static int parse_cost(const struct reader *reader, const struct word *word, float *cost)
{
    const char *end = word->text + strlen(word->text);
    const char *slash = strchr(word->text, '/');
    double first, second;
    bool good = parse_number(word->text, slash ? slash : end, &first);
    if (!good || (slash && !parse_number(slash + 1, end, &second)))
        return fail(reader, word->column,
                    "\"%s\": expected microseconds, or latency/bandwidth in microseconds and GB/s",
                    word->text);
    if (slash)
        first = first >= 0 && second > 0
                    ? first + (double)reader->bytes / (second * BYTES_PER_US_OF_GBS)
                    : -1;
    *cost = first >= 0 ? (float)first : -1; /* nan too */
    return 0;
}

static int parse_word(const struct reader *reader, const struct word *word,
                      enum muster_policy_type type, const char *what, unsigned *value)
{
    char known[WORD_LIST];
    *value = muster_policy_name_value(type, word->text);
    if (*value)
        return 0;
    const char *near = muster_policy_nearest_name(type, word->text);
    muster_policy_name_list(type, known, sizeof known);
    return near ? fail(reader, word->column, "unknown %s \"%s\", did you mean %s?", what,
                       word->text, near)
                : fail(reader, word->column, "unknown %s \"%s\", expected %s", what, word->text,
                       known);
}

static int take_entry(struct reader *reader, const struct word word[WORDS])
{
    unsigned algo, proto;
    float cost = -1;
    if (parse_word(reader, &word[0], MUSTER_FIELD_ALGO, "algorithm", &algo) ||
        parse_word(reader, &word[1], MUSTER_FIELD_PROTO, "protocol", &proto) ||
        parse_cost(reader, &word[2], &cost))
        return -1;
    uint32_t bit = muster_policy_combination(algo, proto);
    if (reader->seen & bit)
        return fail(reader, word[0].column, "%s %s is there twice", word[0].text, word[1].text);
    reader->seen |= bit;
    reader->cost[__builtin_ctz(bit)] = cost;
    return 0;
}

/* "8.4/   1.2" is one word: NCCL prints it so. */
static void join_fraction(char *line)
{
    char *slash = strchr(line, '/');
    if (slash) {
        const char *rest = slash + 1 + strspn(slash + 1, " \t");
        memmove(slash + 1, rest, strlen(rest) + 1);
    }
}

/* `line` is cut into words in place. */
static int take_line(struct reader *reader, char *line)
{
    static const char blank[] = " \t\r";
    struct word word[WORDS];
    unsigned n = 0;
    char *at = line;
    line[strcspn(line, "#")] = '\0';
    join_fraction(line);
    while (*(at += strspn(at, blank))) {
        unsigned column = (unsigned)(at - line) + 1;
        if (n == WORDS)
            return fail(reader, column, "\"%s\": nothing is expected behind the cost", at);
        word[n++] = (struct word){at, column};
        at += strcspn(at, blank);
        if (*at)
            *at++ = '\0';
    }
    if (n == 0)
        return 0;
    if (n < WORDS)
        return fail(reader, word[0].column, "expected algorithm, protocol and cost");
    return take_entry(reader, word);
}

int muster_cost_file_parse(float cost[MUSTER_COST_ENTRIES], const char *name, const char *text,
                           size_t size, uint64_t bytes, struct muster_err *err)
{
    float made[MUSTER_COST_ENTRIES];
    struct reader reader = {.cost = made, .bytes = bytes, .name = name, .err = err};
    for (size_t i = 0; i < MUSTER_COST_ENTRIES; i++)
        made[i] = -1;
    if (size > MUSTER_COST_FILE_BYTES)
        return muster_fail(err, "%s: larger than %d KiB", name, MUSTER_COST_FILE_BYTES >> 10);
    while (size) {
        char line[LINE_BYTES];
        const char *end = memchr(text, '\n', size);
        size_t n = end ? (size_t)(end - text) : size;
        reader.line++;
        if (n >= sizeof line)
            return fail(&reader, 1, "a line of more than %d bytes", LINE_BYTES - 1);
        if (memchr(text, '\0', n))
            return fail(&reader, 1, "a NUL character: not a text");
        memcpy(line, text, n);
        line[n] = '\0';
        if (take_line(&reader, line))
            return -1;
        n += end != NULL;
        text += n;
        size -= n;
    }
    if (!reader.seen)
        return muster_fail(err, "%s: no entry: expected lines such as \"ring simple 28.5\"", name);
    memcpy(cost, made, sizeof made);
    return 0;
}

int muster_cost_file_read(float cost[MUSTER_COST_ENTRIES], const char *path, uint64_t bytes,
                          struct muster_err *err)
{
    void *text;
    size_t size;
    if (muster_file_load(path, MUSTER_COST_FILE_BYTES + 1, &text, &size, err))
        return -1;
    int result = muster_cost_file_parse(cost, path, text, size, bytes, err);
    free(text);
    return result;
}
