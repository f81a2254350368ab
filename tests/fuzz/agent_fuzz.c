/*
 * Segments of other users, as the agent reads them: at one scrape as the input's first half says,
 * at the next as the second. Whatever they hold, each line of the page is one that Prometheus
 * takes, and no total of a run falls. The input is a client's Accept header, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_metrics.h"
#include "changed_segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char path[] = "/dev/shm/muster-fuzz-XXXXXX";

static void leave(void)
{
    unlink(path);
}

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void put_segment(const uint8_t *changes, size_t bytes)
{
    static struct muster_fuzz_segment segment = {.fd = -1};
    if (segment.fd < 0 && (segment.fd = mkstemp(path)) >= 0)
        atexit(leave);
    require(segment.fd >= 0);
    muster_fuzz_change_segment(&segment, changes, bytes);
}

/* A name, labels in quotes that end, a blank, and a number. */
static bool is_sample(const char *line, const char *end)
{
    const char *at = line + strspn(line, "abcdefghijklmnopqrstuvwxyz_");
    bool quoted = false;
    if (at > line && *at == '{') {
        for (at++; at < end && (quoted || *at != '}'); at++) {
            quoted ^= *at == '"';
            at += quoted && *at == '\\';
        }
        at++;
    }
    return at < end && *at == ' ' && at + 1 + strspn(at + 1, "0123456789.e+-") == end;
}

static void check_page(const struct muster_agent_sample *sample, bool open_metrics)
{
    static const struct muster_agent_news none;
    char *page;
    size_t n;
    FILE *out = open_memstream(&page, &n);
    require(out != NULL);
    muster_agent_metrics(NULL, sample, &none, 1, open_metrics, out);
    fclose(out);
    for (const char *line = page, *end; line < page + n; line = end + 1) {
        end = memchr(line, '\n', n - (size_t)(line - page));
        require(end && (line[0] == '#' || is_sample(line, end)));
    }
    free(page);
}

static void ask_format(const uint8_t *data, size_t bytes)
{
    char *accept = strndup((const char *)data, bytes);
    require(accept);
    muster_exposition_wants_open_metrics(accept);
    free(accept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    ask_format(data, bytes);
    const struct muster_found found = {.path = path, .alive = true, .uid = 1000};
    struct muster_agent_sample sample = {0};
    struct muster_agent_totals before = {0}, after;
    size_t half = bytes / 2;
    put_segment(data, half);
    require(muster_agent_sample_take(&sample, &found, 1));
    if (sample.processes == 1)
        muster_agent_totals_of(&sample, 0, &before);
    check_page(&sample, false);
    bool same_run = sample.processes == 1;
    put_segment(data + half, bytes - half);
    require(muster_agent_sample_take(&sample, &found, 1));
    if (same_run && sample.processes == 1 && sample.runs == 1) {
        muster_agent_totals_of(&sample, 0, &after);
        require(muster_agent_all(&after).operations >= muster_agent_all(&before).operations);
    }
    check_page(&sample, true);
    muster_agent_sample_free(&sample);
    return 0;
}
