/* What muster says that it recorded: a bench of a plugin that drops is no bench. */
#ifndef MUSTER_BENCH_BENCH_RECORDED_H
#define MUSTER_BENCH_BENCH_RECORDED_H

#include <stdbool.h>
#include <stdint.h>

struct bench_recorded {
    uint64_t processes, ops, drops;
};

/* False if there is nothing of muster in the run directory. */
bool bench_recorded(const char *run_dir, struct bench_recorded *recorded);

#endif
