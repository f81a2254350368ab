/* Adding lines to a screen. Between top_screen.c and top_pages.c only. */
#ifndef MUSTER_TOP_SCREEN_LINES_H
#define MUSTER_TOP_SCREEN_LINES_H

#include "top/top_screen.h"

/* Printf into the next line, cut to the screen's width; nothing if the screen is full. */
__attribute__((format(printf, 3, 4))) void muster_screen_put(struct muster_screen *screen,
                                                             enum muster_screen_style style,
                                                             const char *fmt, ...);

/* Lines of text of which a part is shown: wrapped to the screen's width, from line `*from` on as
 * far as there is room. Begin, add, end; end keeps *from inside of the text. */
struct muster_screen_text {
    char *text;
    size_t bytes;
    FILE *out; /* write here, in lines of at most `width` columns; NULL: no memory */
    unsigned width;
};
void muster_screen_text_begin(struct muster_screen_text *text, const struct muster_screen *screen);
/* A paragraph; behind its first line `rest` stands before each. */
void muster_screen_text_add(struct muster_screen_text *text, const char *first, const char *rest,
                            const char *paragraph);
void muster_screen_text_end(struct muster_screen_text *text, struct muster_screen *screen,
                            size_t *from);

/* Up to the line before `last`. */
unsigned muster_screen_room(const struct muster_screen *screen);

/* The pages below the header. */
void muster_top_page_ranks(const struct muster_top *top, struct muster_top_view *view,
                           struct muster_screen *screen);
void muster_top_page_comms(const struct muster_top *top, struct muster_top_view *view,
                           struct muster_screen *screen);
void muster_top_page_classes(const struct muster_top *top, struct muster_top_view *view,
                             struct muster_screen *screen);
void muster_top_page_findings(const struct muster_top *top, struct muster_top_view *view,
                              struct muster_screen *screen);
void muster_top_page_rank(const struct muster_top *top, struct muster_top_view *view,
                          struct muster_screen *screen);

#endif
