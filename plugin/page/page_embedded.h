/* The page's own files, inside the command. */
#ifndef MUSTER_PAGE_PAGE_EMBEDDED_H
#define MUSTER_PAGE_PAGE_EMBEDDED_H

#include <stddef.h>

struct muster_page_text {
    const char *begin, *end;
};

/* page.html: "@NAME@" stands for what is put there. */
struct muster_page_text muster_page_shell(void);
struct muster_page_text muster_page_style(void);
/* What draws, the panels that pages have in common, and what puts each kind of page together. */
struct muster_page_text muster_page_drawing(void);
struct muster_page_text muster_page_panels(void);
struct muster_page_text muster_page_reporting(void);
struct muster_page_text muster_page_comparing(void);

#endif
