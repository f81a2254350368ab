#include "top/top_view.h"

#include <math.h>
#include <stdlib.h>

const char *muster_top_order_word(enum muster_top_order order)
{
    static const char *const words[MUSTER_TOP_ORDERS] = {"cost", "rank", "waited", "in call"};
    return words[order < MUSTER_TOP_ORDERS ? order : 0];
}

/* ---- the order of ranks ---- */

static int by_rank(const void *left, const void *right)
{
    const struct muster_top_rank *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

static int by_cost(const void *left, const void *right)
{
    const struct muster_top_rank *a = left, *b = right;
    if (a->culprit != b->culprit)
        return b->culprit - a->culprit;
    if (a->made_wait_ns != b->made_wait_ns)
        return a->made_wait_ns > b->made_wait_ns ? -1 : 1;
    return by_rank(left, right);
}

static int by_waited(const void *left, const void *right)
{
    const struct muster_top_rank *a = left, *b = right;
    if (a->waited_ns != b->waited_ns)
        return a->waited_ns > b->waited_ns ? -1 : 1;
    return by_rank(left, right);
}

static int by_call(const void *left, const void *right)
{
    const struct muster_top_rank *a = left, *b = right;
    double one = isnan(a->since_s) ? -1 : a->since_s, two = isnan(b->since_s) ? -1 : b->since_s;
    if (one > two || one < two)
        return one > two ? -1 : 1;
    return by_rank(left, right);
}

void muster_top_sort(struct muster_top *top, struct muster_top_view *view)
{
    static int (*const orders[MUSTER_TOP_ORDERS])(const void *, const void *) = {
        by_cost, by_rank, by_waited, by_call};
    bool on_ranks = view->page == MUSTER_TOP_PAGE_RANKS;
    if (top->ranks)
        qsort(top->rank, top->ranks, sizeof *top->rank, orders[view->order]);
    for (size_t i = 0; view->pid && on_ranks && i < top->ranks; i++)
        if (top->rank[i].pid == view->pid)
            view->at = i;
}

/* ---- keys ---- */

static size_t lines_of(const struct muster_top_view *view, const struct muster_top *top)
{
    switch (view->page) {
    case MUSTER_TOP_PAGE_RANKS:
        return top->ranks;
    case MUSTER_TOP_PAGE_COMMS:
        return top->comms;
    case MUSTER_TOP_PAGE_CLASSES:
        return top->classes;
    default:
        return INT32_MAX; /* text: the screen knows where it ends */
    }
}

static void mark(struct muster_top_view *view, const struct muster_top *top, size_t at)
{
    size_t lines = lines_of(view, top);
    view->at = lines == 0 ? 0 : at < lines ? at : lines - 1;
    /* The first line is whoever costs most; another is a rank that somebody chose. */
    if (view->page == MUSTER_TOP_PAGE_RANKS)
        view->pid = view->at > 0 && view->at < top->ranks ? top->rank[view->at].pid : 0;
}

/* Where the key leads from `at`; SIZE_MAX: nowhere. */
static size_t moved(size_t at, int key, size_t lines, size_t page)
{
    size_t by = page > 1 ? page - 1 : 1;
    switch (key) {
    case MUSTER_TOP_UP:
        return at ? at - 1 : 0;
    case MUSTER_TOP_DOWN:
        return at + 1;
    case MUSTER_TOP_PAGE_UP:
        return at > by ? at - by : 0;
    case MUSTER_TOP_PAGE_DOWN:
        return at + by;
    case MUSTER_TOP_HOME:
        return 0;
    case MUSTER_TOP_END:
        return lines ? lines - 1 : 0;
    default:
        return SIZE_MAX;
    }
}

static bool move(struct muster_top_view *view, int key, const struct muster_top *top, size_t page)
{
    size_t to = moved(view->at, key, lines_of(view, top), page);
    if (to == SIZE_MAX)
        return false;
    mark(view, top, to);
    return true;
}

static void turn_to(struct muster_top_view *view, enum muster_top_page page)
{
    bool was_list = view->page != MUSTER_TOP_PAGE_HELP && view->page != MUSTER_TOP_PAGE_RANK;
    view->before = was_list ? view->page : view->before;
    view->page = page;
    view->at = 0;
    if (page != MUSTER_TOP_PAGE_RANK && page != MUSTER_TOP_PAGE_HELP)
        view->pid = 0;
}

static bool turn(struct muster_top_view *view, int key, const struct muster_top *top)
{
    static const struct {
        int key;
        enum muster_top_page page;
    } pages[] = {{'r', MUSTER_TOP_PAGE_RANKS},
                 {'c', MUSTER_TOP_PAGE_COMMS},
                 {'o', MUSTER_TOP_PAGE_CLASSES},
                 {'f', MUSTER_TOP_PAGE_FINDINGS},
                 {'?', MUSTER_TOP_PAGE_HELP}};
    bool on_list = view->page == MUSTER_TOP_PAGE_RANKS && view->at < top->ranks;
    bool inside = view->page == MUSTER_TOP_PAGE_HELP || view->page == MUSTER_TOP_PAGE_RANK;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (pages[i].key == key) {
            turn_to(view, pages[i].page);
            return true;
        }
    if (key == MUSTER_TOP_ENTER && on_list) {
        view->pid = top->rank[view->at].pid;
        turn_to(view, MUSTER_TOP_PAGE_RANK);
        return true;
    }
    if (key == MUSTER_TOP_BACK && inside) {
        view->page = view->before;
        view->at = 0;
        return true;
    }
    return false;
}

/* Keys that have another name. */
static int plain(int key)
{
    static const int same[][2] = {{'k', MUSTER_TOP_UP},
                                  {'j', MUSTER_TOP_DOWN},
                                  {'g', MUSTER_TOP_HOME},
                                  {'G', MUSTER_TOP_END},
                                  {'h', '?'},
                                  {'p', ' '},
                                  {'Q', 'q'}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (same[i][0] == key)
            return same[i][1];
    return key;
}

bool muster_top_press(struct muster_top_view *view, int key, const struct muster_top *top,
                      size_t page)
{
    key = plain(key);
    if (move(view, key, top, page) || turn(view, key, top))
        return true;
    switch (key) {
    case 'q':
        view->quit = true;
        return true;
    case 's':
        view->order = (view->order + 1) % MUSTER_TOP_ORDERS;
        return true;
    case 'n':
        view->job = top->jobs ? (view->job + 1) % top->jobs : 0;
        view->at = view->pid = 0;
        return true;
    case ' ':
        view->paused = !view->paused;
        return true;
    default:
        return false;
    }
}
