#include "replay/replay_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"

enum { FOUND = 96, SHOWN = 40 };

static void describe(char found[FOUND], const json_t *value)
{
    char text[SHOWN];
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING:
        muster_text_copy(text, sizeof text, json_string_value(value));
        snprintf(found, FOUND, "is \"%s\"", text);
        break;
    case JSON_INTEGER:
        snprintf(found, FOUND, "is %" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(found, FOUND, "is %g", json_real_value(value));
        break;
    case JSON_OBJECT:
        snprintf(found, FOUND, "is an object");
        break;
    case JSON_ARRAY:
        snprintf(found, FOUND, "is an array");
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(found, FOUND, "is %s", json_is_true(value) ? "true" : "false");
        break;
    case JSON_NULL:
        snprintf(found, FOUND, value ? "is null" : "is missing");
        break;
    }
}

int muster_line_wrong(const struct muster_line *line, const char *name, const char *expected)
{
    char found[FOUND];
    describe(found, json_object_get(line->json, name));
    return muster_fail(line->err, "%s:%zu: \"%s\" %s, expected %s", line->file, line->number, name,
                       found, expected);
}

bool muster_line_has(const struct muster_line *line, const char *name)
{
    return json_object_get(line->json, name) != NULL;
}

int muster_line_int(const struct muster_line *line, const char *name, int64_t min, int64_t max,
                    int64_t *value)
{
    const json_t *found = json_object_get(line->json, name);
    if (json_is_integer(found) && json_integer_value(found) >= min &&
        json_integer_value(found) <= max) {
        *value = json_integer_value(found);
        return 0;
    }
    char expected[FOUND];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, min, max);
    return muster_line_wrong(line, name, expected);
}

int muster_line_i32(const struct muster_line *line, const char *name, int64_t min, int32_t *value)
{
    int64_t found = 0;
    if (muster_line_int(line, name, min, INT32_MAX, &found))
        return -1;
    *value = (int32_t)found;
    return 0;
}

int muster_line_u64(const struct muster_line *line, const char *name, uint64_t *value)
{
    const json_t *found = json_object_get(line->json, name);
    if (json_is_integer(found) && json_integer_value(found) >= 0) {
        *value = (uint64_t)json_integer_value(found);
        return 0;
    }
    if (json_is_string(found) && muster_text_u64(json_string_value(found), value))
        return 0;
    return muster_line_wrong(line, name, "a whole number from 0 to 2^64-1");
}

static bool parse_hex(const char *text, uint64_t *value)
{
    size_t digits = strlen(text);
    if (digits == 0 || digits > 16 || strspn(text, "0123456789abcdefABCDEF") != digits)
        return false;
    *value = strtoull(text, NULL, 16);
    return true;
}

int muster_line_hash(const struct muster_line *line, const char *name, uint64_t *value)
{
    const json_t *found = json_object_get(line->json, name);
    if (json_is_string(found) && parse_hex(json_string_value(found), value))
        return 0;
    return muster_line_wrong(line, name, "1 to 16 hex digits in quotes");
}

static const char *keep(struct muster_line_strings *words, const char *text)
{
    size_t bytes = strlen(text) + 1;
    const char **recent =
        &words->recent[muster_hash(MUSTER_HASH_SEED, text, bytes) % MUSTER_WORD_SLOTS];
    if (!*recent || strcmp(*recent, text) != 0) {
        *recent = memcpy(words->text + words->used, text, bytes);
        words->used += bytes;
    }
    return *recent;
}

int muster_line_text(const struct muster_line *line, const char *name, const char **value)
{
    const json_t *found = json_object_get(line->json, name);
    if (json_is_null(found)) {
        *value = NULL;
        return 0;
    }
    if (!json_is_string(found))
        return muster_line_wrong(line, name, "a string or null");
    *value = keep(line->words, json_string_value(found));
    return 0;
}

static int read_pointer(const struct muster_line *line, const char *name, void **value)
{
    const json_t *found = json_object_get(line->json, name);
    const char *text = json_is_string(found) ? json_string_value(found) : "";
    uint64_t address = 0;
    if (strcmp(text, "(nil)") != 0 &&
        !(strncmp(text, "0x", 2) == 0 && parse_hex(text + 2, &address) && address <= UINTPTR_MAX)) {
        return muster_line_wrong(line, name, "an address such as \"0x1f0\", or \"(nil)\"");
    }
    *value = (void *)(uintptr_t)address;
    return 0;
}

static int read_u8(const struct muster_line *line, const char *name, int64_t max, uint8_t *value)
{
    int64_t found = 0;
    if (muster_line_int(line, name, 0, max, &found))
        return -1;
    *value = (uint8_t)found;
    return 0;
}

static int read_bool(const struct muster_line *line, const char *name, bool *value)
{
    uint8_t found;
    if (read_u8(line, name, 1, &found))
        return -1;
    *value = found;
    return 0;
}

int muster_line_field(const struct muster_line *line, const struct muster_trace_field *field,
                      struct muster_event *event)
{
    void *to = (char *)event + field->offset;
    switch (field->type) {
    case MUSTER_TRACE_I32:
        return muster_line_i32(line, field->name, INT32_MIN, to);
    case MUSTER_TRACE_U8:
        return read_u8(line, field->name, UINT8_MAX, to);
    case MUSTER_TRACE_U64:
        return muster_line_u64(line, field->name, to);
    case MUSTER_TRACE_TAG:
        return muster_line_has(line, field->name) ? muster_line_u64(line, field->name, to) : 0;
    case MUSTER_TRACE_BOOL:
        return read_bool(line, field->name, to);
    case MUSTER_TRACE_TEXT:
        return muster_line_text(line, field->name, to);
    case MUSTER_TRACE_POINTER:
        return read_pointer(line, field->name, to);
    case MUSTER_TRACE_HASH:
        return muster_line_hash(line, field->name, to);
    }
    return -1;
}
