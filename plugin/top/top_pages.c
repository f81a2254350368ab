/* What stands below the header: tables whose columns fit the width, or text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/nccl_types.h"
#include "base/terminal.h"
#include "base/text.h"
#include "segment/totals.h"
#include "top/screen_lines.h"

enum { TREND_WIDE = 16, TREND_NARROW = 8, HOST_SHOWN = 110, WAITED_SHOWN = 72, SPACE = 32 };

/* ---- lists ---- */

/* The first line to show, so that the marked one is among those that fit. */
static size_t scroll(struct muster_top_view *view, struct muster_screen *screen, size_t n)
{
    screen->page = muster_screen_room(screen);
    view->at = n == 0 ? 0 : view->at < n ? view->at : n - 1;
    return view->at >= screen->page && screen->page ? view->at - screen->page + 1 : 0;
}

static enum muster_screen_style style_of(const struct muster_top_view *view, size_t i, bool bad)
{
    return i == view->at ? MUSTER_SCREEN_MARKED : bad ? MUSTER_SCREEN_BAD : MUSTER_SCREEN_PLAIN;
}

static void put_ms(char *to, size_t size, uint64_t ns)
{
    double ms = (double)ns / 1e6;
    snprintf(to, size, "%.*f", ms < 100 ? 2 : ms < 1000 ? 1 : 0, ms);
}

/* ---- bars ---- */

void muster_top_bars(char *to, size_t size, const double *value, unsigned n, unsigned cells,
                     double most, bool utf8)
{
    static const char *const block[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                        "\u2585", "\u2586", "\u2587", "\u2588"};
    enum { BLOCKS = sizeof block / sizeof *block, DIGITS = 10 };
    struct muster_text text = muster_text_begin(to, size);
    unsigned from = n > cells ? n - cells : 0;
    for (unsigned i = n - from; i < cells && text.used + 1 < size; i++)
        muster_text_add(&text, " ");
    for (unsigned i = from; i < n && text.used + 4 < size; i++) {
        double share = most > 0 && value[i] > 0 ? value[i] / most : 0;
        unsigned steps = utf8 ? BLOCKS : DIGITS, step = (unsigned)(share * steps);
        step = step < steps ? step : steps - 1;
        if (utf8)
            muster_text_add(&text, "%s", block[step]);
        else
            muster_text_add(&text, "%u", step);
    }
}

/* Of all ranks, so that bars can be compared between them. */
static double longest_trend(const struct muster_top *top)
{
    double most = 0;
    for (size_t r = 0; r < top->ranks; r++)
        for (unsigned i = 0; i < top->rank[r].trends; i++)
            most = fmax(most, top->rank[r].trend[i]);
    return most;
}

/* ---- ranks ---- */

/* "AllReduce #76 (4 MiB), 3.2 s ago"; what is missing first, as the end may be cut. */
static void put_call(char *to, size_t size, const struct muster_top_rank *rank)
{
    char more[32] = "";
    if (rank->waits_more)
        snprintf(more, sizeof more, " and %" PRIu32 " more", rank->waits_more);
    if (!rank->alive)
        snprintf(to, size, rank->call[0] ? "ended, last %s" : "ended", rank->call);
    else if (!rank->call[0])
        snprintf(to, size, "no call yet");
    else if (rank->waits >= 0)
        snprintf(to, size, "waits %.1f s for %" PRId32 "%s, last %s", rank->since_s, rank->waits,
                 more, rank->call);
    else if (isnan(rank->since_s))
        snprintf(to, size, "%s", rank->call);
    else
        snprintf(to, size, "%s, %.1f s ago", rank->call, rank->since_s);
}

static void put_place(char *to, size_t size, const struct muster_top_rank *rank)
{
    to[0] = '\0';
    if (rank->gpu >= 0)
        snprintf(to, size, "%" PRId32, rank->gpu);
}

void muster_top_page_ranks(const struct muster_top *top, struct muster_top_view *view,
                           struct muster_screen *screen)
{
    bool host = screen->width >= HOST_SHOWN, waited = screen->width >= WAITED_SHOWN;
    unsigned cells = waited ? TREND_WIDE : TREND_NARROW;
    double most = longest_trend(top);
    muster_screen_put(screen, MUSTER_SCREEN_HEADING, "  %5s %3s%s%s %12s  %-*s  %s", "rank", "GPU",
                      host ? "  host            " : "", waited ? "  waited ms" : "", "made wait ms",
                      (int)cells, "trend", "newest call");
    size_t first = scroll(view, screen, top->ranks);
    for (size_t i = first; i < top->ranks && i < first + screen->page; i++) {
        const struct muster_top_rank *rank = &top->rank[i];
        char call[192], made[SPACE], wait[SPACE], gpu[SPACE],
            name[64] = "", bars[4 * TREND_WIDE + 1], lost[2 * SPACE] = "";
        put_call(call, sizeof call, rank);
        put_ms(made, sizeof made, rank->made_wait_ns);
        put_ms(wait, sizeof wait, rank->waited_ns);
        put_place(gpu, sizeof gpu, rank);
        muster_top_bars(bars, sizeof bars, rank->trend, rank->trends, cells, most, view->utf8);
        if (host)
            snprintf(name, sizeof name, "  %-16.16s", rank->host);
        if (waited)
            snprintf(lost, sizeof lost, " %10s", wait);
        muster_screen_put(screen, style_of(view, i, rank->culprit),
                          "%s %5" PRId32 " %3s%s%s %12s  %s  %s", rank->culprit ? ">" : " ",
                          rank->rank, gpu, name, lost, made, bars, call);
    }
}

/* ---- communicators ---- */

void muster_top_page_comms(const struct muster_top *top, struct muster_top_view *view,
                           struct muster_screen *screen)
{
    muster_screen_put(screen, MUSTER_SCREEN_HEADING, "  %-16s %-12s %9s %9s %7s  %s",
                      "communicator", "name", "ranks", "calls", "1/s", "behind");
    size_t first = scroll(view, screen, top->comms);
    for (size_t i = first; i < top->comms && i < first + screen->page; i++) {
        const struct muster_top_comm *comm = &top->comm[i];
        char ranks[SPACE], behind[64] = "-";
        snprintf(ranks, sizeof ranks, "%" PRIu32 "/%" PRIu32, comm->here, comm->nranks);
        if (comm->behind >= 0)
            snprintf(behind, sizeof behind, "rank %" PRId32 " by %" PRIu64, comm->behind,
                     comm->behind_by);
        muster_screen_put(screen, style_of(view, i, false),
                          "  %016" PRIx64 " %-12.12s %9s %9" PRIu64 " %7.0f  %s", comm->id,
                          comm->name[0] ? comm->name : "-", ranks, comm->calls, comm->ops_s,
                          behind);
    }
    if (top->comms == 0)
        muster_screen_put(screen, MUSTER_SCREEN_PLAIN, "  none yet");
}

/* ---- operations ---- */

static void put_size(char *to, size_t size, unsigned size_log2)
{
    if (size_log2 == MUSTER_SIZE_ZERO)
        snprintf(to, size, "0 B");
    else if (size_log2 >= 64)
        snprintf(to, size, "mixed");
    else
        muster_text_bytes(to, size, 1ull << size_log2);
}

void muster_top_page_classes(const struct muster_top *top, struct muster_top_view *view,
                             struct muster_screen *screen)
{
    muster_screen_put(screen, MUSTER_SCREEN_HEADING, "  %-13s %9s %-11s %9s %7s %9s %9s",
                      "operation", "from size", "how", "count", "timed %", "mean us", "max us");
    size_t first = scroll(view, screen, top->classes);
    for (size_t i = first; i < top->classes && i < first + screen->page; i++) {
        const struct muster_top_class *class = &top->class[i];
        char size[SPACE], how[SPACE], mean[SPACE] = "-", max[SPACE] = "-";
        put_size(size, sizeof size, class->size_log2);
        snprintf(how, sizeof how, "%s/%s", muster_algo_name(class->algo),
                 muster_proto_name(class->proto));
        if (class->timed) {
            snprintf(mean, sizeof mean, "%.1f", (double)class->sum_ns / (double)class->timed / 1e3);
            snprintf(max, sizeof max, "%.1f", (double)class->max_ns / 1e3);
        }
        muster_screen_put(
            screen, style_of(view, i, false), "  %-13s %9s %-11.11s %9" PRIu64 " %7.3g %9s %9s",
            muster_func_name(class->func), size, class->algo ? how : "-", class->count,
            class->count ? 100.0 * (double)class->timed / (double)class->count : 0, mean, max);
    }
    if (top->classes == 0)
        muster_screen_put(screen, MUSTER_SCREEN_PLAIN, "  none yet");
}

/* ---- findings, and one rank ---- */

static void add_finding(struct muster_screen_text *text, const struct muster_finding *finding)
{
    char sentence[1024];
    muster_finding_sentence(finding, sentence, sizeof sentence);
    muster_screen_text_add(text, "", "    ", sentence);
    for (unsigned i = 0; i < finding->evidence.n; i++)
        if (!strstr(sentence, finding->evidence.line[i]))
            muster_screen_text_add(text, "  ", "    ", finding->evidence.line[i]);
    if (finding->advice[0])
        muster_screen_text_add(text, "  next: ", "    ", finding->advice);
    muster_screen_text_add(text, "", "", "");
}

void muster_top_page_findings(const struct muster_top *top, struct muster_top_view *view,
                              struct muster_screen *screen)
{
    struct muster_screen_text text;
    muster_screen_text_begin(&text, screen);
    for (size_t i = 0; i < top->findings; i++)
        add_finding(&text, &top->finding[i]);
    if (top->findings == 0)
        muster_screen_text_add(&text, "", "", "No finding holds at this moment.");
    muster_screen_text_end(&text, screen, &view->at);
}

static const struct muster_top_rank *chosen(const struct muster_top *top, uint32_t pid)
{
    for (size_t i = 0; i < top->ranks; i++)
        if (top->rank[i].pid == pid)
            return &top->rank[i];
    return NULL;
}

static bool names(const struct muster_finding *finding, int32_t rank)
{
    for (unsigned i = 0; i < finding->ranks && i < MUSTER_FINDING_RANKS; i++)
        if (finding->rank[i] == rank)
            return true;
    return false;
}

static void add_rank(struct muster_screen_text *text, const struct muster_top *top,
                     const struct muster_top_view *view, const struct muster_top_rank *rank)
{
    char line[512], call[192], made[SPACE], wait[SPACE], gpu[SPACE], bars[4 * MUSTER_TOP_TREND + 1];
    put_call(call, sizeof call, rank);
    put_ms(made, sizeof made, rank->made_wait_ns);
    put_ms(wait, sizeof wait, rank->waited_ns);
    put_place(gpu, sizeof gpu, rank);
    muster_top_bars(bars, sizeof bars, rank->trend, rank->trends, MUSTER_TOP_TREND,
                    longest_trend(top), view->utf8);
    snprintf(line, sizeof line, "rank %" PRId32 " on %s, GPU %s, pid %" PRIu32 "%s", rank->rank,
             rank->host, gpu[0] ? gpu : "?", rank->pid, rank->alive ? "" : ", ended");
    muster_screen_text_add(text, "", "  ", line);
    snprintf(line, sizeof line, "newest call: %s", call);
    muster_screen_text_add(text, "", "  ", line);
    snprintf(line, sizeof line, "%.0f operations/s; %" PRIu64 " compared with other ranks",
             rank->ops_s, rank->compared);
    muster_screen_text_add(text, "", "  ", line);
    snprintf(line, sizeof line, "made others wait %s ms, waited %s ms itself", made, wait);
    muster_screen_text_add(text, "", "  ", line);
    snprintf(line, sizeof line, "trend: %s", bars + strspn(bars, " "));
    muster_screen_text_add(text, "", "  ", line);
    muster_screen_text_add(text, "", "", "");
}

void muster_top_page_rank(const struct muster_top *top, struct muster_top_view *view,
                          struct muster_screen *screen)
{
    const struct muster_top_rank *rank = chosen(top, view->pid);
    struct muster_screen_text text;
    muster_screen_text_begin(&text, screen);
    if (rank)
        add_rank(&text, top, view, rank);
    else
        muster_screen_text_add(&text, "", "", "That rank is not there any more.");
    for (size_t i = 0; rank && i < top->findings; i++)
        if (names(&top->finding[i], rank->rank))
            add_finding(&text, &top->finding[i]);
    muster_screen_text_end(&text, screen, &view->at);
}
