#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

enum { PRETTY_DEPTH = 2, DECIMALS_MAX = 9 };

static uint64_t depth_bit(const struct muster_json *json)
{
    return 1ull << (json->depth & 63);
}

static void new_line(const struct muster_json *json)
{
    fputc('\n', json->out);
    for (unsigned i = 0; i < json->depth; i++)
        fputs("  ", json->out);
}

static void put_escaped(FILE *out, unsigned char c)
{
    switch (c) {
    case '"':
        fputs("\\\"", out);
        break;
    case '\\':
        fputs("\\\\", out);
        break;
    case '\n':
        fputs("\\n", out);
        break;
    case '\t':
        fputs("\\t", out);
        break;
    default:
        if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
}

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    while (*text) {
        size_t n = muster_text_utf8(text);
        if (n == 0) {
            fputs("\\ufffd", out);
            n = 1;
        } else if (n == 1) {
            put_escaped(out, (unsigned char)*text);
        } else {
            fwrite(text, 1, n, out);
        }
        text += n;
    }
    fputc('"', out);
}

/* What stands before every value: comma, line, key. */
static void put_key(struct muster_json *json, const char *key)
{
    if (json->depth > 0) {
        if (json->filled & depth_bit(json))
            fputc(',', json->out);
        json->filled |= depth_bit(json);
        if (json->pretty && json->depth <= PRETTY_DEPTH)
            new_line(json);
    }
    if (key) {
        put_string(json->out, key);
        fputs(json->pretty ? ": " : ":", json->out);
    }
}

static void open_level(struct muster_json *json, const char *key, bool array)
{
    put_key(json, key);
    fputc(array ? '[' : '{', json->out);
    json->depth++;
    json->filled &= ~depth_bit(json);
    if (array)
        json->array |= depth_bit(json);
    else
        json->array &= ~depth_bit(json);
}

void muster_json_begin(struct muster_json *json, FILE *out, bool pretty)
{
    *json = (struct muster_json){.out = out, .pretty = pretty};
}

void muster_json_object(struct muster_json *json, const char *key)
{
    open_level(json, key, false);
}

void muster_json_array(struct muster_json *json, const char *key)
{
    open_level(json, key, true);
}

void muster_json_end(struct muster_json *json)
{
    if (json->depth == 0)
        return;
    bool filled = json->filled & depth_bit(json);
    bool array = json->array & depth_bit(json);
    bool lines = filled && json->pretty && json->depth <= PRETTY_DEPTH;
    json->depth--;
    if (lines)
        new_line(json);
    fputc(array ? ']' : '}', json->out);
    if (json->depth == 0)
        fputc('\n', json->out);
}

void muster_json_str(struct muster_json *json, const char *key, const char *value)
{
    put_key(json, key);
    if (value)
        put_string(json->out, value);
    else
        fputs("null", json->out);
}

void muster_json_u64(struct muster_json *json, const char *key, uint64_t value)
{
    put_key(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void muster_json_i64(struct muster_json *json, const char *key, int64_t value)
{
    put_key(json, key);
    fprintf(json->out, "%" PRId64, value);
}

/* From integers: printf's decimal point is the locale's, and the process may have set one. */
static void put_fixed(FILE *out, double value, unsigned decimals)
{
    uint64_t scale = 1;
    for (unsigned i = 0; i < decimals; i++)
        scale *= 10;
    double magnitude = fabs(value) * (double)scale + 0.5;
    if (magnitude >= 0x1p53) {
        fprintf(out, "%.0f", value);
        return;
    }
    uint64_t scaled = (uint64_t)magnitude;
    uint64_t part = scaled % scale;
    fprintf(out, "%s%" PRIu64, value < 0 && scaled > 0 ? "-" : "", scaled / scale);
    if (part == 0)
        return;
    for (; part % 10 == 0; part /= 10)
        decimals--;
    fprintf(out, ".%0*" PRIu64, (int)decimals, part);
}

void muster_json_real(struct muster_json *json, const char *key, double value, int decimals)
{
    put_key(json, key);
    if (!isfinite(value))
        fputs("null", json->out);
    else if (decimals <= 0)
        put_fixed(json->out, value, 0);
    else
        put_fixed(json->out, value, decimals < DECIMALS_MAX ? (unsigned)decimals : DECIMALS_MAX);
}

void muster_json_bool(struct muster_json *json, const char *key, bool value)
{
    put_key(json, key);
    fputs(value ? "true" : "false", json->out);
}

void muster_json_null(struct muster_json *json, const char *key)
{
    muster_json_str(json, key, NULL);
}
