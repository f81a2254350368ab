#include "diagnose/straggler/straggler.h"

#include <inttypes.h>

#include "diagnose/straggler/e_process.h"
#include "diagnose/straggler/late_calls.h"
#include "diagnose/straggler/straggler_alike.h"
#include "diagnose/straggler/straggler_describe.h"

static void put_duplicates(const struct muster_view *view, struct muster_finding_lines *to)
{
    for (size_t c = 0; c < view->comms; c++) {
        if (view->comm[c].id && view->comm[c].duplicate_rank) {
            muster_finding_line(to,
                                "communicator %016" PRIx64 ": a rank was recorded twice, its ranks "
                                "are not compared",
                                view->comm[c].id);
        }
    }
}

int muster_straggler_find(const struct muster_view *view, struct muster_findings *findings,
                          struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct muster_graph graph;
    struct muster_suspects suspects = {0};
    const struct muster_view_span *span = muster_view_spans(view, &memory);
    muster_graph_make(&graph, view, &memory);
    if (!memory.failed) {
        muster_seats_evaluate(&graph);
        muster_graph_hidden(&graph);
    }
    if (!memory.failed)
        muster_suspects_find(&graph, span, &suspects);
    if (!memory.failed)
        muster_straggler_describe(&graph, &suspects, span, findings);
    if (!memory.failed)
        muster_late_calls_find(view, &memory, findings);
    if (!memory.failed && !suspects.n)
        muster_straggler_alike(&graph, span, findings);
    if (!memory.failed) {
        put_duplicates(view, &findings->not_observable);
        muster_straggler_describe_clean(&graph, &suspects, span, findings);
    }
    int result = muster_arena_check(&memory, err, "looking for late ranks");
    muster_arena_free(&memory);
    return result;
}
