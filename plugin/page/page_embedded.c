#include "page/page_embedded.h"

/* Put in by the assembler: the same for every compiler and target, with no generated source. */
#define EMBED(name, file)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            "muster_page_" #name "_begin:\n"                                                       \
            ".incbin \"" MUSTER_PAGE_FOLDER "/" file "\"\n"                                        \
            "muster_page_" #name "_end:\n"                                                         \
            ".popsection\n");                                                                      \
    extern const char muster_page_##name##_begin[], muster_page_##name##_end[];                    \
    struct muster_page_text muster_page_##name(void)                                               \
    {                                                                                              \
        return (struct muster_page_text){muster_page_##name##_begin, muster_page_##name##_end};    \
    }                                                                                              \
    _Static_assert(1, "")

EMBED(shell, "page.html");
EMBED(style, "page.css");
EMBED(drawing, "page_draw.js");
EMBED(panels, "page_panels.js");
EMBED(reporting, "page_report.js");
EMBED(comparing, "page_compare.js");
