#include "bench_recorded.h"

#include "run/run.h"

static void add_segment(const struct muster_segment *segment, struct bench_recorded *recorded)
{
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        if (segment->row[i].comm)
            recorded->ops += segment->row[i].count;
    for (unsigned i = 0; i < MUSTER_DROPS; i++)
        recorded->drops += atomic_load_explicit(&segment->drops[i], memory_order_relaxed);
}

bool bench_recorded(const char *run_dir, struct bench_recorded *recorded)
{
    const struct muster_run_query query = {.run = &run_dir, .runs = 1};
    struct muster_run run;
    *recorded = (struct bench_recorded){0};
    if (muster_run_load(&query, &run, NULL))
        return false;
    for (size_t i = 0; i < run.processes; i++)
        if (run.process[i].segment)
            add_segment(run.process[i].segment, recorded);
    recorded->processes = run.processes;
    muster_run_free(&run);
    return recorded->processes > 0;
}
