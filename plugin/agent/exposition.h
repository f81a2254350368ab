/*
 * Prometheus' text formats, line by line: the classic one (0.0.4) and OpenMetrics (1.0.0). All
 * samples of a family follow its head. Names and help are the caller's and good; label values may
 * be anybody's: they are escaped, and what is not UTF-8 becomes '?'. Nothing carries a time stamp.
 * Output errors are the FILE's: check ferror at the end.
 */
#ifndef MUSTER_AGENT_EXPOSITION_H
#define MUSTER_AGENT_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum muster_family_type {
    MUSTER_FAMILY_COUNTER, /* name ends in _total */
    MUSTER_FAMILY_GAUGE,
    MUSTER_FAMILY_HISTOGRAM,
    MUSTER_FAMILY_INFO, /* name ends in _info; the value is 1 */
};

struct muster_family {
    const char *name; /* as samples have it: "muster_bytes_total" */
    enum muster_family_type type;
    const char *help; /* without full stop */
};

struct muster_label {
    const char *name, *value; /* value NULL or "": left out, as Prometheus would */
};

struct muster_exposition {
    FILE *out;
    bool open_metrics;
    const struct muster_family *family; /* that samples belong to */
    size_t series;                      /* written so far */
};

void muster_exposition_begin(struct muster_exposition *to, FILE *out, bool open_metrics);
/* Its HELP and TYPE. `family` stays until the next one. */
void muster_exposition_family(struct muster_exposition *to, const struct muster_family *family);
/* A sample; `suffix` "" or, of histograms, "_bucket", "_sum", "_count". Labels end with a NULL
 * name. */
void muster_exposition_count(struct muster_exposition *to, const char *suffix,
                             const struct muster_label *label, uint64_t value);
void muster_exposition_real(struct muster_exposition *to, const char *suffix,
                            const struct muster_label *label, double value);
/* Nanoseconds, as seconds with all their digits. */
void muster_exposition_seconds(struct muster_exposition *to, const char *suffix,
                               const struct muster_label *label, uint64_t ns);
void muster_exposition_end(struct muster_exposition *to);

/* The media type of a format, for HTTP. */
const char *muster_exposition_media_type(bool open_metrics);
/* Whether a client's Accept header, NULL without one, asks for OpenMetrics 1.0. */
bool muster_exposition_wants_open_metrics(const char *accept);

#endif
