/*
 * A streaming JSON writer over a FILE. It keeps commas, nesting and escapes right and allocates
 * nothing. Keys are NULL inside arrays; at most 63 levels. In strings control characters are
 * escaped and each byte that is not UTF-8 becomes U+FFFD; NaN and infinities become null. Output
 * errors are the FILE's: check ferror at the end.
 */
#ifndef MUSTER_BASE_JSON_H
#define MUSTER_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct muster_json {
    FILE *out;
    unsigned depth;
    bool pretty;     /* a line per member down to depth 2, compact below */
    uint64_t filled; /* bit per depth: something stands there already */
    uint64_t array;  /* bit per depth: closes with ] */
};

void muster_json_begin(struct muster_json *json, FILE *out, bool pretty);
void muster_json_object(struct muster_json *json, const char *key);
void muster_json_array(struct muster_json *json, const char *key);
void muster_json_end(struct muster_json *json); /* closes the innermost object or array */
void muster_json_str(struct muster_json *json, const char *key, const char *value); /* NULL: null */
void muster_json_u64(struct muster_json *json, const char *key, uint64_t value);
void muster_json_i64(struct muster_json *json, const char *key, int64_t value);
/* Up to `decimals` (<= 9) digits after the point, trailing zeros cut. */
void muster_json_real(struct muster_json *json, const char *key, double value, int decimals);
void muster_json_bool(struct muster_json *json, const char *key, bool value);
void muster_json_null(struct muster_json *json, const char *key);

#endif
