#include "agent/exposition.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"

void muster_exposition_begin(struct muster_exposition *to, FILE *out, bool open_metrics)
{
    *to = (struct muster_exposition){.out = out, .open_metrics = open_metrics};
}

/* OpenMetrics names a family without what its type adds to its samples. */
static int name_length(const struct muster_exposition *to, const struct muster_family *family)
{
    size_t n = strlen(family->name);
    if (to->open_metrics && family->type == MUSTER_FAMILY_COUNTER)
        n -= strlen("_total");
    if (to->open_metrics && family->type == MUSTER_FAMILY_INFO)
        n -= strlen("_info");
    return (int)n;
}

void muster_exposition_family(struct muster_exposition *to, const struct muster_family *family)
{
    static const char *const words[] = {
        [MUSTER_FAMILY_COUNTER] = "counter",
        [MUSTER_FAMILY_GAUGE] = "gauge",
        [MUSTER_FAMILY_HISTOGRAM] = "histogram",
        [MUSTER_FAMILY_INFO] = "info",
    };
    bool plain = family->type == MUSTER_FAMILY_INFO && !to->open_metrics;
    int n = name_length(to, family);
    to->family = family;
    fprintf(to->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", n, family->name, family->help, n,
            family->name, plain ? "gauge" : words[family->type]);
}

static void put_value(FILE *out, const char *value)
{
    while (*value) {
        size_t plain = 0;
        while (value[plain] >= 0x20 && value[plain] < 0x7f && value[plain] != '"' &&
               value[plain] != '\\')
            plain++;
        if (plain > 0) {
            fwrite(value, 1, plain, out);
            value += plain;
            continue;
        }
        size_t n = muster_text_utf8(value);
        if (*value == '\n')
            fputs("\\n", out);
        else if (*value == '"' || *value == '\\')
            fprintf(out, "\\%c", *value);
        else if (n == 0 || (unsigned char)*value < 0x20)
            putc('?', out);
        else
            fwrite(value, 1, n, out);
        value += n ? n : 1;
    }
}

static void put_name(struct muster_exposition *to, const char *suffix,
                     const struct muster_label *label)
{
    char before = '{';
    fprintf(to->out, "%s%s", to->family->name, suffix);
    for (; label && label->name; label++) {
        if (!label->value || !label->value[0])
            continue;
        fprintf(to->out, "%c%s=\"", before, label->name);
        put_value(to->out, label->value);
        putc('"', to->out);
        before = ',';
    }
    fputs(before == ',' ? "} " : " ", to->out);
    to->series++;
}

void muster_exposition_count(struct muster_exposition *to, const char *suffix,
                             const struct muster_label *label, uint64_t value)
{
    put_name(to, suffix, label);
    fprintf(to->out, "%llu\n", (unsigned long long)value);
}

void muster_exposition_real(struct muster_exposition *to, const char *suffix,
                            const struct muster_label *label, double value)
{
    put_name(to, suffix, label);
    fprintf(to->out, "%.9g\n", value);
}

void muster_exposition_seconds(struct muster_exposition *to, const char *suffix,
                               const struct muster_label *label, uint64_t ns)
{
    put_name(to, suffix, label);
    fprintf(to->out, "%llu.%09llu\n", (unsigned long long)(ns / MUSTER_NS_PER_S),
            (unsigned long long)(ns % MUSTER_NS_PER_S));
}

void muster_exposition_end(struct muster_exposition *to)
{
    if (to->open_metrics)
        fputs("# EOF\n", to->out);
}

const char *muster_exposition_media_type(bool open_metrics)
{
    return open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                        : "text/plain; version=0.0.4; charset=utf-8";
}

bool muster_exposition_wants_open_metrics(const char *accept)
{
    const char *at = accept ? strstr(accept, "application/openmetrics-text") : NULL;
    if (!at)
        return false;
    /* Of this one entry of the list: its version, if any, and that it is not refused. */
    char entry[128];
    snprintf(entry, sizeof entry, "%.*s", (int)strcspn(at, ","), at);
    const char *version = strstr(entry, "version="), *weight = strstr(entry, "q=0");
    if (weight && strspn(weight + 2, "0.") == strcspn(weight + 2, "; "))
        return false;
    return !version || strncmp(version, "version=1.0.", strlen("version=1.0.")) == 0;
}
