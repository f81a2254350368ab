#include "diagnose/straggler/straggler.h"

#include <inttypes.h>
#include <stdlib.h>

#include "diagnose/straggler/e_process.h"
#include "diagnose/straggler/straggler_alike.h"
#include "diagnose/straggler/straggler_describe.h"

static void say_twice(const struct muster_view *view, struct muster_finding_lines *to)
{
    for (size_t c = 0; c < view->comms; c++) {
        if (view->comm[c].id && view->comm[c].twice) {
            muster_finding_say(to,
                               "communicator %016" PRIx64 ": a rank was recorded twice, its ranks "
                               "are not compared",
                               view->comm[c].id);
        }
    }
}

int muster_straggler_find(const struct muster_view *view, struct muster_findings *findings,
                          struct muster_err *err)
{
    struct muster_graph graph = {.view = view};
    struct muster_suspects suspects = {0};
    struct muster_view_span *span = muster_view_spans(view);
    bool whole = span && muster_graph_units(&graph) == 0 && muster_graph_turns(&graph) == 0 &&
                 muster_graph_order(&graph) == 0 && muster_graph_learn(&graph) == 0 &&
                 muster_seats_judge(&graph) == 0 &&
                 muster_suspects_find(&graph, span, &suspects) == 0 &&
                 muster_straggler_describe(&graph, &suspects, span, findings) == 0 &&
                 (suspects.n || muster_straggler_alike(&graph, span, findings) == 0);
    if (whole) {
        say_twice(view, &findings->not_observable);
        muster_straggler_describe_clean(&graph, &suspects, span, findings);
    }
    muster_suspects_free(&suspects);
    free(span);
    muster_graph_free(&graph);
    return whole ? 0 : muster_fail_memory(err, "looking for late ranks");
}
