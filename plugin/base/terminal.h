/* Text for people: how wide, in bold or not, wrapped and cut without breaking a character. */
#ifndef MUSTER_BASE_TERMINAL_H
#define MUSTER_BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { MUSTER_TERMINAL_USUAL = 100, MUSTER_TERMINAL_LEAST = 40 };

struct muster_terminal {
    unsigned width; /* columns; MUSTER_TERMINAL_USUAL where it is not known */
    bool fit;       /* somebody reads at that width: tables leave columns out to fit, too */
    bool style;     /* bold and colour: a terminal, not TERM=dumb, no NO_COLOR */
};

/* What `fd` writes to. A width in COLUMNS goes before that of the terminal. */
struct muster_terminal muster_terminal_of(int fd);

/* Columns that the text takes: its characters; bytes that are no UTF-8 count one each. */
size_t muster_terminal_cells(const char *text);

/* Cuts to at most `cells` columns, between words where one ends near, and shows that by an
 * ellipsis. `size`: of the buffer. */
void muster_terminal_cut(char *text, size_t size, size_t cells);

/* Writes the text in lines of at most `width` columns, the first behind `first`, the others behind
 * `rest`; a word that is longer stands alone. Ends with a newline. */
void muster_terminal_wrap(FILE *out, unsigned width, const char *first, const char *rest,
                          const char *text);

/* Lines that are wider, each in several: behind what it is indented by and two columns more. */
void muster_terminal_lines(FILE *out, unsigned width, const char *text);
/* Prose: where a line is wider, lines that begin without a blank are one paragraph until one begins
 * with it or is empty. Those that begin with a blank stay as they are: commands to be copied. */
void muster_terminal_prose(FILE *out, unsigned width, const char *text);

/* Text that is gathered before it is printed, at the width of the terminal that standard output is;
 * as it stands where nobody reads at a width. */
struct muster_terminal_page {
    FILE *out; /* to write to; standard output itself where there is no memory */
    char *text;
    size_t size;
};
void muster_terminal_page_begin(struct muster_terminal_page *page);
void muster_terminal_page_end(struct muster_terminal_page *page);

#endif
