/* What a fleet's worker says, as hostile bytes: state and findings a line each. What is taken from
 * them can be drawn. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "top/top_fleet.h"
#include "top/top_screen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void draw(struct muster_top_fleet *fleet)
{
    struct muster_screen *screen = calloc(1, sizeof *screen);
    struct muster_top top;
    for (int page = 0; screen && page < MUSTER_TOP_PAGES; page++) {
        struct muster_top_view view = {.utf8 = true, .page = (enum muster_top_page)page};
        screen->width = 100;
        screen->height = 30;
        muster_top_fleet_fill(fleet, &top);
        muster_top_draw(&top, &view, screen);
    }
    free(screen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_top_fleet *fleet = muster_top_fleet_new();
    char *text = malloc(size + 1);
    struct muster_err err;
    if (text && fleet) {
        memcpy(text, data, size);
        text[size] = '\0';
        char *end = strchr(text, '\n');
        const char *line[] = {end ? end + 1 : text};
        if (end)
            *end = '\0';
        for (unsigned again = 0; again < 2; again++) /* rates need a look before */
            muster_top_fleet_take(fleet, "job", text, line, end ? 1 : 0, &err);
        draw(fleet);
    }
    free(text);
    muster_top_fleet_free(fleet);
    return 0;
}
