/* What a job would have taken with shorter transfers. */
#include <string.h>

#include "diagnose/straggler/what_if.h"

enum { NOBODY = 255 };

static double replay(struct muster_graph *graph, const double *keep)
{
    struct muster_what_if what_if = {0};
    static const uint32_t nobody[MUSTER_LANES] = {0};
    double saved_ns = 0;
    uint8_t *group = muster_arena_array(graph->memory, graph->view->gpus + 1, 1);
    muster_what_if_begin(&what_if, graph, graph->memory);
    if (!graph->memory->failed) {
        memset(group, NOBODY, graph->view->gpus + 1);
        int64_t before = muster_what_if(&what_if, group, nobody).ns[0];
        for (size_t t = 0; t < graph->turns; t++) {
            struct muster_turn *turn = &graph->turn[t];
            turn->transfer_ns = (uint64_t)((double)turn->transfer_ns * keep[turn->comm]);
        }
        int64_t saved = before - muster_what_if(&what_if, group, nobody).ns[0];
        saved_ns = saved > 0 ? (double)saved : 0;
    }
    return saved_ns;
}

double muster_hastened_ns(const struct muster_view *view, const double *keep,
                          struct muster_arena *memory)
{
    struct muster_arena scratch = {0};
    struct muster_graph graph;
    muster_graph_make(&graph, view, &scratch);
    double saved_ns = scratch.failed ? 0 : replay(&graph, keep);
    muster_arena_end(&scratch, memory);
    return saved_ns;
}
