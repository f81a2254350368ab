/*
 * What somebody looks at, and how keys change it. Apart from any terminal: keys come as numbers,
 * the screen goes out as lines (top/top_screen.h).
 */
#ifndef MUSTER_TOP_TOP_VIEW_H
#define MUSTER_TOP_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "top/top.h"

enum muster_top_page {
    MUSTER_TOP_PAGE_RANKS,
    MUSTER_TOP_PAGE_COMMS,
    MUSTER_TOP_PAGE_CLASSES,
    MUSTER_TOP_PAGE_FINDINGS,
    MUSTER_TOP_PAGE_RANK, /* one of them */
    MUSTER_TOP_PAGE_HELP,
    MUSTER_TOP_PAGES
};

enum muster_top_order {
    MUSTER_TOP_BY_COST, /* culprits first, then by what they made others wait */
    MUSTER_TOP_BY_RANK,
    MUSTER_TOP_BY_WAITED,
    MUSTER_TOP_BY_CALL, /* the longest in its call first */
    MUSTER_TOP_ORDERS
};

/* Keys that are no character; characters are themselves. */
enum muster_top_key {
    MUSTER_TOP_UP = 0x110000,
    MUSTER_TOP_DOWN,
    MUSTER_TOP_PAGE_UP,
    MUSTER_TOP_PAGE_DOWN,
    MUSTER_TOP_HOME,
    MUSTER_TOP_END,
    MUSTER_TOP_ENTER,
    MUSTER_TOP_BACK,
};

struct muster_top_view {
    enum muster_top_page page, before; /* before: where help and one rank go back to */
    enum muster_top_order order;
    size_t at;    /* the line that is marked, or in text the first that is shown */
    uint32_t pid; /* whom the mark is on, so that it goes along when the order changes */
    size_t job;   /* of the jobs that are watched */
    bool paused;  /* nothing new is shown */
    bool quit;
    bool utf8;
};

/* Takes a key. `page`: lines of the list that fit on the screen. False: the key means nothing. */
bool muster_top_press(struct muster_top_view *view, int key, const struct muster_top *top,
                      size_t page);

/* Puts the ranks in the view's order, and the mark where its rank went. */
void muster_top_sort(struct muster_top *top, struct muster_top_view *view);

/* "cost", "rank", "waited", "in call": static. */
const char *muster_top_order_word(enum muster_top_order order);

#endif
