/* What a finding's sentence leaves out: what it cost in all, since when, and which culprit's cause
 * is which. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "diagnose/finding.h"

/* ---- cost ---- */

/* "0.0742", "12.3", "4210": three digits, or all of a whole number. */
static void add_number(struct muster_text *text, double value)
{
    enum { DIGITS_END = 1000 };
    muster_text_add(text, value < DIGITS_END ? "%.3g" : "%.0f", value);
}

/* Of ranks how often so many cases lay between; of transfers a model of the link. */
static void add_interval(const struct muster_finding *finding, struct muster_text *text)
{
    const char *by = muster_finding_is_late(finding) ? "in four of five such findings"
                     : finding->kind == MUSTER_FINDING_UNEVEN_STAGES ? "if all stages did as much"
                                                                     : "by a model of the link";
    if (!(finding->cost_high_s > 0))
        return;
    if (finding->cost_low_s > 0) {
        muster_text_add(text, "between ");
        add_number(text, finding->cost_low_s);
        muster_text_add(text, " and ");
    } else {
        muster_text_add(text, "at most ");
    }
    add_number(text, finding->cost_high_s);
    muster_text_add(text, muster_finding_is_late(finding) ? " s %s" : " s, %s", by);
}

static void add_run(const struct muster_finding *finding, struct muster_text *text)
{
    enum { SECONDS_PER_HOUR = 3600 };
    const double more = 1.01, hours_least = 0.1; /* less is what was timed; is printed in seconds */
    bool sampled = finding->cost_run_s > more * finding->cost_s;
    if (sampled) {
        muster_text_add(text, "%sabout ", text->used ? "; " : "");
        add_number(text, finding->cost_run_s);
        muster_text_add(text, " s over the run, what was not timed included");
    }
    if (finding->gpu_hours > 0) {
        muster_text_add(text, "%s", sampled ? ", or " : text->used ? "; " : "");
        bool hours = finding->gpu_hours >= hours_least;
        add_number(text, finding->gpu_hours * (hours ? 1 : SECONDS_PER_HOUR));
        muster_text_add(text, hours ? " GPU-hours" : " GPU-seconds");
    }
}

void muster_finding_cost(const struct muster_finding *finding, char *to, size_t size)
{
    struct muster_text text = muster_text_begin(to, size);
    if (finding->retracted)
        return;
    add_interval(finding, &text);
    add_run(finding, &text);
}

/* ---- when ---- */

/* "2026-11-23 23:00:25", "23:00:25" or, of what is over soon, "23:00:25.375". */
static void add_utc(struct muster_text *text, uint64_t unix_ns, bool date, bool exact)
{
    char moment[64];
    struct tm broken;
    time_t s = (time_t)(unix_ns / MUSTER_NS_PER_S);
    if (!gmtime_r(&s, &broken) ||
        !strftime(moment, sizeof moment, date ? "%Y-%m-%d %H:%M:%S" : "%H:%M:%S", &broken))
        return;
    muster_text_add(text, "%s", moment);
    if (exact)
        muster_text_add(text, ".%03u", (unsigned)(unix_ns % MUSTER_NS_PER_S / MUSTER_NS_PER_MS));
}

static void add_span(struct muster_text *text, const struct muster_finding_stretch *stretch,
                     uint64_t since, bool exact)
{
    enum { SECONDS_PER_DAY = 24 * 60 * 60 };
    const uint64_t day_ns = SECONDS_PER_DAY * (uint64_t)MUSTER_NS_PER_S;
    uint64_t until = stretch->until_unix_ns;
    add_utc(text, since, true, exact);
    muster_text_add(text, " to ");
    add_utc(text, until, until / day_ns != since / day_ns, exact);
    muster_text_add(text, " UTC");
}

/* Whether culprits follow each other so soon that whole seconds would not distinguish them. */
static bool is_exact(const struct muster_finding *finding)
{
    const uint64_t soon_ns = 60 * (uint64_t)MUSTER_NS_PER_S;
    uint64_t until = 0;
    for (unsigned i = 0; i < finding->stretches; i++) {
        uint64_t own = finding->stretch[i].until_unix_ns;
        until = own > until ? own : until;
    }
    return until - finding->stretch[0].since_unix_ns < soon_ns;
}

void muster_finding_when(const struct muster_finding *finding, struct muster_finding_lines *to)
{
    bool late = muster_finding_is_late(finding);
    to->n = 0;
    if (!finding->since_unix_ns)
        return;
    for (unsigned i = 0; late && finding->stretches > 1 && i < finding->stretches; i++) {
        const struct muster_finding_stretch *own = &finding->stretch[i];
        if (!own->until_unix_ns)
            continue;
        struct muster_text text = muster_text_begin(to->line[to->n++], MUSTER_FINDING_LINE);
        muster_text_add(&text, "rank %" PRId32 ", ", own->rank);
        add_span(&text, own, own->since_unix_ns, is_exact(finding));
    }
    if (to->n > 0)
        return;
    struct muster_text text = muster_text_begin(to->line[to->n++], MUSTER_FINDING_LINE);
    if (late && finding->stretches == 1) {
        add_span(&text, &finding->stretch[0], finding->since_unix_ns, false);
    } else {
        muster_text_add(&text, "since ");
        add_utc(&text, finding->since_unix_ns, true, false);
        muster_text_add(&text, " UTC");
    }
}

/* ---- whose cause ---- */

void muster_finding_causes(const struct muster_finding *finding, char *to, size_t size)
{
    static const char *const word[] = {"not known", "the GPU", "the host"};
    const size_t rest = sizeof "; and 4294967295 more" - 1;
    unsigned n = finding->stretches;
    bool differ = false;
    struct muster_text text = muster_text_begin(to, size);
    for (unsigned i = 1; i < n; i++)
        differ |= finding->stretch[i].cause != finding->stretch[0].cause;
    for (unsigned i = 0; differ && i < n; i++) {
        char one[64];
        snprintf(one, sizeof one, "%srank %" PRId32 ": %s", i ? "; " : "", finding->stretch[i].rank,
                 word[finding->stretch[i].cause]);
        if (text.used + strlen(one) + (i + 1 < n ? rest : 0) >= size) {
            muster_text_add(&text, "; and %u more", n - i);
            return;
        }
        muster_text_add(&text, "%s", one);
    }
}
