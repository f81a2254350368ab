/*
 * A moment of a job as the lines of a screen: what stands where, and in which style; drawn by
 * whoever has a terminal, or printed. Fits 60 columns and 20 lines, and shows less on less. Nothing
 * is shown by colour or style alone.
 */
#ifndef MUSTER_TOP_TOP_SCREEN_H
#define MUSTER_TOP_TOP_SCREEN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "top/top_view.h"

enum muster_screen_style {
    MUSTER_SCREEN_PLAIN,
    MUSTER_SCREEN_HEADING,
    MUSTER_SCREEN_BAD,
    MUSTER_SCREEN_GOOD,
    MUSTER_SCREEN_MARKED, /* the line that the keys move */
    MUSTER_SCREEN_STYLES
};

enum { MUSTER_SCREEN_LINES = 512, MUSTER_SCREEN_TEXT = 1024 };

struct muster_screen_line {
    char text[MUSTER_SCREEN_TEXT]; /* at most as many columns as the screen has */
    enum muster_screen_style style;
};

struct muster_screen {
    unsigned width, height; /* columns, lines; at most MUSTER_SCREEN_LINES */
    struct muster_screen_line line[MUSTER_SCREEN_LINES]; /* `height` of them */
    unsigned used;
    size_t page; /* lines that the list has room for */
};

/* Fills `screen`, whose width and height are set, with the view's page. Sorts the ranks, and keeps
 * view->at inside of what there is. */
void muster_top_draw(struct muster_top *top, struct muster_top_view *view,
                     struct muster_screen *screen);

/* The lines that are used, without style. */
void muster_screen_print(const struct muster_screen *screen, FILE *out);

/* The newest `cells` values as bars up to `most`: UTF-8 blocks, or digits 0 to 9. */
void muster_top_bars(char *to, size_t size, const double *value, unsigned n, unsigned cells,
                     double most, bool utf8);

#endif
