#include "policy/range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { NUMBER_MAX = 64 };

static int fail_unit(const char *tail, struct muster_err *err)
{
    enum { KIB = 5 }; /* first: "MBi" is MiB rather than MB */
    const char *names[MUSTER_TEXT_UNITS];
    for (size_t i = 0; i < MUSTER_TEXT_UNITS; i++)
        names[i] = muster_text_units[(i + KIB) % MUSTER_TEXT_UNITS].name;
    const char *nearest = muster_text_nearest(tail, names, MUSTER_TEXT_UNITS);
    if (nearest)
        return muster_fail(err, "unknown unit '%.20s', did you mean '%s'?", tail, nearest);
    return muster_fail(
        err, "unknown unit '%.20s', expected B, KiB, MiB, GiB, TiB, kB, MB, GB or TB", tail);
}

static bool is_unit(const char *tail)
{
    for (size_t i = 0; i < MUSTER_TEXT_UNITS; i++)
        if (strcmp(tail, muster_text_units[i].name) == 0)
            return true;
    return false;
}

static int parse_number(uint64_t *value, const char *text, bool sizes, struct muster_err *err)
{
    if (sizes ? muster_text_size(text, value) : muster_text_u64(text, value))
        return 0;
    size_t digits = strspn(text, "0123456789");
    const char *tail = text + digits;
    if (digits == 0)
        return muster_fail(err, "expected a number%s, a..b, >=a or <=a, found '%.40s'",
                           sizes ? " with or without a unit" : "", text);
    if (tail[0] == ' ' && tail[1])
        tail++;
    if (!*tail || (sizes && is_unit(tail)))
        return muster_fail(err, "the number '%.40s' is too large", text);
    if (sizes && strspn(tail, "0123456789.,_-") == 0)
        return fail_unit(tail, err);
    return muster_fail(err, "the number '%.40s' has a tail, '%.20s'", text, tail);
}

/* Without spaces around; false: too long to be a number. */
static bool cut(char to[NUMBER_MAX], const char *from, const char *end)
{
    while (from < end && *from == ' ')
        from++;
    while (end > from && end[-1] == ' ')
        end--;
    if (end - from >= NUMBER_MAX)
        return false;
    memcpy(to, from, (size_t)(end - from));
    to[end - from] = '\0';
    return true;
}

static int parse_pair(struct muster_policy_range *range, const char *text, const char *dots,
                      bool sizes, struct muster_err *err)
{
    char low[NUMBER_MAX], high[NUMBER_MAX];
    uint64_t min, max;
    if (!cut(low, text, dots) || !cut(high, dots + 2, text + strlen(text)))
        return muster_fail(err, "expected a..b, found '%.40s'", text);
    if (!low[0] || !high[0])
        return muster_fail(err, "expected a..b with both ends, found '%.40s'; %s is written '%s'",
                           text, low[0] ? "no upper end" : "no lower end", low[0] ? ">=a" : "<=a");
    if (parse_number(&min, low, sizes, err) != 0 || parse_number(&max, high, sizes, err) != 0)
        return -1;
    if (min > max)
        return muster_fail(err, "the range '%.40s' is reversed, did you mean '%s..%s'?", text, high,
                           low);
    *range = (struct muster_policy_range){min, max};
    return 0;
}

int muster_range_parse(struct muster_policy_range *range, const char *text, bool sizes,
                       struct muster_err *err)
{
    char number[NUMBER_MAX];
    uint64_t value;
    const char *dots = strstr(text, "..");
    if (dots)
        return parse_pair(range, text, dots, sizes, err);
    bool from = strncmp(text, ">=", 2) == 0, to = strncmp(text, "<=", 2) == 0;
    if (!from && !to && (text[0] == '<' || text[0] == '>'))
        return muster_fail(err, "expected '%c=', found '%.40s'", text[0], text);
    const char *start = text + (from || to ? 2 : 0);
    if (!cut(number, start, start + strlen(start)))
        return muster_fail(err, "the number '%.40s' is too large", start);
    if (parse_number(&value, number, sizes, err) != 0)
        return -1;
    range->min = to ? 0 : value;
    range->max = from ? UINT64_MAX : value;
    return 0;
}

static int by_min(const void *a, const void *b)
{
    const struct muster_policy_range *x = a, *y = b;
    return (x->min > y->min) - (x->min < y->min);
}

unsigned muster_ranges_join(struct muster_policy_range *range, unsigned n)
{
    unsigned left = 0;
    if (n)
        qsort(range, n, sizeof(*range), by_min);
    for (unsigned i = 0; i < n; i++) {
        struct muster_policy_range *last = left ? &range[left - 1] : NULL;
        if (last && (last->max == UINT64_MAX || range[i].min <= last->max + 1)) {
            if (range[i].max > last->max)
                last->max = range[i].max;
        } else {
            range[left++] = range[i];
        }
    }
    return left;
}

unsigned muster_ranges_intersect(struct muster_policy_range *to,
                                 const struct muster_policy_range *a, unsigned na,
                                 const struct muster_policy_range *b, unsigned nb)
{
    unsigned n = 0;
    for (unsigned i = 0, j = 0; i < na && j < nb;) {
        uint64_t min = a[i].min > b[j].min ? a[i].min : b[j].min;
        uint64_t max = a[i].max < b[j].max ? a[i].max : b[j].max;
        if (min <= max)
            to[n++] = (struct muster_policy_range){min, max};
        if (a[i].max < b[j].max)
            i++;
        else
            j++;
    }
    return n;
}

void muster_range_print_number(char *to, size_t size, uint64_t value, bool sizes)
{
    /* The last that divides: those of 1024 are behind those of 1000. */
    const struct muster_text_unit *unit = &muster_text_units[0];
    for (size_t i = 1; i < MUSTER_TEXT_UNITS; i++)
        if (value && value % muster_text_units[i].bytes == 0)
            unit = &muster_text_units[i];
    if (sizes)
        snprintf(to, size, "%llu %s", (unsigned long long)(value / unit->bytes), unit->name);
    else
        snprintf(to, size, "%llu", (unsigned long long)value);
}

void muster_range_print(char *to, size_t size, const struct muster_policy_range *range, bool sizes)
{
    char min[NUMBER_MAX], max[NUMBER_MAX];
    muster_range_print_number(min, sizeof(min), range->min, sizes);
    muster_range_print_number(max, sizeof(max), range->max, sizes);
    if (range->max == UINT64_MAX)
        snprintf(to, size, range->min == 0 ? "any" : ">= %s", min);
    else if (range->min == range->max)
        snprintf(to, size, "%s", min);
    else if (range->min == 0)
        snprintf(to, size, "<= %s", max);
    else
        snprintf(to, size, "%s..%s", min, max);
}
