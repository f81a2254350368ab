#include "base/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 };

/* What a terminal obeys, or what makes text read otherwise than it stands: control characters, also
 * those of one byte above ASCII, line ends of Unicode, and what turns the direction of writing. */
static bool is_hidden(const char *text, size_t n)
{
    static const struct {
        uint32_t from, to;
    } hidden[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},  {0x200e, 0x200f},
                  {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff}};
    const unsigned char *c = (const unsigned char *)text;
    uint32_t point = n == 1 ? c[0] : c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        point = point << 6 | (c[i] & 0x3fu);
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (point >= hidden[i].from && point <= hidden[i].to)
            return true;
    return false;
}

/* `to` may be `from`: what is written never gets ahead of what is read. */
static void copy(char *to, size_t size, const char *from, bool keep_bytes)
{
    size_t n = 0, at = 0;
    while (size > 0 && from && from[at] && n < size - 1) {
        size_t length = muster_text_utf8(from + at);
        bool odd = length == 0;
        length = odd ? 1 : length;
        if (length > size - 1 - n)
            break;
        if (odd ? !keep_bytes : is_hidden(from + at, length))
            to[n++] = '?';
        else
            for (size_t i = 0; i < length; i++)
                to[n++] = from[at + i];
        at += length;
    }
    if (size > 0)
        to[n] = '\0';
}

void muster_text_copy(char *to, size_t size, const char *from)
{
    copy(to, size, from, false);
}

void muster_text_copy_path(char *to, size_t size, const char *from)
{
    copy(to, size, from, true);
}

static void clean(char *text, size_t size, bool keep_bytes)
{
    if (size == 0)
        return;
    text[size - 1] = '\0';
    copy(text, size, text, keep_bytes);
    size_t n = strlen(text);
    memset(text + n, 0, size - n);
}

void muster_text_clean(char *text, size_t size)
{
    clean(text, size, false);
}

void muster_text_clean_path(char *path, size_t size)
{
    clean(path, size, true);
}

void muster_text_bytes(char *to, size_t size, uint64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(to, size, "%" PRIu64 " B", bytes);
        return;
    }
    unsigned u = 1;
    while (u < 6 && bytes >> (10 * (u + 1)) > 0)
        u++;
    unsigned shift = 10 * u;
    uint64_t whole = bytes >> shift;
    /* The ten bits below the point are enough for one digit, and cannot overflow. */
    uint64_t rest = (bytes - (whole << shift)) >> (shift - 10);
    uint64_t tenths = (rest * 10 + 512) >> 10;
    if (tenths == 10) {
        tenths = 0;
        whole++;
    }
    if (whole == 1024 && u < 6) {
        whole = 1;
        u++;
    }
    if (tenths)
        snprintf(to, size, "%" PRIu64 ".%" PRIu64 " %s", whole, tenths, unit[u]);
    else
        snprintf(to, size, "%" PRIu64 " %s", whole, unit[u]);
}

/* The digits `text` begins with; NULL if there are none or too many for 64 bits. */
static const char *read_digits(const char *text, uint64_t *value)
{
    uint64_t sum = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, digit, &sum))
            return NULL;
    }
    if (at == text)
        return NULL;
    *value = sum;
    return at;
}

const char *muster_text_ordinal(uint64_t number)
{
    static const char *const words[] = {"th", "st", "nd", "rd"};
    bool teen = number % 100 >= 11 && number % 100 <= 13;
    return words[teen || number % 10 > 3 ? 0 : number % 10];
}

void muster_text_age(char *to, size_t size, uint64_t then_unix_ns, uint64_t now_unix_ns)
{
    uint64_t s = now_unix_ns > then_unix_ns ? (now_unix_ns - then_unix_ns) / 1000000000 : 0;
    if (s == 0)
        snprintf(to, size, "now");
    else if (s < 120)
        snprintf(to, size, "%" PRIu64 " s ago", s);
    else if (s < 120 * 60)
        snprintf(to, size, "%" PRIu64 " min ago", s / 60);
    else if (s < 48 * 3600)
        snprintf(to, size, "%" PRIu64 " hours ago", s / 3600);
    else
        snprintf(to, size, "%" PRIu64 " days ago", s / 86400);
}

struct muster_text muster_text_begin(char *to, size_t size)
{
    if (size > 0)
        to[0] = '\0';
    return (struct muster_text){to, size, 0};
}

struct muster_text muster_text_behind(char *to, size_t size)
{
    return (struct muster_text){to, size, size > 0 ? strlen(to) : 0};
}

void muster_text_add(struct muster_text *text, const char *fmt, ...)
{
    va_list args;
    if (text->used >= text->size)
        return;
    size_t left = text->size - text->used;
    va_start(args, fmt);
    int n = vsnprintf(text->to + text->used, left, fmt, args);
    va_end(args);
    text->used += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left - 1;
}

const char *muster_text_join(size_t i, size_t n, const char *last)
{
    return i == 0 ? "" : i + 1 < n ? ", " : last;
}

bool muster_text_u64(const char *text, uint64_t *value)
{
    uint64_t read;
    const char *end = text ? read_digits(text, &read) : NULL;
    if (!end || *end)
        return false;
    *value = read;
    return true;
}

const struct muster_text_unit muster_text_units[MUSTER_TEXT_UNITS] = {
    {"B", 1},
    {"kB", 1000ull},
    {"MB", 1000000ull},
    {"GB", 1000000000ull},
    {"TB", 1000000000000ull},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
};

bool muster_text_size(const char *text, uint64_t *bytes)
{
    uint64_t count, product;
    const char *tail = text ? read_digits(text, &count) : NULL;
    if (!tail)
        return false;
    if (tail[0] == ' ' && tail[1])
        tail++;
    uint64_t factor = *tail ? 0 : 1;
    for (size_t i = 0; i < MUSTER_TEXT_UNITS; i++)
        if (strcmp(tail, muster_text_units[i].name) == 0)
            factor = muster_text_units[i].bytes;
    if (factor == 0 || __builtin_mul_overflow(count, factor, &product))
        return false;
    *bytes = product;
    return true;
}

size_t muster_text_utf8(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x80)
        return c[0] ? 1 : 0;
    size_t n = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    static const uint32_t smallest[] = {[2] = 0x80, [3] = 0x800, [4] = 0x10000};
    if (c[0] < 0xc2 || c[0] > 0xf4)
        return 0;
    uint32_t point = c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (c[i] & 0x3fu);
    }
    bool surrogate = point >= 0xd800 && point <= 0xdfff;
    return point >= smallest[n] && point <= 0x10ffff && !surrogate ? n : 0;
}

bool muster_text_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static unsigned min_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, substitutions and swaps of neighbours, ignoring case; more than `limit`
 * where it is more. Both words are at most WORD_MAX letters. */
static unsigned edit_distance(const char *a, size_t na, const char *b, size_t nb, unsigned limit)
{
    unsigned row[3][WORD_MAX + 1];
    unsigned *older = row[0], *old = row[1], *now = row[2], old_least = 0;
    for (size_t j = 0; j <= nb; j++)
        old[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        int ca = tolower((unsigned char)a[i - 1]);
        unsigned least = now[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            int cb = tolower((unsigned char)b[j - 1]);
            unsigned d = min_of(min_of(now[j - 1], old[j]) + 1, old[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
                cb == tolower((unsigned char)a[i - 2]))
                d = min_of(d, older[j - 2] + 1);
            now[j] = d;
            least = min_of(least, d);
        }
        if (least > limit && old_least > limit) /* a swap reaches back over two rows */
            return limit + 1;
        old_least = least;
        unsigned *free_row = older;
        older = old;
        old = now;
        now = free_row;
    }
    return old[nb];
}

enum { LETTERS = 32 }; /* kinds of characters that are distinguished below */

static void count_letters(const char *word, signed char *count)
{
    memset(count, 0, LETTERS);
    for (; *word; word++)
        count[*word & (LETTERS - 1)]++; /* ASCII's cases differ above these bits */
}

/* No more than the edit distance: letters that one of the words has and the other lacks. */
static unsigned least_distance(const signed char *a, const char *b)
{
    signed char count[LETTERS];
    unsigned more = 0, less = 0;
    count_letters(b, count);
    for (int i = 0; i < LETTERS; i++) {
        int d = a[i] - count[i];
        more += d > 0 ? (unsigned)d : 0;
        less += d < 0 ? (unsigned)-d : 0;
    }
    return more > less ? more : less;
}

const char *muster_text_nearest(const char *word, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    unsigned best_distance = WORD_MAX;
    size_t word_length = strlen(word);
    signed char letters_of_word[LETTERS];
    if (word_length > WORD_MAX)
        return NULL;
    count_letters(word, letters_of_word);
    for (size_t i = 0; i < n && best_distance > 0; i++) {
        size_t length = strlen(candidates[i]);
        if (length > WORD_MAX)
            continue;
        size_t letters = length > word_length ? length : word_length;
        size_t apart = 2 * letters - length - word_length;
        unsigned limit = min_of(best_distance - 1, (unsigned)letters / 3);
        if (apart > limit || least_distance(letters_of_word, candidates[i]) > limit)
            continue;
        unsigned distance = edit_distance(word, word_length, candidates[i], length, limit);
        if (distance <= limit) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}

bool muster_text_close(FILE *stream, char **text)
{
    bool failed = !stream || ferror(stream);
    failed |= stream && fclose(stream) != 0;
    if (!failed && *text)
        return true;
    free(*text);
    *text = NULL;
    return false;
}
