#include "top/top_screen.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/nccl_types.h"
#include "base/terminal.h"
#include "base/text.h"
#include "top/screen_lines.h"
#include "verdict/verdict.h"

enum { ROOMY = 24 /* lines from which the whole verdict is shown */ };

/* "0.2 s", "3 min", "5 hours" */
static void put_time(char *to, size_t size, double s)
{
    if (isnan(s))
        snprintf(to, size, "?");
    else if (s < 120)
        snprintf(to, size, "%.*f s", s < 10 ? 1 : 0, s > 0 ? s : 0);
    else if (s < 7200)
        snprintf(to, size, "%.0f min", s / 60);
    else
        snprintf(to, size, "%.0f hours", s / 3600);
}

static void put_nccl(char *to, size_t size, uint32_t nccl)
{
    char version[24];
    to[0] = '\0';
    if (!nccl)
        return;
    muster_nccl_version_text(version, sizeof version, nccl);
    snprintf(to, size, ", NCCL %s", version);
}

static void title(const struct muster_top *top, const struct muster_top_view *view,
                  struct muster_screen *screen)
{
    const char *slash = strrchr(top->run, '/');
    char up[32], nccl[32], job[64] = "";
    put_time(up, sizeof up, top->up_s);
    put_nccl(nccl, sizeof nccl, top->nccl);
    if (top->jobs > 1)
        snprintf(job, sizeof job, ", job %zu of %zu (n: next)", top->job + 1, top->jobs);
    muster_screen_put(screen, MUSTER_SCREEN_HEADING, "muster top: %s, up %s%s%s%s",
                      slash ? slash + 1 : top->run, up, nccl, job,
                      view->paused ? ", PAUSED (space: go on)" : "");
}

static void figures(const struct muster_top *top, struct muster_screen *screen)
{
    enum { WHOLE = 80 };
    bool whole = screen->width >= WHOLE;
    char age[32], timed[48] = "", ranks[64], compared[48] = "";
    put_time(age, sizeof age, top->progress_s);
    if (!isnan(top->timed_share))
        snprintf(timed, sizeof timed, ", %.3g %% timed", 100 * top->timed_share);
    if (top->ranks_expected < 0)
        snprintf(ranks, sizeof ranks, "%d", top->ranks_alive);
    else
        snprintf(ranks, sizeof ranks, whole ? "%d of %d" : "%d/%d", top->ranks_alive,
                 top->ranks_expected);
    if (whole)
        snprintf(compared, sizeof compared, ", %llu compared", (unsigned long long)top->compared);
    muster_screen_put(screen, MUSTER_SCREEN_PLAIN, "%s ranks, progress %s ago, %.0f %s%s%s", ranks,
                      age, top->ops_s, whole ? "operations/s" : "op/s", timed, compared);
}

/* The command on a line of its own where it would be cut: people copy it. */
static void put_ended(const struct muster_top *top, struct muster_screen *screen)
{
    static const char verdict[] = "The job has ended. How it went:", command[] = "muster report";
    size_t cells = strlen(verdict) + strlen(command) + 2 + muster_terminal_cells(top->run);
    if (cells <= screen->width) {
        muster_screen_put(screen, MUSTER_SCREEN_HEADING, "%s %s %s", verdict, command, top->run);
        return;
    }
    muster_screen_put(screen, MUSTER_SCREEN_HEADING, "%s", verdict);
    muster_screen_put(screen, MUSTER_SCREEN_HEADING, "%s %s", command, top->run);
}

/* Who has waited long enough to be shown, for a rank that has not come; it is called a hang later.
 */
static const struct muster_top_rank *waits_longest(const struct muster_top *top)
{
    enum { LONG_S = 2 };
    const struct muster_top_rank *longest = NULL;
    for (size_t i = 0; i < top->ranks; i++) {
        const struct muster_top_rank *own = &top->rank[i];
        if (own->alive && own->waits >= 0 && own->since_s >= LONG_S &&
            (!longest || own->since_s > longest->since_s))
            longest = own;
    }
    return longest;
}

static void nobody_found(const struct muster_top *top, struct muster_screen *screen)
{
    const struct muster_top_rank *one = waits_longest(top);
    if (one)
        muster_screen_put(screen, MUSTER_SCREEN_PLAIN,
                          "Rank %" PRId32 " has waited %.0f s for rank %" PRId32
                          "; not yet called a hang.",
                          one->rank, one->since_s, one->waits);
    else
        muster_screen_put(screen, top->compared ? MUSTER_SCREEN_GOOD : MUSTER_SCREEN_PLAIN, "%s",
                          top->compared
                              ? "Nobody is found to hold this job back so far."
                              : "Nothing found; no operation was compared between ranks yet.");
}

static void verdict(const struct muster_top *top, struct muster_screen *screen)
{
    const struct muster_view nothing = {0};
    const struct muster_findings findings = {.finding = top->finding, .n = top->findings};
    struct muster_verdict verdict;
    if (top->state == MUSTER_TOP_ENDED && top->all_hosts)
        muster_screen_put(screen, MUSTER_SCREEN_HEADING,
                          "No worker holds the job: it has ended, or none runs (muster fleet).");
    else if (top->state == MUSTER_TOP_ENDED)
        put_ended(top, screen);
    /* Facts about the machine alone hold nobody back. */
    muster_verdict_of(&nothing, &findings, screen->width, &verdict);
    if (verdict.state == MUSTER_VERDICT_HELD) {
        unsigned most = screen->height >= ROOMY ? MUSTER_VERDICT_LINES : 1;
        for (unsigned i = 0; i < verdict.lines && i < most; i++)
            muster_screen_put(screen, i == 0 ? MUSTER_SCREEN_BAD : MUSTER_SCREEN_PLAIN, "%s",
                              verdict.line[i]);
    } else if (top->state == MUSTER_TOP_RUNS) {
        nobody_found(top, screen);
    }
}

static void tabs(const struct muster_top *top, const struct muster_top_view *view,
                 struct muster_screen *screen)
{
    enum { SORT_SHOWN = 76 };
    const struct {
        enum muster_top_page page;
        const char *name;
        size_t n;
    } tab[] = {
        {MUSTER_TOP_PAGE_RANKS, "ranks", top->ranks},
        {MUSTER_TOP_PAGE_COMMS, "communicators", top->comms},
        {MUSTER_TOP_PAGE_CLASSES, "operations", top->classes},
        {MUSTER_TOP_PAGE_FINDINGS, "findings", top->findings},
    };
    char line[256];
    struct muster_text text = muster_text_begin(line, sizeof line);
    for (size_t i = 0; i < sizeof tab / sizeof *tab; i++) {
        bool open = tab[i].page == view->page;
        muster_text_add(&text, "%s%s %zu%s", open ? "[" : " ", tab[i].name, tab[i].n,
                        open ? "]" : " ");
    }
    bool sort = screen->width >= SORT_SHOWN && view->page == MUSTER_TOP_PAGE_RANKS;
    muster_screen_put(screen, MUSTER_SCREEN_HEADING, "%s%s%s", line, sort ? "  by " : "",
                      sort ? muster_top_order_word(view->order) : "");
}

static void page_help(const struct muster_top *top, struct muster_top_view *view,
                      struct muster_screen *screen)
{
    static const char made_wait[] =
        "made wait: how long the rank that waited longest waited for this one, summed over the "
        "operations that all of its ranks on this host timed. Once several ranks are slow this is "
        "not yet a verdict; > marks a rank that a finding names.";
    static const char *const lines[] = {
        "r  ranks, by what they cost the others",
        "c  communicators",
        "o  operations: sums of those that are alike",
        "f  findings, with their evidence and what to do",
        "Enter  one rank; Esc or Backspace: back",
        "up, down, j, k, PgUp, PgDn, Home, End  move",
        "s  another order of ranks: cost, rank, waited, in call",
        "n  the next job of this host",
        "space  stop showing what is new, and go on",
        "q  quit; nothing of the job is touched",
        "",
        made_wait,
        "trend: the same, per operation, look by look; the newest on the right.",
    };
    static const char here[] =
        "Only what is seen on this host is compared, since muster top began.";
    static const char fleet[] =
        "Of all hosts, as muster fleet hears of them: the 64 ranks that made others "
        "wait most, in the latest operations that were told.";
    struct muster_screen_text text;
    muster_screen_text_begin(&text, screen);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        muster_screen_text_add(&text, "  ", "    ", lines[i]);
    muster_screen_text_add(&text, "  ", "    ", top->all_hosts ? fleet : here);
    muster_screen_text_end(&text, screen, &view->at);
}

static void footer(const struct muster_top_view *view, struct muster_screen *screen)
{
    bool inside = view->page == MUSTER_TOP_PAGE_RANK || view->page == MUSTER_TOP_PAGE_HELP;
    while (screen->used + 1 < screen->height)
        muster_screen_put(screen, MUSTER_SCREEN_PLAIN, "%s", "");
    if (screen->used < screen->height)
        muster_screen_put(screen, MUSTER_SCREEN_HEADING, "%s",
                          inside ? "Esc back  r c o f pages  ? help  q quit"
                                 : "r c o f pages  s order  Enter one rank  ? help  q quit");
}

void muster_top_draw(struct muster_top *top, struct muster_top_view *view,
                     struct muster_screen *screen)
{
    if (screen->height > MUSTER_SCREEN_LINES)
        screen->height = MUSTER_SCREEN_LINES;
    screen->used = 0;
    screen->page = 0;
    muster_top_sort(top, view);
    title(top, view, screen);
    figures(top, screen);
    verdict(top, screen);
    tabs(top, view, screen);
    switch (view->page) {
    case MUSTER_TOP_PAGE_COMMS:
        muster_top_page_comms(top, view, screen);
        break;
    case MUSTER_TOP_PAGE_CLASSES:
        muster_top_page_classes(top, view, screen);
        break;
    case MUSTER_TOP_PAGE_FINDINGS:
        muster_top_page_findings(top, view, screen);
        break;
    case MUSTER_TOP_PAGE_RANK:
        muster_top_page_rank(top, view, screen);
        break;
    case MUSTER_TOP_PAGE_HELP:
        page_help(top, view, screen);
        break;
    default:
        muster_top_page_ranks(top, view, screen);
        break;
    }
    footer(view, screen);
}
