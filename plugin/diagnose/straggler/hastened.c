#include "diagnose/straggler/hastened.h"

#include <stdlib.h>
#include <string.h>

#include "diagnose/straggler/what_if.h"

enum { NOBODY = 255 };

static int replay(struct muster_graph *graph, const double *keep, double *saved_ns)
{
    struct muster_what_if what_if = {0};
    uint8_t *group = malloc(graph->view->gpus + 1);
    int result = group && muster_what_if_begin(&what_if, graph) == 0 ? 0 : -1;
    if (result == 0) {
        memset(group, NOBODY, graph->view->gpus + 1);
        int64_t before = muster_what_if_ns(&what_if, group, 0);
        for (size_t t = 0; t < graph->turns; t++) {
            struct muster_turn *turn = &graph->turn[t];
            turn->transfer_ns = (uint64_t)((double)turn->transfer_ns * keep[turn->comm]);
        }
        int64_t saved = before - muster_what_if_ns(&what_if, group, 0);
        *saved_ns = saved > 0 ? (double)saved : 0;
    }
    muster_what_if_end(&what_if);
    free(group);
    return result;
}

int muster_hastened_ns(const struct muster_view *view, const double *keep, double *saved_ns)
{
    struct muster_graph graph = {.view = view};
    *saved_ns = 0;
    int result = muster_graph_units(&graph) || muster_graph_turns(&graph) ||
                         muster_graph_order(&graph) || muster_graph_learn(&graph)
                     ? -1
                     : replay(&graph, keep, saved_ns);
    muster_graph_free(&graph);
    return result;
}
