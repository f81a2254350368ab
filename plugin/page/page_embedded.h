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
/* What draws, and what puts the drawings together. */
struct muster_page_text muster_page_drawing(void);
struct muster_page_text muster_page_script(void);

#endif
