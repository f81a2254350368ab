#include "doctor/rules/job_log_words.h"

#include <string.h>

static size_t pair_of(const char *at)
{
    return (size_t)(unsigned char)at[0] << 8 | (unsigned char)at[1];
}

void muster_log_text_begin(struct muster_log_text *text, const char *line)
{
    memset(text->pairs, 0, sizeof text->pairs);
    text->line = line;
    text->length = strlen(line);
    for (size_t i = 0; i + 1 < text->length; i++)
        text->pairs[pair_of(&line[i]) / 8] |= (unsigned char)(1u << pair_of(&line[i]) % 8);
}

/* false: a pair of bytes of the words is nowhere in the line. */
static bool may_have(const struct muster_log_text *text, const char *words)
{
    for (const char *at = words; at[0] && at[1]; at++)
        if (at[0] != '*' && at[1] != '*' && at[1] != '$' &&
            !(text->pairs[pair_of(at) / 8] & 1u << pair_of(at) % 8))
            return false;
    return true;
}

static bool has(const char *line, size_t left, const char *at)
{
    while (*at) {
        size_t n = strcspn(at, "*");
        if (at[n - (n > 0)] == '$' && !at[n])
            return left >= n - 1 && strncmp(line + left - (n - 1), at, n - 1) == 0;
        const char *found = memmem(line, left, at, n);
        if (!found)
            return false;
        left -= (size_t)(found - line) + n;
        line = found + n;
        at += n + (at[n] == '*');
    }
    return true;
}

bool muster_log_text_has(const struct muster_log_text *text, const char *words)
{
    const char *at = words + (words[0] == '^');
    return may_have(text, at) && (at == words || strncmp(text->line, at, strcspn(at, "*")) == 0) &&
           has(text->line, text->length, at);
}
